/* Primitives that wait for a time, or only give way: sleep and sched_yield. */
#include "runtime.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* nanosleep. Its two unused arguments hold the time, and later the remaining time. */
static struct rt_ssize sleep_for(enum shape shape, long seconds, long nanoseconds) {
    long *time = &self->engine.arguments[4];
    return call_begin(self, shape, SYS_nanosleep, (const long[6]){(long)time, (long)time, 0, 0, seconds, nanoseconds});
}

struct rt_uint rt_sleep(unsigned seconds) {
    if (!on_loop()) return PLAIN(struct rt_uint, sleep(seconds));
    struct rt_ssize result = sleep_for(SHAPE_SLEEP, seconds, 0);
    return (struct rt_uint){result.handle, (unsigned)result.value};
}

struct rt_int rt_usleep(useconds_t time) {
    if (!on_loop()) return PLAIN(struct rt_int, usleep(time));
    struct rt_ssize result = sleep_for(SHAPE_ERRNO, time / 1000000, time % 1000000 * 1000l);
    return (struct rt_int){result.handle, (int)result.value};
}

struct rt_int rt_nanosleep(const struct timespec *time, struct timespec *left) {
    if (!on_loop()) return PLAIN(struct rt_int, nanosleep(time, left));
    struct rt_ssize result = call_begin(self, SHAPE_ERRNO, SYS_nanosleep, (const long[6]){(long)time, (long)left});
    return (struct rt_int){result.handle, (int)result.value};
}

struct rt_int rt_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
    if (!on_loop()) return PLAIN(struct rt_int, clock_nanosleep(clock, flags, time, left));
    if (clock == CLOCK_THREAD_CPUTIME_ID) return (struct rt_int){NULL, EINVAL};
    struct rt_ssize result = call_begin(self, SHAPE_NUMBER, SYS_clock_nanosleep, (const long[6]){clock, flags, (long)time, (long)left});
    return (struct rt_int){result.handle, (int)result.value};
}

struct rt_int rt_give_way(void) {
    if (on_loop()) return give_way_with(0);
    /* The thread has no turns, but may read the rest of a turn. */
    rt_turn = RT_TURN;
    return (struct rt_int){NULL, sched_yield()};
}

struct rt_int rt_sched_yield(void) { return rt_give_way(); }
