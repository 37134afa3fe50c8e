/* Hard case: code with clean-up for exceptions, which runs on a side stack; also attribute cleanup
 * without exceptions.
 * Flags: -fexceptions */
#include "test.h"
static int cleaned;
static void clean(int *value) { cleaned += *value; }
static NOINLINE int blocks(int value) { return WAIT(), value; }
static NOINLINE int scoped(int value) {
    int own __attribute__((cleanup(clean))) = value;
    blocks(1);
    return blocks(own) + 1;
}
static NOINLINE int pushes(int value) {
    int result;
    pthread_cleanup_push((void (*)(void *))clean, &value);
    result = blocks(value);
    pthread_cleanup_pop(1);
    return result;
}
static void *start(void *argument) { return (void *)(long)(scoped((int)(long)argument) + pushes(3)); }
int main(void) { printf("%ld %d\n", (long)run(start, (void *)5), cleaned); }
