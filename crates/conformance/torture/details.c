/* Tests details that the test suites of POSIX, glibc and the kernel check: orders, error numbers,
 * and the remains of a process. */
#include "test.h"
#include <dirent.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/un.h>

static void *pause_forever(void *argument) {
    for (;;) pause();
    return argument;
}

/* The exit status of a process, or 128 plus the signal that killed it. */
static int status_of(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(pending_signals_come_in_the_order_of_their_numbers) {
    sigset_t set;
    sigemptyset(&set);
    for (int number = SIGRTMIN; number < SIGRTMIN + 4; number++) sigaddset(&set, number);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    /* Some signals are for the thread, and some for the process. */
    CHECK(!raise(SIGRTMIN + 2) && !raise(SIGRTMIN) && !raise(SIGRTMIN + 1));
    for (int number = SIGRTMIN; number < SIGRTMIN + 3; number++) CHECK(sigwaitinfo(&set, NULL) == number);
    CHECK(!kill(getpid(), SIGRTMIN + 3) && !kill(getpid(), SIGRTMIN + 1));
    CHECK(sigwaitinfo(&set, NULL) == SIGRTMIN + 1 && sigwaitinfo(&set, NULL) == SIGRTMIN + 3);
    /* Among signals of one number, the oldest is first. */
    for (int value = 1; value <= 3; value++) CHECK(!sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = value}));
    for (int value = 1; value <= 3; value++) {
        siginfo_t info;
        CHECK(sigwaitinfo(&set, &info) == SIGRTMIN && info.si_value.sival_int == value);
    }
    return 0;
}

static void *own_cpus(void *set) {
    pthread_getaffinity_np(pthread_self(), sizeof(cpu_set_t), set);
    return NULL;
}
static void *start_one_with_fewer_cpus(void *argument) {
    cpu_set_t *sets = argument;
    pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), &sets[0]);
    join(start(own_cpus, &sets[1]));
    pid_t child = fork();
    if (!child) {
        cpu_set_t own;
        sched_getaffinity(0, sizeof own, &own);
        _exit(!CPU_EQUAL(&own, &sets[0]));
    }
    return (void *)(long)status_of(child);
}
TEST(cpus_are_inherited) {
    cpu_set_t all, sets[2];
    CHECK(!sched_getaffinity(0, sizeof all, &all));
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &all)) last--;
    CPU_ZERO(&sets[0]);
    CPU_SET(last, &sets[0]);
    CHECK(!join(start(start_one_with_fewer_cpus, sets)));
    CHECK(CPU_EQUAL(&sets[0], &sets[1]));
    CHECK(!sched_getaffinity(0, sizeof sets[1], &sets[1]) && CPU_EQUAL(&all, &sets[1]));
    return 0;
}

TEST(users_change_once_for_all_threads) {
    if (getuid()) return 0;
    pid_t child = fork();
    if (!child) {
        for (int index = 0; index < 3; index++) start(pause_forever, NULL);
        uid_t real, effective, saved;
        /* With the saved user the process becomes root again, but the real user stays. */
        if (setresuid(65534, 65534, 0) || setuid(0) || getresuid(&real, &effective, &saved)) _exit(2);
        if (real != 65534 || effective != 0 || saved != 0) _exit(3);
        if (setresuid(65534, 65534, 65534) || setuid(0) != -1 || errno != EPERM) _exit(4);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    return 0;
}

struct shared {
    pthread_mutex_t mutex;
    sem_t locked;
    volatile int step;
};

static struct shared *share(int type, bool robust, int protocol) {
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) abort();
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_settype(&attributes, type);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    if (robust) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (pthread_mutex_init(&shared->mutex, &attributes) || sem_init(&shared->locked, 1, 0)) abort();
    return shared;
}

static void *lock_and_stay(void *argument) {
    struct shared *shared = argument;
    pthread_mutex_lock(&shared->mutex);
    shared->step = 1;
    sem_post(&shared->locked);
    return pause_forever(NULL);
}
/* A process dies while its main thread or another thread holds the mutex. The process ends by
 * itself, or is killed. */
