/* Hard case: values that are aligned to more than a register, or to less than LLVM expects of their
 * type. The values live over a wait: in frames, arguments, results, variable arguments and on side
 * stacks.
 * Flags: -mavx */
#include "test.h"
typedef _BitInt(200) wide;
typedef _BitInt(100) narrow;
typedef float vector __attribute__((vector_size(32)));
struct line { _Alignas(64) char bytes[64]; };
struct half { _Alignas(32) long number; };
struct page { _Alignas(4096) char bytes[4096]; };
struct packed { char first; wide number; vector values; } __attribute__((packed));
struct holder { char first; wide number; vector values; };

#define ALIGNED(variable, to) CHECK((uintptr_t)&(variable) % (to) == 0)

static NOINLINE wide next(wide value) { WAIT(); return value + 1; }
static NOINLINE wide sum(char first, wide value, narrow other, struct line line, struct half half) {
    ALIGNED(line, 64);
    ALIGNED(half, 32);
    WAIT();
    return first + value + other + line.bytes[63] + half.number;
}
static NOINLINE vector doubled(vector value) { WAIT(); return value * 2; }
static NOINLINE struct holder held(struct holder value) { WAIT(); value.number = next(value.number); value.values = doubled(value.values); return value; }
static NOINLINE struct packed packed(struct packed value) { WAIT(); value.number = next(value.number); value.values = doubled(value.values); return value; }
static NOINLINE long variable(const char *kinds, ...) {
    va_list list;
    double total = 0;
    va_start(list, kinds);
    for (const char *kind = kinds; *kind; kind++) {
        WAIT();
        switch (*kind) {
        case 'i': total += va_arg(list, int); break;
        case 'w': total += (long)va_arg(list, wide); break;
        case 'n': total += (long)va_arg(list, narrow); break;
        case 'v': total += va_arg(list, vector)[7]; break;
        case 'l': total += va_arg(list, struct line).bytes[63]; break;
        case 'h': total += va_arg(list, struct half).number; break;
        }
    }
    va_end(list);
    return (long)total;
}
/* Runs on a side stack, because of setjmp. */
static NOINLINE vector on_a_side_stack(char first, vector value, struct half half, wide number) {
    jmp_buf place;
    ALIGNED(half, 32);
    if (setjmp(place)) return value + (float)(first + half.number + (long)number);
    WAIT();
    longjmp(place, 1);
}
static NOINLINE long variables(int size) {
    _Alignas(32) char half[3];
    _Alignas(128) char two_lines[5];
    struct page page;
    char *array = __builtin_alloca_with_align(size, 64 * 8);
    vector kept = {1, 2, 3, 4, 5, 6, 7, 8};
    memset(array, 5, size);
    half[2] = 1, two_lines[4] = 2, page.bytes[4095] = 3;
    for (int round = 0; round < 3; round++) {
        WAIT();
        ALIGNED(half, 32);
        ALIGNED(two_lines, 128);
        ALIGNED(page, 4096);
        ALIGNED(*array, 64);
        kept += 1;
    }
    return half[2] + two_lines[4] + page.bytes[4095] + array[size - 1] + (long)kept[7];
}
static _Thread_local _Alignas(256) char of_the_thread[3];
static void *start(void *argument) {
    long number = (long)argument;
    wide value = (wide)number << 150;
    vector values = {number, 2, 3, 4, 5, 6, 7, 8};
    struct line line = {{[63] = 3}};
    struct half half = {4};
    WAIT();
    ALIGNED(of_the_thread, 256);
    long results[] = {
        (long)(next(value) >> 100), (long)sum(1, value, 2, line, half), (long)doubled(values)[7],
        (long)(held((struct holder){1, value, values}).number >> 150), (long)packed((struct packed){1, value, values}).values[0],
        variable("iwinlhvwi", 1, (wide)2, 3, (narrow)4, line, half, values, (wide)5, 6), (long)on_a_side_stack(1, values, half, 6)[0],
        variables(number + 10),
    };
    for (size_t index = 0; index < sizeof results / sizeof *results; index++) printf("%ld ", results[index]);
    puts("");
    return NULL;
}
int main(void) {
    for (long number = 1; number < 4; number++) run(start, (void *)number);
}
