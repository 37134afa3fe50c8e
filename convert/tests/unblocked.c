/* Signals for the process: a thread of the program gets such a signal only if it does not block
 * it. Otherwise the signal is pending until a thread waits for it, unblocks it, or reads it.
 * Runtime: product */
#include "test.h"
#include <stdatomic.h>
#include <sys/signalfd.h>
static volatile sig_atomic_t came, by_main;
static atomic_bool ends;
static sem_t ready;
static pthread_t main_thread;
static void handle(int signal) {
    came++;
    by_main += pthread_equal(pthread_self(), main_thread);
}
static sigset_t set_of(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}
static void mask(int how, int signal) {
    sigset_t set = set_of(signal);
    CHECK(pthread_sigmask(how, &set, NULL) == 0);
}
static bool is_pending(int signal) {
    sigset_t set;
    CHECK(sigpending(&set) == 0);
    return sigismember(&set, signal);
}
static void *sleeps(void *argument) {
    sigset_t all;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    sem_post(&ready);
    while (!atomic_load(&ends)) usleep(500);
    return NULL;
}
/* A call on a side stack before, whose thread then is idle. */
static void *reads(void *argument) {
    FILE *file = fopen("/dev/null", "r");
    char line[8];
    CHECK(file && !fgets(line, sizeof line, file));
    fclose(file);
    return sleeps(argument);
}
/* The only thread that does not block the signal. */
static void *accepts(void *argument) {
    mask(SIG_UNBLOCK, SIGUSR1);
    sem_post(&ready);
    while (!atomic_load(&ends)) usleep(500);
    return NULL;
}
static void *waits(void *argument) {
    sigset_t set = set_of(SIGUSR2);
    siginfo_t info;
    CHECK(sigwaitinfo(&set, &info) == SIGUSR2 && info.si_code == SI_QUEUE);
    return (void *)(long)info.si_value.sival_int;
}
static void *inherits(void *argument) {
    sigset_t now;
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
    usleep(10);
    return (void *)(long)(sigismember(&now, SIGTERM) && sigismember(&now, SIGUSR1) && !sigismember(&now, SIGINT));
}
static void *forks(void *argument) {
    pid_t child = fork();
    if (child == 0) {
        bool inherited = !is_pending(SIGTERM) && inherits(NULL);
        kill(getpid(), SIGTERM);
        _exit(inherited && is_pending(SIGTERM) ? 5 : 6);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return (void *)(long)(WIFEXITED(status) ? WEXITSTATUS(status) : 100);
}
/* Threads that accept SIGUSR1 and end: at their end, and cancelled on a side stack. */
static void *ends_at_once(void *argument) {
    mask(SIG_UNBLOCK, SIGUSR1);
    WAIT();
    return NULL;
}
static void *ends_aside(void *argument) {
    sigset_t set = set_of(SIGUSR2);
    mask(SIG_UNBLOCK, SIGUSR1);
    WAIT();
    sem_post(&ready);
    sigwaitinfo(&set, NULL);
    return NULL;
}
/* Blocks SIGUSR1 again on a side stack, since the function calls setjmp. */
NOINLINE static void blocks_aside(void) {
    jmp_buf place;
    if (setjmp(place)) return;
    mask(SIG_BLOCK, SIGUSR1);
    sem_post(&ready);
    while (!atomic_load(&ends)) usleep(500);
    longjmp(place, 1);
}
static void *goes_aside(void *argument) {
    mask(SIG_UNBLOCK, SIGUSR1);
    WAIT();
    blocks_aside();
    return NULL;
}
/* No thread accepts the signal: it is pending until main takes it. */
static void is_left_to_main(void) {
    sigset_t set = set_of(SIGUSR1);
    kill(getpid(), SIGUSR1);
    CHECK(sigtimedwait(&set, NULL, &(struct timespec){5, 0}) == SIGUSR1);
}
static void accept_and_end(void) {
    pthread_t thread;
    for (int round = 0; round < 200; round++) {
        run(ends_at_once, NULL);
        is_left_to_main();
    }
    for (int round = 0; round < 50; round++) {
        pthread_create(&thread, NULL, ends_aside, NULL);
        sem_wait(&ready);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, NULL) == 0);
        is_left_to_main();
    }
    for (int round = 0; round < 50; round++) {
        atomic_store(&ends, false);
        pthread_create(&thread, NULL, goes_aside, NULL);
        sem_wait(&ready);
        is_left_to_main();
        atomic_store(&ends, true);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}
static void from_outside(int signal) {
    pid_t child = fork();
    if (child == 0) _exit(kill(getppid(), signal));
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}
int main(void) {
    pthread_t threads[8];
    int got;
    main_thread = pthread_self();
    sem_init(&ready, 0, 0);
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    for (int index = 0; index < 6; index++) pthread_create(&threads[index], NULL, index < 4 ? sleeps : reads, NULL);
    for (int index = 0; index < 6; index++) sem_wait(&ready);
    usleep(2000);
    /* All block; main waits. */
    mask(SIG_BLOCK, SIGTERM);
    mask(SIG_BLOCK, SIGUSR1);
    mask(SIG_BLOCK, SIGUSR2);
    sigset_t term = set_of(SIGTERM);
    kill(getpid(), SIGTERM);
    CHECK(is_pending(SIGTERM));
    CHECK(sigwait(&term, &got) == 0);
    from_outside(SIGTERM);
    CHECK(sigtimedwait(&term, NULL, &(struct timespec){5, 0}) == SIGTERM && !is_pending(SIGTERM));
    printf("waited for %d\n", got);
    /* A signal with a handler that everybody blocks is pending until main unblocks it. */
    kill(getpid(), SIGUSR1);
    usleep(5000);
    CHECK(came == 0 && is_pending(SIGUSR1));
    mask(SIG_UNBLOCK, SIGUSR1);
    CHECK(came == 1 && by_main == 1 && !is_pending(SIGUSR1));
    mask(SIG_BLOCK, SIGUSR1);
    /* signalfd reads what everybody blocks. */
    int file = signalfd(-1, &term, SFD_CLOEXEC);
    struct signalfd_siginfo info;
    from_outside(SIGTERM);
    CHECK(read(file, &info, sizeof info) == sizeof info && info.ssi_signo == SIGTERM);
    close(file);
    /* A converted thread waits for it, or does not block it. */
    CHECK(sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 9}) == 0);
    printf("value %ld\n", (long)run(waits, NULL));
    pthread_create(&threads[6], NULL, accepts, NULL);
    sem_wait(&ready);
    kill(getpid(), SIGUSR1);
    while (came < 2) usleep(500);
    CHECK(by_main == 1);
    /* The mask of new threads and processes. */
    printf("inherited %ld, child %ld\n", (long)run(inherits, NULL), (long)run(forks, NULL));
    atomic_store(&ends, true);
    for (int index = 0; index < 7; index++) pthread_join(threads[index], NULL);
    accept_and_end();
    /* No converted thread is left. */
    kill(getpid(), SIGUSR1);
    usleep(5000);
    CHECK(came == 2 && is_pending(SIGUSR1));
    mask(SIG_UNBLOCK, SIGUSR1);
    CHECK(came == 3 && by_main == 2);
    printf("ends\n");
    fflush(stdout);
    /* The mask goes through exec. */
    if (fork() == 0) {
        execl("/bin/sh", "sh", "-c", "kill -TERM $$; echo blocked through exec", NULL);
        _exit(1);
    }
    CHECK(wait(&got) > 0);
    printf("exec %d\n", got);
}
