/* Tests every call that waits, under the same five conditions. The call returns once its event
 * comes, and other threads go on meanwhile. A handler without SA_RESTART interrupts the call. A
 * handler with SA_RESTART does not, if the kernel restarts the call. pthread_cancel ends the
 * call. */
#include "test.h"
#include <mqueue.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>

struct scene {
    int in, out;
    int extra;
    sem_t semaphore;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool flag;
    pid_t child;
    char path[64];
};

struct call {
    void (*prepare)(struct scene *);
    /* Makes the call. Returns 0, or an error number. */
    int (*wait)(struct scene *);
    void (*release)(struct scene *);
};

static int result_of(long result) { return result < 0 ? errno : 0; }

/* Pipes and sockets. */
static void make_pipe(struct scene *scene) {
    int ends[2];
    if (pipe(ends)) abort();
    scene->in = ends[0];
    scene->out = ends[1];
}
static void make_pair(struct scene *scene) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) abort();
    scene->in = ends[0];
    scene->out = ends[1];
}
static void make_datagrams(struct scene *scene) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends)) abort();
    scene->in = ends[0];
    scene->out = ends[1];
}
static void put_byte(struct scene *scene) {
    if (write(scene->out, "x", 1) != 1) abort();
}
static int wait_read(struct scene *scene) {
    char byte;
    return result_of(read(scene->in, &byte, 1));
}
static int wait_readv(struct scene *scene) {
    char bytes[2];
    struct iovec parts[2] = {{bytes, 1}, {bytes + 1, 1}};
    return result_of(readv(scene->in, parts, 2));
}
static int wait_recv(struct scene *scene) {
    char byte;
    return result_of(recv(scene->in, &byte, 1, 0));
}
static int wait_recvmsg(struct scene *scene) {
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    return result_of(recvmsg(scene->in, &header, 0));
}
static int wait_recvmmsg(struct scene *scene) {
    char byte;
    struct iovec part = {&byte, 1};
    struct mmsghdr header = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    return result_of(recvmmsg(scene->in, &header, 1, 0, NULL));
}
static int wait_preadv2(struct scene *scene) {
    char byte;
    struct iovec part = {&byte, 1};
    return result_of(preadv2(scene->in, &part, 1, -1, 0));
}
static void make_full_pipe(struct scene *scene) {
    make_pipe(scene);
    static char bytes[65536];
    if (write(scene->out, bytes, sizeof bytes) != sizeof bytes) abort();
}
static void make_full_pair(struct scene *scene) {
    make_pair(scene);
    static char bytes[65536];
    while (send(scene->out, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
}
static void empty(struct scene *scene) {
    static char bytes[1 << 20];
    if (read(scene->in, bytes, sizeof bytes) <= 0) abort();
}
static int wait_write(struct scene *scene) { return result_of(write(scene->out, "y", 1)); }
static int wait_writev(struct scene *scene) {
    struct iovec part = {"y", 1};
    return result_of(writev(scene->out, &part, 1));
}
static int wait_send(struct scene *scene) { return result_of(send(scene->out, "y", 1, 0)); }
static int wait_sendmsg(struct scene *scene) {
    struct iovec part = {"y", 1};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    return result_of(sendmsg(scene->out, &header, 0));
}
static void make_splice(struct scene *scene) {
    make_pipe(scene);
    int ends[2];
    if (pipe(ends)) abort();
    scene->extra = ends[1];
}
static int wait_splice(struct scene *scene) {
    return result_of(splice(scene->in, NULL, scene->extra, NULL, 1, 0));
}

/* Connections. */
static void make_listener(struct scene *scene) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path + 1, 60, "torture.%d", getpid());
    socklen_t length = sizeof(sa_family_t) + 1 + strlen(address.sun_path + 1);
    scene->in = socket(AF_UNIX, SOCK_STREAM, 0);
    scene->out = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(scene->in, (void *)&address, length) || listen(scene->in, 5)) abort();
}
static void connect_to_it(struct scene *scene) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path + 1, 60, "torture.%d", getpid());
    socklen_t length = sizeof(sa_family_t) + 1 + strlen(address.sun_path + 1);
    if (connect(scene->out, (void *)&address, length)) abort();
}
static int wait_accept(struct scene *scene) { return result_of(accept(scene->in, NULL, NULL)); }
static int wait_accept4(struct scene *scene) {
    return result_of(accept4(scene->in, NULL, NULL, SOCK_CLOEXEC));
}

