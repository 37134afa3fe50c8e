/* Hard case: library functions that call back into functions that block. */
#include "test.h"
static NOINLINE int compare(const void *one, const void *other) {
    WAIT();
    return *(const int *)one - *(const int *)other;
}
static int plain(const void *one, const void *other) { return *(const int *)other - *(const int *)one; }
typedef int (*comparison)(const void *, const void *);
static NOINLINE void sort(int *numbers, int count, comparison how) { qsort(numbers, count, sizeof *numbers, how); }
static void *start(void *argument) {
    int *numbers = argument, wanted = 30, own[20];
    for (int index = 0; index < 20; index++) own[index] = numbers[index];
    sort(own, 20, compare);
    int *found = bsearch(&wanted, own, 20, sizeof *own, compare);
    CHECK(found && *found == 30);
    sort(numbers, 20, plain);
    qsort(own, 20, sizeof *own, compare);
    for (int index = 0; index < 20; index++) CHECK(own[index] == numbers[19 - index]);
    return (void *)(long)own[3];
}
int main(void) {
    int numbers[20];
    for (int index = 0; index < 20; index++) numbers[index] = index * 7 % 20 * 10;
    printf("%ld\n", (long)run(start, numbers));
}
