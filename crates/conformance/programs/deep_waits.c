/* Three threads wait, each beneath functions of the program. One thread waits in the handler of a
 * signal. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static void look(int s) {
    (void)s;
    usleep(300000);
}
__attribute__((noinline)) static long deep(int n, int fd) {
    char b;
    volatile long r = n ? deep(n - 1, fd) : read(fd, &b, 1);
    return r + 1;
}
static void *nap(void *a) { return (void *)deep(5, *(int *)a); }
static void *in_handler(void *a) {
    pthread_kill(pthread_self(), SIGUSR2);
    return a;
}
int main(void) {
    int ends[2];
    pthread_t t;
    signal(SIGUSR2, look);
    if (pipe(ends)) return 1;
    for (int i = 0; i < 2; i++) pthread_create(&t, 0, nap, &ends[0]);
    pthread_create(&t, 0, in_handler, 0);
    usleep(100000);
    kill(getpid(), SIGUSR1);
    usleep(50000);
    exit(0);
}
