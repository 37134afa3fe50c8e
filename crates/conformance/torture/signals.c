/* Signals that come while the handlers of others are being entered. */
#include "test.h"

static volatile long alarms, users;
static void count_alarm(int number) {
    (void)number;
    alarms++;
}
static void count_user(int number) {
    (void)number;
    users++;
}

/* What the first handler returns to is whole, whenever the second one comes. */
TEST(handlers_of_two_signals_nest) {
    enum { SENT = 10000 };
    const struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = count_alarm};
    CHECK(!sigaction(SIGALRM, &action, NULL));
    action.sa_handler = count_user;
    CHECK(!sigaction(SIGUSR1, &action, NULL));
    CHECK(!setitimer(ITIMER_REAL, &often, NULL));
    for (int sent = 0; sent < SENT; sent++) CHECK(!kill(getpid(), SIGUSR1));
    while (!alarms) sched_yield();
    CHECK(!setitimer(ITIMER_REAL, &never, NULL));
    CHECK(users == SENT);
    return 0;
}

static volatile bool stop_it;
static void *count_and_call(void *argument) {
    while (!stop_it) getppid();
    return argument;
}
/* The same from outside, on an alternate stack and among threads. */
TEST(handlers_of_signals_from_two_processes_nest) {
    pid_t senders[2];
    static char stack[64 << 10];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(!sigaltstack(&alternate, NULL));
    struct sigaction action = {.sa_handler = count_alarm, .sa_flags = SA_ONSTACK};
    CHECK(!sigaction(SIGUSR2, &action, NULL));
    action.sa_handler = count_user;
    CHECK(!sigaction(SIGUSR1, &action, NULL));
    for (int index = 0; index < 2; index++) {
        senders[index] = fork();
        CHECK(senders[index] >= 0);
        if (!senders[index]) {
            for (int sent = 0; sent < 3000; sent++) {
                kill(getppid(), index ? SIGUSR1 : SIGUSR2);
                usleep(80);
            }
            _exit(0);
        }
    }
    pthread_t other = start(count_and_call, NULL);
    for (int index = 0; index < 2; index++) {
        int status;
        pid_t ended;
        while ((ended = waitpid(senders[index], &status, 0)) < 0 && errno == EINTR) {
        }
        CHECK(ended == senders[index] && status == 0);
    }
    stop_it = true;
    join(other);
    CHECK(alarms > 0 && users > 0);
    return 0;
}
