/* Hard case: fork in a converted thread. The child has only that thread. That thread goes on, and
 * may wait. */
#include "test.h"
static int pair[2];
static long ran_elsewhere;
static NOINLINE void waits(int rounds) {
    while (rounds--) WAIT(), usleep(100);
}
static void *counts(void *argument) {
    for (int round = 0; round < 20; round++) {
        waits(1);
        ran_elsewhere++;
    }
    return argument;
}
static void *forks(void *argument) {
    waits(2);
    pid_t child = fork();
    if (!child) {
        long before = ran_elsewhere;
        waits(5);
        char byte = ran_elsewhere == before ? 'y' : 'n';
        CHECK(write(pair[1], &byte, 1) == 1);
        _exit(7);
    }
    char byte;
    int status;
    CHECK(read(pair[0], &byte, 1) == 1 && byte == 'y');
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    return argument;
}
int main(void) {
    pthread_t threads[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pthread_create(&threads[0], NULL, counts, NULL);
    pthread_create(&threads[1], NULL, forks, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("%ld\n", ran_elsewhere);
}
