/* Checks each primitive that waits once: a waiting thread takes no processor time. The program runs
 * itself with each poller. If the threads together took some time, the program runs itself once
 * more for each thread.
 * Runtime: product */
#include "test.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/un.h>
enum { WATCHED = 300, ENOUGH = 30 };
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t written = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t none, begun;
static pthread_t sleeper;
static FILE *locked_file;
static const int forever = 1000;
static NOINLINE void begins(void) { sem_post(&begun); }
static int reading_end(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    return ends[0];
}
static int full_pipe(void) {
    int ends[2];
    static char bytes[65536];
    CHECK(pipe(ends) == 0);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], bytes, sizeof bytes) > 0) continue;
    fcntl(ends[1], F_SETFL, 0);
    return ends[1];
}
static int empty_socket(int kind) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, kind, 0, ends) == 0);
    return ends[0];
}
static int full_socket(void) {
    static char bytes[65536];
    int full = empty_socket(SOCK_STREAM);
    while (send(full, bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
    return full;
}
static int listener(int family, int backlog, struct sockaddr_un *address, socklen_t *length) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listens = socket(family, SOCK_STREAM, 0);
    memset(address, 0, sizeof *address);
    address->sun_family = family;
    if (family == AF_INET) CHECK(bind(listens, (void *)&any, sizeof any) == 0);
    /* Linux chooses the name itself. */
    else CHECK(bind(listens, (void *)address, sizeof address->sun_family) == 0);
    *length = sizeof *address;
    CHECK(getsockname(listens, (void *)address, length) == 0);
    CHECK(listen(listens, backlog) == 0);
    return listens;
}
static int listening(int family) {
    struct sockaddr_un address;
    socklen_t length;
    return listener(family, 10, &address, &length);
}
static void connects(int family) {
    struct sockaddr_un address;
    socklen_t length;
    listener(family, 0, &address, &length);
    for (int count = 0; count < 8; count++) {
        int full = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(full, (void *)&address, length);
    }
    int waits = socket(family, SOCK_STREAM, 0);
    begins();
    connect(waits, (void *)&address, length);
}
static struct timespec late(clockid_t clock) { return in_milliseconds(clock, 1000 * forever); }
static void runs_for_ever(void) {
    begins();
    sem_wait(&none);
}
static void runs_not(void) {}
#define BYTES char bytes[16]
#define VECTOR BYTES; struct iovec vector = {bytes, sizeof bytes}
#define MESSAGE VECTOR; struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1}
#define ENTRY struct pollfd entry = {empty_socket(SOCK_STREAM), POLLIN, 0}
#define SET fd_set set; int number = reading_end(); FD_ZERO(&set); FD_SET(number, &set)
#define EVENTS struct epoll_event event; int number = epoll_create1(0)
#define UNTIL(clock) struct timespec until = late(clock)
#define LOCKED pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; pthread_mutex_lock(&mutex)
#define PRIMITIVES(_) \
    _(read, BYTES; int fd = reading_end(), read(fd, bytes, 16)) \
    _(read_socket, BYTES; int fd = empty_socket(SOCK_STREAM), read(fd, bytes, 16)) \
    _(readv, VECTOR; int fd = reading_end(), readv(fd, &vector, 1)) \
    _(recv, BYTES; int fd = empty_socket(SOCK_STREAM), recv(fd, bytes, 16, 0)) \
    _(recv_message, BYTES; int fd = empty_socket(SOCK_DGRAM), recv(fd, bytes, 16, 0)) \
    _(recv_peek, BYTES; int fd = empty_socket(SOCK_STREAM), recv(fd, bytes, 16, MSG_PEEK)) \
    _(recvfrom, BYTES; int fd = empty_socket(SOCK_STREAM), recvfrom(fd, bytes, 16, 0, NULL, NULL)) \
    _(recvmsg, MESSAGE; int fd = empty_socket(SOCK_STREAM), recvmsg(fd, &message, 0)) \
    _(write, BYTES; int fd = full_pipe(), write(fd, bytes, 16)) \
    _(write_socket, BYTES; int fd = full_socket(), write(fd, bytes, 16)) \
    _(writev, VECTOR; int fd = full_pipe(), writev(fd, &vector, 1)) \
    _(send, BYTES; int fd = full_socket(), send(fd, bytes, 16, 0)) \
    _(sendto, BYTES; int fd = full_socket(), sendto(fd, bytes, 16, 0, NULL, 0)) \
    _(sendmsg, MESSAGE; int fd = full_socket(), sendmsg(fd, &message, 0)) \
    _(sendfile, int fd = full_socket(); int from = open("/proc/self/exe", O_RDONLY), sendfile(fd, from, NULL, 100)) \
    _(accept, int fd = listening(AF_INET), accept(fd, NULL, NULL)) \
    _(accept_local, int fd = listening(AF_UNIX), accept(fd, NULL, NULL)) \
    _(accept4, int fd = listening(AF_INET), accept4(fd, NULL, NULL, SOCK_CLOEXEC)) \
    _(accept4_local, int fd = listening(AF_UNIX), accept4(fd, NULL, NULL, 0)) \
    _(connect, (void)0, connects(AF_INET)) \
    _(connect_local, (void)0, connects(AF_UNIX)) \
    _(poll, ENTRY, poll(&entry, 1, -1)) \
    _(poll_limit, ENTRY, poll(&entry, 1, 1000 * forever)) \
    _(ppoll, ENTRY, ppoll(&entry, 1, NULL, NULL)) \
    _(select, SET, select(number + 1, &set, NULL, NULL, NULL)) \
    _(pselect, SET, pselect(number + 1, &set, NULL, NULL, NULL, NULL)) \
    _(epoll_wait, EVENTS, epoll_wait(number, &event, 1, -1)) \
    _(epoll_pwait, EVENTS, epoll_pwait(number, &event, 1, -1, NULL)) \
    _(sleep, (void)0, sleep(forever)) \
    _(usleep, (void)0, usleep(1000000u * forever)) \
    _(nanosleep, struct timespec time = {forever}, nanosleep(&time, NULL)) \
    _(clock_nanosleep, struct timespec time = {forever}, clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL)) \
    _(mutex_lock, (void)0, pthread_mutex_lock(&held)) \
    _(mutex_timedlock, UNTIL(CLOCK_REALTIME), pthread_mutex_timedlock(&held, &until)) \
    _(mutex_clocklock, UNTIL(CLOCK_MONOTONIC), pthread_mutex_clocklock(&held, CLOCK_MONOTONIC, &until)) \
    _(cond_wait, LOCKED, pthread_cond_wait(&never, &mutex)) \
    _(cond_timedwait, LOCKED; UNTIL(CLOCK_REALTIME), pthread_cond_timedwait(&never, &mutex, &until)) \
    _(cond_clockwait, LOCKED; UNTIL(CLOCK_MONOTONIC), pthread_cond_clockwait(&never, &mutex, CLOCK_MONOTONIC, &until)) \
    _(rdlock, (void)0, pthread_rwlock_rdlock(&written)) \
    _(timedrdlock, UNTIL(CLOCK_REALTIME), pthread_rwlock_timedrdlock(&written, &until)) \
    _(clockrdlock, UNTIL(CLOCK_MONOTONIC), pthread_rwlock_clockrdlock(&written, CLOCK_MONOTONIC, &until)) \
    _(wrlock, (void)0, pthread_rwlock_wrlock(&written)) \
    _(timedwrlock, UNTIL(CLOCK_REALTIME), pthread_rwlock_timedwrlock(&written, &until)) \
    _(clockwrlock, UNTIL(CLOCK_MONOTONIC), pthread_rwlock_clockwrlock(&written, CLOCK_MONOTONIC, &until)) \
    _(barrier_wait, (void)0, pthread_barrier_wait(&barrier)) \
    _(sem_wait, (void)0, sem_wait(&none)) \
    _(sem_timedwait, UNTIL(CLOCK_REALTIME), sem_timedwait(&none, &until)) \
    _(sem_clockwait, UNTIL(CLOCK_MONOTONIC), sem_clockwait(&none, CLOCK_MONOTONIC, &until)) \
    _(join, (void)0, pthread_join(sleeper, NULL)) \
    _(once_runs, (void)0, pthread_once(&once, runs_for_ever)) \
    _(once_waits, (void)0, pthread_once(&once, runs_not)) \
    _(flockfile, (void)0, flockfile(locked_file)) \
    _(fputs, (void)0, fputs("text", locked_file)) \
    _(fgets, BYTES; FILE *file = fdopen(reading_end(), "r"), fgets(bytes, 16, file)) \
    _(waitpid, if (fork() == 0) pause(), waitpid(-1, NULL, 0)) \
    _(pause, (void)0, pause())
