/* Hard case: the floating-point environment and the locale of uselocale belong to the thread. Both
 * keep their values over waits, on side stacks, and in new threads.
 * Runtime: product
 * Flags: -lm */
#include "test.h"
#include <fenv.h>
#include <locale.h>
#include <xmmintrin.h>

enum { THREADS = 8 };
static const int ROUNDINGS[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
static const int EXPECTED[] = {FE_DIVBYZERO, FE_INVALID, 0};
static volatile double one = 1, three = 3, zero = 0;
static volatile long double long_one = 1, long_three = 3;
static volatile float tiny = 1e-38f, half = 0.5f;

static NOINLINE void divide(double *quotient, long double *long_quotient) {
    *quotient = one / three;
    *long_quotient = long_one / long_three;
}
static NOINLINE void wait_for_others(void) {
    for (int round = 0; round < 5; round++) usleep(1000);
}
static void *rounds(void *argument) {
    double before, after;
    long double long_before, long_after;
    int rounding = ROUNDINGS[(long)argument % 4];
    CHECK(fegetround() == FE_TONEAREST);
    fesetround(rounding);
    divide(&before, &long_before);
    wait_for_others();
    divide(&after, &long_after);
    CHECK(before == after && long_before == long_after);
    CHECK(fegetround() == rounding);
    return NULL;
}
static void *raises(void *argument) {
    long number = (long)argument;
    CHECK(fetestexcept(FE_ALL_EXCEPT) == 0);
    if (number % 3 == 0) CHECK(one / zero > 0);
    if (number % 3 == 1) feraiseexcept(FE_INVALID);
    int raised = fetestexcept(FE_DIVBYZERO | FE_INVALID);
    wait_for_others();
    CHECK(fetestexcept(FE_DIVBYZERO | FE_INVALID) == raised);
    CHECK(raised == EXPECTED[number % 3]);
    return NULL;
}
static void *flushes(void *argument) {
    bool own = (long)argument % 2;
    if (own) _mm_setcsr(_mm_getcsr() | 0x8040);
    wait_for_others();
    CHECK((tiny * half == 0) == own);
    return NULL;
}
static void *traps(void *argument) {
    int traps = (long)argument % 2 ? FE_DIVBYZERO | FE_OVERFLOW : 0;
    if (traps) feenableexcept(traps);
    wait_for_others();
    CHECK(fegetexcept() == traps);
    return NULL;
}
/* Runs on a side stack, because of setjmp. */
static NOINLINE void changes_on_a_side_stack(int from, int to) {
    jmp_buf place;
    if (setjmp(place)) return;
    CHECK(fegetround() == from);
    usleep(1000);
    CHECK(fegetround() == from);
    fesetround(to);
    longjmp(place, 1);
}
static void *on_a_side_stack(void *argument) {
    int from = ROUNDINGS[(long)argument % 4], to = ROUNDINGS[((long)argument + 1) % 4];
    fesetround(from);
    changes_on_a_side_stack(from, to);
    CHECK(fegetround() == to);
    wait_for_others();
    CHECK(fegetround() == to);
    return NULL;
}
static void *inherits(void *argument) {
    wait_for_others();
    CHECK(fegetround() == FE_UPWARD);
    CHECK(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
    return NULL;
}
static void *makes_one(void *argument) {
    fesetround(FE_UPWARD);
    run(inherits, NULL);
    fesetround(FE_TONEAREST);
    wait_for_others();
    CHECK(fegetround() == FE_TONEAREST);
    return NULL;
}
static NOINLINE void speaks_on_a_side_stack(locale_t own) {
    jmp_buf place;
    if (setjmp(place)) return;
    CHECK(uselocale((locale_t)0) == own);
    usleep(1000);
    CHECK(uselocale((locale_t)0) == own);
    longjmp(place, 1);
}
static void *speaks(void *argument) {
    locale_t own = (long)argument % 2 ? newlocale(LC_ALL_MASK, "C", NULL) : LC_GLOBAL_LOCALE;
    CHECK(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
    CHECK(uselocale(own) == LC_GLOBAL_LOCALE);
    wait_for_others();
    CHECK(uselocale((locale_t)0) == own);
    speaks_on_a_side_stack(own);
    CHECK(uselocale(LC_GLOBAL_LOCALE) == own);
    wait_for_others();
    CHECK(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
    if (own != LC_GLOBAL_LOCALE) freelocale(own);
    return NULL;
}
int main(void) {
    void *(*const starts[])(void *) = {rounds, raises, flushes, traps, on_a_side_stack, speaks};
    for (size_t index = 0; index < sizeof starts / sizeof *starts; index++) {
        run_many(THREADS, starts[index]);
        printf("%zu\n", index);
    }
    run(makes_one, NULL);
    /* Threads begin with main's environment. */
    fesetround(FE_UPWARD);
    run(inherits, NULL);
    CHECK(fegetround() == FE_UPWARD);
    puts("so");
}
