/* Where a program meets limits of its own making: timers without a pause, tiny stacks for handlers, words that it moves. */
#include "test.h"
#include <sys/prctl.h>

/* A thread may have the kernel clear another word when it ends, and put the old one back: stress-ng does. Without an
 * emulated PR_GET_TID_ADDRESS, it gets the word of the main thread, and the join never ends. */
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

/* A timer that is due again before its signal has been dealt with. Without a storm's end in the engine
 * (`signals::endure`), the engine is interrupted for ever. */
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

static void *on_small_stack(void *argument) {
    static _Thread_local char place[16 << 10];
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

/* Ticks while handlers run on stacks that hold one frame and little else: the engine's own frame has no room there. */
TEST(handlers_compute_on_tiny_stacks) {
    struct sigaction action = {.sa_handler = compute_in_handler, .sa_flags = SA_ONSTACK};
    pthread_t threads[4];
    now_ms(); /* To bind the function later needs room, too. */
    CHECK(!sigaction(SIGUSR1, &action, NULL));
    for (int index = 0; index < 4; index++) threads[index] = start(on_small_stack, NULL);
    for (int index = 0; index < 4; index++) CHECK(join(threads[index]) == 0);
    return 0;
}

static volatile uintptr_t lowest = UINTPTR_MAX;

static void note_depth(int number) {
    uintptr_t here = (uintptr_t)&number;
    if (here < lowest) lowest = here;
    count_expiration(number);
}

/* Handlers that follow each other without a pause begin at the same place of the stack, as natively. */
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
