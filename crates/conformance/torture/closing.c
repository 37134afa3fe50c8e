/* Calls that wait while another thread closes or replaces their descriptors. Natively, such calls
 * keep the file. */
#include "test.h"
#include <arpa/inet.h>
#include <netinet/in.h>

/* A call that a thread is in. */
struct wait {
    int descriptor;
    void (*call)(struct wait *wait);
    volatile pid_t id;
    volatile int result;
    /* The events that a poll or a select reported for the descriptor. */
    volatile int said;
    struct sockaddr_in address;
};

static void *wait_in_call(void *argument) {
    struct wait *wait = argument;
    wait->id = gettid();
    wait->call(wait);
    return NULL;
}

/* Starts a thread in the call, and returns when the thread sleeps in the call. */
static pthread_t enter(struct wait *wait) {
    wait->result = -2;
    pthread_t thread = start(wait_in_call, wait);
    while (!wait->id) sched_yield();
    char path[64], state = 0;
    sprintf(path, "/proc/self/task/%d/stat", wait->id);
    while (state != 'S') {
        sleep_ms(1);
        FILE *file = fopen(path, "r");
        if (!file || fscanf(file, "%*d (torture) %c", &state) != 1) exit(1);
        fclose(file);
    }
    return thread;
}

/* Closes the number, or makes it refer to another file. */
static int end_number(int number, int other) {
    return other < 0 ? close(number) : dup2(other, number) != number;
}
static int zeros(void) { return open("/dev/zero", O_RDONLY); }

static void call_poll(struct wait *wait) {
    struct pollfd one = {wait->descriptor, POLLIN, 0};
    int result = poll(&one, 1, 10000);
    wait->said = one.revents;
    wait->result = result;
}
static void call_select(struct wait *wait) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(wait->descriptor, &set);
    struct timeval time = {10, 0};
    int result = select(wait->descriptor + 1, &set, NULL, NULL, &time);
    wait->said = FD_ISSET(wait->descriptor, &set);
    wait->result = result;
}

/* At the end the calls report the state of the file that the number then refers to. */
static int several_keep(void (*call)(struct wait *), int other, int said) {
    enum { WAITS = 3 };
    int ends[2];
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR && !socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    struct wait waits[WAITS];
    pthread_t threads[WAITS];
    for (int index = 0; index < WAITS; index++) {
        waits[index] = (struct wait){.descriptor = ends[0], .call = call};
        threads[index] = enter(&waits[index]);
    }
    CHECK(!end_number(ends[0], other));
    sleep_ms(30);
    /* The file is writable, and no call asked for this event. */
    for (int index = 0; index < WAITS; index++) CHECK(waits[index].result == -2);
    CHECK(write(ends[1], "a", 1) == 1);
    for (int index = 0; index < WAITS; index++) {
        join(threads[index]);
        CHECK(waits[index].result == 1 && waits[index].said == said);
    }
    /* The last call has closed the file. */
    CHECK(write(ends[1], "b", 1) == -1 && errno == EPIPE);
    return 0;
}
TEST(poll_keeps_a_file_that_is_closed) { return several_keep(call_poll, -1, POLLNVAL); }
TEST(poll_keeps_a_file_that_is_replaced) { return several_keep(call_poll, zeros(), POLLIN); }
TEST(select_keeps_a_file_that_is_closed) { return several_keep(call_select, -1, 1); }
TEST(select_keeps_a_file_that_is_replaced) { return several_keep(call_select, zeros(), 1); }

TEST(poll_keeps_a_file_through_close_range) {
    enum { WRITER = 300 };
    int ends[2];
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR && !pipe(ends) && dup2(ends[1], WRITER) == WRITER);
    struct wait wait = {.descriptor = ends[0], .call = call_poll};
    pthread_t thread = enter(&wait);
    CHECK(!syscall(SYS_close_range, 3, WRITER - 1, 0));
    CHECK(!syscall(SYS_close_range, WRITER + 1, ~0u, 0));
    sleep_ms(30);
    CHECK(wait.result == -2 && write(WRITER, "a", 1) == 1);
    join(thread);
    CHECK(wait.result == 1 && wait.said == POLLNVAL);
    CHECK(write(WRITER, "b", 1) == -1 && errno == EPIPE);
    return 0;
}

/* A call that ends by a signal or by time gives the file back too. */
static void ignore(int number) { (void)number; }
TEST(poll_gives_its_file_back_when_a_signal_comes) {
    int ends[2];
    struct sigaction action = {.sa_handler = ignore};
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR && !sigaction(SIGUSR1, &action, NULL) && !pipe(ends));
    struct wait wait = {.descriptor = ends[0], .call = call_poll};
    pthread_t thread = enter(&wait);
    CHECK(!close(ends[0]) && !pthread_kill(thread, SIGUSR1));
    join(thread);
    /* The call reports the closed number, or the signal. */
    CHECK(wait.result == 1 || wait.result == -1);
    CHECK(write(ends[1], "a", 1) == -1 && errno == EPIPE);
    return 0;
}

