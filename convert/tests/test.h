/* Code that the test programs share. Each program prints the same natively and converted, in any
 * order of its threads. */
#define _GNU_SOURCE
#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
/* Suspends a converted thread. */
#define WAIT() sched_yield()

static inline void check(bool holds, const char *what, int line) {
    if (holds) return;
    printf("line %d: not so: %s\n", line, what);
    exit(1);
}
#define CHECK(what) check(what, #what, __LINE__)

static inline void *run(void *(*start)(void *), void *argument) {
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, start, argument) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    return result;
}

/* Runs `count` threads at once, with their numbers as arguments. */
static inline void run_many(int count, void *(*start)(void *)) {
    pthread_t threads[64];
    CHECK(count <= 64);
    for (long index = 0; index < count; index++) CHECK(pthread_create(&threads[index], NULL, start, (void *)index) == 0);
    for (int index = 0; index < count; index++) CHECK(pthread_join(threads[index], NULL) == 0);
}

static inline struct timespec in_milliseconds(clockid_t clock, long milliseconds) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += milliseconds % 1000 * 1000000;
    time.tv_sec += milliseconds / 1000 + time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}
