/* Semaphores, in glibc's own layout on 64-bit machines. The low half of a word is the value, and
 * the high half is the number of waiters. If there are waiters, sem_post wakes by FUTEX_WAKE at the
 * value. */
#include "runtime.h"

struct semaphore {
    uint64_t data;
    int is_shared;
};
static const uint64_t WAITER = (uint64_t)1 << 32;

/* Decrements the value, and subtracts `waiter`: WAITER for a waiter that leaves, or 0. */
static bool take(struct semaphore *semaphore, uint64_t waiter) {
    uint64_t data = __atomic_load_n(&semaphore->data, __ATOMIC_RELAXED);
    while ((unsigned)data) {
        if (__atomic_compare_exchange_n(&semaphore->data, &data, data - 1 - waiter, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return true;
    }
    return false;
}

static int fails(int error) {
    errno = error;
    return -1;
}

static void stop_waiting(struct semaphore *semaphore) { __atomic_sub_fetch(&semaphore->data, WAITER, __ATOMIC_RELAXED); }

/* Returns true if the task waits. */
static bool wait(struct task *task, struct semaphore *semaphore, unsigned long deadline, bool *taken) {
    for (;;) {
        *taken = take(semaphore, WAITER);
        if (*taken || has_passed(deadline)) return false;
        /* The low half is first: the machine is little-endian. */
        if (wait_at(task, (unsigned long)&semaphore->data, 0, semaphore->is_shared ? soon(deadline) : deadline)) {
            reconsider(task);
            return true;
        }
    }
}

static void woken(struct rt_handle *handle) {
    (void)handle;
    struct task *task = self;
    struct semaphore *semaphore = (struct semaphore *)task->engine.arguments[0];
    bool interrupted = task->engine.reason == ENGINE_INTERRUPTED, taken;
    if (interrupted && (is_cancelled(task) || !(load(&task->state) & CANCELLED))) {
        stop_waiting(semaphore);
        if (is_cancelled(task)) leave(task, PTHREAD_CANCELED);
        else complete(task, fails(EINTR));
        return;
    }
    if (wait(task, semaphore, task->engine.arguments[1], &taken)) return;
    if (!taken) stop_waiting(semaphore);
    complete(task, taken ? 0 : fails(ETIMEDOUT));
}

static struct rt_int begin(struct task *task, void *object, clockid_t clock, const struct timespec *until) {
    struct semaphore *semaphore = object;
    unsigned long deadline = 0;
    bool taken;
    if (is_cancelled(task)) return (struct rt_int){leave(task, PTHREAD_CANCELED), 0};
    if (take(semaphore, 0)) return (struct rt_int){NULL, 0};
    if (until && !deadline_of(clock, until, &deadline)) return (struct rt_int){NULL, fails(EINVAL)};
    task->engine.arguments[0] = (long)semaphore;
    task->engine.arguments[1] = deadline;
    suspend(task, woken);
    __atomic_add_fetch(&semaphore->data, WAITER, __ATOMIC_SEQ_CST);
    if (wait(task, semaphore, deadline, &taken)) return (struct rt_int){&task->waiter, 0};
    if (!taken) stop_waiting(semaphore);
    return (struct rt_int){NULL, taken ? 0 : fails(ETIMEDOUT)};
}

struct rt_int rt_sem_wait(sem_t *semaphore) {
    if (!on_loop()) return PLAIN(struct rt_int, sem_wait(semaphore));
    return in_turn(begin, semaphore, CLOCK_REALTIME, NULL);
}
struct rt_int rt_sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    if (!on_loop()) return PLAIN(struct rt_int, sem_timedwait(semaphore, until));
    return in_turn(begin, semaphore, CLOCK_REALTIME, until);
}
struct rt_int rt_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until) {
    if (!on_loop()) return PLAIN(struct rt_int, sem_clockwait(semaphore, clock, until));
    return in_turn(begin, semaphore, clock, until);
}
int rt_sem_post(sem_t *semaphore) { return sem_post(semaphore); }
int rt_sem_trywait(sem_t *semaphore) { return fruitless(sem_trywait(semaphore)); }
