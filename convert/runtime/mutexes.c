/* Mutexes, in glibc's own layout, so that tasks and pthreads share them.
 *
 * The lock's word: 0 free, 1 held, 2 held and waited for. A task that finds the lock held sets the
 * word to 2 and waits at it. The next unlock wakes one waiter at the word. glibc's unlock does so
 * too, by FUTEX_WAKE. The owner of a mutex that checks its owner is the number of the task.
 */
#include "runtime.h"

enum { TYPE = 3, NORMAL = PTHREAD_MUTEX_TIMED_NP, RECURSIVE = PTHREAD_MUTEX_RECURSIVE_NP, CHECKS = PTHREAD_MUTEX_ERRORCHECK_NP };
enum { ROBUST = 16, INHERITS = 32, PROTECTS = 64, SHARED = 128 };

#define WORD_OF(mutex) ((unsigned *)&(mutex)->__data.__lock)

static bool has_owner(const pthread_mutex_t *mutex) {
    int type = mutex->__data.__kind & TYPE;
    return type == RECURSIVE || type == CHECKS;
}
static bool is_shared(const pthread_mutex_t *mutex) { return mutex->__data.__kind & SHARED; }

/* The kernel's help for threads is not available to tasks. */
static void refuse_strange(const pthread_mutex_t *mutex) {
    int kind = mutex->__data.__kind;
    if (!(kind & (ROBUST | INHERITS | PROTECTS)) && !(kind & SHARED && has_owner(mutex))) return;
    if (kind & ROBUST) give_up("a converted thread locks a robust mutex, which only native threads can; use PTHREAD_MUTEX_STALLED, or `duality run` on the native program");
    if (kind & (INHERITS | PROTECTS)) {
        give_up("a converted thread locks a mutex with a priority protocol, which only native threads can; use PTHREAD_PRIO_NONE, or `duality run` on the native program");
    }
    give_up("a converted thread locks a recursive or error-checking mutex that is shared with other processes, which only native threads can; use another type, or `duality run` on the native program");
}

static void own(struct task *task, pthread_mutex_t *mutex) {
    mutex->__data.__owner = task_number(task);
    mutex->__data.__nusers++;
    if (has_owner(mutex)) mutex->__data.__count = 1;
}

/* Locks again if the task is the owner. Returns -1 if it is not. */
static int lock_own(struct task *task, pthread_mutex_t *mutex) {
    if (!has_owner(mutex) || __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) != task_number(task)) return -1;
    if ((mutex->__data.__kind & TYPE) == CHECKS) return EDEADLK;
    if (mutex->__data.__count + 1 == 0) return EAGAIN;
    mutex->__data.__count++;
    return 0;
}

