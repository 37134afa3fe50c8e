/* Calls that block in a library that the compiler does not see. Other threads of the loop go on
 * meanwhile.
 * Runtime: product */
#include "test.h"

#include <dlfcn.h>

enum { THREADS = 6 };

static ssize_t (*hidden_read)(int, void *, size_t);
static int pipes[THREADS][2], back[2];
static int running;
static bool one_loop;

static void *blocks(void *argument) {
    long index = (long)argument;
    char byte;
    long sum = 0;
    for (int round = 0; round < 20; round++) {
        ssize_t count = hidden_read(pipes[index][0], &byte, 1);
        /* Only one thread of a loop runs at a time, although several have blocked. */
        CHECK(count == 1 && (!one_loop || ++running == 1));
        if (one_loop) running--;
        sum = sum * 31 + byte;
        CHECK(write(back[1], &byte, 1) == 1);
        if (round % 3 == 0) usleep(100);
    }
    return (void *)sum;
}

static void *waits(void *argument) {
    for (int round = 0; round < 100; round++) WAIT();
    return argument;
}

int main(void) {
    pthread_t threads[THREADS], other;
    const char *loops = getenv("DUALITY_CORES");
    one_loop = !loops || !strcmp(loops, "1");
    void *symbol = dlsym(RTLD_DEFAULT, "read");
    memcpy(&hidden_read, &symbol, sizeof hidden_read);
    CHECK(!pipe(back));
    for (long index = 0; index < THREADS; index++) {
        CHECK(!pipe(pipes[index]));
        CHECK(!pthread_create(&threads[index], NULL, blocks, (void *)index));
    }
    CHECK(!pthread_create(&other, NULL, waits, NULL) && !pthread_join(other, NULL));
    for (int round = 0; round < 20; round++) {
        for (int index = THREADS - 1; index >= 0; index--) {
            char byte = (char)('a' + index + round % 5), answer;
            CHECK(write(pipes[index][1], &byte, 1) == 1);
            CHECK(read(back[0], &answer, 1) == 1 && answer == byte);
        }
    }
    for (int index = 0; index < THREADS; index++) {
        void *sum;
        CHECK(!pthread_join(threads[index], &sum));
        printf("%ld\n", (long)sum);
    }
    return 0;
}
