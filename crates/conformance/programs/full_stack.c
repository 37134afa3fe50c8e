// Threads compute with 600 bytes left of their stacks until each has seen the others do so. On one
// kernel thread this ends only if ticks interrupt them there.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { THREADS = 3, LEFT = 600, SIZE = 65536 };

static volatile int arrived[THREADS];
static unsigned char *stacks[THREADS];

static void *compute(void *number) {
    unsigned char *low = stacks[(intptr_t)number];
    __asm__ volatile("mov %%rsp, %%rbx\n mov %0, %%rsp\n"
                     "movl $1, (%1)\n"
                     "1: cmpl $0, (%2)\n je 1b\n cmpl $0, 4(%2)\n je 1b\n"
                     "cmpl $0, 8(%2)\n je 1b\n"
                     "mov %%rbx, %%rsp\n"
                     :
                     : "r"(low + LEFT), "r"(&arrived[(intptr_t)number]), "r"(arrived)
                     : "rbx", "memory");
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (intptr_t number = 0; number < THREADS; number++) {
        // A page that cannot be accessed ends the stack.
        unsigned char *memory = mmap(NULL, SIZE + 4096, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(memory, 4096, PROT_NONE);
        stacks[number] = memory + 4096;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stacks[number], SIZE);
        pthread_create(&threads[number], &attributes, compute, (void *)number);
    }
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    puts("right");
    return 0;
}
