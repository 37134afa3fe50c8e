/* The program cancels threads at any time and in any wait. The objects of their waits still work
 * afterwards.
 * Runtime: product */
#include "test.h"
enum { THREADS = 48, WAYS = 13 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t controls[THREADS + 1];
static sem_t semaphore;
static int pair[2];
static pthread_key_t key;
static pthread_t sleeper;
static int destroyed;
static void destructor(void *value) {
    (void)value;
    __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
}
static void unlock(void *lock) { pthread_mutex_unlock(lock); }
static void unlock_rwlock(void *lock) { pthread_rwlock_unlock(lock); }
static void never_ends(void) {
    for (;;) usleep(50);
}
static void *sleeps(void *argument) {
    (void)argument;
    never_ends();
    return NULL;
}
/* Runs on side stacks: in C, pthread_cleanup_push is a setjmp. */
static NOINLINE void waits_for_condition(const struct timespec *until) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, &mutex);
    pthread_cond_timedwait(&condition, &mutex, until);
    pthread_cleanup_pop(1);
}
static NOINLINE void writes(void) {
    pthread_rwlock_wrlock(&rwlock);
    pthread_cleanup_push(unlock_rwlock, &rwlock);
    sched_yield();
    pthread_testcancel();
    pthread_cleanup_pop(1);
}
static NOINLINE void reads_line(void) {
    char buffer[40];
    FILE *file = fdopen(dup(pair[0]), "r");
    if (!file) return;
    pthread_cleanup_push((void (*)(void *))fclose, file);
    fgets(buffer, sizeof buffer, file);
    pthread_cleanup_pop(1);
}
static NOINLINE void waits(int way, int index) {
    char buffer[40];
    struct timespec until = in_milliseconds(CLOCK_REALTIME, 1);
    struct pollfd entry = {pair[0], POLLIN, 0};
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    switch (way) {
    case 0: read(pair[0], buffer, sizeof buffer); break;
    case 1: usleep(100); break;
    case 2: poll(&entry, 1, 1); break;
    case 3: sem_timedwait(&semaphore, &until); break;
    case 4: sem_wait(&semaphore); break;
    case 5: waits_for_condition(&until); break;
    case 6: writes(); break;
    case 7: reads_line(); break;
    case 8: pthread_once(&controls[index], never_ends); break;
    case 9:
        if (!pthread_create(&thread, NULL, sleeps, NULL)) {
            pthread_cancel(thread);
            pthread_join(thread, NULL);
        }
        break;
    case 10: pthread_timedjoin_np(sleeper, NULL, &until); break;
    case 11:
        pthread_mutex_lock(&own);
        pthread_cond_timedwait(&condition, &own, &until);
        pthread_mutex_unlock(&own);
        break;
    case 12: sched_yield(); break;
    }
}
static void *start(void *argument) {
    int index = (int)(long)argument, own[10];
    pthread_setspecific(key, argument);
    for (int round = 0;; round++) {
        own[round % 10] = round;
        waits((index + round) % WAYS, index);
        CHECK(own[round % 10] == round);
        pthread_testcancel();
    }
    return NULL;
}
int main(void) {
    pthread_t threads[THREADS];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    sem_init(&semaphore, 0, 0);
    pthread_key_create(&key, destructor);
    pthread_create(&sleeper, NULL, sleeps, NULL);
    for (int round = 0; round < 5; round++) {
        for (long index = 0; index < THREADS; index++) {
            controls[index + 1] = (pthread_once_t)PTHREAD_ONCE_INIT;
            CHECK(!pthread_create(&threads[index], NULL, start, (void *)(index + 1)));
        }
        for (int index = 0; index < THREADS; index++) {
            if (index % 5 == 0) usleep(200 * round);
            if (index % 3 == 0) sem_post(&semaphore);
            if (index % 7 == 0) CHECK(write(pair[1], "x\n", 2) == 2);
            CHECK(!pthread_cancel(threads[index]));
        }
        for (int index = 0; index < THREADS; index++) {
            void *result;
            CHECK(!pthread_join(threads[index], &result) && result == PTHREAD_CANCELED);
        }
        CHECK(!pthread_mutex_trylock(&mutex) && !pthread_mutex_unlock(&mutex));
        CHECK(!pthread_rwlock_trywrlock(&rwlock) && !pthread_rwlock_unlock(&rwlock));
    }
    pthread_cancel(sleeper);
    pthread_join(sleeper, NULL);
    printf("%d\n", destroyed);
}
