/* Pitfall 10: MSG_PEEK removes no bytes; MSG_WAITALL waits for all bytes. */
#include "test.h"
static int pair[2];
static void *sends(void *argument) {
    for (int index = 0; index < 8; index++) {
        WAIT();
        CHECK(send(pair[1], "01234567" + index, 1, 0) == 1);
    }
    return argument;
}
static void *receives(void *argument) {
    char bytes[16] = "";
    for (int index = 0; index < 4; index++) {
        CHECK(recv(pair[0], bytes, 1, MSG_PEEK) == 1);
        CHECK(recv(pair[0], bytes + 8, 1, MSG_PEEK) == 1);
        CHECK(bytes[0] == bytes[8] && bytes[0] == '0' + index);
        CHECK(recv(pair[0], bytes, 1, 0) == 1);
        CHECK(bytes[0] == bytes[8]);
    }
    CHECK(recv(pair[0], bytes, 4, MSG_WAITALL) == 4);
    CHECK(!memcmp(bytes, "4567", 4));
    return argument;
}
int main(void) {
    pthread_t one, other;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pthread_create(&one, NULL, receives, NULL);
    pthread_create(&other, NULL, sends, NULL);
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    puts("peeked");
}
