/* Pitfall 7: many threads with time-outs at once. */
#include "test.h"
static int late;
static void *start(void *argument) {
    long index = (long)argument;
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    long wanted = 5 + index * 7 % 20;
    struct pollfd none = {-1, POLLIN, 0};
    CHECK(poll(&none, 1, wanted) == 0);
    usleep(1000);
    struct timespec until = in_milliseconds(CLOCK_MONOTONIC, 2), short_time = {0, 1000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    nanosleep(&short_time, NULL);
    clock_gettime(CLOCK_MONOTONIC, &after);
    long took = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    if (took < wanted + 1) late++;
    return NULL;
}
int main(void) {
    for (int round = 0; round < 3; round++) run_many(60, start);
    printf("too early: %d\n", late);
}
