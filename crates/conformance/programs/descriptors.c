/* Makes every call that transfers bytes on every kind of descriptor, and prints what comes of it:
 * a result, or that the call waits. The same lines come natively and on the engine.
 *
 *     descriptors THREADS MILLISECONDS [CASE]
 *
 * Each case has a process of its own, with one thread or two (THREADS). A call that has not
 * returned after MILLISECONDS waits. With CASE, the program runs that case alone. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* The descriptor that the call is made on, and its other end, if there is one. */
struct ends {
    int own, other;
};
static char folder[] = "/tmp/descriptors-XXXXXX";
static char bytes[100000];

static struct ends pair(int own, int other) { return (struct ends){own, other}; }
static struct ends alone(int own) { return pair(own, -1); }
static char *in_folder(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s-%d", folder, name, getpid());
    return path;
}

static struct ends pipe_reader(void) {
    int ends[2];
    return pipe(ends) ? alone(-1) : pair(ends[0], ends[1]);
}
static struct ends pipe_writer(void) {
    struct ends ends = pipe_reader();
    return pair(ends.other, ends.own);
}
static struct ends fifo_reader(void) {
    char *path = in_folder("fifo");
    if (mkfifo(path, 0600)) return alone(-1);
    int own = open(path, O_RDONLY | O_NONBLOCK);
    return pair(own, open(path, O_WRONLY));
}
static struct ends fifo_writer(void) {
    struct ends ends = fifo_reader();
    return pair(ends.other, ends.own);
}
static struct ends fifo_both(void) {
    char *path = in_folder("fifo");
    return mkfifo(path, 0600) ? alone(-1) : alone(open(path, O_RDWR));
}
static struct ends sockets(int kind) {
    int ends[2];
    return socketpair(AF_UNIX, kind, 0, ends) ? alone(-1) : pair(ends[0], ends[1]);
}
static struct ends unix_stream(void) { return sockets(SOCK_STREAM); }
static struct ends unix_datagrams(void) { return sockets(SOCK_DGRAM); }
static struct ends unix_packets(void) { return sockets(SOCK_SEQPACKET); }
static struct ends listener(void) {
    int own = socket(AF_INET, SOCK_STREAM, 0);
    return listen(own, 5) ? alone(-1) : alone(own);
}
static struct ends tcp(void) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int door = listener().own, own = socket(AF_INET, SOCK_STREAM, 0);
    if (getsockname(door, (void *)&address, &length)) return alone(-1);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(own, (void *)&address, length)) return alone(-1);
    return pair(own, accept(door, NULL, NULL));
}
static struct ends unconnected(void) { return alone(socket(AF_INET, SOCK_STREAM, 0)); }
static struct ends counter(void) { return alone(eventfd(0, 0)); }
static struct ends semaphore(void) { return alone(eventfd(0, EFD_SEMAPHORE)); }
static struct ends timer(void) { return alone(timerfd_create(CLOCK_MONOTONIC, 0)); }
static struct ends signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return alone(signalfd(-1, &set, 0));
}
static struct ends epolls(void) { return alone(epoll_create1(0)); }
static struct ends notices(void) { return alone(inotify_init()); }
static struct ends permissions(void) {
    int own = fanotify_init(FAN_CLASS_CONTENT, O_RDONLY);
    return alone(own);
}
static struct ends process(void) { return alone(syscall(SYS_pidfd_open, getpid(), 0)); }
static struct ends memory(void) { return alone(memfd_create("memory", 0)); }
static struct ends directory(void) { return alone(open(folder, O_RDONLY)); }
static struct ends only_path(void) { return alone(open(folder, O_PATH)); }
static struct ends regular(void) { return alone(open(in_folder("file"), O_RDWR | O_CREAT, 0600)); }
static struct ends appending(void) {
    return alone(open(in_folder("file"), O_WRONLY | O_APPEND | O_CREAT, 0600));
}
static struct ends device_null(void) { return alone(open("/dev/null", O_RDWR)); }
static struct ends device_zero(void) { return alone(open("/dev/zero", O_RDWR)); }
static struct ends device_full(void) { return alone(open("/dev/full", O_RDWR)); }
static struct ends kernel_log(void) { return alone(open("/dev/kmsg", O_WRONLY)); }
static struct ends terminal(void) {
    int other = posix_openpt(O_RDWR | O_NOCTTY);
    if (other < 0 || grantpt(other) || unlockpt(other)) return alone(-1);
    return pair(open(ptsname(other), O_RDWR | O_NOCTTY), other);
}
static struct ends terminal_master(void) {
    struct ends ends = terminal();
    return pair(ends.other, ends.own);
}
static struct ends raw_terminal(int minimum, int tenths) {
    struct ends ends = terminal();
    struct termios settings;
    if (tcgetattr(ends.own, &settings)) return alone(-1);
    cfmakeraw(&settings);
    settings.c_cc[VMIN] = minimum;
    settings.c_cc[VTIME] = tenths;
    tcsetattr(ends.own, TCSANOW, &settings);
    return ends;
}
static struct ends terminal_at_once(void) { return raw_terminal(0, 0); }
static struct ends terminal_with_time(void) { return raw_terminal(0, 1); }
static struct ends terminal_of_three(void) { return raw_terminal(3, 0); }