static int die_with_mutex(bool in_thread, bool killed) {
    struct shared *shared = share(PTHREAD_MUTEX_NORMAL, true, PTHREAD_PRIO_NONE);
    pid_t child = fork();
    if (!child) {
        if (in_thread) {
            start(lock_and_stay, shared);
            while (!shared->step) sleep_ms(1);
        } else {
            pthread_mutex_lock(&shared->mutex);
            sem_post(&shared->locked);
        }
        if (killed) pause();
        _exit(0);
    }
    CHECK(!sem_wait(&shared->locked));
    if (killed) kill(child, SIGKILL);
    CHECK(status_of(child) == (killed ? 128 + SIGKILL : 0));
    struct timespec soon = from_now(CLOCK_REALTIME, 5000);
    CHECK(pthread_mutex_timedlock(&shared->mutex, &soon) == EOWNERDEAD);
    CHECK(!pthread_mutex_consistent(&shared->mutex) && !pthread_mutex_unlock(&shared->mutex));
    return 0;
}
TEST(robust_mutex_of_a_process_that_exits) { return die_with_mutex(false, false); }
TEST(robust_mutex_of_a_process_that_is_killed) { return die_with_mutex(false, true); }
TEST(robust_mutex_of_a_thread_whose_process_exits) { return die_with_mutex(true, false); }

static void *try_lock(void *argument) {
    struct shared *shared = argument;
    struct timespec soon = from_now(CLOCK_REALTIME, 20);
    return (void *)(long)pthread_mutex_timedlock(&shared->mutex, &soon);
}
/* A number identifies the owner of a mutex. So threads of two processes must not have equal
 * numbers. */
TEST(threads_of_two_processes_are_not_mistaken) {
    struct shared *shared = share(PTHREAD_MUTEX_ERRORCHECK, false, PTHREAD_PRIO_NONE);
    pid_t child = fork();
    if (!child) {
        start(lock_and_stay, shared);
        pause();
        _exit(0);
    }
    CHECK(!sem_wait(&shared->locked));
    long result = join(start(try_lock, shared));
    kill(child, SIGKILL);
    status_of(child);
    CHECK(result == ETIMEDOUT);
    return 0;
}

TEST(mutex_with_inheritance_in_shared_memory) {
    struct shared *shared = share(PTHREAD_MUTEX_NORMAL, true, PTHREAD_PRIO_INHERIT);
    CHECK(!pthread_mutex_lock(&shared->mutex));
    pid_t child = fork();
    if (!child) {
        if (join(start(try_lock, shared)) != ETIMEDOUT) _exit(2);
        sem_post(&shared->locked);
        if (pthread_mutex_lock(&shared->mutex)) _exit(3);
        _exit(shared->step != 1);
    }
    CHECK(!sem_wait(&shared->locked));
    sleep_ms(20);
    shared->step = 1;
    CHECK(!pthread_mutex_unlock(&shared->mutex));
    CHECK(status_of(child) == 0);
    CHECK(pthread_mutex_lock(&shared->mutex) == EOWNERDEAD);
    CHECK(!pthread_mutex_consistent(&shared->mutex) && !pthread_mutex_unlock(&shared->mutex));
    return 0;
}

TEST(accept_fails_at_once_on_a_socket_that_does_not_listen) {
    int datagrams = socket(AF_INET, SOCK_DGRAM, 0), stream = socket(AF_INET, SOCK_STREAM, 0);
    int packets = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    struct sockaddr_in any = {.sin_family = AF_INET};
    CHECK(!bind(datagrams, (struct sockaddr *)&any, sizeof any) && !bind(stream, (struct sockaddr *)&any, sizeof any));
    CHECK(accept(datagrams, NULL, NULL) == -1 && errno == EOPNOTSUPP);
    CHECK(accept(stream, NULL, NULL) == -1 && errno == EINVAL);
    CHECK(accept(packets, NULL, NULL) == -1 && errno == EINVAL);
    return 0;
}

