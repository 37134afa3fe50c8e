/* Condition variables. Tasks wait at a separate key beside glibc's object, and pthreads wait in the
 * object. A signal goes to a waiting task, or to glibc if no task waits.
 *
 * Libraries that were not converted signal too: see front.c. */
#include "runtime.h"

#include <limits.h>

/* Bits of the word in which glibc keeps attributes. */
enum { IS_SHARED = 1, IS_MONOTONIC = 2 };

/* The number of waiting tasks, over all conditions. */
static unsigned waiting;

static unsigned long key_of(pthread_cond_t *condition) { return (unsigned long)condition | 1; }
static bool is_shared(pthread_cond_t *condition) { return condition->__data.__wrefs & IS_SHARED; }

/* The state that the task keeps while it waits. */
enum { CONDITION, MUTEX, DEADLINE, VALUE, MAY_LEAVE };

static void lock_again(struct rt_handle *);

/* The task has the mutex again, or must wait for it. */
static void locked(struct task *task, int result) {
    if (result < 0) suspend(task, lock_again);
    else if (task->engine.arguments[MAY_LEAVE] && is_cancelled(task)) leave(task, PTHREAD_CANCELED);
    else complete(task, result ? result : task->engine.arguments[VALUE]);
}

static void lock_again(struct rt_handle *handle) {
    (void)handle;
    locked(self, mutex_lock_again(self, (pthread_mutex_t *)self->engine.arguments[MUTEX], 0));
}

static void woken(struct rt_handle *handle) {
    (void)handle;
    struct task *task = self;
    long *kept = task->engine.arguments;
    __atomic_sub_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    if (kept[VALUE]) { /* the mutex could not be unlocked */
        complete(task, kept[VALUE]);
        return;
    }
    /* A signalled task does not leave: the signal would be lost. */
    kept[MAY_LEAVE] = task->engine.reason == ENGINE_INTERRUPTED;
    /* If the condition is shared with other processes, each check is a spurious wake-up. */
    if (task->engine.reason == ENGINE_TIMED_OUT && has_passed(kept[DEADLINE])) kept[VALUE] = ETIMEDOUT;
    locked(task, mutex_lock_first(task, (pthread_mutex_t *)kept[MUTEX]));
}

static struct rt_int wait(pthread_cond_t *condition, pthread_mutex_t *mutex, unsigned long deadline) {
    struct task *task = self;
    if (is_cancelled(task)) return (struct rt_int){leave(task, PTHREAD_CANCELED), 0};
    long *kept = task->engine.arguments;
    kept[CONDITION] = (long)condition;
    kept[MUTEX] = (long)mutex;
    kept[DEADLINE] = deadline;
    kept[VALUE] = 0;
    suspend(task, woken);
    /* The task enters the queue before it leaves the lock, so that a signal in between finds the
     * task. */
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    wait_at(task, key_of(condition), 0, is_shared(condition) ? soon(deadline) : deadline);
    kept[VALUE] = rt_pthread_mutex_unlock(mutex);
    if (kept[VALUE]) engine(ENGINE_INTERRUPT, task, 0l);
    else reconsider(task);
    return (struct rt_int){&task->waiter, 0};
}

struct rt_int rt_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    if (!on_loop()) return PLAIN(struct rt_int, pthread_cond_wait(condition, mutex));
    return wait(condition, mutex, 0);
}
struct rt_int rt_pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    if (!on_loop()) return PLAIN(struct rt_int, pthread_cond_clockwait(condition, mutex, clock, until));
    unsigned long deadline;
    return deadline_of(clock, until, &deadline) ? wait(condition, mutex, deadline) : (struct rt_int){NULL, EINVAL};
}
struct rt_int rt_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    clockid_t clock = condition->__data.__wrefs & IS_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    return rt_pthread_cond_clockwait(condition, mutex, clock, until);
}

/* ---- Signals ---- */

int rt_pthread_cond_signal(pthread_cond_t *condition) {
    bool woke = __atomic_load_n(&waiting, __ATOMIC_SEQ_CST) && engine(ENGINE_WAKE, key_of(condition), 1) > 0;
    if (woke && !is_shared(condition)) return 0;
    return libc_pthread_cond_signal(condition);
}
int rt_pthread_cond_broadcast(pthread_cond_t *condition) {
    if (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST)) engine(ENGINE_WAKE, key_of(condition), INT_MAX);
    return libc_pthread_cond_broadcast(condition);
}

void conditions_after_fork(void) { waiting = 0; }
