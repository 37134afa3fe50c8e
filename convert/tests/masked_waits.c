/* ppoll, pselect and epoll_pwait of converted threads have the mask that they are given, and only
 * while they wait.
 * Runtime: product */
#include "test.h"
static volatile sig_atomic_t came;
static sem_t ready;
static int ends[2], poller;
static const struct timespec LONG_TIME = {1000, 0};
static void handle(int signal) {
    came++;
}
static sigset_t set_of(int signal) {
    sigset_t set;
    sigemptyset(&set);
    if (signal) sigaddset(&set, signal);
    return set;
}
static bool blocks(int signal) {
    sigset_t now;
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
    return sigismember(&now, signal);
}
static int waits(int way, const struct timespec *limit, const sigset_t *mask) {
    struct pollfd entry = {ends[0], POLLIN, 0};
    struct epoll_event event;
    fd_set in;
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    if (way == 0) return ppoll(&entry, 1, limit, mask);
    if (way == 1) return pselect(ends[0] + 1, &in, NULL, NULL, limit, mask);
    return epoll_pwait(poller, &event, 1, limit ? limit->tv_nsec / 1000000 : -1, mask);
}
/* The thread blocks the signal except while it waits. A signal that comes before waits for it. */
static void *opens(void *way) {
    sigset_t own = set_of(SIGUSR1), none = set_of(0);
    CHECK(pthread_sigmask(SIG_BLOCK, &own, NULL) == 0);
    WAIT();
    int before = came;
    raise(SIGUSR1);
    CHECK(came == before && waits((long)way, NULL, &none) == -1 && errno == EINTR && came == before + 1);
    for (int round = 0; round < 20; round++) {
        sem_post(&ready);
        CHECK(waits((long)way, NULL, &none) == -1 && errno == EINTR);
        CHECK(came == before + 2 + round && blocks(SIGUSR1));
        WAIT();
        CHECK(blocks(SIGUSR1));
    }
    /* Without a signal, the wait ends as usual. */
    struct timespec soon = {0, 2000000};
    CHECK(waits((long)way, &soon, &none) == 0 && soon.tv_nsec == 2000000 && blocks(SIGUSR1));
    CHECK(waits((long)way, &soon, &own) == 0 && waits((long)way, &soon, NULL) == 0);
    return way;
}
/* The thread blocks the signal only while it waits. */
static void *closes(void *way) {
    sigset_t mask = set_of(SIGUSR2);
    char byte;
    sem_post(&ready);
    CHECK(waits((long)way, NULL, &mask) == 1 && read(ends[0], &byte, 1) == 1);
    WAIT();
    CHECK(!blocks(SIGUSR2));
    return way;
}
/* A wait with a mask is a cancellation point. */
static void *ends_there(void *way) {
    sigset_t none = set_of(0), own = set_of(SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &own, NULL) == 0);
    sem_post(&ready);
    waits((long)way, NULL, &none);
    return NULL;
}
int main(void) {
    pthread_t thread;
    void *result;
    sem_init(&ready, 0, 0);
    CHECK(pipe(ends) == 0 && (poller = epoll_create1(0)) >= 0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &event) == 0);
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigset_t usr1 = set_of(SIGUSR1);
    for (long way = 0; way < 3; way++) {
        pthread_create(&thread, NULL, opens, (void *)way);
        CHECK(pthread_sigmask(SIG_BLOCK, &usr1, NULL) == 0);
        /* For the thread, and for the process, in turn. */
        for (int round = 0; round < 20; round++) {
            sem_wait(&ready);
            CHECK(round % 2 ? kill(getpid(), SIGUSR1) == 0 : pthread_kill(thread, SIGUSR1) == 0);
        }
        CHECK(pthread_join(thread, NULL) == 0 && pthread_sigmask(SIG_UNBLOCK, &usr1, NULL) == 0);
        pthread_create(&thread, NULL, closes, (void *)way);
        sem_wait(&ready);
        CHECK(pthread_kill(thread, SIGUSR2) == 0 && write(ends[1], "b", 1) == 1);
        CHECK(pthread_join(thread, NULL) == 0);
        pthread_create(&thread, NULL, ends_there, (void *)way);
        sem_wait(&ready);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
        printf("%d\n", came);
    }
    printf("%d\n", came);
}
