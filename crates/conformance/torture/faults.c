/* Tests programs at limits that they set themselves: timers without a pause, tiny stacks for
 * handlers, moved words. */
#include "test.h"
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/uio.h>

/* A thread may tell the kernel to clear another word at its end, and then restore the old word, as
 * stress-ng does. Without an emulated PR_GET_TID_ADDRESS, the thread would get the word of the main
 * thread, and the join would never end. */
static void *move_word(void *argument) {
    int *word = NULL, other = 0;
    (void)argument;
    if (prctl(PR_GET_TID_ADDRESS, &word)) return NULL;
    if (*word != gettid()) return (void *)1;
    if (syscall(SYS_set_tid_address, &other) != gettid()) return (void *)2;
    if (syscall(SYS_set_tid_address, word) != gettid()) return (void *)3;
    return NULL;
}

TEST(the_word_of_a_thread_is_its_own) {
    for (int count = 0; count < 10; count++) CHECK(join(start(move_word, NULL)) == 0);
    return 0;
}

static volatile sig_atomic_t expirations;
static timer_t storm;

static void count_expiration(int number) {
    (void)number;
    struct itimerspec never = {0};
    if (++expirations == 300) timer_settime(storm, 0, &never, NULL);
}

/* A timer that is due again before the engine has handled its signal. Without an end of the storm
 * (`signals::endure`), signals would interrupt the engine for ever. */
TEST(a_timer_without_a_pause) {
    struct sigaction action = {.sa_handler = count_expiration};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    struct itimerspec fast = {{0, 1000}, {0, 1000}};
    CHECK(!sigaction(SIGRTMIN, &action, NULL));
    CHECK(!timer_create(CLOCK_REALTIME, &event, &storm));
    CHECK(!timer_settime(storm, 0, &fast, NULL));
    while (expirations < 300) sleep_ms(1);
    sleep_ms(5);
    CHECK(expirations < 310);
    return 0;
}

/* A timer has one signal at a time; the others are its overruns. */
TEST(a_timer_overruns) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    struct itimerspec fast = {{0, 1000000}, {0, 1000000}}, never = {0};
    timer_t timer;
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
    CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer) && !timer_settime(timer, 0, &fast, NULL));
    sleep_ms(60);
    struct timespec none = {0};
    CHECK(sigtimedwait(&set, &info, &none) == SIGRTMIN && info.si_code == SI_TIMER && info.si_overrun > 10);
    CHECK(!timer_settime(timer, 0, &never, NULL));
    sigtimedwait(&set, &info, &none);
    CHECK(sigtimedwait(&set, &info, &none) == -1 && errno == EAGAIN);
    return 0;
}

static volatile long computed;

static void compute_in_handler(int number) {
    (void)number;
    long start = now_ms();
    while (now_ms() - start < 60) computed++;
}

/* Thread-local storage lies just above the stack of its thread. */
static _Thread_local char place[16 << 10];

static void *on_small_stack(void *argument) {
    size_t size = sysconf(_SC_MINSIGSTKSZ) + 2048;
    stack_t stack = {.ss_sp = place + sizeof place - size, .ss_size = size};
    memset(place, 7, sizeof place - size);
    if (sigaltstack(&stack, NULL)) return (void *)1;
    pthread_kill(pthread_self(), SIGUSR1);
    for (size_t index = 0; index < sizeof place - size; index++) {
        if (place[index] != 7) return (void *)2;
    }
    return argument;
}

/* Ticks come while handlers run on stacks that hold little more than one frame. Such a stack has no
 * room for the engine's own frame. */
TEST(handlers_compute_on_tiny_stacks) {
    struct sigaction action = {.sa_handler = compute_in_handler, .sa_flags = SA_ONSTACK};
    pthread_t threads[4];
    now_ms(); /* Binding the function later would need room, too. */
    CHECK(!sigaction(SIGUSR1, &action, NULL));
    for (int index = 0; index < 4; index++) threads[index] = start(on_small_stack, NULL);
    for (int index = 0; index < 4; index++) CHECK(join(threads[index]) == 0);
    return 0;
}

static volatile uintptr_t handler_at;

static void note_place(int number) {
    handler_at = (uintptr_t)&number;
}

static void *beside_alternate_stack(void *argument) {
    stack_t stack = {.ss_sp = place, .ss_size = sizeof place};
    if (sigaltstack(&stack, NULL)) return (void *)1;
    pthread_kill(pthread_self(), SIGUSR1);
    uintptr_t low = (uintptr_t)place;
    if (handler_at < low || handler_at >= low + sizeof place) return (void *)2;
    return argument;
}

/* A handler begins on its alternate stack, however near to the thread's own stack that is. */
TEST(handlers_begin_on_an_alternate_stack_nearby) {
    struct sigaction action = {.sa_handler = note_place, .sa_flags = SA_ONSTACK};
    CHECK(!sigaction(SIGUSR1, &action, NULL));
    CHECK(join(start(beside_alternate_stack, NULL)) == 0);
    return 0;
}

