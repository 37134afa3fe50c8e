/* Tests a program with one thread, which makes calls that block without a helper: the calls end by
 * signals as natively, and the kernel sees one thread. */
#include "test.h"
#include <sys/ioctl.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

static volatile sig_atomic_t handled;
static void handle(int number) { handled += number > 0; }
static void set_handler(int number, int flags) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
    sigaction(number, &action, NULL);
    handled = 0;
}

/* Waits until a process sleeps. */
static void wait_for_sleep(pid_t process) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    for (int seen = 0; seen < 3 && !kill(process, 0); sleep_ms(2)) {
        int file = open(path, O_RDONLY);
        ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
        text[length > 0 ? length : 0] = 0;
        close(file);
        seen = strstr(text, ") S") ? seen + 1 : 0;
    }
}

/* A call that blocks, what ends it, and whether a handler with SA_RESTART has it go on. */
struct blocking {
    const char *name;
    void (*prepare)(void);
    int (*wait)(void);
    void (*release)(void);
    bool restarts;
};

static char path[64];
static int ends[2], extra;
static pid_t child;

static void make_path(void) {
    snprintf(path, sizeof path, "/tmp/one-thread-%d", getpid());
    unlink(path);
}
static void make_fifo(void) {
    make_path();
    if (mkfifo(path, 0600)) abort();
}
static int open_fifo(void) {
    int file = open(path, O_RDONLY);
    if (file >= 0) close(file);
    return file;
}
static void open_writer(void) { close(open(path, O_WRONLY)); }
static void fill_fifo(void) {
    static char bytes[1024];
    make_fifo();
    ends[0] = open(path, O_RDONLY | O_NONBLOCK);
    ends[1] = open(path, O_WRONLY);
    for (int index = 0; index < 64; index++) {
        if (write(ends[1], bytes, sizeof bytes) != sizeof bytes) abort();
    }
}
static int write_more(void) { return write(ends[1], "abcdefgh", 8) == 8 ? 0 : -1; }
static void empty_fifo(void) {
    static char bytes[65536];
    if (read(ends[0], bytes, sizeof bytes) < 0) abort();
}
static void make_child(void) {
    if (pipe(ends)) abort();
    child = fork();
    if (!child) {
        char byte;
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) < 0);
    }
}
static int wait_for_child(void) { return waitpid(child, NULL, 0) == child ? 0 : -1; }
static int wait_for_child_by_id(void) {
    siginfo_t info;
    return waitid(P_PID, child, &info, WEXITED);
}
static void end_child(void) {
    if (write(ends[1], "x", 1) != 1) abort();
}
/* A child holds the lock until it ends. */
static void make_file(void) {
    int holds[2];
    char byte;
    make_path();
    extra = open(path, O_RDWR | O_CREAT, 0600);
    if (extra < 0 || pipe(ends) || pipe(holds)) abort();
    child = fork();
    if (!child) {
        if (flock(open(path, O_RDWR), LOCK_EX) || write(holds[1], "x", 1) != 1) abort();
        _exit(read(ends[0], &byte, 1) < 0);
    }
    if (read(holds[0], &byte, 1) != 1) abort();
}
static int lock_file(void) { return flock(extra, LOCK_EX); }
static void make_semaphore(void) { extra = semget(IPC_PRIVATE, 1, 0600); }
static int lower(void) {
    struct sembuf operation = {0, -1, 0};
    return semop(extra, &operation, 1);
}
static void raise_semaphore(void) {
    struct sembuf operation = {0, 1, 0};
    semop(extra, &operation, 1);
}
static void make_queue(void) { extra = msgget(IPC_PRIVATE, 0600); }
static int take_message(void) {
    long message[2];
    return msgrcv(extra, message, 8, 0, 0) == 8 ? 0 : -1;
}
static void send_message(void) {
    long message[2] = {1, 2};
    msgsnd(extra, message, 8, 0);
}
static void make_epoll(void) {
    struct epoll_event event = {.events = EPOLLIN};
    extra = epoll_create1(0);
    if (pipe(ends) || epoll_ctl(extra, EPOLL_CTL_ADD, ends[0], &event)) abort();
}
static int wait_for_event(void) {
    struct epoll_event event;
    return epoll_wait(extra, &event, 1, 20000) == 1 ? 0 : -1;
}
static void make_event(void) {
    if (write(ends[1], "x", 1) != 1) abort();
}

