/* Calls by pointers that may lead to many functions. Some functions have the type of the call, and
 * one has another type. Some functions cannot be converted, some do not block, and one belongs to a
 * library. */
#include "test.h"

#include <setjmp.h>

static int pipes[2];

static long wait_one(long value) {
    char byte;
    if (read(pipes[0], &byte, 1) != 1) return -1;
    return value + byte;
}

#define BLOCKS(n) static long blocks_##n(long value) { return wait_one(value * n); }
BLOCKS(2) BLOCKS(3) BLOCKS(4) BLOCKS(5) BLOCKS(6) BLOCKS(7)

static long plain(long value) { return value + 1000; }
static int narrow(long value) { return (int)wait_one(value) & 0xff; }
static long jumps(long value) {
    jmp_buf place;
    if (setjmp(place)) return wait_one(value) + 1;
    longjmp(place, 1);
}
static long calls_itself(long value);

static long (*volatile table[])(long) = {blocks_2, blocks_3, plain, blocks_4, blocks_5, blocks_6, blocks_7, (long (*)(long))(void *)narrow, jumps, calls_itself, labs};

static long calls_itself(long value) { return value > 1000 ? value : table[9](value * 3) + wait_one(0); }

static void *walk(void *argument) {
    long sum = 0;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned index = 0; index < sizeof table / sizeof *table; index++) {
            long value = table[index]((long)argument - 3 * (index == 10));
            if (index == 7) value &= 0xff;
            sum = sum * 31 + value;
        }
    }
    return (void *)sum;
}

int main(void) {
    pthread_t thread;
    void *result;
    if (pipe(pipes) || pthread_create(&thread, NULL, walk, (void *)7L)) return 1;
    for (int count = 0; count < 200; count++) {
        if (count % 7 == 0) usleep(500);
        if (write(pipes[1], "a", 1) != 1) return 2;
    }
    pthread_join(thread, &result);
    printf("%ld\n", (long)result);
    return 0;
}