/* Several descriptors. */
static int wait_poll(struct scene *scene) {
    struct pollfd one = {scene->in, POLLIN, 0};
    return result_of(poll(&one, 1, -1));
}
static int wait_ppoll(struct scene *scene) {
    struct pollfd one = {scene->in, POLLIN, 0};
    struct timespec limit = {100, 0};
    return result_of(ppoll(&one, 1, &limit, NULL));
}
static int wait_select(struct scene *scene) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(scene->in, &set);
    struct timeval limit = {100, 0};
    return result_of(select(scene->in + 1, &set, NULL, NULL, &limit));
}
static int wait_pselect(struct scene *scene) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(scene->in, &set);
    return result_of(pselect(scene->in + 1, &set, NULL, NULL, NULL, NULL));
}
static void make_epoll(struct scene *scene) {
    make_pipe(scene);
    scene->extra = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(scene->extra, EPOLL_CTL_ADD, scene->in, &event)) abort();
}
static int wait_epoll(struct scene *scene) {
    struct epoll_event event;
    return result_of(epoll_wait(scene->extra, &event, 1, -1));
}
static int wait_epoll_pwait(struct scene *scene) {
    struct epoll_event event;
    return result_of(epoll_pwait(scene->extra, &event, 1, 100000, NULL));
}
static void make_nested_epoll(struct scene *scene) {
    make_epoll(scene);
    int outer = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(outer, EPOLL_CTL_ADD, scene->extra, &event)) abort();
    scene->extra = outer;
}

/* Other descriptors. */
static void make_eventfd(struct scene *scene) { scene->in = scene->out = eventfd(0, 0); }
static void ring(struct scene *scene) {
    uint64_t one = 1;
    if (write(scene->out, &one, 8) != 8) abort();
}
static int wait_eight(struct scene *scene) {
    uint64_t number;
    return result_of(read(scene->in, &number, 8));
}
static void make_timerfd(struct scene *scene) {
    scene->in = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec far = {.it_value = {1000, 0}};
    timerfd_settime(scene->in, 0, &far, NULL);
}
static void expire(struct scene *scene) {
    struct itimerspec near = {.it_value = {0, 1}};
    timerfd_settime(scene->in, 0, &near, NULL);
}
static void make_fifo(struct scene *scene) {
    snprintf(scene->path, sizeof scene->path, "/tmp/torture.%d.fifo", getpid());
    unlink(scene->path);
    if (mkfifo(scene->path, 0600)) abort();
}
static int wait_open_reader(struct scene *scene) {
    int result = open(scene->path, O_RDONLY);
    int error = result < 0 ? errno : 0;
    if (result >= 0 && fcntl(result, F_GETFL) & O_NONBLOCK) return EPROTO;
    if (result >= 0) close(result);
    return error;
}
static int wait_open_writer(struct scene *scene) {
    int result = open(scene->path, O_WRONLY);
    int error = result < 0 ? errno : 0;
    if (result >= 0) close(result);
    return error;
}
static void open_writer(struct scene *scene) {
    scene->out = open(scene->path, O_WRONLY);
    unlink(scene->path);
}
static void open_reader(struct scene *scene) {
    scene->in = open(scene->path, O_RDONLY);
    unlink(scene->path);
}

