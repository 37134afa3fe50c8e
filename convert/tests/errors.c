/* Hard case: errno belongs to the thread, also when others change their errno in between. */
#include "test.h"
static NOINLINE void waits(void) { WAIT(); }
static void *start(void *argument) {
    long index = (long)argument;
    for (int round = 0; round < 10; round++) {
        errno = 100 + index;
        waits();
        CHECK(errno == 100 + index);
        CHECK(read(-1, NULL, 1) == -1 && errno == EBADF);
        waits();
        CHECK(errno == EBADF);
        CHECK(connect(-1, NULL, 0) == -1 && errno == EBADF);
        int *where = &errno;
        *where = index;
        waits();
        CHECK(where == &errno && *where == index);
    }
    return NULL;
}
int main(void) {
    run_many(10, start);
    puts("own errno");
}
