/* Pitfall 6: variable-length arrays and alloca, in loops and nested. */
#include "test.h"
static NOINLINE long of_size(int size) {
    long total = 0;
    for (int round = 1; round <= size; round++) {
        int array[round];
        for (int index = 0; index < round; index++) array[index] = index * round;
        WAIT();
        {
            char inner[round * 3];
            memset(inner, round, sizeof inner);
            WAIT();
            total += inner[round * 3 - 1];
        }
        for (int index = 0; index < round; index++) total += array[index];
    }
    return total;
}
static NOINLINE long grows(int count) {
    char *pieces[16];
    long total = 0;
    for (int index = 0; index < count; index++) {
        pieces[index] = alloca(100 + index);
        memset(pieces[index], index, 100 + index);
        WAIT();
    }
    for (int index = 0; index < count; index++) total += pieces[index][99 + index];
    return total;
}
static NOINLINE int aligned(int size) {
    struct wide { _Alignas(64) char bytes[64]; } array[size];
    WAIT();
    array[size - 1].bytes[0] = 7;
    WAIT();
    return (uintptr_t)array % 64 == 0 ? array[size - 1].bytes[0] : -1;
}
static NOINLINE int aligned_variable(void) {
    _Alignas(128) char bytes[128];
    bytes[5] = 5;
    char *volatile address = bytes;
    WAIT();
    return (uintptr_t)address % 128 == 0 ? address[5] : -1;
}
static void *leaves_in_the_middle(void *argument) {
    char array[(long)argument];
    memset(array, 1, sizeof array);
    WAIT();
    pthread_exit((void *)(long)array[1]);
}
static void *start(void *argument) {
    (void)argument;
    return (void *)(of_size(20) * 1000000 + grows(16) * 1000 + aligned(3) * 10 + aligned_variable());
}
int main(void) {
    printf("%ld\n", (long)run(start, NULL));
    printf("%ld\n", (long)run(leaves_in_the_middle, (void *)100));
}