static const struct kind {
    const char *name;
    struct ends (*make)(void);
} kinds[] = {
    {"pipe reader", pipe_reader},
    {"pipe writer", pipe_writer},
    {"fifo reader", fifo_reader},
    {"fifo writer", fifo_writer},
    {"fifo both", fifo_both},
    {"unix stream", unix_stream},
    {"unix datagrams", unix_datagrams},
    {"unix packets", unix_packets},
    {"tcp", tcp},
    {"listener", listener},
    {"unconnected", unconnected},
    {"eventfd", counter},
    {"eventfd semaphore", semaphore},
    {"timerfd", timer},
    {"signalfd", signals},
    {"epoll", epolls},
    {"inotify", notices},
    {"fanotify", permissions},
    {"pidfd", process},
    {"memfd", memory},
    {"directory", directory},
    {"path", only_path},
    {"file", regular},
    {"append", appending},
    {"null", device_null},
    {"zero", device_zero},
    {"full", device_full},
    {"kmsg", kernel_log},
    {"terminal", terminal},
    {"terminal master", terminal_master},
    {"terminal at once", terminal_at_once},
    {"terminal with time", terminal_with_time},
    {"terminal of three", terminal_of_three},
};

static struct iovec parts[2] = {{bytes, 3}, {bytes + 3, 5}};
static uint64_t one = 1, most = -2;

static long call_read(int own) { return read(own, bytes, 8); }
static long call_read_none(int own) { return read(own, bytes, 0); }
static long call_readv(int own) { return readv(own, parts, 2); }
static long call_pread(int own) { return pread(own, bytes, 8, 0); }
static long call_preadv(int own) { return preadv(own, parts, 2, 0); }
static long call_preadv2(int own) { return preadv2(own, parts, 2, -1, 0); }
static long call_recv(int own) { return recv(own, bytes, 8, 0); }
static long call_recvmsg(int own) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    return recvmsg(own, &message, 0);
}
static long call_write_one(int own) { return write(own, &one, 8); }
static long call_write_most(int own) { return write(own, &most, 8); }
static long call_write_none(int own) { return write(own, bytes, 0); }
static long call_write_much(int own) { return write(own, bytes, sizeof bytes); }
static long call_writev(int own) { return writev(own, parts, 2); }
static long call_pwrite(int own) { return pwrite(own, bytes, 8, 0); }
static long call_pwritev(int own) { return pwritev(own, parts, 2, 0); }
static long call_pwritev2(int own) { return pwritev2(own, parts, 2, -1, 0); }
static long call_send(int own) { return send(own, bytes, 8, 0); }
static long call_sendmsg(int own) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    return sendmsg(own, &message, 0);
}
static int filled(void) {
    int file = memfd_create("filled", 0);
    return write(file, bytes, 100) == 100 && !lseek(file, 0, SEEK_SET) ? file : -1;
}
static long call_sendfile_to(int own) { return sendfile(own, filled(), NULL, 100); }
static long call_sendfile_from(int own) { return sendfile(memory().own, own, NULL, 8); }
static long call_copy_to(int own) { return copy_file_range(filled(), NULL, own, NULL, 8, 0); }
static long call_copy_from(int own) { return copy_file_range(own, NULL, memory().own, NULL, 8, 0); }
static long call_splice_from(int own) { return splice(own, NULL, pipe_writer().own, NULL, 8, 0); }
static long call_splice_to(int own) {
    struct ends from = pipe_reader();
    if (write(from.other, bytes, 8) != 8) return -1;
    return splice(from.own, NULL, own, NULL, 8, 0);
}
static long call_tee_from(int own) { return tee(own, pipe_writer().own, 8, 0); }
static long call_tee_to(int own) {
    struct ends from = pipe_reader();
    if (write(from.other, bytes, 8) != 8) return -1;
    return tee(from.own, own, 8, 0);
}
static long call_vmsplice(int own) { return vmsplice(own, parts, 2, 0); }
static long call_accept(int own) { return accept(own, NULL, NULL) < 0 ? -1 : 0; }

static const struct call {
    const char *name;
    long (*make)(int);
} calls[] = {
    {"read", call_read},
    {"read none", call_read_none},
    {"readv", call_readv},
    {"pread", call_pread},
    {"preadv", call_preadv},
    {"preadv2", call_preadv2},
    {"recv", call_recv},
    {"recvmsg", call_recvmsg},
    {"write one", call_write_one},
    {"write most", call_write_most},
    {"write none", call_write_none},
    {"write much", call_write_much},
    {"writev", call_writev},
    {"pwrite", call_pwrite},
    {"pwritev", call_pwritev},
    {"pwritev2", call_pwritev2},
    {"send", call_send},
    {"sendmsg", call_sendmsg},
    {"sendfile to", call_sendfile_to},
    {"sendfile from", call_sendfile_from},
    {"copy to", call_copy_to},
    {"copy from", call_copy_from},
    {"splice from", call_splice_from},
    {"splice to", call_splice_to},
    {"tee from", call_tee_from},
    {"tee to", call_tee_to},
    {"vmsplice", call_vmsplice},
    {"accept", call_accept},
};

