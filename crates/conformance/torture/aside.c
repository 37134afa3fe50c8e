/* Tests system calls that a program makes while its stack pointer is in memory of its own, as
 * runtimes with fibers do. The memory beneath the stack pointer may be anything of the program's. */
#include "test.h"

enum { SIZE = 32768, TOP = 24576, RETURN_ADDRESS = 8 };

/* libc's `syscall`, with `top` as the stack pointer. Returns -1 for an error. */
static long call_on(char *top, long number, long first, long second, long third) {
    long result;
    register long sixth asm("r9") = 0;
    register long fifth asm("r8") = 0;
    register char *stack asm("r12") = top;
    register long (*function)(long, ...) asm("r13") = syscall;
    asm volatile("mov %%rsp, %%rbx\n mov %[stack], %%rsp\n call *%[function]\n mov %%rbx, %%rsp"
                 : "=a"(result), "+D"(number), "+S"(first), "+d"(second), "+c"(third), "+r"(fifth), "+r"(sixth)
                 : [stack] "r"(stack), [function] "r"(function)
                 : "rbx", "r10", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
                   "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    return result;
}

static char *block(void) { return memset(aligned_alloc(64, SIZE), 0x5a, SIZE); }
static int changed(const char *block) {
    int count = 0;
    for (int at = 0; at < SIZE; at++) count += (at < TOP - RETURN_ADDRESS || at >= TOP) && block[at] != 0x5a;
    return count;
}

static volatile int handled;
static volatile bool unbroken = true;
static void handle(int number) {
    (void)number;
    unbroken &= getppid() > 0;
    usleep(100);
    handled++;
}
static void use_alternate_stack(void) {
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
}
static void handle_on_alternate_stack(int flags) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK | flags};
    sigaction(SIGUSR1, &action, NULL);
}

static struct pair {
    int ends[2];
    pthread_t reader;
    volatile int *signals;
} pair;
static void *signal_and_write(void *argument) {
    for (int round = 0; round < 20; round++) {
        pthread_kill(pair.reader, SIGUSR1);
        sleep_ms(1);
    }
    while (write(pair.ends[1], "x", 1) != 1) {
    }
    return argument;
}

static void *wait_on_a_block(void *argument) {
    char *memory = block(), byte;
    struct timespec moment = {0, 2000000};
    use_alternate_stack();
    for (int round = 0; round < 50; round++) {
        if (call_on(memory + TOP, SYS_getppid, 0, 0, 0) != getppid()) return (void *)1;
        if (call_on(memory + TOP, SYS_gettid, 0, 0, 0) != gettid()) return (void *)2;
        if (call_on(memory + TOP, SYS_sched_yield, 0, 0, 0)) return (void *)3;
    }
    if (call_on(memory + TOP, SYS_nanosleep, (long)&moment, 0, 0) && errno != EINTR) return (void *)4;
    if (changed(memory)) return (void *)5;
    /* It waits, and handlers come in the meantime. */
    handle_on_alternate_stack(SA_RESTART);
    pair.reader = pthread_self();
    if (pipe(pair.ends)) return (void *)6;
    pthread_t other = start(signal_and_write, NULL);
    if (call_on(memory + TOP, SYS_read, pair.ends[0], (long)&byte, 1) != 1 || byte != 'x') return (void *)7;
    join(other);
    if (changed(memory)) return (void *)8;
    handle_on_alternate_stack(0);
    other = start(signal_and_write, NULL);
    long got;
    int interrupted = 0;
    while ((got = call_on(memory + TOP, SYS_read, pair.ends[0], (long)&byte, 1)) < 0) interrupted += errno == EINTR;
    join(other);
    if (got != 1 || !interrupted || !handled || !unbroken) return (void *)9;
    /* An error, a call that a helper makes, a child. */
    if (call_on(memory + TOP, SYS_read, -1, (long)&byte, 1) != -1 || errno != EBADF) return (void *)10;
    if (call_on(memory + TOP, SYS_fsync, pair.ends[0], 0, 0) != -1 || errno != EINVAL) return (void *)11;
    pid_t child = call_on(memory + TOP, SYS_fork, 0, 0, 0);
    if (!child) {
        for (int round = 0; round < 10; round++) call_on(memory + TOP, SYS_sched_yield, 0, 0, 0);
        join(start(ticker_loop, &(struct ticker){.stop = true}));
        call_on(memory + TOP, SYS_exit_group, changed(memory), 0, 0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status) return (void *)12;
    if (changed(memory)) return (void *)13;
    free(memory);
    return argument;
}

TEST(calls_leave_memory_beneath_a_strange_stack_pointer) {
    struct ticker ticker;
    ticker_start(&ticker);
    CHECK(join(start(wait_on_a_block, NULL)) == 0);
    handled = 0;
    CHECK(wait_on_a_block(NULL) == NULL);
    ticker_stop(&ticker);
    return 0;
}

/* Several threads call so at once, and are interrupted all the time. */
static void *call_often(void *argument) {
    char *memory = block();
    int end = 0;
    use_alternate_stack();
    for (int round = 0; round < 3000 && !end; round++) {
        long id = call_on(memory + TOP, round % 3 ? SYS_gettid : SYS_sched_yield, 0, 0, 0);
        end = round % 3 ? id != gettid() : id != 0;
    }
    return (void *)(long)(end || changed(memory) ? 1 : !argument);
}
TEST(calls_from_strange_stacks_under_signals) {
    pthread_t threads[4];
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    handle_on_alternate_stack(SA_RESTART);
    signal(SIGALRM, SIG_IGN);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK | SA_RESTART};
    use_alternate_stack();
    sigaction(SIGALRM, &action, NULL);
    for (int index = 0; index < 4; index++) threads[index] = start(call_often, threads);
    CHECK(!setitimer(ITIMER_REAL, &often, NULL));
    for (int round = 0; round < 200; round++) pthread_kill(threads[round % 4], SIGUSR1) ? 0 : sched_yield();
    int failed = 0;
    for (int index = 0; index < 4; index++) failed += join(threads[index]) != 0;
    CHECK(!setitimer(ITIMER_REAL, &never, NULL));
    CHECK(!failed && unbroken && handled > 0);
    return 0;
}
