/* Pitfall 1: static functions get another calling convention than their coroutines. The functions
 * have many arguments of many kinds. */
#include "test.h"
static NOINLINE long sum(int a, long b, char c, double d, short e, float f, unsigned g, long h, int i, double j, char *k) {
    WAIT();
    return a + b + c + (long)d + e + (long)f + g + h + i + (long)j + *k;
}
static NOINLINE unsigned char narrow(signed char a, unsigned short b, bool c) {
    WAIT();
    return a + b + c;
}
static void *start(void *argument) {
    char k = 11;
    long total = 0;
    for (int round = 0; round < 10; round++) {
        total += sum(1, 2, 3, 4.5, -5, 6.5f, 7, 8, 9, 10.5, &k);
        total += narrow(-3, 500, true);
    }
    *(long *)argument = total;
    return NULL;
}
int main(void) {
    long total;
    run(start, &total);
    printf("%ld\n", total);
}
