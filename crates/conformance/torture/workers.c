/* Tests possible mistakes of several kernel threads: events, flags, signals and forks that
 * cross. */
#include "test.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

/* Some work without calls, of a random length. */
static void work(unsigned *seed) {
    *seed = *seed * 1103515245 + 12345;
    for (volatile unsigned left = *seed >> 20; left > 0; left--) {
    }
}

struct pair {
    int ends[2];
    int rounds;
};

static void *echo_words(void *argument) {
    struct pair *pair = argument;
    unsigned seed = (unsigned)pair->ends[1];
    int word;
    while (read(pair->ends[1], &word, sizeof word) == sizeof word) {
        work(&seed);
        if (write(pair->ends[1], &word, sizeof word) != sizeof word) return (void *)1;
    }
    return NULL;
}

static void *send_words(void *argument) {
    struct pair *pair = argument;
    unsigned seed = (unsigned)pair->ends[0];
    for (int round = 0; round < pair->rounds; round++) {
        int word = -1;
        work(&seed);
        if (write(pair->ends[0], &round, sizeof round) != sizeof round) return (void *)1;
        if (read(pair->ends[0], &word, sizeof word) != sizeof word || word != round) return (void *)2;
    }
    shutdown(pair->ends[0], SHUT_RDWR);
    close(pair->ends[0]);
    return NULL;
}

/* The engine loses no edge of a socket between an attempt and the wait after it. */
static int ping_pong(int pairs, int rounds) {
    struct pair all[64];
    pthread_t threads[128];
    for (int index = 0; index < pairs; index++) {
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, all[index].ends));
        all[index].rounds = rounds;
        threads[2 * index] = start(echo_words, &all[index]);
        threads[2 * index + 1] = start(send_words, &all[index]);
    }
    for (int index = 0; index < 2 * pairs; index++) CHECK(join(threads[index]) == 0);
    for (int index = 0; index < pairs; index++) close(all[index].ends[1]);
    return 0;
}

TEST(workers_two_ping_pong) { return ping_pong(1, 20000); }
TEST(workers_many_ping_pong) { return ping_pong(60, 400); }

static void *poll_words(void *argument) {
    struct pair *pair = argument;
    for (int round = 0; round < pair->rounds; round++) {
        struct pollfd polled = {pair->ends[1], POLLIN, 0};
        int word;
        if (poll(&polled, 1, -1) != 1) return (void *)1;
        if (recv(pair->ends[1], &word, sizeof word, MSG_DONTWAIT) != sizeof word) return (void *)2;
        if (send(pair->ends[1], &word, sizeof word, 0) != sizeof word) return (void *)3;
    }
    return NULL;
}

static void *epoll_words(void *argument) {
    struct pair *pair = argument;
    int set = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {0}};
    epoll_ctl(set, EPOLL_CTL_ADD, pair->ends[1], &event);
    for (int round = 0; round < pair->rounds; round++) {
        int word;
        if (epoll_wait(set, &event, 1, -1) != 1) return (void *)1;
        if (recv(pair->ends[1], &word, sizeof word, MSG_DONTWAIT) != sizeof word) return (void *)2;
        if (send(pair->ends[1], &word, sizeof word, 0) != sizeof word) return (void *)3;
    }
    close(set);
    return NULL;
}

static int answered_by(void *(*answer)(void *)) {
    struct pair all[8];
    pthread_t threads[16];
    for (int index = 0; index < 8; index++) {
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, all[index].ends));
        all[index].rounds = 2000;
        threads[2 * index] = start(answer, &all[index]);
        threads[2 * index + 1] = start(send_words, &all[index]);
    }
    for (int index = 0; index < 16; index++) CHECK(join(threads[index]) == 0);
    return 0;
}

TEST(workers_poll) { return answered_by(poll_words); }
TEST(workers_epoll) { return answered_by(epoll_words); }

/* Many readers share one pipe. Each byte is read once, and all readers end. */
static void *count_bytes(void *argument) {
    long count = 0;
    char byte;
    while (read(*(int *)argument, &byte, 1) == 1) count++;
    return (void *)count;
}

TEST(workers_share_a_pipe) {
    int ends[2];
    pthread_t readers[8];
    char bytes[100] = {0};
    long total = 0;
    CHECK(!pipe(ends));
    for (int index = 0; index < 8; index++) readers[index] = start(count_bytes, &ends[0]);
    for (int round = 0; round < 200; round++) CHECK(write(ends[1], bytes, sizeof bytes) == sizeof bytes);
    close(ends[1]);
    for (int index = 0; index < 8; index++) total += join(readers[index]);
    CHECK(total == 200 * (long)sizeof bytes);
    return 0;
}

/* Several threads accept. Each connection goes to one thread, and no thread holds up a kernel
 * thread. */
static int listener;
static volatile int accepted;

