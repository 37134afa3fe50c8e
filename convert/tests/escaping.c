/* Pitfall 2: addresses of local variables that others keep while the thread waits. */
#include "test.h"
static int *kept[64];
static NOINLINE void keep(int *where, long index) { kept[index] = where; }
static NOINLINE void add(long index, int value) {
    WAIT();
    *kept[index] += value;
}
static NOINLINE void read_into(int from, char *to) {
    CHECK(read(from, to, 4) == 4);
}
static void *start(void *argument) {
    int value = 1, pair[2];
    long index = (long)argument;
    keep(&value, index);
    for (int round = 0; round < 5; round++) {
        add(index, round);
        WAIT();
        CHECK(&value == kept[index]);
    }
    char buffer[8] = "";
    CHECK(pipe(pair) == 0);
    CHECK(write(pair[1], "abcd", 4) == 4);
    read_into(pair[0], buffer);
    close(pair[0]);
    close(pair[1]);
    CHECK(value == 11 && !strcmp(buffer, "abcd"));
    return NULL;
}
int main(void) {
    run_many(20, start);
    puts("kept");
}
