/* The handler of a fast timer does nothing, a thousand times. */
#include <signal.h>
#include <time.h>
static volatile sig_atomic_t left = 1000;
static void count(int n) {
    (void)n;
    if (left) left--;
}
int main(void) {
    struct sigaction a = {.sa_handler = count};
    timer_t timer;
    const struct itimerspec often = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    sigaction(SIGRTMIN, &a, 0);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer)) return 1;
    timer_settime(timer, 0, &often, 0);
    while (left) {
    }
    timer_settime(timer, 0, &never, 0);
    return 0;
}
