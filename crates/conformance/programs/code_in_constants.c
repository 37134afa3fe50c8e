// A program that writes code at run time, and keeps the instructions as constants: copies them into
// memory of its own and calls them.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// nop …; mov $39,%eax; syscall; ret
static const unsigned char template[] __attribute__((aligned(16))) = {
    0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0xc3,
};

int main(void) {
    const int writable = PROT_READ | PROT_WRITE;
    void *code = mmap(NULL, 4096, writable, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const unsigned char *from = template;
    __asm__("" : "+r"(from));
    memcpy(code, from, sizeof template);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    int called = ((int (*)(void))code)();
    puts(called == getpid() ? "right" : "wrong");
    return called != getpid();
}
