/* Tests system calls that libc does not wrap, or that a program makes by itself. */
#include "test.h"
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>

static long futex(uint32_t *word, int operation, uint32_t value, long argument, uint32_t *other, uint32_t last) {
    return syscall(SYS_futex, word, operation, value, argument, other, last);
}

static uint32_t first, second;
static volatile int woken;

static void *wait_on_first(void *argument) {
    (void)argument;
    while (futex(&first, FUTEX_WAIT_PRIVATE, 0, 0, NULL, 0) && errno == EINTR) {
    }
    __sync_fetch_and_add(&woken, 1);
    return NULL;
}

static void wait_until(volatile int *number, int wanted) {
    while (*number < wanted) sleep_ms(1);
}

TEST(futex_wakes_so_many) {
    pthread_t threads[5];
    for (int index = 0; index < 5; index++) threads[index] = start(wait_on_first, NULL);
    sleep_ms(30);
    CHECK(futex(&first, FUTEX_WAKE_PRIVATE, 2, 0, NULL, 0) == 2);
    wait_until(&woken, 2);
    sleep_ms(5);
    CHECK(woken == 2);
    CHECK(futex(&first, FUTEX_WAKE_PRIVATE, 100, 0, NULL, 0) == 3);
    for (int index = 0; index < 5; index++) join(threads[index]);
    CHECK(futex(&first, FUTEX_WAKE_PRIVATE, 1, 0, NULL, 0) == 0);
    CHECK(futex(&first, FUTEX_WAIT_PRIVATE, 1, 0, NULL, 0) == -1 && errno == EAGAIN);
    return 0;
}

TEST(futex_requeues) {
    pthread_t threads[5];
    for (int index = 0; index < 5; index++) threads[index] = start(wait_on_first, NULL);
    sleep_ms(30);
    CHECK(futex(&first, FUTEX_CMP_REQUEUE_PRIVATE, 1, 2, &second, 9) == -1 && errno == EAGAIN);
    CHECK(futex(&first, FUTEX_CMP_REQUEUE_PRIVATE, 1, 2, &second, 0) == 3);
    wait_until(&woken, 1);
    CHECK(futex(&second, FUTEX_WAKE_PRIVATE, 100, 0, NULL, 0) == 2);
    CHECK(futex(&first, FUTEX_WAKE_PRIVATE, 100, 0, NULL, 0) == 2);
    for (int index = 0; index < 5; index++) join(threads[index]);
    return 0;
}

TEST(futex_wake_op_changes_the_second_word) {
    pthread_t thread = start(wait_on_first, NULL);
    sleep_ms(20);
    second = 5;
    uint32_t operation = FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_EQ, 5);
    CHECK(futex(&first, FUTEX_WAKE_OP_PRIVATE, 1, 1, &second, operation) == 1);
    CHECK(second == 8);
    join(thread);
    return 0;
}

static void *wait_for_bit_two(void *argument) {
    (void)argument;
    long result = futex(&first, FUTEX_WAIT_BITSET_PRIVATE, 0, 0, NULL, 2);
    __sync_fetch_and_add(&woken, 1);
    return (void *)result;
}

TEST(futex_bits_choose) {
    pthread_t thread = start(wait_for_bit_two, NULL);
    sleep_ms(20);
    CHECK(futex(&first, FUTEX_WAKE_BITSET_PRIVATE, 1, 0, NULL, 1) == 0);
    CHECK(futex(&first, FUTEX_WAKE_BITSET_PRIVATE, 1, 0, NULL, 6) == 1);
    CHECK(join(thread) == 0);
    CHECK(futex(&first, FUTEX_WAIT_BITSET_PRIVATE, 0, 0, NULL, 0) == -1 && errno == EINVAL);
    return 0;
}

