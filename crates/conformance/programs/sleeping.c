/* Starts twenty threads that sleep, and prints the number of threads that the kernel sees. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *nap(void *a) {
    sleep(100);
    return a;
}
int main(void) {
    pthread_t t;
    for (int i = 0; i < 20; i++) pthread_create(&t, 0, nap, 0);
    fflush(stdout);
    return system("grep ^Threads /proc/$PPID/status");
}