static void *close_soon(void *argument) {
    sleep_ms(20);
    close((long)argument);
    return NULL;
}
TEST(select_tells_of_a_closed_number_when_its_time_is_over) {
    int ends[2];
    CHECK(!pipe(ends));
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    pthread_t thread = start(close_soon, (void *)(long)ends[0]);
    struct timeval time = {1, 0};
    int result = select(ends[0] + 1, &set, NULL, NULL, &time);
    join(thread);
    CHECK(result == 1 && FD_ISSET(ends[0], &set));
    return 0;
}

/* A child does not share the files that its parent's calls keep. */
TEST(a_child_keeps_no_file_of_its_parents_calls) {
    int ends[2], ready[2];
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR && !pipe(ends) && !pipe(ready));
    struct wait wait = {.descriptor = ends[0], .call = call_poll};
    pthread_t thread = enter(&wait);
    CHECK(!close(ends[0]));
    pid_t child = fork();
    if (!child) {
        char byte;
        close(ready[1]);
        _exit(read(ready[0], &byte, 1) != 1);
    }
    CHECK(write(ends[1], "a", 1) == 1);
    join(thread);
    /* The child may not have begun yet. */
    while (write(ends[1], "b", 1) == 1) sleep_ms(1);
    CHECK(errno == EPIPE && write(ready[1], "c", 1) == 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}

static void call_read(struct wait *wait) {
    char byte;
    wait->result = read(wait->descriptor, &byte, 1);
}
static void call_write(struct wait *wait) { wait->result = write(wait->descriptor, "x", 1); }
static void call_epoll(struct wait *wait) {
    struct epoll_event event;
    wait->result = epoll_wait(wait->descriptor, &event, 1, 10000);
}
static void call_connect(struct wait *wait) {
    wait->result = connect(wait->descriptor, (struct sockaddr *)&wait->address, sizeof wait->address);
}

TEST(read_goes_on_when_replacing_its_descriptor_fails) {
    int ends[2];
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR && !pipe(ends));
    struct wait wait = {.descriptor = ends[0], .call = call_read};
    pthread_t thread = enter(&wait);
    CHECK(dup2(999, ends[0]) == -1 && errno == EBADF);
    CHECK(write(ends[1], "a", 1) == 1);
    join(thread);
    CHECK(wait.result == 1 && write(ends[1], "b", 1) == 1 && !close(ends[0]));
    CHECK(write(ends[1], "c", 1) == -1 && errno == EPIPE);
    return 0;
}

TEST(write_goes_on_when_its_descriptor_is_closed) {
    enum { ROOM = 4096 };
    int ends[2];
    char bytes[ROOM] = {0};
    CHECK(!pipe(ends) && fcntl(ends[1], F_SETPIPE_SZ, ROOM) == ROOM);
    CHECK(write(ends[1], bytes, ROOM) == ROOM);
    struct wait wait = {.descriptor = ends[1], .call = call_write};
    pthread_t thread = enter(&wait);
    CHECK(!close(ends[1]));
    sleep_ms(30);
    CHECK(wait.result == -2 && read(ends[0], bytes, ROOM) == ROOM && read(ends[0], bytes, 1) == 1);
    join(thread);
    CHECK(wait.result == 1 && read(ends[0], bytes, 1) == 0);
    return 0;
}

TEST(epoll_goes_on_when_its_descriptor_is_replaced) {
    int ends[2], queue = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(!pipe(ends) && !epoll_ctl(queue, EPOLL_CTL_ADD, ends[0], &event));
    struct wait wait = {.descriptor = queue, .call = call_epoll};
    pthread_t thread = enter(&wait);
    CHECK(!end_number(queue, zeros()));
    sleep_ms(30);
    CHECK(wait.result == -2 && write(ends[1], "a", 1) == 1);
    join(thread);
    CHECK(wait.result == 1);
    return 0;
}

/* A connect waits while the listener's queue is full; the kernel tries again after a second. */
static int connect_goes_on(int other) {
    int server = socket(AF_INET, SOCK_STREAM, 0), first = socket(AF_INET, SOCK_STREAM, 0);
    struct wait wait = {.descriptor = socket(AF_INET, SOCK_STREAM, 0), .call = call_connect};
    struct sockaddr *address = (struct sockaddr *)&wait.address;
    socklen_t length = sizeof wait.address;
    wait.address.sin_family = AF_INET;
    wait.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(!bind(server, address, length) && !listen(server, 0));
    CHECK(!getsockname(server, address, &length) && !connect(first, address, length));
    pthread_t thread = enter(&wait);
    CHECK(!end_number(wait.descriptor, other));
    CHECK(wait.result == -2 && accept(server, NULL, NULL) >= 0);
    join(thread);
    CHECK(wait.result == 0);
    return 0;
}
TEST(connect_goes_on_when_its_descriptor_is_closed) { return connect_goes_on(-1); }
TEST(connect_goes_on_when_its_descriptor_is_replaced) { return connect_goes_on(zeros()); }
