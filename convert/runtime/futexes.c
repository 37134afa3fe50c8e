/* The waits of C++ that have no function of libc: futex(2) by its number, and static variables that
 * another thread initialises.
 *
 * The engine sees each FUTEX_WAKE of the process. So the unchanged std::atomic::notify_all and
 * __cxa_guard_release wake tasks. */
#include "runtime.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct rt_ssize fails(int error) {
    errno = error;
    return (struct rt_ssize){NULL, -1};
}

/* The state that the task keeps while it waits. */
enum { DEADLINE };

static void woken(struct rt_handle *handle) {
    (void)handle;
    struct task *task = self;
    int error = 0;
    /* The call is no cancellation point. Natively, a signal ends the call. */
    if (task->engine.reason == ENGINE_INTERRUPTED) error = EINTR;
    if (task->engine.reason == ENGINE_TIMED_OUT && has_passed(task->engine.arguments[DEADLINE])) error = ETIMEDOUT;
    if (error) errno = error;
    complete(task, error ? -1 : 0);
}

/* The time of FUTEX_WAIT is a duration. The time of FUTEX_WAIT_BITSET is a point in time. Returns
 * false if the time is not valid. */
static bool deadline_of_call(int operation, const struct timespec *time, unsigned long *deadline) {
    if ((operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) {
        return deadline_of(operation & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, time, deadline);
    }
    if (time->tv_sec < 0 || time->tv_nsec < 0 || time->tv_nsec >= NANOSECONDS) return false;
    long longest = LONG_MAX / 4, length;
    if (__builtin_mul_overflow(time->tv_sec, (long)NANOSECONDS, &length) || length > longest) length = longest;
    *deadline = now() + length + time->tv_nsec;
    return true;
}

struct rt_ssize rt_futex(long number, unsigned *word, int operation, unsigned expected, const struct timespec *time) {
    struct task *task = on_loop();
    if (!task) return PLAIN(struct rt_ssize, syscall(number, word, operation, expected, time, NULL, FUTEX_BITSET_MATCH_ANY));
    unsigned long deadline = 0;
    if ((uintptr_t)word % sizeof *word) return fails(EINVAL);
    if (time && !deadline_of_call(operation, time, &deadline)) return fails(EINVAL);
    /* Another process may wake at a shared word. */
    unsigned long look = operation & FUTEX_PRIVATE_FLAG ? deadline : soon(deadline);
    task->engine.arguments[DEADLINE] = deadline;
    suspend(task, woken);
    if (wait_at(task, (unsigned long)word, expected, look)) return (struct rt_ssize){&task->waiter, 0};
    rt_turn -= RT_FRUITLESS;
    errno = EAGAIN;
    if (has_had_its_turn()) return (struct rt_ssize){give_way_with(-1).handle, 0};
    return (struct rt_ssize){NULL, -1};
}

/* ---- Static variables ---- */

/* libstdc++'s guard: the first byte says that the variable is initialised; the other bytes belong
 * to the library (C++ ABI for Itanium, 3.3.2). */
enum { INITIALISED = 1, IN_PROGRESS = 1 << 8, AWAITED = 1 << 16 };

/* Returns 1 if the caller must initialise the variable, 0 if it is initialised, and -1 if the task
 * waits. */
static int attempt(struct task *task, unsigned *guard) {
    for (;;) {
        unsigned value = load(guard), wanted = value ? IN_PROGRESS | AWAITED : IN_PROGRESS;
        if (value & INITIALISED) return 0;
        if (value != wanted && !__atomic_compare_exchange_n(guard, &value, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) continue;
        if (!value) return 1;
        if (wait_at(task, (unsigned long)guard, wanted, 0)) return -1;
    }
}

static void again(struct rt_handle *handle) {
    (void)handle;
    struct task *task = self;
    int result = attempt(task, (unsigned *)task->engine.arguments[0]);
    if (result >= 0) complete(task, result);
}

int __cxa_guard_acquire(unsigned *) __attribute__((weak));

struct rt_int rt_guard_acquire(unsigned *guard) {
    struct task *task = on_loop();
    if (!task) return PLAIN(struct rt_int, __cxa_guard_acquire(guard));
    task->engine.arguments[0] = (long)guard;
    suspend(task, again);
    int result = attempt(task, guard);
    return result < 0 ? (struct rt_int){&task->waiter, 0} : (struct rt_int){NULL, result};
}