/* Locks. */
static void make_locks(struct scene *scene) {
    sem_init(&scene->semaphore, 0, 0);
    pthread_mutex_init(&scene->mutex, NULL);
    pthread_cond_init(&scene->condition, NULL);
}
static int wait_semaphore(struct scene *scene) { return result_of(sem_wait(&scene->semaphore)); }
static int wait_semaphore_timed(struct scene *scene) {
    struct timespec limit = from_now(CLOCK_REALTIME, 100000);
    return result_of(sem_timedwait(&scene->semaphore, &limit));
}
static void post(struct scene *scene) { sem_post(&scene->semaphore); }
static void unlock_it(void *mutex) { pthread_mutex_unlock(mutex); }
static int wait_condition(struct scene *scene) {
    pthread_mutex_lock(&scene->mutex);
    pthread_cleanup_push(unlock_it, &scene->mutex);
    while (!scene->flag) pthread_cond_wait(&scene->condition, &scene->mutex);
    pthread_cleanup_pop(1);
    return 0;
}
static int wait_condition_timed(struct scene *scene) {
    struct timespec limit = from_now(CLOCK_REALTIME, 100000);
    pthread_mutex_lock(&scene->mutex);
    pthread_cleanup_push(unlock_it, &scene->mutex);
    while (!scene->flag) pthread_cond_timedwait(&scene->condition, &scene->mutex, &limit);
    pthread_cleanup_pop(1);
    return 0;
}
static void signal_it(struct scene *scene) {
    pthread_mutex_lock(&scene->mutex);
    scene->flag = true;
    pthread_cond_signal(&scene->condition);
    pthread_mutex_unlock(&scene->mutex);
}
static void make_locked(struct scene *scene) {
    make_locks(scene);
    pthread_mutex_lock(&scene->mutex);
}
static int wait_mutex(struct scene *scene) {
    int error = pthread_mutex_lock(&scene->mutex);
    pthread_mutex_unlock(&scene->mutex);
    return error;
}
static void unlock(struct scene *scene) { pthread_mutex_unlock(&scene->mutex); }

/* Files and other processes. */
static void make_file(struct scene *scene) {
    snprintf(scene->path, sizeof scene->path, "/tmp/torture.%d.lock", getpid());
    scene->in = open(scene->path, O_RDWR | O_CREAT, 0600);
}
static void lock_elsewhere(struct scene *scene, bool whole) {
    make_file(scene);
    int ready[2], done[2];
    if (pipe(ready) || pipe(done)) abort();
    scene->child = fork();
    if (!scene->child) {
        int file = open(scene->path, O_RDWR);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (whole ? flock(file, LOCK_EX) : fcntl(file, F_SETLK, &lock)) _exit(1);
        char byte = 0;
        if (write(ready[1], &byte, 1) != 1) _exit(1);
        close(done[1]);
        _exit(read(done[0], &byte, 1) < 0);
    }
    char byte;
    if (read(ready[0], &byte, 1) != 1) abort();
    close(done[0]);
    scene->out = done[1];
    unlink(scene->path);
}
static void make_flock(struct scene *scene) { lock_elsewhere(scene, true); }
static void make_record_lock(struct scene *scene) { lock_elsewhere(scene, false); }
static int wait_flock(struct scene *scene) { return result_of(flock(scene->in, LOCK_EX)); }
static int wait_record_lock(struct scene *scene) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return result_of(fcntl(scene->in, F_SETLKW, &lock));
}
static void make_child(struct scene *scene) {
    int ends[2];
    if (pipe(ends)) abort();
    scene->child = fork();
    if (!scene->child) {
        close(ends[1]);
        char byte;
        _exit(read(ends[0], &byte, 1) < 0);
    }
    close(ends[0]);
    scene->out = ends[1];
}
static void end_child(struct scene *scene) { close(scene->out); }
static int wait_waitpid(struct scene *scene) {
    int status;
    return result_of(waitpid(scene->child, &status, 0));
}
static int wait_any_child(struct scene *scene) {
    int status;
    (void)scene;
    return result_of(waitpid(-1, &status, 0));
}
static int wait_waitid(struct scene *scene) {
    siginfo_t info;
    return result_of(waitid(P_PID, scene->child, &info, WEXITED));
}
static void make_queue(struct scene *scene) { scene->extra = msgget(IPC_PRIVATE, 0600); }
static int wait_msgrcv(struct scene *scene) {
    struct {
        long type;
        char byte;
    } message;
    int error = result_of(msgrcv(scene->extra, &message, 1, 0, 0));
    if (!error) msgctl(scene->extra, IPC_RMID, NULL);
    return error;
}
static void put_message(struct scene *scene) {
    struct {
        long type;
        char byte;
    } message = {1, 'x'};
    if (msgsnd(scene->extra, &message, 1, 0)) abort();
}
static void make_semaphores(struct scene *scene) { scene->extra = semget(IPC_PRIVATE, 1, 0600); }
static int wait_semop(struct scene *scene) {
    struct sembuf down = {0, -1, 0};
    int error = result_of(semop(scene->extra, &down, 1));
    if (!error) semctl(scene->extra, 0, IPC_RMID);
    return error;
}
static void raise_semaphore(struct scene *scene) {
    struct sembuf up = {0, 1, 0};
    if (semop(scene->extra, &up, 1)) abort();
}
static void make_message_queue(struct scene *scene) {
    char name[40];
    snprintf(name, sizeof name, "/torture.%d", getpid());
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 1};
    scene->in = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
    mq_unlink(name);
}
static int wait_mq_receive(struct scene *scene) {
    char byte;
    return result_of(mq_receive(scene->in, &byte, 1, NULL));
}
static void mq_put(struct scene *scene) {
    if (mq_send(scene->in, "x", 1, 0)) abort();
}