static const struct blocking calls[] = {
    {"open", make_fifo, open_fifo, open_writer, true},
    {"write", fill_fifo, write_more, empty_fifo, true},
    {"waitpid", make_child, wait_for_child, end_child, true},
    {"waitid", make_child, wait_for_child_by_id, end_child, true},
    {"flock", make_file, lock_file, end_child, true},
    {"semop", make_semaphore, lower, raise_semaphore, false},
    {"msgrcv", make_queue, take_message, send_message, false},
    {"epoll_wait", make_epoll, wait_for_event, make_event, false},
};

/* Makes each call. A process waits until the call blocks, sends a signal, and ends the wait. */
static int each_call(int flags, bool blocked) {
    for (unsigned index = 0; index < sizeof calls / sizeof *calls; index++) {
        const struct blocking *call = &calls[index];
        pid_t caller = getpid();
        call->prepare();
        set_handler(SIGUSR1, flags);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigprocmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
        bool ends_by_signal = !blocked && !(flags & SA_RESTART && call->restarts);
        pid_t other = fork();
        if (!other) {
            wait_for_sleep(caller);
            kill(caller, SIGUSR1);
            if (!ends_by_signal) {
                wait_for_sleep(caller);
                call->release();
            }
            _exit(0);
        }
        int result = call->wait(), error = errno;
        if (ends_by_signal ? result >= 0 || error != EINTR : result < 0) {
            printf("%s: %d, error %d\n", call->name, result, error);
            return 1;
        }
        CHECK(waitpid(other, NULL, 0) == other);
        CHECK(handled == !blocked);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        CHECK(handled == 1);
        unlink(path);
        /* The parent may have inherited the lock's holder. */
        if (ends_by_signal && call->release == end_child) end_child();
    }
    return 0;
}

TEST(one_thread_a_signal_ends_a_call) { return each_call(0, false); }
TEST(one_thread_calls_go_on_after_a_handler) { return each_call(SA_RESTART, false); }
TEST(one_thread_a_blocked_signal_waits_for_the_end_of_a_call) { return each_call(0, true); }

static int threads_of_kernel(void) {
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    char *found = strstr(text, "Threads:");
    return found ? atoi(found + 8) : 0;
}

static void use_the_disk(void) {
    char name[] = "/tmp/one-thread-XXXXXX";
    int file = mkstemp(name);
    if (file < 0 || write(file, "a", 1) != 1 || fsync(file)) abort();
    close(file);
    unlink(name);
}

TEST(one_thread_stays_one_for_the_kernel) {
    use_the_disk();
    CHECK(threads_of_kernel() == 1);
    CHECK(!unshare(CLONE_VM | CLONE_SIGHAND | CLONE_THREAD));
    return 0;
}

static void *compute(void *argument) {
    for (long end = now_ms() + 30; now_ms() < end;) {
    }
    use_the_disk();
    return argument;
}

/* The kernel refuses a process that has several threads. */
TEST(unshare_after_threads_have_ended) {
    for (int round = 0; round < 3; round++) {
        pthread_t first = start(compute, NULL), second = start(compute, NULL);
        join(first);
        join(second);
        CHECK(!unshare(CLONE_VM | CLONE_SIGHAND | CLONE_THREAD));
        CHECK(threads_of_kernel() == 1);
    }
    CHECK(!unshare(CLONE_NEWUSER) || errno == EPERM || errno == ENOSPC);
    join(start(compute, NULL));
    return 0;
}

static void *idle(void *argument) {
    sigset_t set;
    sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (;;) pause();
    return argument;
}

