/* Pitfall 3: buffers of scopes that are never alive at once share their place in the frame. */
#include "test.h"
static NOINLINE void fill(char *buffer, size_t size, int with) {
    memset(buffer, with, size);
    WAIT();
}
static NOINLINE int sum(const char *buffer, size_t size) {
    int total = 0;
    WAIT();
    for (size_t index = 0; index < size; index++) total += buffer[index];
    return total;
}
static NOINLINE int three(int with) {
    int total = 0;
    {
        char first[4000];
        fill(first, sizeof first, with);
        total += sum(first, sizeof first);
    }
    {
        char second[4000];
        fill(second, sizeof second, with + 1);
        total += sum(second, sizeof second);
    }
    {
        char third[4000];
        fill(third, sizeof third, with + 2);
        total += sum(third, sizeof third);
    }
    return total;
}
static void *start(void *argument) { return (void *)(long)three((int)(long)argument); }
int main(void) { printf("%ld\n", (long)run(start, (void *)1)); }