static int count_tasks(const char *path, pid_t sought) {
    DIR *folder = opendir(path);
    if (!folder) return -1;
    int count = 0, found = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        count++;
        found += atoi(entry->d_name) == sought;
    }
    /* Read the folder again from the start. */
    rewinddir(folder);
    int again = 0;
    while (readdir(folder)) again++;
    closedir(folder);
    return again == count + 2 && found == 1 ? count : -1;
}
TEST(tasks_are_listed) {
    struct ticker tickers[100];
    for (int index = 0; index < 100; index++) ticker_start(&tickers[index]);
    char path[64];
    sprintf(path, "/proc/%d/task", getpid());
    CHECK(count_tasks("/proc/self/task", getpid()) == 101);
    CHECK(count_tasks(path, ticker_id(&tickers[99])) == 101);
    for (int index = 0; index < 100; index++) ticker_stop(&tickers[index]);
    /* Joined threads may take a moment to be gone. */
    for (long limit = now_ms() + 5000; count_tasks("/proc/self/task", getpid()) != 1; sleep_ms(1)) CHECK(now_ms() < limit);
    return 0;
}

static void *tell_number_and_wait(void *argument) {
    volatile pid_t *id = argument;
    *id = gettid();
    return pause_forever(NULL);
}
TEST(task_that_waits_is_asleep) {
    volatile pid_t id = 0;
    start(tell_number_and_wait, (void *)&id);
    while (!id) sleep_ms(1);
    char path[64], state = 0;
    sprintf(path, "/proc/self/task/%d/stat", id);
    for (long limit = now_ms() + 5000; state != 'S'; sleep_ms(1)) {
        CHECK(now_ms() < limit);
        FILE *file = fopen(path, "r");
        pid_t read;
        CHECK(file && fscanf(file, "%d (torture) %c", &read, &state) == 2 && read == id);
        fclose(file);
    }
    return 0;
}

static void *nothing(void *argument) { return argument; }
TEST(ended_threads_make_room_for_stacks) {
    struct rlimit limit;
    CHECK(!getrlimit(RLIMIT_AS, &limit));
    limit.rlim_cur = 1 << 30;
    CHECK(!setrlimit(RLIMIT_AS, &limit));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 32 << 20);
    long limit_ms = now_ms() + 20000;
    for (int made = 0; made < 2000;) {
        pthread_t thread;
        made += !pthread_create(&thread, &attributes, nothing, NULL);
        CHECK(now_ms() < limit_ms);
    }
    return 0;
}

static int second_life(void *argument) {
    int *ends = argument;
    if (gettid() != getpid()) return 2;
    struct ticker ticker;
    ticker_start(&ticker);
    ticker_wait(&ticker);
    ticker_stop(&ticker);
    if (!ends) return 7;
    char byte = 0;
    if (read(ends[0], &byte, 1) != 1 || byte != 'x') return 3;
    return close(ends[1]) ? 4 : 7;
}
TEST(process_with_a_stack_of_its_own) {
    static char stack[64 << 10] __attribute__((aligned(16)));
    struct ticker ticker;
    ticker_start(&ticker);
    pid_t child = clone(second_life, stack + sizeof stack, SIGCHLD, NULL);
    CHECK(child > 0 && status_of(child) == 7);
    ticker_wait(&ticker);
    ticker_stop(&ticker);
    return 0;
}
TEST(process_with_our_table_of_descriptors) {
    static char stack[64 << 10] __attribute__((aligned(16)));
    int ends[2];
    CHECK(!pipe(ends));
    struct ticker ticker;
    ticker_start(&ticker);
    pid_t child = clone(second_life, stack + sizeof stack, CLONE_FILES | SIGCHLD, ends);
    CHECK(child > 0 && write(ends[1], "x", 1) == 1);
    CHECK(status_of(child) == 7);
    CHECK(write(ends[1], "x", 1) == -1 && errno == EBADF);
    ticker_wait(&ticker);
    ticker_stop(&ticker);
    return 0;
}

