/* Hard case: functions without prototypes, called with fewer arguments than they take, and a
 * function that is called as another type. */
#include "test.h"
static int old_style();
static NOINLINE int adds(long one, long other) { return WAIT(), one > 0 ? 1 : (int)other; }
static NOINLINE double doubles(double value) { return WAIT(), value * 2; }
static void *start(void *argument) {
    int total = old_style(1, 2, 3);
    total += ((int (*)(long))adds)(5);
    union { double (*as_double)(double); long (*as_long)(double); } pun = {doubles};
    volatile long ignored = pun.as_long(1.5);
    (void)ignored;
    return (void *)(long)(total + (int)doubles(2) + (argument != NULL));
}
static NOINLINE int old_style(a, b, c) int a, b, c; { return WAIT(), a + b * c; }
int main(void) { printf("%ld\n", (long)run(start, NULL)); }
