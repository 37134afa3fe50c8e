/* Tests state that the kernel keeps for a kernel thread, and the program for its own thread:
 * processor time, priorities, the handlers of a child, sizes of masks. */
#include "test.h"
#include <sys/resource.h>
#include <sys/signalfd.h>

static double clock_of(clockid_t clock) {
    struct timespec time;
    return clock_gettime(clock, &time) ? -1 : time.tv_sec + time.tv_nsec / 1e9;
}
static double rusage_of_thread(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static volatile bool used, looked;
/* Uses a tenth of a second of processor time. */
static void *use_time(void *argument) {
    double before = clock_of(CLOCK_THREAD_CPUTIME_ID);
    while (clock_of(CLOCK_THREAD_CPUTIME_ID) < before + 0.1) {
    }
    used = true;
    while (!looked) sleep_ms(1);
    return argument;
}

TEST(thread_clocks_are_the_threads_own) {
    clockid_t clock, own;
    struct timespec resolution;
    double before = clock_of(CLOCK_THREAD_CPUTIME_ID), usage = rusage_of_thread();
    CHECK(!pthread_getcpuclockid(pthread_self(), &own));
    pthread_t thread = start(use_time, NULL);
    CHECK(!pthread_getcpuclockid(thread, &clock));
    CHECK(!clock_getres(clock, &resolution) && resolution.tv_sec == 0);
    while (!used) sleep_ms(2);
    double others = clock_of(clock);
    CHECK(others > 0.09);
    CHECK(clock_of(CLOCK_THREAD_CPUTIME_ID) - before < others / 2);
    CHECK(rusage_of_thread() - usage < others / 2);
    CHECK(clock_of(own) >= before);
    looked = true;
    join(thread);
    /* The kernel wakes the joiner before it lets the thread go. */
    while (!clock_gettime(clock, &resolution)) sleep_ms(1);
    CHECK(errno == EINVAL);
    return 0;
}

static volatile int worse;
static void *lower_itself(void *argument) {
    if (setpriority(PRIO_PROCESS, 0, 7)) return (void *)1;
    for (int index = 0; index < 20; index++) {
        sleep_ms(1);
        worse += getpriority(PRIO_PROCESS, 0) != 7;
    }
    return argument;
}

TEST(priorities_stay_with_their_threads) {
    int before = getpriority(PRIO_PROCESS, 0);
    pthread_t thread = start(lower_itself, NULL);
    for (int index = 0; index < 20; index++) {
        sleep_ms(1);
        CHECK(getpriority(PRIO_PROCESS, 0) == before);
    }
    CHECK(join(thread) == 0 && worse == 0);
    CHECK(getpriority(PRIO_PROCESS, 0) == before);
    return 0;
}

static void handle(int number) { (void)number; }

/* CLONE_CLEAR_SIGHAND of clone3(2). */
TEST(a_child_may_begin_without_handlers) {
    uint64_t arguments[11] = {0x100000000, 0, 0, 0, SIGCHLD};
    signal(SIGUSR1, handle);
    signal(SIGUSR2, SIG_IGN);
    signal(SIGSEGV, handle);
    long process = syscall(SYS_clone3, arguments, sizeof arguments);
    if (process < 0 && errno == ENOSYS) return 0;
    CHECK(process >= 0);
    if (!process) {
        struct sigaction first, second, third;
        sigaction(SIGUSR1, NULL, &first);
        sigaction(SIGUSR2, NULL, &second);
        sigaction(SIGSEGV, NULL, &third);
        if (first.sa_handler != SIG_DFL || second.sa_handler != SIG_IGN || third.sa_handler != SIG_DFL) _exit(2);
        /* The child goes on as any program, and its signals act by default. */
        int ends[2];
        if (pipe(ends) || write(ends[1], "x", 1) != 1) _exit(3);
        signal(SIGUSR1, handle);
        raise(SIGUSR1);
        signal(SIGUSR1, SIG_DFL);
        raise(SIGUSR1);
        _exit(4);
    }
    int status;
    CHECK(waitpid(process, &status, 0) == process);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    return 0;
}

/* sshd gives up all new descriptors in this way, and goes on with those that it has. */
TEST(select_works_without_a_limit_for_descriptors) {
    int ends[2];
    struct rlimit none = {0, 0};
    fd_set set;
    CHECK(!pipe(ends) && !setrlimit(RLIMIT_NOFILE, &none));
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    struct timeval now = {0, 0};
    CHECK(select(ends[0] + 1, &set, NULL, NULL, &now) == 0);
    CHECK(write(ends[1], "x", 1) == 1);
    FD_SET(ends[0], &set);
    CHECK(select(ends[0] + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(ends[0], &set));
    return 0;
}

/* The kernel accepts masks of eight bytes alone. */
TEST(masks_of_another_size_are_refused) {
    uint64_t set[16] = {0};
    struct timespec now = {0, 0};
    struct {
        void *set;
        size_t size;
    } pair = {set, sizeof set};
    struct epoll_event event;
    int queue = epoll_create1(0);
    CHECK(syscall(SYS_ppoll, NULL, 0, &now, set, sizeof set) < 0 && errno == EINVAL);
    CHECK(syscall(SYS_ppoll, NULL, 0, &now, NULL, sizeof set) == 0);
    CHECK(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &now, &pair) < 0 && errno == EINVAL);
    CHECK(syscall(SYS_epoll_pwait, queue, &event, 1, 0, set, sizeof set) < 0 && errno == EINVAL);
    CHECK(syscall(SYS_rt_sigsuspend, set, sizeof set) < 0 && errno == EINVAL);
    CHECK(syscall(SYS_rt_sigtimedwait, set, NULL, &now, sizeof set) < 0 && errno == EINVAL);
    return 0;
}

/* A descriptor reports a signal that was sent to the thread. */
TEST(signalfd_reports_signals_for_the_thread) {
    sigset_t set;
    struct signalfd_siginfo info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
    int signals = signalfd(-1, &set, 0), queue = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(!epoll_ctl(queue, EPOLL_CTL_ADD, signals, &event));
    CHECK(epoll_wait(queue, &event, 1, 0) == 0);
    CHECK(!pthread_kill(pthread_self(), SIGUSR1));
    CHECK(epoll_wait(queue, &event, 1, -1) == 1);
    CHECK(read(signals, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
    CHECK(epoll_wait(queue, &event, 1, 0) == 0);
    return 0;
}
