/* Tests signals that come while the engine enters the handlers of other signals. */
#include "test.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <ucontext.h>

static volatile long alarms, users;
static void count_alarm(int number) {
    (void)number;
    alarms++;
}
static void count_user(int number) {
    (void)number;
    users++;
}

/* The first handler returns to an intact state, at any time of the second signal. */
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
/* The signals come from outside, on an alternate stack and among threads. */
TEST(preempt_handlers_of_signals_from_two_processes_nest) {
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

/* A sandbox that emulates a call: the handler of SIGSYS sets the result of the trapped call. */
static volatile int trapped;
static void emulate(int number, siginfo_t *info, void *context) {
    trapped = number == SIGSYS && info->si_code == 1 ? info->si_syscall : -1;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 1234;
}
static int trap(bool handled) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdir, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    struct sigaction action = {.sa_sigaction = emulate, .sa_flags = SA_SIGINFO};
    if (handled) CHECK(!sigaction(SIGSYS, &action, NULL));
    CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    CHECK(getuid() == 1234 && trapped == SYS_getuid);
    trapped = 0;
    CHECK(mkdir("/", 0) == 1234 && trapped == SYS_mkdir);
    return 0;
}
static void *trap_in_thread(void *argument) { return (void *)(long)trap(argument); }
TEST(trapped_calls_are_emulated_by_their_handler) { return trap(true); }
/* With several threads, the main thread blocks the signal meanwhile. */
TEST(trapped_calls_of_a_thread_are_emulated_by_their_handler) {
    struct ticker ticker;
    ticker_start(&ticker);
    pthread_t thread = start(trap_in_thread, &ticker);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
    CHECK(join(thread) == 0);
    ticker_stop(&ticker);
    return 0;
}
TEST(trapped_call_without_a_handler_is_the_end) {
    pid_t child = fork();
    if (!child) _exit(trap(false));
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    return 0;
}

/* Sets of signals from before real-time signals are shorter. */
TEST(pending_signals_in_a_short_set) {
    uint32_t set[2] = {0, 0x5a5a5a5a};
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    CHECK(!sigprocmask(SIG_BLOCK, &blocked, NULL));
    CHECK(!raise(SIGUSR1));
    CHECK(!syscall(SYS_rt_sigpending, set, 4));
    CHECK(set[0] == 1u << (SIGUSR1 - 1) && set[1] == 0x5a5a5a5a);
    CHECK(syscall(SYS_rt_sigpending, set, 16) == -1 && errno == EINVAL);
    return 0;
}
