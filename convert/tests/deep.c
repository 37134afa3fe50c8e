/* Hard case: threads that ask for a larger stack get it, also after threads with smaller ones have
 * run, on loops and on side stacks. Variable-length arrays and alloca() over waits.
 * Runtime: product */
#include "test.h"
static NOINLINE long down(int depth) {
    volatile char room[200];
    room[depth % 200] = 1;
    return depth ? down(depth - 1) + room[depth % 200] : 0;
}
static int compare(const void *one, const void *other) {
    WAIT();
    return down(60000) - 60000;
}
static void *deep(void *argument) {
    int depth = (int)(long)argument, two[2] = {2, 1};
    WAIT();
    long sum = down(depth);
    /* A library's function, which calls back, needs such a stack too. */
    if (depth > 100000) qsort(two, 2, sizeof *two, compare);
    WAIT();
    return (void *)(sum + down(depth));
}
/* The bounds of the stack that the thread runs on. */
static void *bounds(void *argument) {
    pthread_attr_t attributes;
    void *low;
    size_t size;
    char here;
    WAIT();
    CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
    CHECK(pthread_attr_getstack(&attributes, &low, &size) == 0);
    pthread_attr_destroy(&attributes);
    /* The compiler may put `here` into a frame on the heap. */
    char *now = __builtin_frame_address(0);
    CHECK((char *)low < now && now < (char *)low + size);
    return (void *)(long)(size >= (size_t)argument);
}
static void *arrays(void *argument) {
    long sum = 0;
    char *kept[20];
    for (int size = 1; size < 20; size++) {
        kept[size] = memset(alloca(size * 3), size, size * 3);
        if (size % 5 == 0) usleep(10);
    }
    for (int size = 1; size < 20; size++) sum += kept[size][size];
    for (int size = 1; size < 200; size++) {
        char array[size * 10];
        array[0] = array[size * 10 - 1] = size;
        if (size % 20 == 0) usleep(10);
        sum += array[0];
    }
    return (void *)sum;
}
static long run_with(size_t stack, void *(*start)(void *), long argument) {
    pthread_attr_t attributes;
    pthread_t thread;
    void *result;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, stack) == 0);
    CHECK(pthread_create(&thread, &attributes, start, (void *)argument) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    pthread_attr_destroy(&attributes);
    return (long)result;
}
int main(void) {
    printf("%ld\n", (long)run(deep, (void *)1000));
    for (size_t size = 32; size <= 128; size *= 2) printf("%ld\n", run_with(size << 20, deep, 3000 * size));
    printf("%ld\n", run_with(1 << 20, deep, 100));
    printf("bounds %ld, arrays %ld\n", run_with(64 << 20, bounds, 60 << 20), run_with(1 << 20, arrays, 0));
}
