/* Hard case: a signal interrupts a wait of main. */
#include "test.h"
static volatile sig_atomic_t came;
static void handle(int signal) { came = signal; }
static void *sends(void *argument) {
    usleep(1000);
    kill(getpid(), SIGUSR1);
    usleep(1000);
    return argument;
}
int main(void) {
    struct sigaction action = {.sa_handler = handle};
    pthread_t thread;
    sigset_t set;
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&thread, NULL, sends, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    int waited = 0;
    while (!came && waited++ < 1000) usleep(5000);
    pthread_join(thread, NULL);
    printf("%d\n", came == SIGUSR1);
}
