/* State of one thread: signals that are sent to it, kinds of mutexes, locks on files, its
 * scheduling.
 * Runtime: product */
#include "test.h"
static sem_t begun, sent;
static volatile sig_atomic_t came;
static int got, lines[2];
static void handle(int signal) { came++; }
static sigset_t set_of(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}
/* ---- A blocked signal waits for its thread ---- */
static void blocks(int signal) {
    sigset_t set = set_of(signal);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}
static void tell_and_wait(void) {
    sem_post(&begun);
    sem_wait(&sent);
    for (int round = 0; round < 10; round++) WAIT();
}
static void *takes(void *argument) {
    sigset_t set = set_of(SIGUSR1);
    int signal = 0;
    blocks(SIGUSR1);
    tell_and_wait();
    CHECK(sigwait(&set, &signal) == 0);
    got = signal;
    return argument;
}
static void *takes_value(void *argument) {
    sigset_t set = set_of(SIGUSR1);
    siginfo_t info;
    blocks(SIGUSR1);
    tell_and_wait();
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1);
    got = info.si_value.sival_int;
    return argument;
}
static void *takes_in_time(void *argument) {
    sigset_t set = set_of(SIGUSR1);
    struct timespec none = {0, 0};
    blocks(SIGUSR1);
    CHECK(sigtimedwait(&set, NULL, &none) == -1 && errno == EAGAIN);
    tell_and_wait();
    got = sigtimedwait(&set, NULL, &none);
    return argument;
}
static void *unblocks(void *argument) {
    sigset_t set = set_of(SIGUSR2), pending;
    blocks(SIGUSR2);
    tell_and_wait();
    CHECK(came == 0);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR2) == 1);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    CHECK(came == 1);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR2) == 0);
    got = SIGUSR2;
    return argument;
}
static void *suspends(void *argument) {
    sigset_t none;
    sigemptyset(&none);
    blocks(SIGUSR2);
    tell_and_wait();
    CHECK(came == 0);
    CHECK(sigsuspend(&none) == -1 && errno == EINTR);
    CHECK(came == 1);
    got = SIGUSR2;
    return argument;
}
/* The signal comes during the wait of a library function that does not take signals. */
static void *takes_later(void *argument) {
    sigset_t set = set_of(SIGUSR1);
    siginfo_t info;
    char line[10];
    blocks(SIGUSR1);
    sem_post(&begun);
    sem_wait(&sent);
    FILE *file = fdopen(dup(lines[0]), "r");
    CHECK(fgets(line, sizeof line, file));
    fclose(file);
    for (int round = 0; round < 10; round++) WAIT();
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1);
    got = info.si_value.sival_int;
    return argument;
}
static void *ends(void *argument) {
    blocks(SIGUSR1);
    tell_and_wait();
    got = 1;
    return argument;
}
static void *waits(void *argument) {
    for (int round = 0; round < 100; round++) WAIT();
    return argument;
}
static void directed(const char *name, void *(*start)(void *), int signal, int value) {
    pthread_t thread, other;
    got = came = 0;
    CHECK(pthread_create(&other, NULL, waits, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, start, NULL) == 0);
    sem_wait(&begun);
    CHECK(pthread_kill(thread, 0) == 0);
    if (value) CHECK(pthread_sigqueue(thread, signal, (union sigval){.sival_int = value}) == 0);
    else CHECK(pthread_kill(thread, signal) == 0);
    sem_post(&sent);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    printf("%s: %d, %d\n", name, got, came);
}
static void directed_aside(void) {
    pthread_t thread;
    CHECK(pipe(lines) == 0);
    CHECK(pthread_create(&thread, NULL, takes_later, NULL) == 0);
    sem_wait(&begun);
    sem_post(&sent);
    usleep(10000);
    CHECK(pthread_sigqueue(thread, SIGUSR1, (union sigval){.sival_int = 5}) == 0);
    CHECK(write(lines[1], "line\n", 5) == 5);
    CHECK(pthread_join(thread, NULL) == 0);
    printf("while it reads: %d\n", got);
}
/* ---- Mutexes ---- */
static pthread_mutex_t recursive, checking;
static pthread_spinlock_t spin;
static int count;
static void *locks(void *argument) {
    struct timespec soon = in_milliseconds(CLOCK_REALTIME, 20000);
    CHECK(pthread_mutex_unlock(&recursive) == EPERM && pthread_mutex_unlock(&checking) == EPERM);
    for (int round = 0; round < 10; round++) {
        CHECK(pthread_mutex_lock(&recursive) == 0);
        CHECK(pthread_mutex_trylock(&recursive) == 0 && pthread_mutex_timedlock(&recursive, &soon) == 0);
        WAIT();
        CHECK(pthread_mutex_lock(&checking) == 0);
        int before = count;
        WAIT();
        CHECK(pthread_mutex_lock(&checking) == EDEADLK && pthread_mutex_timedlock(&checking, &soon) == EDEADLK);
        CHECK(pthread_mutex_trylock(&checking) == EBUSY);
        count = before + 1;
        CHECK(pthread_mutex_destroy(&checking) == EBUSY);
        CHECK(pthread_mutex_unlock(&checking) == 0);
        for (int depth = 0; depth < 3; depth++) CHECK(pthread_mutex_unlock(&recursive) == 0);
        WAIT();
        CHECK(pthread_spin_lock(&spin) == 0);
        before = count;
        WAIT();
        CHECK(pthread_spin_trylock(&spin) == EBUSY);
        count = before + 1;
        CHECK(pthread_spin_unlock(&spin) == 0);
    }
    CHECK(pthread_mutex_unlock(&recursive) == EPERM && pthread_mutex_unlock(&checking) == EPERM);
    return argument;
}
static void *spins(void *argument) {
    for (int round = 0; round < 10; round++) {
        CHECK(pthread_spin_lock(&spin) == 0);
        int before = count;
        WAIT();
        count = before + 1;
        CHECK(pthread_spin_unlock(&spin) == 0);
    }
    return argument;
}
static void mutexes(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checking, &attributes);
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    run_many(1, locks);
    run_many(4, spins);
    printf("mutexes: %d\n", count);
}
/* ---- Locks on files: of the process, or of what open returned ---- */
static char path[] = "/tmp/duality-directed-XXXXXX";
static void *locks_file(void *argument) {
    struct flock all = {.l_type = F_WRLCK, .l_start = 100, .l_len = 1};
    int own = open(path, O_RDWR);
    CHECK(own >= 0 && fcntl(own, F_SETLK, &all) == 0);
    for (int round = 0; round < 5; round++) {
        struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
        CHECK(fcntl(own, F_OFD_SETLKW, &lock) == 0);
        int before = count;
        WAIT();
        count = before + 1;
        lock.l_type = F_UNLCK;
        CHECK(fcntl(own, F_OFD_SETLK, &lock) == 0);
        WAIT();
    }
    CHECK(lockf(own, F_LOCK, 1) == 0 && lockf(own, F_ULOCK, 1) == 0);
    close(own);
    return argument;
}
/* ---- Scheduling ---- */
static void *schedules(void *argument) {
    struct sched_param parameters = {0};
    int policy = -1;
    CHECK(pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters) == 0);
    WAIT();
    CHECK(pthread_getschedparam(pthread_self(), &policy, &parameters) == 0);
    CHECK(policy == SCHED_BATCH && parameters.sched_priority == 0);
    parameters.sched_priority = 5;
    CHECK(pthread_setschedparam(pthread_self(), SCHED_OTHER, &parameters) == EINVAL);
    CHECK(pthread_setschedparam(pthread_self(), 77, &parameters) == EINVAL);
    CHECK(pthread_setschedprio(pthread_self(), 5) == EINVAL);
    CHECK(pthread_getschedparam(pthread_self(), &policy, &parameters) == 0 && policy == SCHED_BATCH);
    return argument;
}
int main(void) {
    struct sigaction action = {.sa_handler = handle};
    sem_init(&begun, 0, 0);
    sem_init(&sent, 0, 0);
    sigaction(SIGUSR2, &action, NULL);
    directed("sigwait", takes, SIGUSR1, 0);
    directed("sigwaitinfo", takes_value, SIGUSR1, 42);
    directed("sigtimedwait", takes_in_time, SIGUSR1, 0);
    directed("unblocked", unblocks, SIGUSR2, 0);
    directed("unblocked, with a value", unblocks, SIGUSR2, 7);
    directed("sigsuspend", suspends, SIGUSR2, 0);
    directed("never", ends, SIGUSR1, 0);
    directed_aside();
    mutexes();
    int made = mkstemp(path);
    count = 0;
    run_many(4, locks_file);
    unlink(path);
    printf("locks on a file: %d\n", count);
    run(schedules, NULL);
}