/* As natively, a child that has ended counts, and not the signal that it sends at its end. */
static int wait_for_many(void) {
    set_handler(SIGCHLD, 0);
    for (int index = 0; index < 300; index++) {
        pid_t process = fork();
        if (!process) {
            usleep(200);
            _exit(0);
        }
        siginfo_t info;
        int result = index % 2 ? waitpid(process, NULL, 0) : waitid(P_PID, process, &info, WEXITED);
        CHECK(result >= 0);
    }
    CHECK(handled > 0);
    return 0;
}
TEST(wait_is_not_interrupted_by_its_own_child) { return wait_for_many(); }
TEST(wait_beside_a_thread_is_not_interrupted_by_its_own_child) {
    start(idle, NULL);
    return wait_for_many();
}

/* No signal interrupts fsync(2), wherever the call is when the signal comes. */
TEST(fsync_is_never_interrupted) {
    start(idle, NULL);
    set_handler(SIGALRM, 0);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    char name[] = "/tmp/one-thread-XXXXXX";
    int file = mkstemp(name), failed = 0;
    unlink(name);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int index = 0; index < 500; index++) failed += fsync(file) != 0;
    setitimer(ITIMER_REAL, &never, NULL);
    CHECK(failed == 0);
    return 0;
}

/* A write to a FIFO that ends after a part sends one signal. */
static int write_a_part(void) {
    static char bytes[200000];
    make_fifo();
    ends[0] = open(path, O_RDONLY | O_NONBLOCK);
    ends[1] = open(path, O_WRONLY);
    unlink(path);
    set_handler(SIGPIPE, 0);
    pid_t other = fork();
    if (!other) {
        close(ends[1]);
        /* A helper may write for the caller, which sleeps before the FIFO is full. */
        for (int full = 0; full < 65536; sleep_ms(1)) {
            if (ioctl(ends[0], FIONREAD, &full)) _exit(2);
        }
        _exit(read(ends[0], bytes, 4096) != 4096);
    }
    close(ends[0]);
    ssize_t count = write(ends[1], bytes, sizeof bytes);
    CHECK(count >= 65536 && count < (ssize_t)sizeof bytes);
    CHECK(handled == 1);
    CHECK(write(ends[1], bytes, 1) < 0 && errno == EPIPE && handled == 2);
    waitpid(other, NULL, 0);
    return 0;
}
TEST(one_thread_a_part_of_a_write_sends_one_signal) { return write_a_part(); }
TEST(a_part_of_a_write_by_a_helper_sends_one_signal) {
    start(idle, NULL);
    return write_a_part();
}

/* One event wakes one of several processes (EPOLLEXCLUSIVE). */
TEST(one_thread_epoll_wakes_one_process) {
    enum { PROCESSES = 4 };
    int data[2], woken[2];
    pid_t processes[PROCESSES];
    char byte;
    CHECK(!pipe(data) && !pipe(woken));
    for (int index = 0; index < PROCESSES; index++) {
        processes[index] = fork();
        if (processes[index]) continue;
        struct epoll_event event = {.events = EPOLLIN | EPOLLET | EPOLLEXCLUSIVE};
        int queue = epoll_create1(0);
        if (epoll_ctl(queue, EPOLL_CTL_ADD, data[0], &event)) _exit(1);
        if (epoll_wait(queue, &event, 1, -1) != 1 || write(woken[1], "x", 1) != 1) _exit(1);
        _exit(0);
    }
    for (int index = 0; index < PROCESSES; index++) wait_for_sleep(processes[index]);
    for (int round = 1; round <= PROCESSES; round++) {
        CHECK(write(data[1], "x", 1) == 1 && read(woken[0], &byte, 1) == 1);
        struct pollfd second = {.fd = woken[0], .events = POLLIN};
        CHECK(poll(&second, 1, 30) == 0);
    }
    for (int index = 0; index < PROCESSES; index++) waitpid(processes[index], NULL, 0);
    return 0;
}
