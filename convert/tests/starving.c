/* Threads with calls that need not wait. These threads go on until another thread acts. Each lets
 * other threads of its loop run.
 * Runtime: product */
#include "test.h"
enum { ROUNDS = 50 };
static volatile int stop;
static int plain, word, number;
static unsigned next_ticket, served;
static long counted;
static int zero, null, ended[2], ready[2], quiet[2], listens;
static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t written = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinning;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore, empty;
static void nothing(void) {}
static NOINLINE int is_set(void) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
static NOINLINE void relax(void) { __asm__ volatile("pause"); }
static NOINLINE int never(void) { return counted < 0; }
static void *ends(void *argument) { return argument; }
static NOINLINE void create_and_join(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, ends, NULL) == 0 && pthread_join(thread, NULL) == 0);
}
#define CASES(_) \
    _(read, char byte; while (!stop) CHECK(read(zero, &byte, 1) == 1)) \
    _(write, while (!stop) CHECK(write(null, "x", 1) == 1)) \
    _(end_of_input, char byte; while (!stop) CHECK(recv(ended[0], &byte, 1, 0) == 0)) \
    _(failing_read, char byte; while (!stop) CHECK(read(-1, &byte, 1) == -1 && errno == EBADF)) \
    _(ready_poll, struct pollfd entry = {ready[0], POLLIN, 0}; while (!stop) CHECK(poll(&entry, 1, -1) == 1)) \
    _(poll_at_once, struct pollfd entry = {quiet[0], POLLIN, 0}; while (poll(&entry, 1, 0) == 0) if (stop) break) \
    _(select_at_once, struct timeval now = {0}; while (!stop) select(0, NULL, NULL, NULL, &now)) \
    _(receive_at_once, char byte; while (!stop) CHECK(recv(quiet[0], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)) \
    _(accept_at_once, while (!stop) CHECK(accept(listens, NULL, NULL) < 0 && errno == EAGAIN)) \
    _(lock, while (!stop) pthread_mutex_lock(&free_lock), pthread_mutex_unlock(&free_lock)) \
    _(read_lock, pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; \
      while (!stop) pthread_rwlock_rdlock(&lock), pthread_rwlock_unlock(&lock)) \
    _(write_lock, pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; \
      while (!stop) pthread_rwlock_wrlock(&lock), pthread_rwlock_unlock(&lock)) \
    _(spin_lock, pthread_spinlock_t lock; pthread_spin_init(&lock, 0); \
      while (!stop) pthread_spin_lock(&lock), pthread_spin_unlock(&lock)) \
    _(wait_and_post, while (!stop) sem_wait(&semaphore), sem_post(&semaphore)) \
    _(mutex_trylock, while (pthread_mutex_trylock(&held)) continue; pthread_mutex_unlock(&held)) \
    _(mutex_trylock_counting, while (pthread_mutex_trylock(&held)) counted++; pthread_mutex_unlock(&held)) \
    _(read_trylock, while (pthread_rwlock_tryrdlock(&written)) continue; pthread_rwlock_unlock(&written)) \
    _(write_trylock, while (pthread_rwlock_trywrlock(&written)) continue; pthread_rwlock_unlock(&written)) \
    _(spin_trylock, while (pthread_spin_trylock(&spinning)) continue; pthread_spin_unlock(&spinning)) \
    _(sem_trywait, while (sem_trywait(&empty) && errno == EAGAIN) continue; sem_post(&empty)) \
    _(sem_getvalue, int value = 0; while (!value) sem_getvalue(&empty, &value)) \
    _(plain_clock, struct timespec now; while (!plain) clock_gettime(CLOCK_MONOTONIC, &now)) \
    _(clock, struct timespec now; while (!stop) clock_gettime(CLOCK_MONOTONIC, &now)) \
    _(time, while (!stop) time(NULL)) \
    _(getpid, while (!stop) getpid()) \
    _(yield, while (!stop) sched_yield()) \
    _(signal, while (!stop) pthread_cond_signal(&condition)) \
    _(once, while (!stop) pthread_once(&once, nothing)) \
    _(testcancel, while (!stop) pthread_testcancel()) \
    _(create, while (!stop) create_and_join()) \
    _(call, while (!is_set()) relax()) \
    _(barrier, while (!plain) __asm__ volatile("pause" ::: "memory")) \
    _(volatile, while (!stop) continue) \
    _(counting, while (!stop) counted++) \
    _(untaken, char byte; while (!stop) if (never()) read(quiet[0], &byte, 1))
#define FUNCTION(name, ...) \
    static void *starves_in_##name(void *argument) { \
        __VA_ARGS__; \
        return argument; \
    }
CASES(FUNCTION)
static void *sets(void *argument) {
    usleep(1000);
    WAIT();
    stop = plain = 1;
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&held);
    pthread_rwlock_unlock(&written);
    pthread_spin_unlock(&spinning);
    sem_post(&empty);
    return argument;
}
/* Takes the object of the case, and gives it back. */
static void *sets_as_owner(void *argument) {
    pthread_mutex_lock(&held);
    pthread_rwlock_wrlock(&written);
    pthread_spin_lock(&spinning);
    sem_init(&empty, 0, 0);
    stop = plain = word = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, argument, NULL);
    sets(NULL);
    pthread_join(thread, NULL);
    return NULL;
}
#define RUN(name, ...) \
    current = #name; \
    run(sets_as_owner, starves_in_##name);
static const char *current;
static void hangs(int signal) {
    char text[100];
    write(1, text, snprintf(text, 100, "%s starves the others\n", current));
    _exit(1);
}
/* The program's own locks, which are held while others run. */
static void *takes_turns(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        unsigned own = __atomic_fetch_add(&next_ticket, 1, __ATOMIC_RELAXED);
        while (__atomic_load_n(&served, __ATOMIC_ACQUIRE) != own) __builtin_ia32_pause();
        int before = number;
        WAIT();
        number = before + 1;
        __atomic_store_n(&served, own + 1, __ATOMIC_RELEASE);
    }
    return argument;
}
static void *takes_it(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        int free = 0;
        while (!__atomic_compare_exchange_n(&word, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) free = 0;
        int before = number;
        WAIT();
        number = before + 1;
        __atomic_store_n(&word, 0, __ATOMIC_RELEASE);
    }
    return argument;
}
int main(void) {
    zero = open("/dev/zero", O_RDONLY);
    null = open("/dev/null", O_WRONLY);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ended) == 0 && close(ended[1]) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ready) == 0 && write(ready[1], "x", 1) == 1);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, quiet) == 0);
    listens = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(listen(listens, 1) == 0);
    pthread_spin_init(&spinning, 0);
    sem_init(&semaphore, 0, 1);
    signal(SIGALRM, hangs);
    alarm(40);
    CASES(RUN)
    word = 0;
    current = "a ticket lock";
    run_many(4, takes_turns);
    current = "a lock of the program's own";
    run_many(4, takes_it);
    printf("%d\n", number);
}
