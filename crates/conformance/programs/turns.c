/* Twenty threads compute for 0.3 s in all. With an argument they compute for some microseconds at a
 * time, otherwise without a break. */
#include <pthread.h>
#include <sched.h>
#include <time.h>
static int yields;
static double used(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static void *turns(void *a) {
    while (used() < 0.3) {
        for (volatile int i = 0; i < 20000; i++);
        if (yields) sched_yield();
    }
    return a;
}
int main(int c, char **v) {
    pthread_t t[20];
    yields = c > 1;
    for (int i = 0; i < 20; i++) pthread_create(&t[i], 0, turns, 0);
    for (int i = 0; i < 20; i++) pthread_join(t[i], 0);
    return 0;
}