TEST(connect_tells_what_came_before) {
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    CHECK(!bind(server, (struct sockaddr *)&address, length) && !getsockname(server, (struct sockaddr *)&address, &length));
    CHECK(connect(client, (struct sockaddr *)&address, length) == -1 && errno == ECONNREFUSED);
    struct sockaddr_in wrong = {.sin_family = 47};
    CHECK(connect(client, (struct sockaddr *)&wrong, sizeof wrong) == -1 && errno == EAFNOSUPPORT);
    CHECK(!listen(server, 5));
    CHECK(!connect(client, (struct sockaddr *)&address, length));
    CHECK(connect(client, (struct sockaddr *)&address, length) == -1 && errno == EISCONN);
    return 0;
}

static void ignore_it(int number) { (void)number; }
static void *interrupt_soon(void *thread) {
    sleep_ms(20);
    pthread_kill(*(pthread_t *)thread, SIGUSR1);
    return NULL;
}
TEST(sleep_whose_rest_cannot_be_written) {
    struct sigaction action = {.sa_handler = ignore_it};
    sigaction(SIGUSR1, &action, NULL);
    struct timespec time = {5, 0};
    pthread_t self = pthread_self(), other = start(interrupt_soon, &self);
    CHECK(syscall(SYS_nanosleep, &time, (void *)8) == -1 && errno == EFAULT);
    join(other);
    other = start(interrupt_soon, &self);
    CHECK(syscall(SYS_clock_nanosleep, CLOCK_REALTIME, 0, &time, (void *)8) == -1 && errno == EFAULT);
    join(other);
    return 0;
}

TEST(full_counter_refuses_what_is_no_number) {
    int counter = eventfd(0, EFD_NONBLOCK);
    uint64_t most = UINT64_MAX - 1, none = UINT64_MAX;
    CHECK(write(counter, &most, 8) == 8);
    CHECK(write(counter, &most, 8) == -1 && errno == EAGAIN);
    CHECK(write(counter, &none, 8) == -1 && errno == EINVAL);
    CHECK(write(counter, &most, 4) == -1 && errno == EINVAL);
    return 0;
}

TEST(traced_child_stops) {
    struct ticker ticker;
    ticker_start(&ticker);
    pid_t child = fork();
    if (!child) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) _exit(2);
        signal(SIGUSR1, ignore_it);
        kill(getpid(), SIGUSR1);
        _exit(7);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
    CHECK(!ptrace(PTRACE_CONT, child, NULL, NULL));
    CHECK(status_of(child) == 7);
    ticker_wait(&ticker);
    ticker_stop(&ticker);
    return 0;
}

TEST(locked_memory_is_the_program_s) {
    struct rusage before, after;
    CHECK(!getrusage(RUSAGE_SELF, &before));
    if (mlockall(MCL_CURRENT)) return 0;
    CHECK(!getrusage(RUSAGE_SELF, &after));
    CHECK(after.ru_maxrss - before.ru_maxrss < 64 << 10);
    return 0;
}

TEST(select_leaves_the_time_if_told) {
    struct timeval time = {0, 10000};
    CHECK(select(0, NULL, NULL, NULL, &time) == 0 && time.tv_usec == 0);
    CHECK(personality(STICKY_TIMEOUTS) != -1);
    time.tv_usec = 10000;
    CHECK(select(0, NULL, NULL, NULL, &time) == 0 && time.tv_usec == 10000);
    struct timespec precise = {0, 10000000};
    CHECK(syscall(SYS_ppoll, NULL, 0, &precise, NULL, 8) == 0 && precise.tv_nsec == 10000000);
    return 0;
}

struct reader {
    int descriptor;
    volatile int result;
};
static void *read_one(void *argument) {
    struct reader *reader = argument;
    char byte;
    reader->result = read(reader->descriptor, &byte, 1);
    return NULL;
}
static void *accept_one(void *argument) {
    struct reader *reader = argument;
    reader->result = accept(reader->descriptor, NULL, NULL);
    return NULL;
}
static void *wait_for_one_event(void *argument) {
    struct reader *reader = argument;
    struct epoll_event event;
    reader->result = epoll_wait(reader->descriptor, &event, 1, -1);
    return NULL;
}

