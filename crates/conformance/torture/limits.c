/* Tests a program at its limits. `tests/run.rs` sets the limits, and compares the output of these
 * tests with their native output. Without limits the tests pass at once. */
#include "test.h"

/* For signals from outside, such as SIGTERM and SIGKILL, which come while threads run. */
static void *wait_in_pipe(void *argument) {
    char byte;
    return (void *)read(*(int *)argument, &byte, 1);
}

TEST(limits_wait) {
    int ends[2];
    CHECK(!pipe(ends));
    for (int index = 0; index < 5; index++) start(wait_in_pipe, &ends[0]);
    sleep_ms(1500);
    return 0;
}

static void *nothing(void *argument) { return argument; }

static int use_up(int (*open_one)(void), const char *what) {
    static int taken[1 << 16];
    int count = 0;
    while (count < 1 << 16 && (taken[count] = open_one()) >= 0) count++;
    printf("%d %s, then %s\n", count, what, strerror(errno));
    join(start(nothing, NULL));
    /* A call that blocks can block and wake with no descriptor left. */
    sleep_ms(2);
    while (count > 0) close(taken[--count]);
    return 0;
}

static int open_null(void) { return open("/dev/null", O_RDONLY); }
static int open_socket(void) { return socket(AF_UNIX, SOCK_STREAM, 0); }
static int open_epoll(void) { return epoll_create1(0); }
static int open_copy(void) { return dup(0); }

TEST(limits_descriptors) {
    /* Starts as many as the limit allows, if the limit is not large. */
    struct {
        const char *name;
        int (*function)(void);
    } kinds[] = {{"files", open_null}, {"sockets", open_socket}, {"epolls", open_epoll}, {"copies", open_copy}};
    if (sysconf(_SC_OPEN_MAX) > 4096) return 0;
    for (int index = 0; index < 4; index++) CHECK(!use_up(kinds[index].function, kinds[index].name));
    int ends[2], failed = 0;
    for (int count = 0; count < 5000 && !failed; count++) failed = pipe(ends);
    printf("pipes: %s\n", strerror(errno));
    return 0;
}

TEST(limits_memory) {
    enum { BLOCKS = 200, THREADS = 200 };
    const size_t size = 32 << 20;
    void *blocks[BLOCKS];
    pthread_t threads[THREADS];
    int ends[2], count = 0, started = 0, error = 0;
    CHECK(!pipe(ends));
    CHECK(!malloc((size_t)1 << 46) && errno == ENOMEM);
    while (count < BLOCKS && (blocks[count] = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED) count++;
    printf("memory: %s\n", count < BLOCKS ? strerror(errno) : "enough");
    while (started < THREADS && !(error = pthread_create(&threads[started], NULL, wait_in_pipe, &ends[0]))) started++;
    if (count < BLOCKS) printf("threads: %s\n", started < THREADS ? strerror(error) : "enough");
    while (count > 0) munmap(blocks[--count], size);
    for (int index = 0; index < started; index++) CHECK(write(ends[1], "x", 1) == 1);
    while (started > 0) CHECK(join(threads[--started]) == 1);
    /* The program has recovered. */
    for (int index = 0; index < 50; index++) join(start(nothing, NULL));
    return 0;
}

TEST(limits_file) {
    static char block[64 << 10];
    char path[] = "/tmp/limits-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0 && !unlink(path));
    signal(SIGXFSZ, SIG_IGN);
    ssize_t first = write(file, block, sizeof block), second = write(file, block, sizeof block);
    if (second < 0) printf("%zd bytes, then %s\n", first, strerror(errno));
    return 0;
}