#define FUNCTION(name, before, call) \
    static NOINLINE void *waits_in_##name(void *argument) { \
        before; \
        begins(); \
        call; \
        return argument; \
    }
PRIMITIVES(FUNCTION)
#define ROW(name, before, call) {#name, waits_in_##name},
static const struct {
    const char *name;
    void *(*start)(void *);
} table[] = {PRIMITIVES(ROW)};
enum { COUNT = sizeof table / sizeof *table };
static void *sleeps(void *argument) {
    sleep(forever);
    return argument;
}
static long used(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}
/* Exits with 0 if the threads from `first` on take no time. */
static void park(int first, int count) {
    pthread_t thread;
    sem_init(&none, 0, 0);
    sem_init(&begun, 0, 0);
    pthread_mutex_lock(&held);
    pthread_rwlock_wrlock(&written);
    locked_file = tmpfile();
    flockfile(locked_file);
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK(pthread_create(&sleeper, NULL, sleeps, NULL) == 0);
    for (int index = first; index < first + count; index++) {
        CHECK(pthread_create(&thread, NULL, table[index].start, NULL) == 0);
        sem_wait(&begun);
    }
    usleep(100000);
    long before = used();
    usleep(WATCHED * 1000);
    long after = used();
    if (after - before >= ENOUGH) fprintf(stderr, "%ld ms of %d\n", after - before, WATCHED);
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);
    _exit(after - before < ENOUGH ? 0 : 1);
}
static int run_itself(const char *poller, int first, int count) {
    char texts[2][16];
    int status;
    snprintf(texts[0], 16, "%d", first);
    snprintf(texts[1], 16, "%d", count);
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        setenv("DUALITY_POLLER", poller, 1);
        execl("/proc/self/exe", "parked", texts[0], texts[1], NULL);
        _exit(2);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}
int main(int count, char **arguments) {
    if (count == 3) park(atoi(arguments[1]), atoi(arguments[2]));
    for (int poller = 0; poller < 2; poller++) {
        const char *name = poller ? "uring" : "epoll";
        if (run_itself(name, 0, COUNT) == 0) continue;
        for (int index = 0; index < COUNT; index++) {
            int status = run_itself(name, index, 1);
            if (status) printf("%s: %s takes processor time, or fails: %#x\n", name, table[index].name, status);
        }
    }
    printf("%d parked\n", COUNT);
}
