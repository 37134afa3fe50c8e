/* A handler with SA_RESTART, as by signal(). Calls with a time limit end with EINTR nevertheless,
 * and so do calls that wait for several descriptors (signal(7)). Other calls go on.
 * Runtime: product */
#include "test.h"
#include <sys/time.h>

static int ends[2], sockets[2], several;
static sem_t none;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static void handle(int signal) { (void)signal; }

static long sleeps(void) { return sleep(1000) > 0 ? -1 : 0; }
static long sleeps_nano(void) {
    struct timespec time = {1000};
    return nanosleep(&time, NULL);
}
static long sleeps_clock(void) {
    struct timespec time = {1000};
    errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    return errno ? -1 : 0;
}
static long selects(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    return select(ends[0] + 1, &set, NULL, NULL, NULL);
}
static long polls(void) {
    struct pollfd entry = {ends[0], POLLIN, 0};
    return poll(&entry, 1, -1);
}
static long polls_with_a_limit(void) {
    struct pollfd entry = {ends[0], POLLIN, 0};
    return poll(&entry, 1, 1000000);
}
static long waits_for_events(void) {
    struct epoll_event event;
    return epoll_wait(several, &event, 1, -1);
}
static long receives_with_a_limit(void) {
    char byte;
    return recv(sockets[0], &byte, 1, 0);
}
static long reads(void) {
    char byte;
    return read(ends[0], &byte, 1);
}
static long waits_for_a_semaphore(void) { return sem_wait(&none); }
static long locks(void) {
    int error = pthread_mutex_lock(&held);
    pthread_mutex_unlock(&held);
    return error;
}

struct call {
    long (*make)(void);
    volatile int over;
    long result;
    int error;
};
static void *make(void *argument) {
    struct call *call = argument;
    call->result = call->make();
    call->error = call->result < 0 ? errno : 0;
    call->over = 1;
    return NULL;
}

/* The program sends several signals, since the first may come before the call waits. */
static void is_interrupted(const char *name, long (*function)(void)) {
    struct call call = {.make = function};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, make, &call) == 0);
    while (!call.over) {
        pthread_kill(thread, SIGUSR1);
        usleep(1000);
    }
    pthread_join(thread, NULL);
    printf("%s: %ld, %s\n", name, call.result, call.error == EINTR ? "EINTR" : "another end");
}
static void goes_on(const char *name, long (*function)(void), void (*end)(void)) {
    struct call call = {.make = function};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, make, &call) == 0);
    for (int count = 0; count < 30; count++) {
        pthread_kill(thread, SIGUSR1);
        usleep(1000);
    }
    CHECK(!call.over);
    end();
    pthread_join(thread, NULL);
    printf("%s: %ld\n", name, call.result);
}
static void writes(void) { CHECK(write(ends[1], "x", 1) == 1); }
static void posts(void) { sem_post(&none); }
static void unlocks(void) { pthread_mutex_unlock(&held); }

int main(void) {
    struct timeval limit = {1000};
    CHECK(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK(setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK((several = epoll_create1(0)) >= 0 && sem_init(&none, 0, 0) == 0);
    signal(SIGUSR1, handle);
    is_interrupted("sleep", sleeps);
    is_interrupted("nanosleep", sleeps_nano);
    is_interrupted("clock_nanosleep", sleeps_clock);
    is_interrupted("select", selects);
    is_interrupted("poll", polls);
    is_interrupted("poll with a limit", polls_with_a_limit);
    is_interrupted("epoll_wait", waits_for_events);
    is_interrupted("recv with a limit", receives_with_a_limit);
    goes_on("read", reads, writes);
    goes_on("sem_wait", waits_for_a_semaphore, posts);
    pthread_mutex_lock(&held);
    goes_on("mutex", locks, unlocks);
}