static bool take(struct task *task, pthread_mutex_t *mutex) {
    unsigned free = 0;
    if (!__atomic_compare_exchange_n(WORD_OF(mutex), &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return false;
    own(task, mutex);
    return true;
}

static bool take_or_mark(struct task *task, pthread_mutex_t *mutex) {
    if (__atomic_exchange_n(WORD_OF(mutex), 2, __ATOMIC_ACQUIRE)) return false;
    own(task, mutex);
    return true;
}

/* Returns 0 or an error; EBUSY if another thread has the mutex. */
static int attempt(struct task *task, pthread_mutex_t *mutex) {
    if (mutex->__data.__kind & ~0x300 & ~TYPE) refuse_strange(mutex);
    int result = lock_own(task, mutex);
    if (result >= 0) return result;
    return take(task, mutex) ? 0 : EBUSY;
}

int mutex_lock_again(struct task *task, pthread_mutex_t *mutex, unsigned long deadline) {
    for (;;) {
        if (take_or_mark(task, mutex)) return 0;
        if (has_passed(deadline)) return ETIMEDOUT;
        if (wait_at(task, (unsigned long)WORD_OF(mutex), 2, is_shared(mutex) ? soon(deadline) : deadline)) return -1;
    }
}

int mutex_lock_first(struct task *task, pthread_mutex_t *mutex) {
    int result = attempt(task, mutex);
    return result == EBUSY ? mutex_lock_again(task, mutex, 0) : result;
}

static void lock_again(struct rt_handle *handle) {
    (void)handle;
    struct task *task = self;
    int result = mutex_lock_again(task, (pthread_mutex_t *)task->engine.arguments[0], task->engine.arguments[1]);
    if (result >= 0) complete(task, result);
}

/* Makes the task wait for a held mutex. */
static struct rt_int lock_later(struct task *task, pthread_mutex_t *mutex, unsigned long deadline) {
    task->engine.arguments[0] = (long)mutex;
    task->engine.arguments[1] = deadline;
    suspend(task, lock_again);
    int result = mutex_lock_again(task, mutex, deadline);
    return result >= 0 ? (struct rt_int){NULL, result} : (struct rt_int){&task->waiter, 0};
}

/* ---- On a pthread that works for a task, which is the owner ---- */

static int block_lock(struct task *task, pthread_mutex_t *mutex, unsigned long deadline) {
    int result = attempt(task, mutex);
    if (result != EBUSY) return result;
    int state;
    /* pthread_mutex_lock is no cancellation point. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    for (;;) {
        result = take_or_mark(task, mutex) ? 0 : has_passed(deadline) ? ETIMEDOUT : EBUSY;
        if (result != EBUSY) break;
        block_at(WORD_OF(mutex), 2, deadline);
    }
    pthread_setcancelstate(state, NULL);
    return result;
}

int rt_block_pthread_mutex_lock(pthread_mutex_t *mutex) {
    return behalf && has_owner(mutex) ? block_lock(behalf, mutex, 0) : pthread_mutex_lock(mutex);
}
int rt_block_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    if (!behalf || !has_owner(mutex)) return pthread_mutex_clocklock(mutex, clock, until);
    unsigned long deadline;
    return deadline_of(clock, until, &deadline) ? block_lock(behalf, mutex, deadline) : EINVAL;
}
int rt_block_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
    return rt_block_pthread_mutex_clocklock(mutex, CLOCK_REALTIME, until);
}

/* ---- The primitives ---- */

static struct rt_int lock(struct task *task, void *mutex, clockid_t clock, const struct timespec *until) {
    int result = attempt(task, mutex);
    unsigned long deadline = 0;
    if (result != EBUSY) return (struct rt_int){NULL, result};
    if (until && !deadline_of(clock, until, &deadline)) return (struct rt_int){NULL, EINVAL};
    return lock_later(task, mutex, deadline);
}

struct rt_int rt_pthread_mutex_lock(pthread_mutex_t *mutex) {
    if (!on_loop()) return (struct rt_int){NULL, rt_block_pthread_mutex_lock(mutex)};
    return in_turn(lock, mutex, CLOCK_REALTIME, NULL);
}

struct rt_int rt_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    if (!on_loop()) return (struct rt_int){NULL, rt_block_pthread_mutex_clocklock(mutex, clock, until)};
    return in_turn(lock, mutex, clock, until);
}

struct rt_int rt_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
    return rt_pthread_mutex_clocklock(mutex, CLOCK_REALTIME, until);
}

int rt_pthread_mutex_trylock(pthread_mutex_t *mutex) {
    struct task *task = self;
    if (!task && behalf && has_owner(mutex)) task = behalf;
    if (!task) return pthread_mutex_trylock(mutex);
    int result = attempt(task, mutex);
    return fruitless(result == EDEADLK ? EBUSY : result);
}

int rt_pthread_mutex_unlock(pthread_mutex_t *mutex) {
    struct task *task = identity();
    if (!task || mutex->__data.__kind & ~0x300 & ~TYPE) return pthread_mutex_unlock(mutex);
    if (has_owner(mutex)) {
        /* A library that was not converted has locked the mutex as the pthread. */
        if (mutex->__data.__owner < FIRST_TASK_NUMBER) return pthread_mutex_unlock(mutex);
        if (mutex->__data.__owner != task_number(task)) return EPERM;
        if (--mutex->__data.__count) return 0;
    }
    mutex->__data.__owner = 0;
    mutex->__data.__nusers--;
    if (__atomic_exchange_n(WORD_OF(mutex), 0, __ATOMIC_RELEASE) > 1) engine(ENGINE_WAKE, (unsigned long)WORD_OF(mutex), 1);
    return 0;
}
