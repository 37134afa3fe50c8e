/* Threads wait for bytes while something happens to the thread, the socket, the descriptor or the
 * process. No byte is lost or comes twice, and no byte goes to memory that the reader has left. */
#include "test.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static int sockets[2];

static void on_signal(int number) { (void)number; }
static void handle(int number, int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(number, &action, NULL);
}

/* Reads until the end, and expects bytes that count upwards. */
struct reader {
    volatile bool done;
    volatile long bytes, interruptions, timeouts, wrong;
};
static void *read_all(void *argument) {
    struct reader *reader = argument;
    for (;;) {
        unsigned char room[64];
        memset(room, 0xee, sizeof room);
        long count = read(sockets[0], room, sizeof room);
        if (count == 0) break;
        if (count < 0 && errno == EINTR) reader->interruptions++;
        if (count < 0 && errno == EAGAIN) reader->timeouts++;
        for (long index = 0; index < count; index++)
            reader->wrong += room[index] != (unsigned char)(reader->bytes + index);
        if (count > 0) reader->bytes += count;
    }
    reader->done = true;
    return NULL;
}

static void write_counting(long from, long count) {
    unsigned char bytes[64];
    for (long index = 0; index < count; index++) bytes[index] = (unsigned char)(from + index);
    if (write(sockets[1], bytes, count) != count) abort();
}

static int count_through_signals(int flags) {
    enum { ROUNDS = 3000 };
    struct reader reader = {0};
    handle(SIGUSR1, flags);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    pthread_t thread = start(read_all, &reader);
    long sent = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 3) pthread_kill(thread, SIGUSR1);
        if (round % 2) sched_yield();
        write_counting(sent, 1 + round % 7);
        sent += 1 + round % 7;
        if (round % 5 == 0) sched_yield();
        if (round % 64 == 0) sleep_ms(1);
    }
    close(sockets[1]);
    join(thread);
    CHECK(reader.bytes == sent && !reader.wrong);
    CHECK(!(flags & SA_RESTART) || !reader.interruptions);
    return 0;
}
TEST(receive_all_through_interruptions) { return count_through_signals(0); }
TEST(receive_all_through_restarts) { return count_through_signals(SA_RESTART); }

TEST(receive_all_through_timeouts) {
    struct reader reader = {0};
    struct timeval time = {.tv_usec = 1000};
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    CHECK(!setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    pthread_t thread = start(read_all, &reader);
    for (long sent = 0; sent < 200; sent++) {
        write_counting(sent, 1);
        struct timespec pause = {.tv_nsec = 900000 + sent * 1000};
        nanosleep(&pause, NULL);
    }
    /* No more bytes come, so the reader times out, perhaps late. The limit of the whole test ends a
     * wait in vain. */
    while (!reader.timeouts) sleep_ms(1);
    close(sockets[1]);
    join(thread);
    CHECK(reader.bytes == 200 && !reader.wrong);
    return 0;
}

/* Other threads use the reader's stack as soon as the reader is gone. */
static void *read_one(void *result) {
    char byte = 0;
    long count = read(sockets[0], &byte, 1);
    return result ? (*(char *)result = byte, (void *)count) : (void *)count;
}
TEST(receive_nothing_after_a_cancellation) {
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    for (int round = 0; round < 300; round++) {
        pthread_t thread = start(read_one, NULL);
        if (round % 3) sched_yield();
        if (round % 7 == 0) sleep_ms(1);
        pthread_cancel(thread);
        void *result;
        CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
        char byte = 0;
        CHECK(write(sockets[1], "y", 1) == 1 && read(sockets[0], &byte, 1) == 1 && byte == 'y');
    }
    return 0;
}

/* The number refers to another file before the kernel knows of the wait. The wait is for the first
 * file. A reader in the middle of fget() holds the first file for an instant and then looks again.
 * Bytes that are written in that instant are lost, natively as well. So a few rounds may lose
 * bytes. */
static int number_changes(bool replaced) {
    enum { LOST_AT_MOST = 5 };
    int lost = 0;
    for (int round = 0; round < 200; round++) {
        int other[2];
        char byte = 0;
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, other));
        pthread_t thread = start(read_one, &byte);
        for (int turns = 0; turns < 3; turns++) sched_yield();
        if (round % 4 == 0) sleep_ms(2);
        pthread_t second = 0;
        if (replaced) CHECK(dup2(other[0], sockets[0]) == sockets[0]);
        else CHECK(!close(sockets[0]));
        bool was_waiting = write(sockets[1], "a", 1) == 1;
        if (!was_waiting) {
            /* In this round the reader came too late. */
            CHECK(errno == EPIPE);
            if (replaced) CHECK(write(other[1], "b", 1) == 1);
            join(thread);
        } else {
            struct timespec soon;
            clock_gettime(CLOCK_REALTIME, &soon);
            soon.tv_sec += 5;
            void *result;
            int joined = pthread_timedjoin_np(thread, &result, &soon);
            if (joined || (long)result != 1) {
                CHECK(replaced ? joined == ETIMEDOUT : (long)result == -1);
                CHECK(++lost <= LOST_AT_MOST);
                if (replaced) CHECK(write(other[1], "b", 1) == 1 && join(thread) == 1 && byte == 'b');
            } else {
                CHECK(byte == 'a');
            }
            if (replaced) {
                byte = 0;
                second = start(read_one, &byte);
                CHECK(write(other[1], "c", 1) == 1 && join(second) == 1 && byte == 'c');
            }
        }
        close(sockets[1]);
        close(other[0]);
        close(other[1]);
        if (replaced) close(sockets[0]);
    }
    return 0;
}
TEST(receive_from_a_socket_whose_number_is_closed) {
    signal(SIGPIPE, SIG_IGN);
    return number_changes(false);
}
TEST(receive_from_a_socket_whose_number_is_replaced) {
    signal(SIGPIPE, SIG_IGN);
    return number_changes(true);
}