/* A call that waits keeps the file, not its number: the call goes on after the descriptor is
 * closed. */
static int read_after(int other) {
    int ends[2];
    CHECK(!pipe(ends));
    struct reader readers[3] = {{ends[0], -2}, {ends[0], -2}, {ends[0], -2}};
    pthread_t threads[3];
    for (int index = 0; index < 3; index++) threads[index] = start(read_one, &readers[index]);
    sleep_ms(30);
    CHECK(other < 0 ? !close(ends[0]) : dup2(other, ends[0]) == ends[0]);
    sleep_ms(30);
    for (int index = 0; index < 3; index++) CHECK(readers[index].result == -2);
    CHECK(write(ends[1], "abc", 3) == 3);
    for (int index = 0; index < 3; index++) join(threads[index]);
    for (int index = 0; index < 3; index++) CHECK(readers[index].result == 1);
    /* The last call has closed the file. */
    signal(SIGPIPE, SIG_IGN);
    CHECK(write(ends[1], "d", 1) == -1 && errno == EPIPE);
    return 0;
}
TEST(read_goes_on_when_its_descriptor_is_closed) { return read_after(-1); }
TEST(read_goes_on_when_its_descriptor_is_replaced) { return read_after(open("/dev/zero", O_RDONLY)); }

TEST(accept_goes_on_when_its_descriptor_is_closed) {
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    CHECK(!bind(server, (struct sockaddr *)&address, length) && !listen(server, 5));
    CHECK(!getsockname(server, (struct sockaddr *)&address, &length));
    struct reader reader = {server, -2};
    pthread_t thread = start(accept_one, &reader);
    sleep_ms(30);
    CHECK(!close(server));
    CHECK(!connect(client, (struct sockaddr *)&address, length));
    join(thread);
    CHECK(reader.result >= 0);
    return 0;
}

TEST(epoll_goes_on_when_its_descriptor_is_closed) {
    int ends[2], queue = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(!pipe(ends) && !epoll_ctl(queue, EPOLL_CTL_ADD, ends[0], &event));
    struct reader reader = {queue, -2};
    pthread_t thread = start(wait_for_one_event, &reader);
    sleep_ms(30);
    CHECK(!close(queue));
    sleep_ms(30);
    CHECK(reader.result == -2 && write(ends[1], "a", 1) == 1);
    join(thread);
    CHECK(reader.result == 1);
    return 0;
}

static int pair_to_close[2], pair_to_wake[2];
static void *poll_both(void *argument) {
    struct pollfd polls[2] = {{pair_to_close[0], POLLIN, 0}, {pair_to_wake[0], POLLIN, 0}};
    *(volatile int *)argument = poll(polls, 2, 10000) >= 1 && polls[1].revents == POLLIN;
    return NULL;
}
static void *select_both(void *argument) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair_to_close[0], &set);
    FD_SET(pair_to_wake[0], &set);
    struct timeval time = {10, 0};
    *(volatile int *)argument = select(100, &set, NULL, NULL, &time) >= 1 && FD_ISSET(pair_to_wake[0], &set);
    return NULL;
}
/* A close by another thread does not disturb a loop that waits for many descriptors. */
static int close_one_of(void *(*wait_for_both)(void *)) {
    volatile int result = -2;
    CHECK(!pipe(pair_to_close) && !pipe(pair_to_wake));
    pthread_t thread = start(wait_for_both, (void *)&result);
    sleep_ms(30);
    CHECK(!close(pair_to_close[0]));
    sleep_ms(30);
    CHECK(result == -2 && write(pair_to_wake[1], "a", 1) == 1);
    join(thread);
    CHECK(result == 1);
    return 0;
}
TEST(poll_goes_on_when_one_descriptor_is_closed) { return close_one_of(poll_both); }
TEST(select_goes_on_when_one_descriptor_is_closed) { return close_one_of(select_both); }