TEST(futex_times_out) {
    struct timespec soon = {0, 20000000}, wrong = {0, 2000000000};
    long begin = now_ms();
    CHECK(futex(&first, FUTEX_WAIT_PRIVATE, 0, (long)&soon, NULL, 0) == -1 && errno == ETIMEDOUT);
    CHECK(now_ms() - begin >= 18);
    CHECK(futex(&first, FUTEX_WAIT_PRIVATE, 0, (long)&wrong, NULL, 0) == -1 && errno == EINVAL);
    soon = from_now(CLOCK_REALTIME, 20);
    CHECK(futex(&first, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, (long)&soon, NULL, 1) == -1 && errno == ETIMEDOUT);
    return 0;
}

/* A ring with one read of a pipe under way. If the kernel forbids rings, the test waits only for
 * the pipe. */
struct ring {
    int ring, in, out;
};

static int make_ring(struct ring *ring, uint32_t flags) {
    static char byte;
    struct io_uring_params parameters = {.flags = flags};
    int ends[2];
    if (pipe(ends)) return 1;
    *ring = (struct ring){-1, ends[0], ends[1]};
    int number = syscall(SYS_io_uring_setup, 4, &parameters);
    if (number < 0) return 0;
    if (parameters.flags != flags) return 1;
    size_t size = parameters.sq_off.array + parameters.sq_entries * sizeof(uint32_t);
    char *queue = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, number, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entries =
        mmap(NULL, 4 * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, number, IORING_OFF_SQES);
    if (queue == MAP_FAILED || entries == MAP_FAILED) return 1;
    memset(entries, 0, sizeof *entries);
    entries->opcode = IORING_OP_READ;
    entries->fd = ends[0];
    entries->addr = (uintptr_t)&byte;
    entries->len = 1;
    entries->off = -1;
    *(uint32_t *)(queue + parameters.sq_off.array) = 0;
    __atomic_store_n((uint32_t *)(queue + parameters.sq_off.tail), 1, __ATOMIC_RELEASE);
    ring->ring = number;
    return syscall(SYS_io_uring_enter, number, 1, 0, 0, NULL, 8) != 1;
}

static void *wait_for_ring(void *argument) {
    struct ring *ring = argument;
    char byte;
    if (ring->ring < 0) return (void *)(read(ring->in, &byte, 1) - 1);
    return (void *)syscall(SYS_io_uring_enter, ring->ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 8);
}

static void *write_late(void *argument) {
    sleep_ms(30);
    return (void *)(write(*(int *)argument, "x", 1) - 1);
}

static int others_go_on_with(uint32_t flags) {
    struct ring ring;
    struct ticker ticker;
    CHECK(!make_ring(&ring, flags));
    pthread_t thread = start(wait_for_ring, &ring);
    ticker_start(&ticker);
    ticker_wait(&ticker);
    ticker_stop(&ticker);
    CHECK(write(ring.out, "x", 1) == 1);
    CHECK(join(thread) == 0);
    return 0;
}

TEST(others_go_on_while_a_ring_is_waited_for) { return others_go_on_with(0); }

/* The kernel would post the completion when the thread enters the kernel. On the engine, the thread
 * sleeps in epoll. */
TEST(a_ring_may_post_when_it_is_entered) {
    enum { COOP_TASKRUN = 1 << 8, TASKRUN_FLAG = 1 << 9 };
    return others_go_on_with(COOP_TASKRUN | TASKRUN_FLAG);
}

/* A ring of one kernel thread. On the engine, the thread that submits and the thread that waits may
 * differ. */
static void *use_ring_of_its_own(void *argument) {
    enum { SINGLE_ISSUER = 1 << 12, DEFER_TASKRUN = 1 << 13 };
    struct ring ring;
    (void)argument;
    if (make_ring(&ring, SINGLE_ISSUER | DEFER_TASKRUN)) return (void *)1;
    pthread_t writer = start(write_late, &ring.out);
    long result = (long)wait_for_ring(&ring);
    join(writer);
    return (void *)result;
}

TEST(a_ring_may_belong_to_one_thread) {
    CHECK(join(start(use_ring_of_its_own, NULL)) == 0);
    return 0;
}

static void *get_events(void *argument) {
    struct io_event event;
    (void)argument;
    return (void *)syscall(SYS_io_getevents, *(aio_context_t *)argument, 1, 1, &event, NULL);
}

