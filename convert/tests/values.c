/* Hard case: recursion; structs, floating point and wide integers as arguments and results of
 * functions that block. */
#include "test.h"
struct two { long a, b; };
struct mixed { double d; int i; };
struct big { char bytes[100]; int last; };
struct tiny { char c; };
static NOINLINE int fibonacci(int n) { return WAIT(), n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
static NOINLINE bool is_odd(int n);
static NOINLINE bool is_even(int n) { return WAIT(), n == 0 ? true : is_odd(n - 1); }
static NOINLINE bool is_odd(int n) { return WAIT(), n == 0 ? false : is_even(n - 1); }
static NOINLINE struct two two(long a) { WAIT(); return (struct two){a, a + 1}; }
static NOINLINE struct mixed mixed(struct mixed from) { WAIT(); return (struct mixed){from.d * 2, from.i + 1}; }
static NOINLINE struct big big(struct big from, int with) { WAIT(); from.bytes[with] = with; from.last++; WAIT(); return from; }
static NOINLINE struct tiny tiny(struct tiny from) { WAIT(); from.c++; return from; }
static NOINLINE float single(float f) { return WAIT(), f / 2; }
static NOINLINE long double extended(long double d) { return WAIT(), d * 3; }
static NOINLINE __int128 wide(__int128 w) { return WAIT(), w * w; }
static NOINLINE _Complex double complex_value(_Complex double c) { return WAIT(), c * c; }
typedef int vector __attribute__((vector_size(16)));
static NOINLINE vector add(vector a, vector b) { return WAIT(), a + b; }
static void *start(void *argument) {
    char *to = argument;
    struct big original = {"first", 1}, changed = big(original, 7);
    struct two pair = two(5);
    struct mixed both = mixed((struct mixed){1.5, 2});
    __int128 square = wide((__int128)1 << 60);
    _Complex double c = complex_value(1 + 2 * (_Complex double){0, 1});
    vector sum = add((vector){1, 2, 3, 4}, (vector){10, 20, 30, 40});
    sprintf(to, "%d %d %ld %ld %.1f %d %s %d %d %d %c %.2f %.2Lf %lx %.1f %.1f %d", fibonacci(10), is_even(9), pair.a, pair.b, both.d, both.i,
            changed.bytes, changed.bytes[7], changed.last, original.last, tiny((struct tiny){'a'}).c, single(5), extended(1.5L),
            (long)(square >> 64), __real__ c, __imag__ c, sum[3]);
    return NULL;
}
int main(void) {
    char text[500];
    run(start, text);
    puts(text);
}
