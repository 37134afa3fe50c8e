/* The reference runtime: locks, conditions, semaphores and sleep. Their state is in glibc's
 * objects. glibc's initialisers store zeros or the values that are documented here, so that static
 * initialisers and pthread_..._init work. */
#include "reference.h"

#include <limits.h>
#include <time.h>

#define WORD(value) (long)(value)

/* The start of glibc's pthread_mutex_t on x86-64. */
struct mutex {
    int locked;
    unsigned count;
    int owner;
    unsigned users;
    int kind; /* of the lowest two bits: 1 recursive, 2 checks errors */
};
struct rwlock { int readers, writer; };
struct barrier { unsigned in, round, count; };

static uint64_t deadline_of(clockid_t clock, const struct timespec *until) {
    struct timespec current;
    clock_gettime(clock, &current);
    long left = (until->tv_sec - current.tv_sec) * 1000000000l + until->tv_nsec - current.tv_nsec;
    return now() + (left > 0 ? left : 0);
}

/* Waits for the object, until the deadline in the arguments `clock` and `until` of a timed
 * operation. */
static bool wait_object(struct operation *o, const void *object, int argument) {
    o->object = object;
    o->signalled = false;
    const struct timespec *until = (const struct timespec *)o->argument[argument + 1];
    if (argument && until && !o->deadline) o->deadline = deadline_of(o->argument[argument], until);
    return false;
}

static int lock(struct mutex *mutex) {
    int me = identity()->identity;
    if (mutex->locked && mutex->owner == me) {
        if ((mutex->kind & 3) == 2) return EDEADLK;
        if ((mutex->kind & 3) != 1) return EBUSY;
        mutex->count++;
        return 0;
    }
    if (mutex->locked) return EBUSY;
    mutex->locked = 1;
    mutex->owner = me;
    mutex->count = 1;
    return 0;
}

static int unlock(struct mutex *mutex) {
    if ((mutex->kind & 3) && (!mutex->locked || mutex->owner != identity()->identity)) return EPERM;
    if (--mutex->count) return 0;
    mutex->locked = 0;
    mutex->owner = 0;
    wake(mutex, 1);
    return 0;
}

static bool try_lock(struct operation *o) {
    int result = lock((struct mutex *)o->argument[0]);
    if (result != EBUSY) return complete(o, result);
    if (o->timed_out) return complete(o, ETIMEDOUT);
    return wait_object(o, (void *)o->argument[0], 1);
}

struct rt_int rt_pthread_mutex_lock(pthread_mutex_t *mutex) { return PERFORM(struct rt_int, try_lock, WORD(mutex)); }
struct rt_int rt_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
    return PERFORM(struct rt_int, try_lock, WORD(mutex), CLOCK_REALTIME, WORD(until));
}
struct rt_int rt_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    return PERFORM(struct rt_int, try_lock, WORD(mutex), clock, WORD(until));
}
int rt_pthread_mutex_trylock(pthread_mutex_t *mutex) {
    int result = lock((struct mutex *)mutex);
    return result == EDEADLK ? EBUSY : result;
}
int rt_pthread_mutex_unlock(pthread_mutex_t *mutex) { return unlock((struct mutex *)mutex); }

/* Three steps: release the mutex, wait for the signal or the time, then wait for the mutex. */
static bool try_cond_wait(struct operation *o) {
    struct mutex *mutex = (struct mutex *)o->argument[1];
    if (o->step == 0) {
        o->step = 1;
        o->value = 0;
        wait_object(o, (void *)o->argument[0], 2);
        unlock(mutex);
        return false;
    }
    if (o->step == 1 && (o->signalled || o->timed_out)) {
        o->value = o->signalled ? 0 : ETIMEDOUT;
        o->deadline = 0;
        o->step = 2;
    }
    if (o->step == 1) return wait_object(o, (void *)o->argument[0], 0);
    if (lock(mutex) == 0) return complete(o, o->value);
    o->object = mutex;
    return false;
}

struct rt_int rt_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    return PERFORM(struct rt_int, try_cond_wait, WORD(condition), WORD(mutex));
}
struct rt_int rt_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    /* glibc keeps the clock of pthread_condattr_setclock in bit 1 of the word at offset 36. */
    clockid_t clock = ((unsigned *)condition)[9] & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    return PERFORM(struct rt_int, try_cond_wait, WORD(condition), WORD(mutex), clock, WORD(until));
}
struct rt_int rt_pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    return PERFORM(struct rt_int, try_cond_wait, WORD(condition), WORD(mutex), clock, WORD(until));
}
int rt_pthread_cond_signal(pthread_cond_t *condition) { return wake(condition, 1), 0; }
int rt_pthread_cond_broadcast(pthread_cond_t *condition) { return wake(condition, INT_MAX), 0; }

static bool try_sem_wait(struct operation *o) {
    unsigned *value = (unsigned *)o->argument[0];
    if (*value) return --*value, complete(o, 0);
    if (o->timed_out) {
        errno = ETIMEDOUT;
        return complete(o, -1);
    }
    return wait_object(o, value, 1);
}
struct rt_int rt_sem_wait(sem_t *semaphore) { return PERFORM(struct rt_int, try_sem_wait, WORD(semaphore)); }
struct rt_int rt_sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    return PERFORM(struct rt_int, try_sem_wait, WORD(semaphore), CLOCK_REALTIME, WORD(until));
}
struct rt_int rt_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until) {
    return PERFORM(struct rt_int, try_sem_wait, WORD(semaphore), clock, WORD(until));
}
int rt_sem_post(sem_t *semaphore) {
    ++*(unsigned *)semaphore;
    wake(semaphore, 1);
    return 0;
}
int rt_sem_trywait(sem_t *semaphore) {
    unsigned *value = (unsigned *)semaphore;
    if (*value) return --*value, 0;
    errno = EAGAIN;
    return -1;
}