TEST(others_go_on_while_files_are_waited_for) {
    static char block[512];
    aio_context_t context = 0;
    struct ticker ticker;
    CHECK(!syscall(SYS_io_setup, 4, &context));
    pthread_t thread = start(get_events, &context);
    ticker_start(&ticker);
    ticker_wait(&ticker);
    ticker_stop(&ticker);
    FILE *file = tmpfile();
    struct iocb request = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = fileno(file), .aio_buf = (uintptr_t)block, .aio_nbytes = 512};
    struct iocb *requests[] = {&request};
    CHECK(syscall(SYS_io_submit, context, 1, requests) == 1);
    CHECK(join(thread) == 1);
    return 0;
}

/* A system call in the program's own code, with values in vector registers across it. */
static double read_between(int number, double left, double right, long *result) {
    char byte;
    long count;
    double product;
    __asm__ volatile(
        "movsd %[left], %%xmm7\n"
        "movsd %[right], %%xmm14\n"
        "xor %%eax, %%eax\n"
        "syscall\n"
        "mulsd %%xmm14, %%xmm7\n"
        "movsd %%xmm7, %[product]\n"
        : "=a"(count), [product] "=m"(product)
        : "D"((long)number), "S"(&byte), "d"(1L), [left] "m"(left), [right] "m"(right)
        : "rcx", "r11", "xmm7", "xmm14", "memory");
    *result = count;
    return product;
}

static void *multiply(void *argument) {
    long count, wrong = 0;
    for (int round = 1; round <= 200; round++) {
        double product = read_between(*(int *)argument, round, 3, &count);
        wrong += count != 1 || product != round * 3.0;
    }
    return (void *)wrong;
}

TEST(own_system_calls_keep_vector_registers) {
    int ends[2];
    CHECK(!pipe(ends));
    pthread_t threads[4];
    for (int index = 0; index < 4; index++) threads[index] = start(multiply, &ends[0]);
    for (int round = 0; round < 800; round++) {
        CHECK(write(ends[1], "x", 1) == 1);
        if (round % 7 == 0) sched_yield();
    }
    for (int index = 0; index < 4; index++) CHECK(join(threads[index]) == 0);
    return 0;
}

TEST(unknown_calls_are_enosys) {
    CHECK(syscall(4095) == -1 && errno == ENOSYS);
    CHECK(syscall(500) == -1 && errno == ENOSYS);
    CHECK(syscall(-1) == -1 && errno == ENOSYS);
    return 0;
}

static unsigned word_of_wait;
static void *wait_as_shared(void *argument) {
    struct timespec time = {20, 0};
    long result = syscall(SYS_futex, &word_of_wait, FUTEX_WAIT, 0, &time);
    return (void *)(result + (argument != NULL));
}
/* A wait that does not say that its word is private is not met by a wake that does. */
TEST(futex_wakes_meet_waits_of_their_kind) {
    pthread_t thread = start(wait_as_shared, NULL);
    long woken = 0;
    for (int index = 0; index < 20; index++) {
        sleep_ms(1);
        woken += syscall(SYS_futex, &word_of_wait, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
    }
    CHECK(woken == 0);
    while (syscall(SYS_futex, &word_of_wait, FUTEX_WAKE, 1) == 0) sleep_ms(1);
    CHECK(join(thread) == 0);
    return 0;
}

static pid_t awaiting;
static void *send_ignored(void *argument) {
    for (int index = 0; index < 20; index++) {
        sleep_ms(1);
        syscall(SYS_tgkill, getpid(), awaiting, SIGUSR1);
    }
    return argument;
}
/* A signal that is ignored and not blocked is dropped, even if a thread awaits it. */
TEST(an_ignored_signal_is_not_awaited) {
    sigset_t set;
    struct timespec time = {0, 60000000};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    signal(SIGUSR1, SIG_IGN);
    awaiting = gettid();
    pthread_t thread = start(send_ignored, NULL);
    CHECK(sigtimedwait(&set, NULL, &time) < 0 && errno == EAGAIN);
    join(thread);
    return 0;
}
