/* A program may define any names, also names of the runtime.
 * Runtime: product */
#include "test.h"
int self = 1, behalf = 2, root = 3, loops = 4, core_count = 5;
NOINLINE int now(int value) { return WAIT(), value + self; }
NOINLINE int leave(int value) { return WAIT(), value + behalf; }
NOINLINE int suspend(int value) { return WAIT(), value + root; }
NOINLINE int complete(int value) { return WAIT(), value + loops; }
NOINLINE int trampoline(int value) { return WAIT(), value + core_count; }
NOINLINE int engine(int value) { return WAIT(), value * 2; }
void *start(void *argument) { return (void *)(long)engine(trampoline(complete(suspend(leave(now((int)(long)argument)))))); }
int main(void) { printf("%ld\n", (long)run(start, (void *)10)); }
