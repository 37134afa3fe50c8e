/* Hard case: big buffers in loops, of many threads at once, over sockets. */
#include "test.h"
static NOINLINE void write_all(int to, const char *bytes, size_t size) {
    while (size) {
        ssize_t count = write(to, bytes, size);
        CHECK(count > 0);
        bytes += count;
        size -= count;
    }
}
static NOINLINE void relay(int from, int to) {
    for (;;) {
        char buffer[50000];
        ssize_t count = read(from, buffer, sizeof buffer);
        if (count <= 0) break;
        write_all(to, buffer, count);
    }
}
struct ends { int in[2], out[2]; long seed; };
static void *relays(void *argument) {
    struct ends *ends = argument;
    relay(ends->in[1], ends->out[0]);
    shutdown(ends->out[0], SHUT_WR);
    return NULL;
}
static void *produces(void *argument) {
    struct ends *ends = argument;
    unsigned value = ends->seed;
    for (int round = 0; round < 20; round++) {
        char piece[3000];
        for (size_t index = 0; index < sizeof piece; index++) piece[index] = (value = value * 1103515245 + 12345) >> 16;
        write_all(ends->in[0], piece, sizeof piece);
    }
    shutdown(ends->in[0], SHUT_WR);
    return NULL;
}
static void *consumes(void *argument) {
    struct ends *ends = argument;
    unsigned value = ends->seed;
    char piece[777];
    long total = 0;
    ssize_t count;
    while ((count = recv(ends->out[1], piece, sizeof piece, 0)) > 0) {
        for (ssize_t index = 0; index < count; index++) CHECK(piece[index] == (char)((value = value * 1103515245 + 12345) >> 16));
        total += count;
    }
    return (void *)total;
}
int main(void) {
    static struct ends ends[10];
    pthread_t threads[30];
    long total = 0;
    for (int index = 0; index < 10; index++) {
        ends[index].seed = index;
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends[index].in) && !socketpair(AF_UNIX, SOCK_STREAM, 0, ends[index].out));
        pthread_create(&threads[3 * index], NULL, relays, &ends[index]);
        pthread_create(&threads[3 * index + 1], NULL, produces, &ends[index]);
        pthread_create(&threads[3 * index + 2], NULL, consumes, &ends[index]);
    }
    for (int index = 0; index < 30; index++) {
        void *result;
        pthread_join(threads[index], &result);
        total += (long)result;
    }
    printf("%ld\n", total);
}
