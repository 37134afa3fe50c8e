/* Hard case: _FORTIFY_SOURCE's functions, with sizes that are known only at run time.
 * Flags: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong */
#include "test.h"
static NOINLINE int receive(int from, int size) {
    char buffer[64];
    memset(buffer, 0, sizeof buffer);
    struct pollfd entries[2] = {{from, POLLIN, 0}, {from, POLLIN, 0}};
    CHECK(poll(entries, size > 30 ? 2 : 1, -1) >= 1);
    ssize_t count = read(from, buffer, size);
    count += recv(from, buffer, size, 0);
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    count += recvfrom(from, buffer, size, 0, (struct sockaddr *)&address, &length);
    return (int)count + buffer[0];
}
static int pair[2];
static void *sends(void *argument) {
    for (int index = 0; index < 3; index++) {
        char text[64];
        sprintf(text, "%d fortified", index);
        WAIT();
        write(pair[1], text, 32);
    }
    return argument;
}
static void *receives(void *argument) { return (void *)(long)receive(pair[0], (int)(long)argument); }
int main(int count, char **arguments) {
    (void)arguments;
    pthread_t one, other;
    void *result;
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    pthread_create(&one, NULL, receives, (void *)(long)(31 + count));
    pthread_create(&other, NULL, sends, NULL);
    pthread_join(one, &result);
    pthread_join(other, NULL);
    printf("%ld\n", (long)result);
}