/* Makes the state of a descriptor. Returns whether the state differs from a new descriptor's. */
static int becomes(const char *state, struct ends *ends) {
    int flags = fcntl(ends->own, F_GETFL);
    if (!strcmp(state, "new")) return 1;
    if (!strcmp(state, "gone")) return ends->other >= 0 && !close(ends->other);
    if (!strcmp(state, "filled")) return ends->other >= 0 && write(ends->other, "1234\n678", 8) == 8;
    /* A terminal and a connection take some bytes later. */
    int domain = 0;
    socklen_t size = sizeof domain;
    if (isatty(ends->own)) return 0;
    if (!getsockopt(ends->own, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_INET) return 0;
    fcntl(ends->own, F_SETFL, flags | O_NONBLOCK);
    long count = write(ends->own, &most, 8), total = count;
    while (count > 0 && total < 10000000) total += count = write(ends->own, bytes, 1024);
    while (count > 0 || (errno == EAGAIN && write(ends->own, bytes, 1) == 1 && ++total < 10000000)) count = 0;
    return total > 0 && total < 10000000 && errno == EAGAIN;
}

static volatile sig_atomic_t broken;
static void breaks(int number) { broken += number == SIGPIPE; }
static void *idle(void *argument) {
    for (;;) pause();
    return argument;
}

/* Makes one call, and writes what came of it. */
static void make(const struct kind *kind, const char *state, int waits, const struct call *call, int threads, int out) {
    char line[64] = "no state\n";
    pthread_t thread;
    signal(SIGPIPE, breaks);
    if (threads > 1) pthread_create(&thread, NULL, idle, NULL);
    struct ends ends = kind->make();
    if (ends.own >= 0 && becomes(state, &ends)) {
        int flags = fcntl(ends.own, F_GETFL) & ~O_NONBLOCK;
        fcntl(ends.own, F_SETFL, flags | (waits ? 0 : O_NONBLOCK));
        errno = 0;
        long result = call->make(ends.own);
        int error = result < 0 ? errno : 0;
        /* How much a connection or a terminal takes at once differs from time to time. */
        if (result > 8 && (kind->make == tcp || strstr(kind->name, "terminal"))) result = 9;
        snprintf(line, sizeof line, "%ld, error %d%s%s\n", result, error, broken ? ", SIGPIPE" : "", broken > 1 ? " again" : "");
    }
    _exit(write(out, line, strlen(line)) < 0);
}

/* Runs one case, and prints its line. */
/* Returns whether descriptors of this kind have this state. */
static int run(const struct kind *kind, const char *state, int waits, const struct call *call, int threads, int patience) {
    int ends[2];
    char line[65] = "waits\n";
    if (pipe(ends)) abort();
    pid_t child = fork();
    if (!child) make(kind, state, waits, call, threads, ends[1]);
    close(ends[1]);
    struct pollfd answer = {.fd = ends[0], .events = POLLIN};
    if (poll(&answer, 1, patience) > 0) {
        long length = read(ends[0], line, 64);
        line[length < 0 ? 0 : length] = 0;
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ends[0]);
    int exists = strcmp(line, "no state\n") != 0;
    if (exists) printf("%s/%s/%s/%s: %s", kind->name, state, waits ? "blocking" : "nonblocking", call->name, *line ? line : "died\n");
    return exists;
}

int main(int argc, char **argv) {
    static const char *states[] = {"new", "gone", "filled", "full"};
    enum { KINDS = sizeof kinds / sizeof *kinds, CALLS = sizeof calls / sizeof *calls, AT_A_TIME = 16 };
    if (argc < 3 || !mkdtemp(folder)) return 2;
    /* Several processes share the cases. Each gathers its lines and writes them at once. */
    for (int part = 0; part < AT_A_TIME; part++) {
        if (fork()) continue;
        static char lines[1 << 20];
        setvbuf(stdout, lines, _IOFBF, sizeof lines);
        for (int cell = part; cell < KINDS * 8; cell += AT_A_TIME) {
            const struct kind *kind = &kinds[cell / 8];
            const char *state = states[cell % 4], *waits = cell / 4 % 2 ? "blocking" : "nonblocking";
            int exists = 1;
            for (int number = 0; number < CALLS && exists; number++) {
                const struct call *call = &calls[number];
                char name[128];
                snprintf(name, sizeof name, "%s/%s/%s/%s", kind->name, state, waits, call->name);
                if (argc > 3 && strcmp(argv[3], name)) continue;
                exists = run(kind, state, cell / 4 % 2, call, atoi(argv[1]), atoi(argv[2]));
            }
        }
        fflush(stdout);
        _exit(0);
    }
    while (wait(NULL) > 0) {
    }
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) != 0;
}
