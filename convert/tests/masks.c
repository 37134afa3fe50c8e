/* Signals to converted threads. pthread_kill interrupts their waits, unless the handler has
 * SA_RESTART. Each thread has its own mask.
 * Runtime: product */
#include "test.h"
static volatile sig_atomic_t came;
static sem_t begun;
static int pair[2];
static void handle(int signal) {
    (void)signal;
    came++;
}
static NOINLINE void waits(void) { WAIT(); }
static void *interrupted(void *argument) {
    char byte;
    sem_t none;
    struct timespec long_time = {1000, 0}, left = {0, 0};
    sem_init(&none, 0, 0);
    sem_post(&begun);
    CHECK(read(pair[0], &byte, 1) == -1 && errno == EINTR);
    sem_post(&begun);
    CHECK(nanosleep(&long_time, &left) == -1 && errno == EINTR && left.tv_sec > 900);
    sem_post(&begun);
    CHECK(sleep(1000) > 900);
    sem_post(&begun);
    CHECK(sem_wait(&none) == -1 && errno == EINTR);
    return argument;
}
static void *restarted(void *argument) {
    char byte;
    sem_post(&begun);
    CHECK(read(pair[0], &byte, 1) == 1 && byte == 'r');
    return argument;
}
static void *masked(void *argument) {
    sigset_t set, before, now;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, &before) == 0 && !sigismember(&before, SIGUSR2));
    for (int round = 0; round < 5; round++) {
        waits();
        CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGUSR2));
    }
    CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0 && sigprocmask(-1, &set, NULL) == -1 && errno == EINVAL);
    waits();
    CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && !sigismember(&now, SIGUSR2));
    return argument;
}
static void *unmasked(void *argument) {
    sigset_t now;
    for (int round = 0; round < 5; round++) {
        waits();
        CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && !sigismember(&now, SIGUSR2));
    }
    return argument;
}
static void *inherited(void *argument) {
    sigset_t now;
    waits();
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGUSR2));
    return argument;
}
static void on(int signal, int flags) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}
int main(void) {
    pthread_t thread, threads[4];
    sem_init(&begun, 0, 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    on(SIGUSR1, 0);
    pthread_create(&thread, NULL, interrupted, NULL);
    for (int index = 0; index < 4; index++) {
        sem_wait(&begun);
        usleep(5000);
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
    }
    pthread_join(thread, NULL);
    on(SIGUSR1, SA_RESTART);
    pthread_create(&thread, NULL, restarted, NULL);
    sem_wait(&begun);
    usleep(5000);
    CHECK(pthread_kill(thread, SIGUSR1) == 0 && pthread_kill(thread, 0) == 0);
    usleep(5000);
    CHECK(write(pair[1], "r", 1) == 1);
    pthread_join(thread, NULL);
    for (int index = 0; index < 4; index++) pthread_create(&threads[index], NULL, index % 2 ? masked : unmasked, NULL);
    for (int index = 0; index < 4; index++) pthread_join(threads[index], NULL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    run(inherited, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    run(unmasked, NULL);
    printf("%d\n", came);
}