TEST(receive_what_is_not_there) {
    int stream = socket(AF_INET, SOCK_DGRAM, 0), ends[2];
    char bytes[4];
    struct iovec part = {bytes, 4};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    CHECK(recv(stream, bytes, 4, MSG_ERRQUEUE) == -1 && errno == EAGAIN);
    CHECK(recvmsg(stream, &message, MSG_ERRQUEUE) == -1 && errno == EAGAIN);
    CHECK(!pipe(ends));
    CHECK(recv(ends[0], bytes, 4, 0) == -1 && errno == ENOTSOCK);
    CHECK(recvmsg(ends[0], &message, 0) == -1 && errno == ENOTSOCK);
    CHECK(send(ends[1], bytes, 4, 0) == -1 && errno == ENOTSOCK);
    CHECK(sendmsg(ends[1], &message, 0) == -1 && errno == ENOTSOCK);
    return 0;
}

static volatile sig_atomic_t caught;
static void catch_it(int number) { caught = number; }
TEST(number_of_a_thread_stands_for_its_process) {
    volatile pid_t id = 0;
    signal(SIGUSR1, catch_it);
    start(tell_number_and_wait, (void *)&id);
    while (!id) sleep_ms(1);
    CHECK(!kill(id, 0) && getpgid(id) == getpgrp() && getsid(id) == getsid(0));
    CHECK(!kill(id, SIGUSR1));
    for (long limit = now_ms() + 5000; !caught; sleep_ms(1)) CHECK(now_ms() < limit);
    struct rlimit limit;
    CHECK(!prlimit(id, RLIMIT_NOFILE, NULL, &limit) && limit.rlim_cur > 0);
    return 0;
}

static uint32_t words[2];
static void *wake_second_word(void *argument) {
    sleep_ms((long)argument);
    __atomic_store_n(&words[1], 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &words[1], FUTEX_WAKE_PRIVATE, 1);
    return argument;
}
TEST(wait_for_several_words) {
    struct {
        uint64_t value, address;
        uint32_t flags, reserved;
    } waits[2] = {{0, (uintptr_t)&words[0], 2 | 128, 0}, {0, (uintptr_t)&words[1], 2 | 128, 0}};
    const long futex_waitv = 449;
    /* On a busy machine, the word may change before the wait. The next round takes longer. */
    for (long ms = 30; ms < 8000; ms *= 2) {
        struct timespec limit = from_now(CLOCK_MONOTONIC, ms + 20000);
        words[1] = 0;
        pthread_t other = start(wake_second_word, (void *)ms);
        long woken = syscall(futex_waitv, waits, 2, 0, &limit, CLOCK_MONOTONIC);
        int error = errno;
        join(other);
        if (woken == 1 || (woken == -1 && error == ENOSYS)) return 0;
        CHECK(woken == -1 && error == EAGAIN);
    }
    return 1;
}

TEST(futex_that_is_no_memory) {
    uint32_t *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(syscall(SYS_futex, gone, FUTEX_WAKE, 1) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_futex, words, FUTEX_CMP_REQUEUE, 1, (void *)1, gone, words[0]) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_futex, gone, FUTEX_WAKE_PRIVATE, 1) == 0);
    return 0;
}

TEST(too_many_pending_signals) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    struct rlimit limit = {0, 0};
    CHECK(!setrlimit(RLIMIT_SIGPENDING, &limit));
    CHECK(syscall(SYS_tgkill, getpid(), gettid(), SIGRTMIN) == -1 && errno == EAGAIN);
    return 0;
}