static int lock_shared(struct rwlock *lock) { return lock->writer ? EBUSY : (lock->readers++, 0); }
static int lock_alone(struct rwlock *lock) { return lock->writer || lock->readers ? EBUSY : (lock->writer = 1, 0); }
static bool try_rdlock(struct operation *o) {
    if (!lock_shared((struct rwlock *)o->argument[0])) return complete(o, 0);
    return o->timed_out ? complete(o, ETIMEDOUT) : wait_object(o, (void *)o->argument[0], 1);
}
static bool try_wrlock(struct operation *o) {
    if (!lock_alone((struct rwlock *)o->argument[0])) return complete(o, 0);
    return o->timed_out ? complete(o, ETIMEDOUT) : wait_object(o, (void *)o->argument[0], 1);
}
struct rt_int rt_pthread_rwlock_rdlock(pthread_rwlock_t *lock) { return PERFORM(struct rt_int, try_rdlock, WORD(lock)); }
struct rt_int rt_pthread_rwlock_wrlock(pthread_rwlock_t *lock) { return PERFORM(struct rt_int, try_wrlock, WORD(lock)); }
struct rt_int rt_pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *until) {
    return PERFORM(struct rt_int, try_rdlock, WORD(lock), CLOCK_REALTIME, WORD(until));
}
struct rt_int rt_pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *until) {
    return PERFORM(struct rt_int, try_wrlock, WORD(lock), CLOCK_REALTIME, WORD(until));
}
struct rt_int rt_pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until) {
    return PERFORM(struct rt_int, try_rdlock, WORD(lock), clock, WORD(until));
}
struct rt_int rt_pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until) {
    return PERFORM(struct rt_int, try_wrlock, WORD(lock), clock, WORD(until));
}
int rt_pthread_rwlock_tryrdlock(pthread_rwlock_t *lock) { return lock_shared((struct rwlock *)lock); }
int rt_pthread_rwlock_trywrlock(pthread_rwlock_t *lock) { return lock_alone((struct rwlock *)lock); }
int rt_pthread_rwlock_unlock(pthread_rwlock_t *lock) {
    struct rwlock *state = (struct rwlock *)lock;
    if (state->writer) state->writer = 0;
    else state->readers--;
    wake(lock, INT_MAX);
    return 0;
}

static bool try_barrier(struct operation *o) {
    struct barrier *barrier = (struct barrier *)o->argument[0];
    if (o->step == 0) {
        o->step = 1;
        o->argument[1] = barrier->round;
        if (++barrier->in == barrier->count) {
            barrier->in = 0;
            barrier->round++;
            wake(barrier, INT_MAX);
            return complete(o, PTHREAD_BARRIER_SERIAL_THREAD);
        }
    }
    if (o->argument[1] != (long)barrier->round) return complete(o, 0);
    return wait_object(o, barrier, 0);
}
struct rt_int rt_pthread_barrier_wait(pthread_barrier_t *barrier) { return PERFORM(struct rt_int, try_barrier, WORD(barrier)); }

/* A task that waits only for its turn runs after the tasks that are ready now. */
static bool try_yield(struct operation *o) {
    if (o->timed_out) return complete(o, 0);
    o->deadline = 1;
    return false;
}
struct rt_int rt_sched_yield(void) { return PERFORM(struct rt_int, try_yield, 0); }
struct rt_int rt_give_way(void) { return rt_sched_yield(); }

static bool try_spin(struct operation *o) {
    if (!pthread_spin_trylock((pthread_spinlock_t *)o->argument[0])) return complete(o, 0);
    o->deadline = 1;
    return false;
}
struct rt_int rt_pthread_spin_lock(pthread_spinlock_t *lock) { return PERFORM(struct rt_int, try_spin, WORD(lock)); }

static bool try_once(struct operation *o) {
    int *once = (int *)o->argument[0];
    if (*once == 2) return complete(o, 0);
    if (*once == 1) return wait_object(o, once, 0);
    *once = 1;
    return complete(o, 1);
}
struct rt_int rt_once_begin(pthread_once_t *once) { return PERFORM(struct rt_int, try_once, WORD(once)); }
void rt_once_end(pthread_once_t *once) {
    *once = 2;
    wake(once, INT_MAX);
}

static bool try_sleep(struct operation *o) {
    if (o->timed_out || !o->argument[0]) return complete(o, 0);
    o->deadline = now() + o->argument[0];
    o->interruptible = true;
    return false;
}
static bool try_sleep_until(struct operation *o) {
    if (o->timed_out) return complete(o, 0);
    o->deadline = deadline_of(o->argument[0], (const struct timespec *)o->argument[1]);
    o->interruptible = true;
    return false;
}
static long nanoseconds(const struct timespec *time) { return time->tv_sec * 1000000000l + time->tv_nsec; }
struct rt_uint rt_sleep(unsigned seconds) { return PERFORM(struct rt_uint, try_sleep, seconds * 1000000000l); }
struct rt_int rt_usleep(useconds_t time) { return PERFORM(struct rt_int, try_sleep, time * 1000l); }
struct rt_int rt_nanosleep(const struct timespec *time, struct timespec *left) {
    (void)left;
    if (time->tv_nsec < 0 || time->tv_nsec > 999999999 || time->tv_sec < 0) return errno = EINVAL, (struct rt_int){NULL, -1};
    return PERFORM(struct rt_int, try_sleep, nanoseconds(time));
}
struct rt_int rt_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
    (void)left;
    if (flags & TIMER_ABSTIME) return PERFORM(struct rt_int, try_sleep_until, clock, WORD(time));
    return PERFORM(struct rt_int, try_sleep, nanoseconds(time));
}
