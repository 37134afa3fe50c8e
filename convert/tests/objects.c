/* Hard case: conditions, semaphores, locks of every kind, barriers, once and keys, shared with
 * main. */
#include "test.h"
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static pthread_key_t key;
static sem_t semaphore;
static int turn, serial, runs, in_section, destroyed;
static long shared[2];
static void initialise(void) {
    WAIT();
    runs++;
}
static void destructor(void *value) {
    (void)value;
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
}
static void *start(void *argument) {
    int index = (int)(long)argument;
    pthread_once(&once, initialise);
    CHECK(runs == 1);
    pthread_setspecific(key, argument);
    for (int round = 0; round < 5; round++) {
        pthread_mutex_lock(&mutex);
        while (turn % 10 != index) pthread_cond_wait(&condition, &mutex);
        CHECK(in_section++ == 0);
        WAIT();
        CHECK(--in_section == 0);
        turn++;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
        pthread_mutex_lock(&recursive);
        pthread_mutex_lock(&recursive);
        WAIT();
        shared[0]++;
        pthread_mutex_unlock(&recursive);
        CHECK(pthread_mutex_trylock(&recursive) == 0);
        pthread_mutex_unlock(&recursive);
        pthread_mutex_unlock(&recursive);
        pthread_rwlock_rdlock(&rwlock);
        long before = shared[1];
        WAIT();
        CHECK(before == shared[1]);
        pthread_rwlock_unlock(&rwlock);
        pthread_rwlock_wrlock(&rwlock);
        before = shared[1];
        WAIT();
        shared[1] = before + 1;
        pthread_rwlock_unlock(&rwlock);
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) serial++;
        pthread_barrier_wait(&barrier);
        pthread_spin_lock(&spin);
        pthread_spin_unlock(&spin);
        CHECK(pthread_getspecific(key) == argument);
    }
    sem_post(&semaphore);
    return NULL;
}
static void *times_out(void *argument) {
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    sem_t none;
    sem_init(&none, 0, 0);
    pthread_mutex_lock(&own);
    struct timespec until = in_milliseconds(CLOCK_REALTIME, 3);
    CHECK(pthread_cond_timedwait(&never, &own, &until) == ETIMEDOUT);
    CHECK(pthread_mutex_trylock(&own) == EBUSY);
    pthread_mutex_unlock(&own);
    until = in_milliseconds(CLOCK_REALTIME, 3);
    CHECK(sem_timedwait(&none, &until) == -1 && errno == ETIMEDOUT);
    CHECK(sem_trywait(&none) == -1 && errno == EAGAIN);
    pthread_mutex_lock(&held);
    until = in_milliseconds(CLOCK_REALTIME, 3);
    CHECK(pthread_mutex_timedlock(&held, &until) == ETIMEDOUT);
    pthread_rwlock_wrlock(&lock);
    until = in_milliseconds(CLOCK_REALTIME, 3);
    CHECK(pthread_rwlock_tryrdlock(&lock) == EBUSY);
    pthread_rwlock_unlock(&lock);
    pthread_rwlock_rdlock(&lock);
    CHECK(pthread_rwlock_timedwrlock(&lock, &until) == ETIMEDOUT);
    until = in_milliseconds(CLOCK_MONOTONIC, 3);
    CHECK(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
    pthread_rwlock_unlock(&lock);
    pthread_rwlock_rdlock(&lock);
    CHECK(pthread_rwlock_trywrlock(&lock) == EBUSY && pthread_rwlock_tryrdlock(&lock) == 0);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_t monotonic;
    pthread_cond_init(&monotonic, &attributes);
    pthread_mutex_lock(&own);
    until = in_milliseconds(CLOCK_MONOTONIC, 3);
    CHECK(pthread_cond_timedwait(&monotonic, &own, &until) == ETIMEDOUT);
    pthread_mutex_unlock(&own);
    return argument;
}
static int in_file;
static void *locks_file(void *argument) {
    flockfile(stderr);
    int before = in_file;
    WAIT();
    CHECK(ftrylockfile(stderr) == 0);
    in_file = before + 1;
    funlockfile(stderr);
    WAIT();
    funlockfile(stderr);
    return argument;
}
static void *finds_locked(void *argument) {
    WAIT();
    return (void *)(long)ftrylockfile(stderr);
}
int main(void) {
    pthread_barrier_init(&barrier, NULL, 10);
    pthread_spin_init(&spin, 0);
    pthread_key_create(&key, destructor);
    sem_init(&semaphore, 0, 0);
    run_many(10, start);
    for (int index = 0; index < 10; index++) sem_wait(&semaphore);
    run(times_out, NULL);
    /* main takes part: it takes the lock as a thread that is not converted. */
    pthread_t thread;
    pthread_mutex_lock(&mutex);
    turn = 0;
    pthread_create(&thread, NULL, times_out, NULL);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    run_many(10, locks_file);
    flockfile(stderr);
    CHECK(run(finds_locked, NULL) != NULL);
    funlockfile(stderr);
    printf("%d locked\n", in_file);
    printf("%d %ld %ld %d\n", serial, shared[0], shared[1], destroyed);
}