static void fault_instead(int number) {
    (void)number;
    _exit(7);
}
TEST(handler_without_a_stack_is_a_fault) {
    pid_t child = fork();
    if (!child) {
        stack_t stack = {.ss_size = 64 << 10};
        stack.ss_sp = mmap(NULL, stack.ss_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct sigaction on_stack = {.sa_handler = catch_it, .sa_flags = SA_ONSTACK}, plain = {.sa_handler = fault_instead};
        sigaction(SIGUSR1, &on_stack, NULL);
        sigaction(SIGSEGV, &plain, NULL);
        sigaltstack(&stack, NULL);
        raise(SIGUSR1);
        _exit(1);
    }
    CHECK(status_of(child) == 7);
    child = fork();
    if (!child) {
        stack_t stack = {.ss_size = 64 << 10};
        stack.ss_sp = mmap(NULL, stack.ss_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct sigaction on_stack = {.sa_handler = catch_it, .sa_flags = SA_ONSTACK};
        sigaction(SIGUSR1, &on_stack, NULL);
        sigaltstack(&stack, NULL);
        kill(getpid(), SIGUSR1);
        for (;;) sleep_ms(1);
    }
    CHECK(status_of(child) == 128 + SIGSEGV);
    return 0;
}

static sem_t handled;
static void post_it(int number) {
    (void)number;
    sem_post(&handled);
}
static volatile bool enough;
static void *compute_and_yield(void *argument) {
    volatile double sum = 0;
    while (!enough) {
        for (int index = 0; index < 1000; index++) sum += index;
        sched_yield();
    }
    return argument;
}
/* With signals on the smallest stacks, the engine writes nothing beneath the stacks. */
TEST(signals_on_small_stacks_that_compute) {
    enum { BELOW = 8192, COUNT = 4 };
    static char smallest[256 << 10] __attribute__((aligned(4096)));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_t probe;
    size_t size = 16384;
    /* The program's thread-local variables decide how much libc itself needs. A handler needs some
     * 4 KiB natively too. */
    for (; pthread_attr_setstack(&attributes, smallest, size) || pthread_create(&probe, &attributes, nothing, NULL); size += 4096) {
    }
    join(probe);
    /* Two of this processor's signal frames must fit. The engine keeps the vector registers once
     * for the handler, and once for a call that the handler makes. */
    size += (2 * getauxval(AT_MINSIGSTKSZ) + 4095) & ~(size_t)4095;
    struct sigaction action = {.sa_handler = post_it, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sem_init(&handled, 0, 0);
    unsigned char *places[COUNT];
    pthread_t threads[COUNT];
    for (int index = 0; index < COUNT; index++) {
        places[index] = aligned_alloc(4096, BELOW + size);
        memset(places[index], 0x5a, BELOW);
        CHECK(!pthread_attr_setstack(&attributes, places[index] + BELOW, size));
        CHECK(!pthread_create(&threads[index], &attributes, compute_and_yield, NULL));
    }
    for (int sent = 0; sent < 2000; sent++) {
        CHECK(!pthread_kill(threads[sent % COUNT], SIGUSR1));
        if (sent % 8 == 0) CHECK(!sem_wait(&handled));
    }
    enough = true;
    for (int index = 0; index < COUNT; index++) {
        join(threads[index]);
        for (int at = 0; at < BELOW; at++) CHECK(places[index][at] == 0x5a);
    }
    return 0;
}

static volatile long storm;
static void count_storm(int number) {
    (void)number;
    storm++;
}
static void *send_to_process(void *argument) {
    sigset_t set;
    sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    long end = now_ms() + 5000;
    for (int sent = 0; sent < 30000 && now_ms() < end; sent++) kill(getpid(), SIGRTMIN);
    enough = true;
    return argument;
}
static void *compute(void *argument) {
    volatile double sum = 0;
    while (!enough) sum += 1;
    return argument;
}
/* Signals that come faster than the handler returns do not fill the stack. */
TEST(preempt_storm_of_signals) {
    struct sigaction action = {.sa_handler = count_storm, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(SIGRTMIN, &action, NULL);
    struct rlimit limit;
    CHECK(!getrlimit(RLIMIT_STACK, &limit));
    limit.rlim_cur = 256 << 10;
    CHECK(!setrlimit(RLIMIT_STACK, &limit));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    pthread_t sender = start(send_to_process, NULL), other;
    CHECK(!pthread_create(&other, &attributes, compute, NULL));
    compute(NULL);
    join(sender);
    join(other);
    CHECK(storm > 0);
    return 0;
}
