/* poll, select and epoll in converted threads; vectors and messages; pipes; files. */
#include "test.h"
static int pairs[4][2];
static NOINLINE void poke(int index) {
    WAIT();
    CHECK(write(pairs[index][1], "x", 1) == 1);
}
static void *pokes(void *argument) {
    for (int round = 0; round < 6; round++) {
        poke(round % 4);
        char answer;
        CHECK(read(pairs[round % 4][1], &answer, 1) == 1 && answer == 'y');
    }
    return argument;
}
static NOINLINE void take(int descriptor) {
    char byte;
    CHECK(read(descriptor, &byte, 1) == 1);
    CHECK(write(descriptor, "y", 1) == 1);
}
static void *waits(void *argument) {
    struct pollfd entries[4];
    for (int index = 0; index < 4; index++) entries[index] = (struct pollfd){pairs[index][0], POLLIN, 0};
    for (int round = 0; round < 2; round++) {
        CHECK(poll(entries, 4, 10000) == 1);
        for (int index = 0; index < 4; index++) {
            if (entries[index].revents) take(entries[index].fd);
        }
    }
    for (int round = 0; round < 2; round++) {
        fd_set set;
        int most = 0;
        struct timeval limit = {10, 0};
        FD_ZERO(&set);
        for (int index = 0; index < 4; index++) {
            FD_SET(pairs[index][0], &set);
            if (pairs[index][0] > most) most = pairs[index][0];
        }
        CHECK(select(most + 1, &set, NULL, NULL, &limit) == 1);
        for (int index = 0; index < 4; index++) {
            if (FD_ISSET(pairs[index][0], &set)) take(pairs[index][0]);
        }
    }
    int epoll = epoll_create1(0);
    for (int index = 0; index < 4; index++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = pairs[index][0]};
        CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pairs[index][0], &event) == 0);
    }
    for (int round = 0; round < 2; round++) {
        struct epoll_event event;
        CHECK(epoll_wait(epoll, &event, 1, 10000) == 1);
        take(event.data.fd);
    }
    close(epoll);
    return argument;
}
static int pipes[2];
static void *sends_much(void *argument) {
    static char much[300000];
    for (size_t index = 0; index < sizeof much; index++) much[index] = index % 251;
    struct iovec parts[3] = {{much, 1000}, {much + 1000, 199000}, {much + 200000, 100000}};
    CHECK(writev(pipes[1], parts, 3) == 300000);
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    CHECK(sendmsg(pairs[0][1], &message, 0) == 300000);
    CHECK(send(pairs[1][1], much, sizeof much, 0) == 300000);
    return argument;
}
static NOINLINE long receive_much(int from, int how) {
    long total = 0;
    while (total < 300000) {
        char bytes[10000];
        struct iovec parts[2] = {{bytes, 4000}, {bytes + 4000, 6000}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t count = how == 0 ? readv(from, parts, 2) : how == 1 ? recvmsg(from, &message, 0) : recv(from, bytes, sizeof bytes, 0);
        CHECK(count > 0);
        for (ssize_t index = 0; index < count; index++) CHECK(bytes[index] == (char)((total + index) % 251));
        total += count;
    }
    return total;
}
static void *receives_much(void *argument) {
    (void)argument;
    return (void *)(receive_much(pipes[0], 0) + receive_much(pairs[0][0], 1) + receive_much(pairs[1][0], 2));
}
int main(void) {
    pthread_t one, other;
    void *total;
    for (int index = 0; index < 4; index++) CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[index]) == 0);
    CHECK(pipe(pipes) == 0);
    pthread_create(&one, NULL, waits, NULL);
    pthread_create(&other, NULL, pokes, NULL);
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    pthread_create(&one, NULL, receives_much, NULL);
    pthread_create(&other, NULL, sends_much, NULL);
    pthread_join(one, &total);
    pthread_join(other, NULL);
    printf("%ld\n", (long)total);
}
