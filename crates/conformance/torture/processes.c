/* Tests processes, signals, descriptors and memory, which the engine emulates in part. */
#include "test.h"
#include <sys/un.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/uio.h>
#include <ucontext.h>

extern char **environ;

static int exit_status(pid_t child) {
    int status = 0;
    if (waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static void *give_seven(void *argument) {
    (void)argument;
    return (void *)7;
}
static void *fork_in_thread(void *argument) {
    pid_t child = fork();
    if (!child) _exit(getpid() == gettid() && join(start(give_seven, NULL)) == 7 ? 9 : 8);
    (void)argument;
    return (void *)(long)exit_status(child);
}
TEST(fork_from_a_thread) {
    struct ticker ticker;
    ticker_start(&ticker);
    CHECK(join(start(fork_in_thread, NULL)) == 9);
    ticker_stop(&ticker);
    return 0;
}
static int forks[3];
static void before(void) { forks[0]++; }
static void in_parent(void) { forks[1]++; }
static void in_child(void) { forks[2]++; }
TEST(fork_handlers) {
    pthread_atfork(before, in_parent, in_child);
    pid_t child = fork();
    if (!child) _exit(forks[0] == 1 && forks[1] == 0 && forks[2] == 1 ? 0 : 1);
    CHECK(exit_status(child) == 0 && forks[0] == 1 && forks[1] == 1 && forks[2] == 0);
    return 0;
}
TEST(fork_of_a_fork) {
    pid_t child = fork();
    if (!child) {
        pid_t grandchild = fork();
        if (!grandchild) _exit(join(start(give_seven, NULL)) == 7 ? 3 : 4);
        _exit(exit_status(grandchild));
    }
    CHECK(exit_status(child) == 3);
    return 0;
}
TEST(child_serves_what_it_inherited) {
    int ends[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    char byte;
    CHECK(recv(ends[0], &byte, 1, MSG_DONTWAIT) == -1);
    pid_t child = fork();
    if (!child) {
        struct ticker ticker;
        ticker_start(&ticker);
        for (int round = 0; round < 50; round++) {
            if (read(ends[1], &byte, 1) != 1 || write(ends[1], &byte, 1) != 1) _exit(1);
        }
        _exit(0);
    }
    for (int round = 0; round < 50; round++) {
        byte = (char)round;
        CHECK(write(ends[0], &byte, 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == (char)round);
    }
    CHECK(exit_status(child) == 0);
    return 0;
}
TEST(posix_spawn_works) {
    for (int round = 0; round < 10; round++) {
        pid_t child;
        char *arguments[] = {"/bin/sh", "-c", "exit 5", NULL};
        CHECK(!posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ));
        CHECK(exit_status(child) == 5);
    }
    pid_t child;
    char *arguments[] = {"/no/such/program", NULL};
    CHECK(posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ) == ENOENT);
    return 0;
}
TEST(vfork_works) {
    struct ticker ticker;
    ticker_start(&ticker);
    for (int round = 0; round < 10; round++) {
        pid_t child = vfork();
        if (!child) _exit(4);
        CHECK(exit_status(child) == 4);
    }
    ticker_stop(&ticker);
    return 0;
}
TEST(popen_and_system) {
    struct ticker ticker;
    ticker_start(&ticker);
    char line[64] = "";
    FILE *stream = popen("sleep 0.1; echo hello", "r");
    CHECK(fgets(line, sizeof line, stream) && !strcmp(line, "hello\n"));
    CHECK(pclose(stream) == 0);
    CHECK(system("sleep 0.05; exit 3") == 3 << 8);
    CHECK(ticker_stop(&ticker) > 0);
    return 0;
}
TEST(spawned_programs_do_not_see_the_engine) {
    FILE *stream = popen("env; cat /proc/self/maps", "r");
    char line[1000];
    bool seen = false;
    while (fgets(line, sizeof line, stream)) seen |= strstr(line, "memfd:duality") || !strncmp(line, "LD_PRELOAD=", 11) || !strncmp(line, "DUALITY_RUN=", 12);
    pclose(stream);
    CHECK(!seen && !getenv("LD_PRELOAD") && !getenv("DUALITY_RUN"));
    return 0;
}
static int dies_of(int number, void (*how)(void)) {
    pid_t child = fork();
    if (!child) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        close(2);
        how();
        _exit(0);
    }
    CHECK(exit_status(child) == 256 + number);
    return 0;
}
static void *touch_nothing(void *argument) {
    (void)argument;
    *(volatile int *)16 = 1;
    return NULL;
}
static void *divide(void *argument) {
    volatile int zero = 0;
    (void)argument;
    return (void *)(long)(12345 / zero);
}
static void *abort_now(void *argument) {
    (void)argument;
    abort();
}
static void in_thread_touch(void) { join(start(touch_nothing, NULL)); }
static void in_thread_divide(void) { join(start(divide, NULL)); }
static void in_thread_abort(void) { join(start(abort_now, NULL)); }
static void raise_term(void) { raise(SIGTERM); }
static void kill_self(void) {
    kill(getpid(), SIGKILL);
    pause();
}
static void alarm_default(void) {
    alarm(1);
    pause();
}
TEST(dies_of_segv) { return dies_of(SIGSEGV, in_thread_touch); }
TEST(dies_of_fpe) { return dies_of(SIGFPE, in_thread_divide); }
TEST(dies_of_abort) { return dies_of(SIGABRT, in_thread_abort); }
TEST(dies_of_term) { return dies_of(SIGTERM, raise_term); }
TEST(dies_of_kill) { return dies_of(SIGKILL, kill_self); }
TEST(dies_of_alarm) { return dies_of(SIGALRM, alarm_default); }

static sigjmp_buf jump;
static void jump_back(int number) { siglongjmp(jump, number); }
TEST(fault_handlers_may_jump) {
    struct sigaction action = {.sa_handler = jump_back};
    sigaction(SIGSEGV, &action, NULL);
    for (int round = 0; round < 3; round++) {
        int number = sigsetjmp(jump, 1);
        if (!number) touch_nothing(NULL);
        CHECK(number == SIGSEGV);
    }
    return 0;
}
static void skip_instruction(int number, siginfo_t *info, void *context) {
    ucontext_t *place = context;
    (void)number;
    if (info->si_addr == (void *)16) place->uc_mcontext.gregs[REG_RIP] += 2;
}
TEST(fault_handlers_see_and_change_registers) {
    struct sigaction action = {.sa_sigaction = skip_instruction, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    __asm__ volatile("mov $16, %%rax\n mov %%eax, (%%rax)" ::: "rax", "memory");
    return 0;
}
static volatile uintptr_t handler_stack;
static void note_stack(int number) {
    char here;
    (void)number;
    handler_stack = (uintptr_t)&here;
}
static void *handle_on_own_stack(void *argument) {
    static char room[65536];
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room}, seen;
    if (sigaltstack(&stack, NULL)) return (void *)1;
    pthread_kill(pthread_self(), SIGUSR1);
    if (handler_stack < (uintptr_t)room || handler_stack > (uintptr_t)room + sizeof room) return (void *)2;
    sigaltstack(NULL, &seen);
    (void)argument;
    return (void *)(long)(seen.ss_sp != room || seen.ss_flags);
}
TEST(alternate_stacks_are_local) {
    struct sigaction action = {.sa_handler = note_stack, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    CHECK(join(start(handle_on_own_stack, NULL)) == 0);
    CHECK(join(start(handle_on_own_stack, NULL)) == 0);
    stack_t seen;
    CHECK(!sigaltstack(NULL, &seen) && seen.ss_flags == SS_DISABLE);
    return 0;
}

static volatile sig_atomic_t hits;
static volatile int hit_value;
static void hit(int number) {
    (void)number;
    hits++;
}
static void hit_with_value(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    hits++;
    hit_value = info->si_value.sival_int;
}
TEST(masks_hold_signals_back) {
    sigset_t set, old, pending;
    signal(SIGUSR1, hit);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    kill(getpid(), SIGUSR1);
    raise(SIGUSR1);
    sleep_ms(10);
    CHECK(hits == 0);
    sigpending(&pending);
    CHECK(sigismember(&pending, SIGUSR1));
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    CHECK(hits >= 1);
    return 0;
}
TEST(sigsuspend_lets_one_in) {
    sigset_t set, old;
    signal(SIGUSR1, hit);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    kill(getpid(), SIGUSR1);
    CHECK(sigsuspend(&old) == -1 && errno == EINTR && hits == 1);
    pthread_sigmask(SIG_SETMASK, NULL, &old);
    CHECK(sigismember(&old, SIGUSR1));
    return 0;
}
TEST(ppoll_mask_lets_one_in) {
    sigset_t set, old;
    signal(SIGUSR1, hit);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    kill(getpid(), SIGUSR1);
    struct timespec limit = {5, 0};
    CHECK(ppoll(NULL, 0, &limit, &old) == -1 && errno == EINTR && hits == 1);
    pthread_sigmask(SIG_SETMASK, NULL, &old);
    CHECK(sigismember(&old, SIGUSR1));
    return 0;
}
static void *wait_for_signals(void *argument) {
    int number = 0;
    sigwait(argument, &number);
    return (void *)(long)number;
}
TEST(sigwait_takes_process_and_thread_signals) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_t thread = start(wait_for_signals, &set);
    sleep_ms(15);
    kill(getpid(), SIGTERM);
    CHECK(join(thread) == SIGTERM);
    thread = start(wait_for_signals, &set);
    sleep_ms(15);
    pthread_kill(thread, SIGUSR2);
    CHECK(join(thread) == SIGUSR2);
    struct timespec none = {0, 20000000};
    CHECK(sigtimedwait(&set, NULL, &none) == -1 && errno == EAGAIN);
    return 0;
}
TEST(signalfd_tells) {
    sigset_t set;
    sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    int number = signalfd(-1, &set, 0);
    struct ticker ticker;
    ticker_start(&ticker);
    kill(getpid(), SIGTERM);
    struct signalfd_siginfo info;
    CHECK(read(number, &info, sizeof info) == sizeof info && info.ssi_signo == SIGTERM);
    ticker_stop(&ticker);
    return 0;
}
TEST(queued_signals_keep_values_and_order) {
    struct sigaction action = {.sa_sigaction = hit_with_value, .sa_flags = SA_SIGINFO};
    sigset_t set, old;
    sigaction(SIGRTMIN, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    for (int value = 1; value <= 5; value++) {
        union sigval carried = {.sival_int = value};
        CHECK(!pthread_sigqueue(pthread_self(), SIGRTMIN, carried));
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    CHECK(hits == 5);
    return 0;
}
TEST(engine_signals_are_the_programs_too) {
    signal(61, hit);
    signal(62, hit);
    for (int round = 0; round < 5; round++) {
        CHECK(!kill(getpid(), 61) && !kill(getpid(), 62));
        pthread_kill(pthread_self(), 62);
    }
    CHECK(hits == 15);
    return 0;
}
TEST(reset_handlers_run_once) {
    struct sigaction action = {.sa_handler = hit, .sa_flags = SA_RESETHAND};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sigaction(SIGUSR1, NULL, &action);
    CHECK(hits == 1 && action.sa_handler == SIG_DFL);
    return 0;
}
TEST(interval_timers_fire) {
    signal(SIGALRM, hit);
    struct itimerval interval = {{0, 5000}, {0, 5000}};
    setitimer(ITIMER_REAL, &interval, NULL);
    while (hits < 5) pause();
    interval = (struct itimerval){0};
    setitimer(ITIMER_REAL, &interval, NULL);
    return 0;
}
static volatile int notified;
static void notify(union sigval value) { notified = value.sival_int; }
TEST(timer_threads_are_told) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notify};
    event.sigev_value.sival_int = 9;
    timer_t timer;
    CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
    struct itimerspec soon = {.it_value = {0, 1000000}};
    CHECK(!timer_settime(timer, 0, &soon, NULL));
    while (notified != 9) sleep_ms(2);
    return 0;
}
static volatile bool computing;
static void *compute(void *argument) {
    (void)argument;
    while (computing) hit_value++;
    return NULL;
}
TEST(handlers_run_while_a_thread_computes) {
    signal(SIGUSR1, hit);
    computing = true;
    pthread_t thread = start(compute, NULL);
    for (int round = 1; round <= 20; round++) {
        pthread_kill(thread, SIGUSR1);
        while (hits < round) sleep_ms(1);
    }
    computing = false;
    join(thread);
    return 0;
}

TEST(bad_pointers_are_efault) {
    void *bad = (void *)16;
    int ends[2];
    CHECK(!pipe(ends));
    CHECK(syscall(SYS_futex, bad, 0, 0, NULL, NULL, 0) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, bad, NULL, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, bad, NULL, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_nanosleep, bad, NULL) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_poll, bad, 1, 10) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_ppoll, bad, 1, NULL, NULL, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_select, 1, bad, NULL, NULL, NULL) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_sigaltstack, bad, NULL) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_rt_sigtimedwait, bad, NULL, NULL, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_clone3, bad, 88) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_write, ends[1], bad, 1) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_sendmsg, 0, bad, 0) == -1 && (errno == ENOTSOCK || errno == EFAULT));
    CHECK(syscall(SYS_openat, AT_FDCWD, bad, O_RDONLY) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_get_robust_list, 0, bad, bad) == -1 && errno == EFAULT);
    return 0;
}

