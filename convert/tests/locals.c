/* Hard case: thread-local variables belong to the thread: initial values, arrays, addresses, in
 * functions that never block. */
#include "test.h"
static __thread int counter = 7;
static __thread char text[32] = "begin";
static __thread struct { long a; double b; } pair;
_Thread_local int visible = 3;
static __thread int *points = NULL;
static __thread _Alignas(64) char wide[64];
static NOINLINE int next(void) { return ++counter; }
static NOINLINE void waits(void) { WAIT(); }
static void *start(void *argument) {
    long index = (long)argument;
    CHECK(counter == 7 && !strcmp(text, "begin") && visible == 3 && !pair.a && !points && (uintptr_t)wide % 64 == 0);
    points = &counter;
    for (int round = 0; round < 5; round++) {
        CHECK(next() == 8 + round);
        sprintf(text, "%ld", index);
        pair.a = index;
        visible += index;
        waits();
        CHECK(atol(text) == index && pair.a == index && points == &counter && visible == 3 + index * (round + 1));
    }
    return NULL;
}
int main(void) {
    counter = 1;
    run_many(10, start);
    printf("%d %s\n", next(), text);
}
