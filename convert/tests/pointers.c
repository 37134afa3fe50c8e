/* Hard case: function pointers to functions that block, that do not block, of libc, and of other
 * types. */
#include "test.h"
typedef int (*operation)(int);
static NOINLINE int blocks(int value) { return WAIT(), value + 1; }
static NOINLINE int blocks_too(int value) { return WAIT(), blocks(value) + 10; }
static NOINLINE int plain(int value) { return value + 100; }
static const operation TABLE[] = {blocks, plain, blocks_too, abs};
static struct { operation run; const char *name; } entries[] = {{blocks_too, "too"}, {plain, "plain"}};
static NOINLINE void returns_nothing(long *to) { WAIT(); ++*to; }
static NOINLINE int *returns_pointer(int *to) { WAIT(); return to + 1; }
typedef ssize_t (*reader)(int, void *, size_t);
static ssize_t (*volatile reads)(int, void *, size_t) = read;
static NOINLINE ssize_t read_by(reader reads, int from, char *to, size_t size) { return reads(from, to, size); }
static ssize_t own_read(int from, void *to, size_t size) { return read(from, to, size / 2); }
static void *start(void *argument) {
    (void)argument;
    long total = 0, count = 0;
    for (unsigned index = 0; index < 4; index++) total += TABLE[index](-5) * (index + 1);
    for (unsigned index = 0; index < 2; index++) total += entries[index].run(1);
    int (*volatile mismatched)(long *) = (int (*)(long *))returns_nothing;
    mismatched(&count);
    long (*volatile as_long)(int *) = (long (*)(int *))returns_pointer;
    int array[2] = {5, 6};
    CHECK(*(int *)as_long(array) == 6 && count == 1);
    char bytes[8] = "";
    int pair[2];
    CHECK(pipe(pair) == 0 && write(pair[1], "abcdefgh", 8) == 8);
    CHECK(reads(pair[0], bytes, 2) == 2 && read_by(own_read, pair[0], bytes + 2, 4) == 2 && read_by(read, pair[0], bytes + 4, 4) == 4);
    CHECK(!memcmp(bytes, "abcdefgh", 8));
    return (void *)total;
}
static void *start_too(void *argument) { return WAIT(), (void *)((long)argument * 2); }
static void *never_blocks(void *argument) { return (void *)((long)argument * 3); }
static void *(*const STARTS[])(void *) = {start_too, never_blocks, start};
int main(void) {
    for (int index = 0; index < 3; index++) printf("%ld\n", (long)run(STARTS[index], (void *)7));
}