static char around_small_stack[64 << 10];
enum { SMALL = 2048 };

static void stay_above(int number) {
    uintptr_t own_room = 256, base = (uintptr_t)around_small_stack + sizeof around_small_stack / 2;
    _exit((uintptr_t)&number < base - own_room);
}

static void interrupt_on_small_stack(void) {
    struct sigaction action = {.sa_handler = stay_above, .sa_flags = SA_ONSTACK};
    stack_t stack = {.ss_sp = around_small_stack + sizeof around_small_stack / 2, .ss_size = SMALL};
    struct itimerval soon = {{0, 0}, {0, 20000}};
    if (sigaltstack(&stack, NULL)) _exit(0);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    for (;;) computed++;
}

/* A signal's frame may be larger than an alternate stack: with AVX-512 it is. Then the signal is a
 * fault, and nothing beneath that stack changes. */
TEST(an_alternate_stack_that_is_too_small_faults) {
    int status;
    pid_t child = fork();
    if (!child) interrupt_on_small_stack();
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    bool above = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    CHECK(above || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
    return 0;
}

static volatile uintptr_t lowest = UINTPTR_MAX;

static void note_depth(int number) {
    uintptr_t here = (uintptr_t)&number;
    if (here < lowest) lowest = here;
    count_expiration(number);
}

/* Handlers that follow each other without a pause begin at the same place of the stack, as
 * natively. */
TEST(handlers_do_not_go_down_the_stack) {
    struct sigaction action = {.sa_handler = note_depth};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    struct itimerspec fast = {{0, 1000}, {0, 1000}};
    int here;
    CHECK(!sigaction(SIGRTMIN, &action, NULL));
    CHECK(!timer_create(CLOCK_REALTIME, &event, &storm));
    CHECK(!timer_settime(storm, 0, &fast, NULL));
    while (expirations < 300) {
    }
    CHECK((uintptr_t)&here - lowest < 32 << 10);
    return 0;
}

/* Every call that the engine answers returns EFAULT for a bad address, as from the kernel. If the
 * engine itself reads or writes the program's memory, it uses an access that may fault (`user.rs`).
 * A plain access would end the program. */
TEST(bad_addresses_in_every_call) {
    const long bad = 0x1000, nowhere = (long)UINT64_C(0xffff800000000000);
    int ends[2], pair[2], peer[2];
    struct sockaddr_un {
        sa_family_t family;
        char path[108];
    } name = {AF_UNIX, ""};
    struct timespec soon = {0, 1000000};
    static char byte;
    struct iovec good = {&byte, 1};
    CHECK(!pipe(ends) && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && !socketpair(AF_UNIX, SOCK_DGRAM, 0, peer));
    CHECK(write(ends[1], "x", 1) == 1 && write(pair[1], "x", 1) == 1 && write(peer[1], "x", 1) == 1);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t length = sizeof name;
    CHECK(!bind(listener, (struct sockaddr *)&name, sizeof name.family) && !listen(listener, 5));
    CHECK(!getsockname(listener, (struct sockaddr *)&name, &length));
    CHECK(!connect(client, (struct sockaddr *)&name, length));
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event));
    FILE *file = tmpfile();
    CHECK(file && fputs("text", file) >= 0 && !fflush(file));
    (void)good;
    for (int turn = 0; turn < 2; turn++) {
        long at = turn ? nowhere : bad;
        const struct {
            const char *name;
            long number, arguments[6];
        } calls[] = {
            {"read", SYS_read, {ends[0], at, 1}},
            {"read of a socket", SYS_read, {pair[0], at, 1}},
            {"write", SYS_write, {ends[1], at, 1}},
            {"write to a socket", SYS_write, {pair[0], at, 1}},
            {"readv", SYS_readv, {ends[0], at, 1}},
            {"writev", SYS_writev, {ends[1], at, 1}},
            {"recvfrom", SYS_recvfrom, {pair[0], at, 1, 0, 0, 0}},
            {"sendto", SYS_sendto, {pair[0], at, 1, 0, 0, 0}},
            {"recvmsg", SYS_recvmsg, {pair[0], at, 0}},
            {"recvmsg of a datagram", SYS_recvmsg, {peer[0], at, 0}},
            {"sendmsg", SYS_sendmsg, {pair[0], at, 0}},
            {"recvmmsg", SYS_recvmmsg, {peer[0], at, 1, 0, 0}},
            {"sendmmsg", SYS_sendmmsg, {peer[0], at, 1, 0}},
            {"connect", SYS_connect, {client, at, sizeof name}},
            {"sendfile", SYS_sendfile, {pair[0], fileno(file), at, 1}},
            {"preadv2", SYS_preadv2, {ends[0], at, 1, -1, -1, 0}},
            {"poll", SYS_poll, {at, 1, 1}},
            {"ppoll", SYS_ppoll, {at, 1, (long)&soon, 0, 8}},
            {"ppoll's time", SYS_ppoll, {0, 0, at, 0, 8}},
            {"ppoll's mask", SYS_ppoll, {0, 0, (long)&soon, at, 8}},
            {"select", SYS_select, {1, at, 0, 0, 0}},
            {"select's time", SYS_select, {0, 0, 0, 0, at}},
            {"pselect6", SYS_pselect6, {1, 0, at, 0, (long)&soon, 0}},
            {"pselect6's mask", SYS_pselect6, {0, 0, 0, 0, (long)&soon, at}},
            {"epoll_wait", SYS_epoll_wait, {epoll, at, 1, 10}},
            {"epoll_pwait", SYS_epoll_pwait, {epoll, (long)&event, 1, 10, at, 8}},
            {"epoll_pwait2", SYS_epoll_pwait2, {epoll, (long)&event, 1, at, 0, 8}},
            {"nanosleep", SYS_nanosleep, {at, 0}},
            {"clock_nanosleep", SYS_clock_nanosleep, {CLOCK_MONOTONIC, 0, at, 0}},
            {"futex wait", SYS_futex, {at, FUTEX_WAIT, 0, 0, 0, 0}},
            {"futex wait, private", SYS_futex, {at, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0}},
            {"futex lock", SYS_futex, {at, FUTEX_LOCK_PI_PRIVATE, 0, 0, 0, 0}},
            {"rt_sigaction", SYS_rt_sigaction, {SIGUSR1, at, 0, 8}},
            {"rt_sigaction's old", SYS_rt_sigaction, {SIGUSR1, 0, at, 8}},
            {"rt_sigprocmask", SYS_rt_sigprocmask, {SIG_BLOCK, at, 0, 8}},
            {"rt_sigprocmask's old", SYS_rt_sigprocmask, {SIG_BLOCK, 0, at, 8}},
            {"rt_sigpending", SYS_rt_sigpending, {at, 8}},
            {"rt_sigsuspend", SYS_rt_sigsuspend, {at, 8}},
            {"rt_sigtimedwait", SYS_rt_sigtimedwait, {at, 0, 0, 8}},
            {"rt_tgsigqueueinfo", SYS_rt_tgsigqueueinfo, {getpid(), gettid(), SIGUSR1, at}},
            {"sigaltstack", SYS_sigaltstack, {at, 0}},
            {"sigaltstack's old", SYS_sigaltstack, {0, at}},
            {"timer_create", SYS_timer_create, {CLOCK_MONOTONIC, at, (long)&byte}},
            {"pipe", SYS_pipe, {at}},
            {"pipe2", SYS_pipe2, {at, 0}},
            {"socketpair", SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, at}},
            {"open", SYS_open, {at, O_RDONLY}},
            {"openat", SYS_openat, {AT_FDCWD, at, O_RDONLY}},
            {"openat2", SYS_openat2, {AT_FDCWD, (long)".", at, 24}},
            {"creat", SYS_creat, {at, 0600}},
            {"ioctl", SYS_ioctl, {pair[0], 0x5421, at}},
            {"fcntl's lock", SYS_fcntl, {fileno(file), F_SETLKW, at}},
            {"setsockopt", SYS_setsockopt, {pair[0], SOL_SOCKET, SO_RCVTIMEO, at, sizeof(struct timeval)}},
            {"execve", SYS_execve, {at, 0, 0}},
            {"execve's arguments", SYS_execve, {(long)"/bin/true", at, 0}},
            {"prctl's name", SYS_prctl, {PR_SET_NAME, at}},
            {"prctl's old name", SYS_prctl, {PR_GET_NAME, at}},
            {"prctl's word", SYS_prctl, {PR_GET_TID_ADDRESS, at}},
            {"sched_setaffinity", SYS_sched_setaffinity, {0, 8, at}},
            {"sched_getaffinity", SYS_sched_getaffinity, {0, 128, at}},
            {"get_robust_list", SYS_get_robust_list, {0, at, at}},
            {"clone3", SYS_clone3, {at, 88}},
            {"accept", SYS_accept, {listener, at, at}},
        };
        for (size_t index = 0; index < sizeof calls / sizeof *calls; index++) {
            const long *a = calls[index].arguments;
            errno = 0;
            long result = syscall(calls[index].number, a[0], a[1], a[2], a[3], a[4], a[5]);
            if (result != -1 || errno != EFAULT) {
                printf("%s at %lx: %ld, errno %d\n", calls[index].name, at, result, errno);
                return 1;
            }
        }
        client = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(!connect(client, (struct sockaddr *)&name, length));
    }
    return 0;
}