TEST(nonblocking_flag_is_left_alone) {
    int ends[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    struct ticker ticker;
    ticker_start(&ticker);
    struct timeval limit = {0, 20000};
    CHECK(!setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    char byte;
    long begin = now_ms();
    CHECK(recv(ends[0], &byte, 1, 0) == -1 && errno == EAGAIN && now_ms() - begin >= 18);
    CHECK(!(fcntl(ends[0], F_GETFL) & O_NONBLOCK));
    CHECK(!fcntl(ends[0], F_SETFL, O_NONBLOCK));
    CHECK(read(ends[0], &byte, 1) == -1 && errno == EAGAIN);
    CHECK(!fcntl(ends[0], F_SETFL, 0));
    ticker_stop(&ticker);
    return 0;
}
TEST(copies_of_a_descriptor_share_the_flag) {
    int ends[2];
    CHECK(!pipe(ends));
    char byte;
    CHECK(!fcntl(ends[0], F_SETFL, O_NONBLOCK));
    int copy = dup(ends[0]);
    CHECK(read(copy, &byte, 1) == -1 && errno == EAGAIN);
    CHECK(!fcntl(copy, F_SETFL, 0));
    struct ticker ticker;
    ticker_start(&ticker);
    pid_t child = fork();
    if (!child) {
        sleep_ms(30);
        _exit(write(ends[1], "x", 1) != 1);
    }
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
    CHECK(ticker_stop(&ticker) > 0);
    CHECK(exit_status(child) == 0);
    return 0;
}
static int wait_a_little(void *argument) {
    sleep_ms(20);
    *(volatile int *)argument = 5;
    _exit(6);
}
TEST(a_process_may_use_our_memory) {
    static char stack[65536];
    static volatile int seen;
    int child = clone(wait_a_little, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)&seen);
    CHECK(child > 0);
    CHECK(join(start(give_seven, NULL)) == 7);
    CHECK(exit_status(child) == 6 && seen == 5);
    CHECK(join(start(give_seven, NULL)) == 7);
    return 0;
}
/* A system call of the program itself, outside libc, in a function with vector registers that are
 * alive across the call. */
struct birth {
    bool newer, vfork, stack;
    int (*life)(void);
};
static volatile double scale = 1.5;
static volatile int lives;
static long give_birth(const struct birth *birth, char *stack, size_t size) {
    uint64_t flags = CLONE_VM | (birth->vfork ? CLONE_VFORK : 0);
    uint64_t newer[8] = {flags, 0, 0, 0, SIGCHLD, birth->stack ? (uintptr_t)stack : 0, birth->stack ? size : 0, 0};
    uintptr_t first = birth->newer ? (uintptr_t)newer : flags | SIGCHLD;
    uintptr_t second = birth->newer ? sizeof newer : birth->stack ? (uintptr_t)(stack + size) : 0;
    double alive = scale * 2;
    long result = birth->newer ? SYS_clone3 : SYS_clone;
    __asm__ volatile(
        "xor %%r10d, %%r10d\n\txor %%r8d, %%r8d\n\tsyscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\t"
        "sub $512, %%rsp\n\tand $-16, %%rsp\n\tcall *%%rbx\n\tmov %%eax, %%edi\n\tmov $60, %%eax\n\tsyscall\n\thlt\n1:"
        : "+a"(result), "+x"(alive)
        : "D"(first), "S"(second), "d"(0L), "b"(birth->life)
        : "rcx", "r8", "r10", "r11", "memory");
    return alive == 3 ? result : -1;
}
static int exit_with_42(void) {
    lives++;
    return 42;
}
static int execute_a_program(void) {
    lives++;
    char *arguments[] = {"sh", "-c", "exit 42", NULL};
    execv("/bin/sh", arguments);
    return 1;
}
static int be_killed(void) {
    lives++;
    kill(getpid(), SIGKILL);
    return 1;
}
static void *give_births(void *unused) {
    static char stack[64 << 10] __attribute__((aligned(16)));
    int (*const all[])(void) = {exit_with_42, execute_a_program, be_killed};
    (void)unused;
    for (int which = 0; which < 3 * 8; which++) {
        struct birth birth = {which & 1, which & 2, which & 4, all[which / 8]};
        /* A program must not run two processes on one stack at once. */
        if (!birth.vfork && !birth.stack) continue;
        int before = lives, status;
        long child = give_birth(&birth, stack, sizeof stack);
        if (child <= 0 || waitpid(child, &status, 0) != child || lives != before + 1) return (void *)(which + 1L);
        bool right = birth.life == be_killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                             : WIFEXITED(status) && WEXITSTATUS(status) == 42;
        if (!right) return (void *)(which + 1L);
    }
    return NULL;
}
TEST(processes_in_our_memory_by_our_own_calls) {
    CHECK(!give_births(NULL));
    struct ticker ticker;
    ticker_start(&ticker);
    CHECK(!join(start(give_births, NULL)));
    ticker_wait(&ticker);
    ticker_stop(&ticker);
    return 0;
}
TEST(send_timeouts_are_honoured) {
    int ends[2];
    static char bytes[1 << 20];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    struct timeval limit = {0, 20000};
    CHECK(!setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    ssize_t sent = send(ends[0], bytes, sizeof bytes, 0);
    CHECK(sent > 0 && sent < (ssize_t)sizeof bytes);
    CHECK(send(ends[0], bytes, sizeof bytes, 0) == -1 && errno == EAGAIN);
    return 0;
}
struct transfer {
    int number;
    bool vector;
};
enum { LARGE = 1 << 22 };
static void *write_large(void *argument) {
    struct transfer *transfer = argument;
    char *bytes = malloc(LARGE);
    for (int index = 0; index < LARGE; index++) bytes[index] = (char)(index * 7 >> 8);
    struct iovec parts[3] = {{bytes, 1000}, {bytes + 1000, LARGE / 2}, {bytes + 1000 + LARGE / 2, LARGE / 2 - 1000}};
    long result = transfer->vector ? writev(transfer->number, parts, 3) : write(transfer->number, bytes, LARGE);
    free(bytes);
    return (void *)result;
}
static int large(int ends[2], bool vector) {
    struct transfer transfer = {ends[1], vector};
    pthread_t thread = start(write_large, &transfer);
    static char bytes[70000];
    for (long done = 0; done < LARGE;) {
        ssize_t count = read(ends[0], bytes, sizeof bytes);
        CHECK(count > 0);
        for (long index = 0; index < count; index++) CHECK(bytes[index] == (char)((done + index) * 7 >> 8));
        done += count;
    }
    CHECK(join(thread) == LARGE);
    return 0;
}
static int large_by(bool socket, bool vector) {
    int ends[2];
    CHECK(!(socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)));
    return large(ends, vector);
}
TEST(large_write_pipe) { return large_by(false, false); }
TEST(large_write_socket) { return large_by(true, false); }
TEST(large_writev_pipe) { return large_by(false, true); }
TEST(large_writev_socket) { return large_by(true, true); }

static void *waitall(void *argument) {
    static char bytes[1000];
    return (void *)recv(*(int *)argument, bytes, sizeof bytes, MSG_WAITALL);
}
TEST(waitall_waits_for_all) {
    int ends[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pthread_t thread = start(waitall, &ends[0]);
    char bytes[100] = {0};
    for (int part = 0; part < 10; part++) {
        CHECK(write(ends[1], bytes, 100) == 100);
        sleep_ms(2);
    }
    CHECK(join(thread) == 1000);
    return 0;
}
static void *send_file(void *argument) {
    int *numbers = argument;
    return (void *)sendfile(numbers[0], numbers[1], NULL, LARGE);
}
TEST(sendfile_to_a_slow_reader) {
    int ends[2];
    FILE *file = tmpfile();
    CHECK(!ftruncate(fileno(file), LARGE));
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    int numbers[2] = {ends[1], fileno(file)};
    pthread_t thread = start(send_file, numbers);
    static char bytes[50000];
    long done = 0;
    while (done < LARGE) {
        ssize_t count = read(ends[0], bytes, sizeof bytes);
        CHECK(count > 0);
        done += count;
    }
    CHECK(join(thread) == LARGE);
    return 0;
}
TEST(descriptors_are_passed_on) {
    int ends[2], pipe_ends[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends) && !pipe(pipe_ends));
    char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(control), &pipe_ends[0], sizeof(int));
    CHECK(sendmsg(ends[0], &header, 0) == 1);
    close(pipe_ends[0]);
    CHECK(recvmsg(ends[1], &header, 0) == 1);
    int received;
    memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(int));
    struct ticker ticker;
    ticker_start(&ticker);
    CHECK(write(pipe_ends[1], "y", 1) == 1 && read(received, &byte, 1) == 1 && byte == 'y');
    ticker_stop(&ticker);
    return 0;
}
TEST(numbers_are_used_again) {
    struct ticker ticker;
    ticker_start(&ticker);
    for (int round = 0; round < 300; round++) {
        int ends[2];
        char byte = (char)round;
        CHECK(!(round % 2 ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)));
        struct pollfd poll_one = {ends[0], POLLIN, 0};
        CHECK(poll(&poll_one, 1, 0) == 0);
        CHECK(write(ends[1], &byte, 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == (char)round);
        close(ends[0]);
        close(ends[1]);
    }
    ticker_stop(&ticker);
    return 0;
}
TEST(descriptors_run_out_as_natively) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
    int last = -1, number;
    while ((number = dup(0)) >= 0) last = number;
    CHECK(errno == EMFILE && last == 63);
    return 0;
}
TEST(closing_all_leaves_the_engine) {
    closefrom(3);
    for (int number = 3; number < 30000; number++) close(number);
    struct ticker ticker;
    ticker_start(&ticker);
    ticker_wait(&ticker);
    ticker_stop(&ticker);
    return 0;
}
static int listen_on_loopback(struct sockaddr_in *address) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t length = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)address, length) || listen(listener, 100)) abort();
    getsockname(listener, (void *)address, &length);
    return listener;
}
static void *connect_to(void *argument) {
    int number = socket(AF_INET, SOCK_STREAM, 0);
    long error = connect(number, argument, sizeof(struct sockaddr_in)) ? errno : 0;
    char byte = 0;
    if (!error && (read(number, &byte, 1) != 1 || byte != 'k')) error = EPROTO;
    if (fcntl(number, F_GETFL) & O_NONBLOCK) error = EPROTO;
    close(number);
    return (void *)error;
}
TEST(tcp_connections) {
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address);
    pthread_t threads[50];
    for (int index = 0; index < 50; index++) threads[index] = start(connect_to, &address);
    for (int index = 0; index < 50; index++) {
        int number = accept(listener, NULL, NULL);
        CHECK(number >= 0 && write(number, "k", 1) == 1);
        close(number);
    }
    for (int index = 0; index < 50; index++) CHECK(join(threads[index]) == 0);
    close(listener);
    CHECK(join(start(connect_to, &address)) == ECONNREFUSED);
    return 0;
}
static void *accept_one(void *argument) {
    int number = accept(*(int *)argument, NULL, NULL);
    char byte;
    long got = read(number, &byte, 1);
    close(number);
    return (void *)got;
}
TEST(many_threads_accept) {
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address);
    pthread_t threads[50];
    for (int index = 0; index < 50; index++) threads[index] = start(accept_one, &listener);
    sleep_ms(10);
    int numbers[50];
    for (int index = 0; index < 50; index++) {
        numbers[index] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(!connect(numbers[index], (void *)&address, sizeof address));
    }
    for (int index = 0; index < 50; index++) CHECK(write(numbers[index], "x", 1) == 1);
    for (int index = 0; index < 50; index++) CHECK(join(threads[index]) == 1);
    return 0;
}
TEST(names_are_resolved) {
    struct ticker ticker;
    ticker_start(&ticker);
    struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM};
    CHECK(!getaddrinfo("localhost", "80", &hints, &found));
    freeaddrinfo(found);
    ticker_stop(&ticker);
    return 0;
}
TEST(processes_share_locks) {
    pthread_mutex_t *lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_t *semaphore = (sem_t *)((char *)lock + 1024);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(lock, &attributes);
    sem_init(semaphore, 1, 0);
    struct ticker ticker;
    ticker_start(&ticker);
    pid_t child = fork();
    if (!child) {
        pthread_mutex_lock(lock);
        sem_post(semaphore);
        sleep_ms(40);
        pthread_mutex_unlock(lock);
        _exit(0);
    }
    CHECK(!sem_wait(semaphore));
    CHECK(!pthread_mutex_lock(lock));
    CHECK(ticker_stop(&ticker) > 0);
    CHECK(exit_status(child) == 0);
    return 0;
}
static FILE *stream;
static void *print_lines(void *argument) {
    for (int line = 0; line < 200; line++) fprintf(stream, "%ld %d\n", (long)argument, line);
    fflush(stream);
    return NULL;
}
TEST(a_closed_name_is_forgotten) {
    struct ticker ticker;
    ticker_start(&ticker);
    char path[64], byte = 0;
    int ends[2];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", ticker_id(&ticker));
    int number = open(path, O_WRONLY);
    CHECK(number >= 0 && !close(number));
    /* The number is used again, for a pipe. */
    CHECK(!pipe(ends) && (ends[0] == number || ends[1] == number));
    CHECK(write(ends[1], "z", 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'z');
    ticker_stop(&ticker);
    return 0;
}
TEST(stdio_is_locked) {
    int ends[2];
    CHECK(!pipe(ends));
    stream = fdopen(ends[1], "w");
    pthread_t threads[5];
    for (long index = 0; index < 5; index++) threads[index] = start(print_lines, (void *)index);
    FILE *reader = fdopen(ends[0], "r");
    int next[5] = {0}, index, line;
    for (int count = 0; count < 1000; count++) {
        CHECK(fscanf(reader, "%d %d", &index, &line) == 2 && next[index] == line);
        next[index]++;
    }
    for (int thread = 0; thread < 5; thread++) join(threads[thread]);
    return 0;
}
TEST(libraries_are_loaded_later) {
    void *library = dlopen("librt.so.1", RTLD_NOW);
    void *other = dlopen("libanl.so.1", RTLD_NOW);
    CHECK(library && other);
    dlclose(other);
    return 0;
}
static volatile bool user_changed;
static void *sleep_and_tell_user(void *argument) {
    (void)argument;
    while (!user_changed) sleep_ms(5);
    return (void *)(long)geteuid();
}
TEST(users_change_for_all_threads) {
    if (getuid()) return 0;
    pthread_t threads[10];
    for (int index = 0; index < 10; index++) threads[index] = start(sleep_and_tell_user, NULL);
    sleep_ms(5);
    CHECK(!seteuid(1000) && geteuid() == 1000);
    user_changed = true;
    for (int index = 0; index < 10; index++) CHECK(join(threads[index]) == 1000);
    CHECK(!seteuid(0));
    return 0;
}
TEST(exec_replaces_the_program) {
    pid_t child = fork();
    if (!child) {
        start(sleep_and_tell_user, NULL);
        execl("/bin/sh", "sh", "-c", "exit 6", NULL);
        _exit(1);
    }
    CHECK(exit_status(child) == 6);
    CHECK(execl("/no/such/program", "x", NULL) == -1 && errno == ENOENT);
    CHECK(join(start(give_seven, NULL)) == 7);
    return 0;
}
TEST(daemon_goes_on) {
    int ends[2];
    CHECK(!pipe(ends));
    pid_t child = fork();
    if (!child) {
        if (daemon(1, 1)) _exit(1);
        long seven = join(start(give_seven, NULL));
        sleep_ms(5);
        _exit(write(ends[1], seven == 7 ? "k" : "n", 1) != 1);
    }
    char byte = 0;
    CHECK(exit_status(child) == 0);
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'k');
    return 0;
}

