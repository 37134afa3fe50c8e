/* Pitfall 9: time-outs of sockets, O_NONBLOCK, and descriptors that are used again. */
#include "test.h"
static void *start(void *argument) {
    (void)argument;
    char byte;
    int pair[2];
    for (int round = 0; round < 5; round++) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        struct timeval limit = {0, 5000};
        CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
        errno = 0;
        CHECK(read(pair[0], &byte, 1) == -1 && errno == EAGAIN);
        CHECK(recv(pair[0], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
        fcntl(pair[1], F_SETFL, O_NONBLOCK);
        CHECK(read(pair[1], &byte, 1) == -1 && errno == EAGAIN);
        char many[1 << 16];
        memset(many, 1, sizeof many);
        while (write(pair[1], many, sizeof many) > 0) {
        }
        CHECK(errno == EAGAIN);
        close(pair[1]);
        close(pair[0]);
    }
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    struct timeval limit = {0, 5000};
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    char many[1 << 20];
    memset(many, 1, sizeof many);
    ssize_t part = write(pair[0], many, sizeof many);
    CHECK(part > 0 && part < (ssize_t)sizeof many);
    close(pair[0]);
    close(pair[1]);
    CHECK(read(pair[0], &byte, 1) == -1 && errno == EBADF);
    CHECK(read(pair[0], NULL, 0) == -1 && errno == EBADF);
    return NULL;
}
int main(void) {
    run(start, NULL);
    puts("as set");
}