static void *accept_all(void *argument) {
    (void)argument;
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0) return (void *)1;
        __atomic_add_fetch(&accepted, 1, __ATOMIC_RELAXED);
        char byte = 'x';
        if (write(connection, &byte, 1) != 1) return (void *)2;
        close(connection);
    }
}

static struct sockaddr_in address;

static void *connect_many(void *argument) {
    for (long left = (long)argument; left > 0; left--) {
        int connection = socket(AF_INET, SOCK_STREAM, 0);
        char byte = 0;
        if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof address)) return (void *)1;
        if (fcntl(connection, F_GETFL) & O_NONBLOCK) return (void *)2;
        if (read(connection, &byte, 1) != 1 || byte != 'x') return (void *)3;
        close(connection);
    }
    return NULL;
}

static int listen_somewhere(void) {
    socklen_t length = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(!bind(listener, (struct sockaddr *)&address, sizeof address));
    CHECK(!listen(listener, 512));
    CHECK(!getsockname(listener, (struct sockaddr *)&address, &length));
    return 0;
}

TEST(workers_share_a_listener) {
    pthread_t acceptors[6], clients[6];
    if (listen_somewhere()) return 1;
    for (int index = 0; index < 6; index++) {
        acceptors[index] = start(accept_all, NULL);
        clients[index] = start(connect_many, (void *)100);
    }
    for (int index = 0; index < 6; index++) CHECK(join(clients[index]) == 0);
    CHECK(accepted == 600);
    for (int index = 0; index < 6; index++) CHECK(!pthread_cancel(acceptors[index]));
    for (int index = 0; index < 6; index++) join(acceptors[index]);
    return 0;
}

/* sendfile and F_GETFL from two threads: F_GETFL never shows the flag that sendfile may need. */
static volatile bool stop;

static void *look_at_flags(void *argument) {
    while (!stop) {
        if (fcntl(*(int *)argument, F_GETFL) & O_NONBLOCK) return (void *)1;
    }
    return NULL;
}

static void *drain(void *argument) {
    char buffer[65536];
    long total = 0;
    for (ssize_t count; (count = read(*(int *)argument, buffer, sizeof buffer)) > 0;) total += count;
    return (void *)total;
}