/* Many processes accept from one socket: a connection wakes one of them. */
TEST(a_connection_wakes_one_process) {
    enum { PROCESSES = 20, CONNECTIONS = 100, SWITCHES = 8 };
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = sizeof(sa_family_t) + snprintf(address.sun_path + 1, 40, "torture.%d", getpid()) + 1;
    CHECK(!bind(server, (struct sockaddr *)&address, length) && !listen(server, 10));
    pid_t children[PROCESSES];
    for (int index = 0; index < PROCESSES; index++) {
        children[index] = fork();
        while (!children[index]) {
            int client = accept(server, NULL, NULL);
            char byte;
            if (client < 0 || read(client, &byte, 1) != 1) _exit(1);
            if (byte == 'e') _exit(0);
            if (write(client, "y", 1) != 1 || close(client)) _exit(1);
        }
    }
    for (int count = 0; count < CONNECTIONS + PROCESSES; count++) {
        int client = socket(AF_UNIX, SOCK_STREAM, 0);
        char byte = count < CONNECTIONS ? 'x' : 'e';
        CHECK(!connect(client, (struct sockaddr *)&address, length) && write(client, &byte, 1) == 1);
        CHECK(byte == 'e' || read(client, &byte, 1) == 1);
        close(client);
    }
    for (int index = 0; index < PROCESSES; index++) {
        int status;
        CHECK(waitpid(children[index], &status, 0) == children[index] && !status);
    }
    struct rusage usage;
    CHECK(!getrusage(RUSAGE_CHILDREN, &usage));
    printf("%ld switches\n", usage.ru_nvcsw);
    CHECK(usage.ru_nvcsw < CONNECTIONS * SWITCHES);
    return 0;
}

static void end_well(int number) {
    (void)number;
    _exit(0);
}

/* A signal that comes while the child begins is the child's, and not one of its parent's. */
TEST(signals_right_after_fork_reach_the_child) {
    struct sigaction action = {.sa_handler = end_well};
    CHECK(!sigaction(SIGUSR1, &action, NULL));
    for (int round = 0; round < 200; round++) {
        int status;
        pid_t child = fork();
        if (!child) {
            alarm(10);
            for (;;) pause();
        }
        CHECK(child > 0 && !kill(child, SIGUSR1));
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return 0;
}