/* Time and signals. */
static int wait_long_sleep(struct scene *scene) {
    struct timespec time = {scene->flag ? 0 : 100, 0};
    return result_of(nanosleep(&time, NULL));
}
static int wait_clock_nanosleep(struct scene *scene) {
    struct timespec time = from_now(CLOCK_MONOTONIC, 100000);
    (void)scene;
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static struct scene scene;
static volatile sig_atomic_t handled;
static void handler(int number) {
    (void)number;
    handled++;
}

struct waiter {
    const struct call *call;
    volatile bool entered, returned;
};
static void *wait_in_thread(void *argument) {
    struct waiter *waiter = argument;
    waiter->entered = true;
    long error = waiter->call->wait(&scene);
    waiter->returned = true;
    return (void *)error;
}

/* Starts the wait in a thread, and gives it time to be inside. */
static pthread_t enter(struct waiter *waiter, const struct call *call) {
    *waiter = (struct waiter){.call = call};
    call->prepare(&scene);
    pthread_t thread = start(wait_in_thread, waiter);
    while (!waiter->entered) sched_yield();
    sleep_ms(20);
    return thread;
}

static int returns(const struct call *call) {
    struct waiter waiter;
    pthread_t thread = enter(&waiter, call);
    CHECK(!waiter.returned);
    call->release(&scene);
    CHECK(join(thread) == 0);
    return 0;
}

static int others_go_on(const struct call *call) {
    struct waiter waiter;
    pthread_t thread = enter(&waiter, call);
    struct ticker ticker;
    ticker_start(&ticker);
    ticker_wait(&ticker);
    ticker_stop(&ticker);
    CHECK(!waiter.returned);
    call->release(&scene);
    CHECK(join(thread) == 0);
    return 0;
}

static int is_interrupted(const struct call *call) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    struct waiter waiter;
    pthread_t thread = enter(&waiter, call);
    /* The first signal may be too early: the thread may not have reached the call. */
    for (int turn = 0; turn < 200 && !waiter.returned; turn++) {
        pthread_kill(thread, SIGUSR1);
        sleep_ms(10);
    }
    CHECK(handled > 0);
    CHECK(join(thread) == EINTR);
    return 0;
}

static int is_restarted(const struct call *call) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    struct waiter waiter;
    pthread_t thread = enter(&waiter, call);
    for (int turn = 0; turn < 3 || !handled; turn++) {
        pthread_kill(thread, SIGUSR1);
        sleep_ms(10);
    }
    CHECK(!waiter.returned);
    call->release(&scene);
    CHECK(join(thread) == 0);
    return 0;
}

static volatile int cleaned;
static void clean(void *argument) {
    (void)argument;
    cleaned++;
}
static void *wait_and_clean(void *argument) {
    pthread_cleanup_push(clean, NULL);
    wait_in_thread(argument);
    pthread_cleanup_pop(0);
    return NULL;
}
static int is_cancelled(const struct call *call) {
    struct waiter waiter = {.call = call};
    call->prepare(&scene);
    pthread_t thread = start(wait_and_clean, &waiter);
    while (!waiter.entered) sched_yield();
    sleep_ms(20);
    CHECK(!pthread_cancel(thread));
    void *result = NULL;
    CHECK(!pthread_join(thread, &result));
    CHECK(result == PTHREAD_CANCELED);
    CHECK(cleaned == 1);
    return 0;
}

