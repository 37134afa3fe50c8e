/* Barriers, which glibc waits at on a side thread, and spin locks, where a task gives way instead
 * of spinning. */
#include "runtime.h"

static void wait(void *argument) {
    struct task *task = argument;
    task->engine.arguments[1] = pthread_barrier_wait((pthread_barrier_t *)task->engine.arguments[0]);
}

static void waited(struct rt_handle *handle) {
    (void)handle;
    complete(self, self->engine.arguments[1]);
}

struct rt_int rt_pthread_barrier_wait(pthread_barrier_t *barrier) {
    struct task *task = self;
    if (!task) return (struct rt_int){NULL, pthread_barrier_wait(barrier)};
    task->engine.arguments[0] = (long)barrier;
    side_call(task, wait, task, waited);
    return (struct rt_int){&task->waiter, 0};
}

static void spin_again(struct rt_handle *handle) {
    (void)handle;
    struct task *task = self;
    if (!pthread_spin_trylock((pthread_spinlock_t *)task->engine.arguments[0])) complete(task, 0);
    else engine(ENGINE_READY, task, task->loop);
}

struct rt_int rt_pthread_spin_lock(pthread_spinlock_t *lock) {
    struct task *task = self;
    if (!task) return (struct rt_int){NULL, pthread_spin_lock(lock)};
    if (!pthread_spin_trylock(lock)) return (struct rt_int){NULL, 0};
    task->engine.arguments[0] = (long)lock;
    suspend(task, spin_again);
    engine(ENGINE_READY, task, task->loop);
    return (struct rt_int){&task->waiter, 0};
}
