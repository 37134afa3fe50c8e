/* A timer that its own handler sets again, beside a main thread that waits for another signal. */
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static timer_t timer;
static volatile sig_atomic_t over;
static const struct itimerspec soon = {{0, 0}, {0, 1000}};
static void again(int n) {
    (void)n;
    timer_settime(timer, 0, &soon, 0);
}
static void end(int n) {
    (void)n;
    over = 1;
}
int main(void) {
    struct sigaction a = {.sa_handler = again}, e = {.sa_handler = end};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    sigaction(SIGUSR1, &a, 0);
    sigaction(SIGALRM, &e, 0);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer)) return 1;
    alarm(1);
    again(0);
    while (!over) {
    }
    puts("over");
    return 0;
}
