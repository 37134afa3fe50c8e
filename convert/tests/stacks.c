/* Threads that wait only in library functions keep their stacks, and need no kernel threads.
 * Runtime: product */
#include "test.h"
enum { COUNT = 200 };
/* A function of the runtime. Natively it does not exist. */
__attribute__((weak)) void *rt_coroutine_of(void *, unsigned, void *const *);
static sem_t reading;
static NOINLINE bool read_line(FILE *file, char *line, int size) {
    sem_post(&reading);
    return fgets(line, size, file);
}
static void *reads_lines(void *argument) {
    char line[100];
    FILE *file = fdopen((int)(long)argument, "r");
    long count = 0;
    while (read_line(file, line, sizeof line)) count += strlen(line);
    fclose(file);
    return (void *)count;
}
static int kernel_threads(void) {
    char line[100];
    int count = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file)) sscanf(line, "Threads: %d", &count);
    fclose(file);
    return count;
}
int main(int count, char **arguments) {
    static pthread_t threads[COUNT];
    static int ends[COUNT][2];
    sem_init(&reading, 0, 0);
    for (int index = 0; index < COUNT; index++) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[index]) == 0);
        CHECK(pthread_create(&threads[index], NULL, reads_lines, (void *)(long)ends[index][0]) == 0);
    }
    for (int index = 0; index < COUNT; index++) CHECK(write(ends[index][1], "a line\n", 7) == 7);
    for (int index = 0; index < 2 * COUNT; index++) sem_wait(&reading);
    /* Natively each thread is a kernel thread. */
    CHECK(!rt_coroutine_of || kernel_threads() < COUNT);
    for (int index = 0; index < COUNT; index++) {
        void *sum;
        shutdown(ends[index][1], SHUT_WR);
        CHECK(pthread_join(threads[index], &sum) == 0 && sum == (void *)7);
    }
    puts("all lines came");
    return count < 0 || !arguments;
}