TEST(preempt_flags_stay) {
    int ends[2];
    FILE *file = tmpfile();
    static char block[1 << 16];
    pthread_t looker, reader;
    CHECK(file && !socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    for (int index = 0; index < 16; index++) CHECK(fwrite(block, sizeof block, 1, file) == 1);
    fflush(file);
    stop = false;
    looker = start(look_at_flags, &ends[0]);
    reader = start(drain, &ends[1]);
    for (int round = 0; round < 20; round++) {
        off_t offset = 0;
        CHECK(sendfile(ends[0], fileno(file), &offset, 16 * sizeof block) == 16 * sizeof block);
    }
    stop = true;
    CHECK(join(looker) == 0);
    shutdown(ends[0], SHUT_WR);
    CHECK(join(reader) == 20 * 16 * (long)sizeof block);
    return 0;
}

/* A signal for one thread reaches that thread on any kernel thread. In the test with `preempt_`,
 * the thread computes. */
static volatile pthread_t handled_by;
static volatile int handled;

static void note(int number) {
    (void)number;
    handled_by = pthread_self();
    handled++;
}

static void *compute(void *argument) {
    volatile bool *end = argument;
    while (!*end) {
    }
    return NULL;
}

TEST(preempt_signals_find_threads_that_compute) {
    pthread_t threads[4];
    volatile bool end = false;
    signal(SIGUSR1, note);
    for (int index = 0; index < 4; index++) threads[index] = start(compute, (void *)&end);
    for (int round = 0; round < 40; round++) {
        int before = handled;
        CHECK(!pthread_kill(threads[round % 4], SIGUSR1));
        while (handled == before) sched_yield();
        CHECK(pthread_equal(handled_by, threads[round % 4]));
    }
    end = true;
    for (int index = 0; index < 4; index++) CHECK(join(threads[index]) == 0);
    return 0;
}

TEST(preempt_cancel_threads_that_compute) {
    pthread_t threads[4];
    volatile bool end = false;
    for (int index = 0; index < 4; index++) threads[index] = start(compute, (void *)&end);
    sleep_ms(20);
    for (int index = 0; index < 4; index++) {
        /* Asynchronous cancellation is off: the threads end by the flag, with the request
         * pending. */
        CHECK(!pthread_cancel(threads[index]));
    }
    end = true;
    for (int index = 0; index < 4; index++) CHECK(join(threads[index]) == 0);
    return 0;
}

/* A signal that every thread blocks waits for signalfd, although several kernel threads could take
 * it. */
static void *sleep_long(void *argument) {
    while (!*(volatile bool *)argument) sleep_ms(1);
    return NULL;
}

TEST(workers_blocked_signals_wait) {
    pthread_t threads[6];
    volatile bool end = false;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
    for (int index = 0; index < 6; index++) threads[index] = start(sleep_long, (void *)&end);
    int descriptor = signalfd(-1, &set, 0);
    for (int round = 0; round < 100; round++) {
        struct signalfd_siginfo info;
        CHECK(!kill(getpid(), SIGUSR2));
        CHECK(read(descriptor, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR2);
    }
    end = true;
    for (int index = 0; index < 6; index++) join(threads[index]);
    return 0;
}

/* Threads that fork at the same time, while others use the heap. */
static void *fork_often(void *argument) {
    (void)argument;
    for (int round = 0; round < 15; round++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread = start(sleep_long, (void *)&(bool){true});
            void *memory = malloc(5000);
            join(thread);
            free(memory);
            _exit(memory ? 7 : 1);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 7 << 8) return (void *)1;
    }
    return NULL;
}

static void *allocate(void *argument) {
    while (!*(volatile bool *)argument) free(malloc(300000));
    return NULL;
}

TEST(preempt_forks) {
    pthread_t forking[3], allocating[2];
    volatile bool end = false;
    for (int index = 0; index < 2; index++) allocating[index] = start(allocate, (void *)&end);
    for (int index = 0; index < 3; index++) forking[index] = start(fork_often, NULL);
    for (int index = 0; index < 3; index++) CHECK(join(forking[index]) == 0);
    end = true;
    for (int index = 0; index < 2; index++) join(allocating[index]);
    return 0;
}

/* sched_getcpu returns a valid processor. */
static void *ask_processor(void *argument) {
    (void)argument;
    for (int round = 0; round < 100; round++) {
        int processor = sched_getcpu();
        if (processor < 0 || processor >= sysconf(_SC_NPROCESSORS_CONF)) return (void *)1;
        sched_yield();
    }
    return NULL;
}

TEST(workers_processor) {
    pthread_t threads[8];
    CHECK((long)ask_processor(NULL) == 0);
    for (int index = 0; index < 8; index++) threads[index] = start(ask_processor, NULL);
    for (int index = 0; index < 8; index++) CHECK(join(threads[index]) == 0);
    return 0;
}

/* All threads have the user of the process, even threads that compute. Needs root. */
static void *ask_user(void *argument) {
    while (!*(volatile bool *)argument) sched_yield();
    for (int round = 0; round < 50; round++) {
        if (syscall(SYS_geteuid) != 65534) return (void *)1;
        sleep_ms(1);
    }
    return NULL;
}

TEST(preempt_change_user) {
    pthread_t threads[6], busy;
    volatile bool go = false, end = false;
    if (geteuid()) return 0;
    for (int index = 0; index < 6; index++) threads[index] = start(ask_user, (void *)&go);
    busy = start(allocate, (void *)&end);
    sleep_ms(10);
    CHECK(!setegid(65534) && !seteuid(65534));
    go = true;
    for (int index = 0; index < 6; index++) CHECK(join(threads[index]) == 0);
    end = true;
    join(busy);
    return 0;
}

/* Timers of sleeping threads go off while others compute. */
static void *sleep_short(void *argument) {
    (void)argument;
    for (int round = 0; round < 200; round++) {
        struct timespec time = {0, 100000 + round * 1000};
        if (nanosleep(&time, NULL)) return (void *)1;
    }
    return NULL;
}

TEST(preempt_sleeps_end_beside_threads_that_compute) {
    pthread_t sleeping[10], computing;
    volatile bool end = false;
    computing = start(compute, (void *)&end);
    for (int index = 0; index < 10; index++) sleeping[index] = start(sleep_short, NULL);
    for (int index = 0; index < 10; index++) CHECK(join(sleeping[index]) == 0);
    end = true;
    CHECK(join(computing) == 0);
    return 0;
}

/* A signal that another kernel thread takes is not lost between the look for it and the wait. */
static void *send_and_wait(void *argument) {
    int *answers = argument;
    for (int round = 0; round < 3000; round++) {
        int before = __atomic_load_n(answers, __ATOMIC_ACQUIRE);
        kill(getpid(), SIGUSR1);
        while (__atomic_load_n(answers, __ATOMIC_ACQUIRE) == before) sched_yield();
    }
    return NULL;
}

TEST(workers_sigwait_loses_nothing) {
    int answers = 0, number;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
    pthread_t sender = start(send_and_wait, &answers);
    for (int round = 0; round < 3000; round++) {
        CHECK(!sigwait(&set, &number) && number == SIGUSR1);
        __atomic_add_fetch(&answers, 1, __ATOMIC_RELEASE);
    }
    CHECK(join(sender) == 0);
    return 0;
}
