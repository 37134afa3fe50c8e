/* The program replaces a descriptor, or closes and reopens it, while a thread waits for its file.
 * The call goes on with the old file.
 * Runtime: product */
#include "test.h"
#include <arpa/inet.h>
#include <netinet/in.h>
enum { ROUNDS = 200, MUCH = 300000, LATE = -2 };
struct ends {
    int ours, theirs; /* the thread waits for `ours` */
};
static sem_t begun;
static int number;
static _Atomic bool ended; /* the call has returned */
static char much[MUCH];
static struct ends of_pipe(bool reads) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    return reads ? (struct ends){ends[0], ends[1]} : (struct ends){ends[1], ends[0]};
}
static struct ends of_socket(int kind) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, kind, 0, ends) == 0);
    return (struct ends){ends[0], ends[1]};
}
static struct ends read_pipe(void) { return of_pipe(true); }
static struct ends written_pipe(void) { return of_pipe(false); }
static struct ends stream(void) { return of_socket(SOCK_STREAM); }
static struct ends messages(void) { return of_socket(SOCK_DGRAM); }
/* The other side connects later: a datagram socket keeps the address. */
static struct ends listener(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct ends ends = {socket(AF_INET, SOCK_STREAM, 0), socket(AF_INET, SOCK_DGRAM, 0)};
    socklen_t length = sizeof any;
    CHECK(bind(ends.ours, (void *)&any, sizeof any) == 0);
    CHECK(listen(ends.ours, 10) == 0);
    CHECK(getsockname(ends.ours, (void *)&any, &length) == 0);
    CHECK(connect(ends.theirs, (void *)&any, sizeof any) == 0);
    return ends;
}
static struct ends events(void) {
    struct ends ends = {epoll_create1(0), 0}, inner = of_pipe(true);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = inner.ours};
    CHECK(epoll_ctl(ends.ours, EPOLL_CTL_ADD, inner.ours, &event) == 0);
    ends.theirs = inner.theirs;
    return ends;
}
/* The action of the other side that completes the call. The action sends a letter, which identifies
 * the file. The action fails if the file is gone because the call had not yet begun. */
static void tells(struct ends ends, char letter) { write(ends.theirs, &letter, 1); }
static void connects(struct ends ends, char letter) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    CHECK(getpeername(ends.theirs, (void *)&address, &length) == 0);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(client, (void *)&address, length) == 0) write(client, &letter, 1);
    close(client);
}
/* The calls under test. Each returns the letter, or -1. */
static int letter_of(ssize_t count, char letter) { return count == 1 ? letter : -1; }
static int reads(void) {
    char byte;
    ssize_t count = read(number, &byte, 1);
    return letter_of(count, byte);
}
static int receives(void) {
    char byte;
    ssize_t count = recv(number, &byte, 1, 0);
    return letter_of(count, byte);
}
static int receives_message(void) {
    char byte;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    ssize_t count = recvmsg(number, &message, 0);
    return letter_of(count, byte);
}
static int reads_vector(void) {
    char byte;
    struct iovec vector = {&byte, 1};
    ssize_t count = readv(number, &vector, 1);
    return letter_of(count, byte);
}
static int accepts(void) {
    char byte;
    int client = accept(number, NULL, NULL);
    if (client < 0) return -1;
    ssize_t count = read(client, &byte, 1);
    close(client);
    return letter_of(count, byte);
}
static int waits_for_event(void) {
    struct epoll_event event;
    char byte;
    if (epoll_wait(number, &event, 1, -1) != 1) return -1;
    ssize_t count = read(event.data.fd, &byte, 1);
    close(event.data.fd);
    return letter_of(count, byte);
}
/* Calls that write fill the file, and the other side counts the bytes. A call ends early only if
 * the number refers to another file before the call waits. */
