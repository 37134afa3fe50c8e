// Points the stack pointer into the heap, as compiled code of Erlang and OCaml 5 does. Checks that
// nothing writes beneath it. With the argument "signals", signals with a handler on an
// alternate stack come meanwhile. Both the main thread and a second thread do so in turn, while a
// third computes.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { SIZE = 16384, TOP = 12288, PATTERN = 0x5a };

static volatile int stop;
static volatile sig_atomic_t handled;

static void *compute(void *unused) {
    (void)unused;
    while (!stop)
        ;
    return NULL;
}

static void count(int number) {
    (void)number;
    handled++;
}

static void *borrow_the_stack_pointer(void *wrong) {
    static char alternate[2][65536];
    static int users;
    stack_t stack = {.ss_sp = alternate[users++], .ss_size = sizeof alternate[0]};
    sigaltstack(&stack, NULL);
    unsigned char *block = aligned_alloc(64, SIZE);
    memset(block, PATTERN, SIZE);
    unsigned long rounds = 400000000;
    __asm__ volatile("mov %%rsp, %%rbx\n mov %1, %%rsp\n"
                     "1: dec %0\n jnz 1b\n"
                     "mov %%rbx, %%rsp\n"
                     : "+r"(rounds)
                     : "r"(block + TOP)
                     : "rbx", "memory");
    for (int at = 0; at < SIZE; at++)
        *(int *)wrong += block[at] != PATTERN;
    return NULL;
}

int main(int arguments, char **argument) {
    int signals = arguments > 1 && !strcmp(argument[1], "signals");
    if (signals) {
        struct sigaction action = {.sa_handler = count, .sa_flags = SA_ONSTACK | SA_RESTART};
        sigaction(SIGALRM, &action, NULL);
        struct itimerval often = {{0, 2000}, {0, 2000}};
        setitimer(ITIMER_REAL, &often, NULL);
    }
    pthread_t beside, second;
    int wrong = 0;
    pthread_create(&beside, NULL, compute, NULL);
    borrow_the_stack_pointer(&wrong);
    pthread_create(&second, NULL, borrow_the_stack_pointer, &wrong);
    pthread_join(second, NULL);
    stop = 1;
    pthread_join(beside, NULL);
    printf("%d bytes were overwritten%s\n", wrong, signals && !handled ? ", no signal came" : "");
    return wrong != 0 || (signals && !handled);
}