TEST(receive_by_many_from_one_socket) {
    enum { READERS = 20 };
    pthread_t threads[READERS];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    for (int round = 0; round < 20; round++) {
        for (int index = 0; index < READERS; index++) threads[index] = start(read_one, NULL);
        if (round % 2) sleep_ms(1);
        for (int index = 0; index < READERS; index++) {
            if (index % 3 == 0) sched_yield();
            CHECK(write(sockets[1], "x", 1) == 1);
        }
        for (int index = 0; index < READERS; index++) CHECK(join(threads[index]) == 1);
    }
    return 0;
}

/* A thread waits in poll(2) and another in read(2) for the same socket. */
static void *poll_it(void *count) {
    struct pollfd polled = {.fd = sockets[0], .events = POLLIN};
    while (poll(&polled, 1, -1) == 1 && !(polled.revents & POLLHUP)) {
        (*(volatile long *)count)++;
        sched_yield();
    }
    return NULL;
}
TEST(receive_what_another_thread_polls) {
    struct reader reader = {0};
    long polls = 0;
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    pthread_t thread = start(read_all, &reader), poller = start(poll_it, &polls);
    for (long sent = 0; sent < 500; sent++) {
        write_counting(sent, 1);
        if (sent % 10 == 0) sleep_ms(1);
    }
    close(sockets[1]);
    join(thread);
    join(poller);
    CHECK(reader.bytes == 500 && !reader.wrong);
    return 0;
}

TEST(receive_after_a_fork_amid_waits) {
    for (int round = 0; round < 20; round++) {
        char byte = 0;
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
        pthread_t thread = start(read_one, &byte);
        if (round % 2) sched_yield();
        if (round % 5 == 0) sleep_ms(1);
        pid_t child = fork();
        if (!child) {
            /* The child waits for its own sockets, and the parent's byte is not for the child. */
            close(sockets[0]);
            close(sockets[1]);
            char own = 0;
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) _exit(2);
            pthread_t reader = start(read_one, &own);
            sleep_ms(1);
            if (write(sockets[1], "c", 1) != 1 || join(reader) != 1 || own != 'c') _exit(3);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(write(sockets[1], "p", 1) == 1 && join(thread) == 1 && byte == 'p');
        close(sockets[0]);
        close(sockets[1]);
    }
    return 0;
}

/* A program that allows itself the calls of the manual, and no io_uring. */
TEST(receive_after_a_filter_without_io_uring) {
    char first = 0, second = 0;
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = rules};
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    pthread_t before = start(read_one, &first);
    sleep_ms(5);
    CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
    CHECK(write(sockets[1], "1", 1) == 1 && join(before) == 1 && first == '1');
    pthread_t after = start(read_one, &second);
    sleep_ms(5);
    CHECK(write(sockets[1], "2", 1) == 1 && join(after) == 1 && second == '2');
    pid_t child = fork();
    if (!child) {
        pthread_t reader = start(read_one, &second);
        sleep_ms(5);
        _exit(write(sockets[1], "3", 1) == 1 && join(reader) == 1 && second == '3' ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
