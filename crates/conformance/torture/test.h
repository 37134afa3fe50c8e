/* A test is a function that returns 0. CHECK returns 1 and prints its place. `torture` lists the
 * tests, and `torture NAME` runs one test. */
#ifndef TEST_H
#define TEST_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef int test_function(void);
void add_test(const char *name, test_function *function);

#define TEST(name)                                                                   \
    static int test_##name(void);                                                    \
    __attribute__((constructor)) static void add_##name(void) {                      \
        add_test(#name, test_##name);                                                \
    }                                                                                \
    static int test_##name(void)

#define CHECK(condition)                                                             \
    do {                                                                             \
        if (!(condition)) {                                                          \
            printf("%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
            fflush(stdout);                                                          \
            return 1;                                                                \
        }                                                                            \
    } while (0)

/* Milliseconds of the monotonic clock. */
static inline long now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* The time of the clock in `ms` milliseconds. */
static inline struct timespec from_now(clockid_t clock, long ms) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += ms % 1000 * 1000000;
    time.tv_sec += ms / 1000 + time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static inline void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&time, &time) && errno == EINTR) {
    }
}

static inline pthread_t start(void *(*function)(void *), void *argument) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, function, argument);
    if (error) {
        printf("pthread_create: %s\n", strerror(error));
        exit(1);
    }
    return thread;
}

static inline long join(pthread_t thread) {
    void *result = NULL;
    pthread_join(thread, &result);
    return (long)result;
}

/* A thread that counts, and so shows whether other threads go on while one waits. */
struct ticker {
    pthread_t thread;
    volatile pid_t id;
    volatile bool stop;
    volatile long ticks;
};

static inline void *ticker_loop(void *argument) {
    struct ticker *ticker = argument;
    ticker->id = gettid();
    while (!ticker->stop) {
        sleep_ms(2);
        ticker->ticks++;
    }
    return NULL;
}

static inline void ticker_start(struct ticker *ticker) {
    ticker->stop = false;
    ticker->ticks = 0;
    ticker->id = 0;
    ticker->thread = start(ticker_loop, ticker);
}

/* The kernel's number of the ticker's thread, as this thread sees it. */
static inline pid_t ticker_id(struct ticker *ticker) {
    while (!ticker->id) sleep_ms(1);
    return ticker->id;
}

/* Waits until other threads have gone on for a while. The limit of the whole test ends a wait in
 * vain. */
static inline void ticker_wait(struct ticker *ticker) {
    for (long before = ticker->ticks; ticker->ticks < before + 3;) sleep_ms(5);
}

static inline long ticker_stop(struct ticker *ticker) {
    ticker->stop = true;
    join(ticker->thread);
    return ticker->ticks;
}
#endif
