/* Barriers and spin locks. A side thread waits at a barrier, by glibc. At a spin lock, a task gives
 * way instead of spinning. */
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
    struct task *task = on_loop();
    if (!task) return (struct rt_int){NULL, pthread_barrier_wait(barrier)};
    task->engine.arguments[0] = (long)barrier;
    side_call(task, wait, task, waited);
    return (struct rt_int){&task->waiter, 0};
}

static struct rt_int lock_or_give_way(struct task *task, void *lock, clockid_t clock, const struct timespec *until) {
    (void)task;
    if (!pthread_spin_trylock((pthread_spinlock_t *)lock)) return (struct rt_int){NULL, 0};
    return later(lock_or_give_way, lock, clock, until);
}

struct rt_int rt_pthread_spin_lock(pthread_spinlock_t *lock) {
    if (!on_loop()) return (struct rt_int){NULL, pthread_spin_lock(lock)};
    return in_turn(lock_or_give_way, (void *)lock, CLOCK_REALTIME, NULL);
}
