/* Locks for readers and writers. A task tries glibc's lock. Tasks that find the lock busy wait at a
 * separate key, and an unlock wakes them all.
 *
 * glibc keeps the number of the writing thread in the lock. A task puts its own number into the
 * lock, and so detects a wait for itself. Libraries that were not converted unlock too: see
 * front.c. */
#include "runtime.h"

#include <limits.h>

/* The number of waiting tasks, over all locks. */
static unsigned waiting;

static unsigned long key_of(pthread_rwlock_t *lock) { return (unsigned long)lock | 1; }

/* The state that the task keeps while it waits. */
enum { LOCK, DEADLINE, WRITES, RESULT };

static bool is_written_by(struct task *task, pthread_rwlock_t *lock) {
    return __atomic_load_n(&lock->__data.__cur_writer, __ATOMIC_RELAXED) == task_number(task);
}

static int try_to_write(struct task *task, pthread_rwlock_t *lock) {
    int error = pthread_rwlock_trywrlock(lock);
    if (!error) __atomic_store_n(&lock->__data.__cur_writer, task_number(task), __ATOMIC_RELAXED);
    return error;
}

static int attempt(struct task *task, pthread_rwlock_t *lock, bool writes) {
    if (is_written_by(task, lock)) return EDEADLK;
    return writes ? try_to_write(task, lock) : pthread_rwlock_tryrdlock(lock);
}

static void woken(struct rt_handle *);

static void wait(struct task *task) {
    long *kept = task->engine.arguments;
    pthread_rwlock_t *lock = (pthread_rwlock_t *)kept[LOCK];
    suspend(task, woken);
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    wait_at(task, key_of(lock), 0, lock->__data.__shared ? soon(kept[DEADLINE]) : kept[DEADLINE]);
    /* A thread that unlocked the lock before this attempt did not see the task wait. */
    kept[RESULT] = attempt(task, lock, kept[WRITES]);
    if (kept[RESULT] != EBUSY) engine(ENGINE_INTERRUPT, task, 0l);
}

static void woken(struct rt_handle *handle) {
    (void)handle;
    struct task *task = self;
    long *kept = task->engine.arguments;
    __atomic_sub_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    if (kept[RESULT] == EBUSY) kept[RESULT] = attempt(task, (pthread_rwlock_t *)kept[LOCK], kept[WRITES]);
    if (kept[RESULT] != EBUSY) complete(task, kept[RESULT]);
    else if (has_passed(kept[DEADLINE])) complete(task, ETIMEDOUT);
    else wait(task);
}

static struct rt_int begin(struct task *task, pthread_rwlock_t *lock, bool writes, clockid_t clock, const struct timespec *until) {
    unsigned long deadline = 0;
    int result = attempt(task, lock, writes);
    if (result != EBUSY) return (struct rt_int){NULL, result};
    if (until && !deadline_of(clock, until, &deadline)) return (struct rt_int){NULL, EINVAL};
    long *kept = task->engine.arguments;
    kept[LOCK] = (long)lock;
    kept[DEADLINE] = deadline;
    kept[WRITES] = writes;
    wait(task);
    return (struct rt_int){&task->waiter, 0};
}

static struct rt_int begin_to_read(struct task *task, void *lock, clockid_t clock, const struct timespec *until) {
    return begin(task, lock, false, clock, until);
}
static struct rt_int begin_to_write(struct task *task, void *lock, clockid_t clock, const struct timespec *until) {
    return begin(task, lock, true, clock, until);
}

struct rt_int rt_pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
    return on_loop() ? in_turn(begin_to_read, lock, CLOCK_REALTIME, NULL) : (struct rt_int){NULL, pthread_rwlock_rdlock(lock)};
}
struct rt_int rt_pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until) {
    return on_loop() ? in_turn(begin_to_read, lock, clock, until) : (struct rt_int){NULL, pthread_rwlock_clockrdlock(lock, clock, until)};
}
struct rt_int rt_pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *until) {
    return rt_pthread_rwlock_clockrdlock(lock, CLOCK_REALTIME, until);
}
struct rt_int rt_pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
    return on_loop() ? in_turn(begin_to_write, lock, CLOCK_REALTIME, NULL) : (struct rt_int){NULL, pthread_rwlock_wrlock(lock)};
}
struct rt_int rt_pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *until) {
    return on_loop() ? in_turn(begin_to_write, lock, clock, until) : (struct rt_int){NULL, pthread_rwlock_clockwrlock(lock, clock, until)};
}
struct rt_int rt_pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *until) {
    return rt_pthread_rwlock_clockwrlock(lock, CLOCK_REALTIME, until);
}
int rt_pthread_rwlock_tryrdlock(pthread_rwlock_t *lock) { return fruitless(pthread_rwlock_tryrdlock(lock)); }
int rt_pthread_rwlock_trywrlock(pthread_rwlock_t *lock) {
    struct task *task = identity();
    return fruitless(task ? try_to_write(task, lock) : pthread_rwlock_trywrlock(lock));
}

/* The number that glibc has for this thread. */
static int thread_number(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    return mutex.__data.__owner;
}

int rt_pthread_rwlock_unlock(pthread_rwlock_t *lock) {
    /* By the writer's number, glibc knows whether a writer unlocks. A task may lock on its loop and
     * unlock on a side thread, or the other way round. */
    int *writer = &lock->__data.__cur_writer;
    if (identity() && __atomic_load_n(writer, __ATOMIC_RELAXED)) __atomic_store_n(writer, thread_number(), __ATOMIC_RELAXED);
    int result = libc_pthread_rwlock_unlock(lock);
    if (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST)) engine(ENGINE_WAKE, key_of(lock), INT_MAX);
    return result;
}

void rwlocks_after_fork(void) { waiting = 0; }