#define WAITS(name, prepare, wait, release)                         \
    static const struct call call_##name = {prepare, wait, release}; \
    TEST(returns_##name) { return returns(&call_##name); }           \
    TEST(others_go_on_##name) { return others_go_on(&call_##name); }
#define INTERRUPTED(name) \
    TEST(interrupted_##name) { return is_interrupted(&call_##name); }
#define RESTARTED(name) \
    TEST(restarted_##name) { return is_restarted(&call_##name); }
#define CANCELLED(name) \
    TEST(cancelled_##name) { return is_cancelled(&call_##name); }
#define ALL(name, prepare, wait, release) \
    WAITS(name, prepare, wait, release)   \
    INTERRUPTED(name)                     \
    RESTARTED(name)                       \
    CANCELLED(name)

ALL(read_pipe, make_pipe, wait_read, put_byte)
ALL(read_socket, make_pair, wait_read, put_byte)
ALL(read_datagram, make_datagrams, wait_read, put_byte)
ALL(readv_pipe, make_pipe, wait_readv, put_byte)
ALL(readv_socket, make_pair, wait_readv, put_byte)
ALL(preadv2_pipe, make_pipe, wait_preadv2, put_byte)
ALL(recv, make_pair, wait_recv, put_byte)
ALL(recvmsg, make_pair, wait_recvmsg, put_byte)
ALL(recvmmsg, make_datagrams, wait_recvmmsg, put_byte)
ALL(write_pipe, make_full_pipe, wait_write, empty)
ALL(write_socket, make_full_pair, wait_write, empty)
ALL(writev_pipe, make_full_pipe, wait_writev, empty)
ALL(send, make_full_pair, wait_send, empty)
ALL(sendmsg, make_full_pair, wait_sendmsg, empty)
ALL(splice, make_splice, wait_splice, put_byte)
ALL(accept, make_listener, wait_accept, connect_to_it)
ALL(accept4, make_listener, wait_accept4, connect_to_it)
ALL(eventfd, make_eventfd, wait_eight, ring)
ALL(timerfd, make_timerfd, wait_eight, expire)
ALL(open_reader, make_fifo, wait_open_reader, open_writer)
ALL(open_writer, make_fifo, wait_open_writer, open_reader)
ALL(waitpid, make_child, wait_waitpid, end_child)
ALL(any_child, make_child, wait_any_child, end_child)
ALL(waitid, make_child, wait_waitid, end_child)
ALL(record_lock, make_record_lock, wait_record_lock, end_child)
ALL(mq_receive, make_message_queue, wait_mq_receive, mq_put)
ALL(semaphore, make_locks, wait_semaphore, post)

WAITS(flock, make_flock, wait_flock, end_child)
INTERRUPTED(flock)
RESTARTED(flock)
WAITS(poll, make_pipe, wait_poll, put_byte)
INTERRUPTED(poll)
CANCELLED(poll)
WAITS(ppoll, make_pipe, wait_ppoll, put_byte)
INTERRUPTED(ppoll)
CANCELLED(ppoll)
WAITS(select, make_pipe, wait_select, put_byte)
INTERRUPTED(select)
CANCELLED(select)
WAITS(pselect, make_pipe, wait_pselect, put_byte)
INTERRUPTED(pselect)
CANCELLED(pselect)
WAITS(epoll, make_epoll, wait_epoll, put_byte)
INTERRUPTED(epoll)
CANCELLED(epoll)
WAITS(epoll_pwait, make_epoll, wait_epoll_pwait, put_byte)
INTERRUPTED(epoll_pwait)
CANCELLED(epoll_pwait)
WAITS(nested_epoll, make_nested_epoll, wait_epoll, put_byte)
INTERRUPTED(nested_epoll)
WAITS(msgrcv, make_queue, wait_msgrcv, put_message)
INTERRUPTED(msgrcv)
CANCELLED(msgrcv)
WAITS(semop, make_semaphores, wait_semop, raise_semaphore)
INTERRUPTED(semop)
WAITS(semaphore_timed, make_locks, wait_semaphore_timed, post)
INTERRUPTED(semaphore_timed)
CANCELLED(semaphore_timed)
WAITS(condition, make_locks, wait_condition, signal_it)
RESTARTED(condition)
CANCELLED(condition)
WAITS(condition_timed, make_locks, wait_condition_timed, signal_it)
RESTARTED(condition_timed)
CANCELLED(condition_timed)
WAITS(mutex, make_locked, wait_mutex, unlock)
RESTARTED(mutex)

static const struct call call_sleep = {make_locks, wait_long_sleep, post};
INTERRUPTED(sleep)
CANCELLED(sleep)
static const struct call call_clock_sleep = {make_locks, wait_clock_nanosleep, post};
INTERRUPTED(clock_sleep)
CANCELLED(clock_sleep)