static int writes(void) {
    long done = 0, count = 1;
    for (; done < MUCH && count > 0; done += count) count = write(number, much, MUCH - done);
    return done == MUCH ? 0 : -1;
}
static int sends(void) {
    long done = 0, count = 1;
    for (; done < MUCH && count > 0; done += count) count = send(number, much, MUCH - done, 0);
    return done == MUCH ? 0 : -1;
}
/* The ways in which the number gets another file. */
static void by_dup2(int other) { CHECK(dup2(other, number) == number); }
static void by_dup3(int other) { CHECK(dup3(other, number, O_CLOEXEC) == number); }
static void by_close(int other) {
    CHECK(close(number) == 0);
    CHECK(fcntl(other, F_DUPFD, number) == number);
}
static void by_range(int other) {
    CHECK(close_range(number, number, 0) == 0);
    CHECK(fcntl(other, F_DUPFD, number) == number);
}
static void (*const replacements[])(int) = {by_dup2, by_dup3, by_close, by_range};
static bool in_halves(int how) { return replacements[how] == by_close || replacements[how] == by_range; }
static const struct {
    const char *name;
    int (*call)(void);
    struct ends (*file)(void);
    void (*complete)(struct ends, char); /* NULL: it writes */
} table[] = {
    {"read a pipe", reads, read_pipe, tells},
    {"read a socket", reads, stream, tells},
    {"readv", reads_vector, read_pipe, tells},
    {"recv", receives, stream, tells},
    {"recv a message", receives, messages, tells},
    {"recvmsg", receives_message, messages, tells},
    {"accept", accepts, listener, connects},
    {"epoll_wait", waits_for_event, events, tells},
    {"write to a pipe", writes, written_pipe, NULL},
    {"write to a socket", writes, stream, NULL},
    {"send", sends, stream, NULL},
};
enum { COUNT = sizeof table / sizeof *table };
static void *waits(void *argument) {
    int which = (int)(long)argument;
    sem_post(&begun);
    /* Between the two halves of a replacement the number has no file. A call that begins at that
     * time has no file either. */
    errno = 0;
    long result = table[which].call();
    if (result == -1 && errno == EBADF) result = LATE;
    ended = true;
    return (void *)result;
}
/* A writer that had not yet begun may have written to both files. */
static bool completes(int which, int how, struct ends old, struct ends new, pthread_t thread) {
    void *result;
    if (table[which].complete) {
        table[which].complete(old, 'o');
        table[which].complete(new, 'n');
        CHECK(pthread_join(thread, &result) == 0);
        CHECK((long)result == 'o' || (long)result == 'n' || ((long)result == LATE && in_halves(how)));
        return (long)result == 'o';
    }
    /* No other file gets the numbers of these ends meanwhile. So the old file ends with the call. */
    struct pollfd entries[2] = {{old.theirs, POLLIN, 0}, {new.theirs, POLLIN, 0}};
    long from[2] = {0, 0};
    while (from[0] + from[1] < MUCH) {
        char bytes[8192];
        if (poll(entries, 2, 100) == 0 && ended) break;
        for (int side = 0; side < 2; side++) {
            if (!entries[side].revents) continue;
            ssize_t count = entries[side].revents & POLLIN ? read(entries[side].fd, bytes, sizeof bytes) : 0;
            if (count > 0) from[side] += count;
            else entries[side].fd = -1;
        }
    }
    CHECK(pthread_join(thread, &result) == 0);
    CHECK((long)result == 0 || ((long)result == LATE && in_halves(how)));
    return from[0] == MUCH;
}
/* No call keeps the file any more: the other side of a pipe or a stream sees the end. */
static bool is_gone(struct ends (*file)(void), struct ends ends) {
    struct pollfd entry = {ends.theirs, POLLIN, 0};
    bool is_told = file == read_pipe || file == written_pipe || file == stream;
    return !is_told || (poll(&entry, 1, 0) == 1 && entry.revents & (POLLHUP | POLLERR));
}
static bool goes_on(int which, int how, int round) {
    pthread_t thread;
    struct ends old = table[which].file(), new = table[which].file();
    number = old.ours;
    ended = false;
    CHECK(pthread_create(&thread, NULL, waits, (void *)(long)which) == 0);
    while (sem_wait(&begun)) continue;
    /* Natively the program cannot see that the thread waits, so later rounds give it more time. */
    if (round) usleep(1000 * round);
    replacements[how](new.ours);
    bool same = completes(which, how, old, new, thread);
    CHECK(is_gone(table[which].file, old));
    close(number);
    close(new.ours);
    close(old.theirs);
    close(new.theirs);
    return same;
}
int main(void) {
    signal(SIGPIPE, SIG_IGN);
    sem_init(&begun, 0, 0);
    for (int which = 0; which < COUNT; which++) {
        for (int how = 0; how < 4; how++) {
            int round = 0;
            while (round < ROUNDS && !goes_on(which, how, round)) round++;
            if (round == ROUNDS) printf("%s, %d: the call never goes on with its file\n", table[which].name, how);
        }
    }
    printf("%d calls\n", COUNT);
}
