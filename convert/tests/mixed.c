/* Converted threads, main and a thread that cannot be converted share locks, conditions, semaphores
 * and the rest, and join each other.
 * Runtime: product */
#include "test.h"
#include <dlfcn.h>
enum { ROUNDS = 300, CONVERTED = 5, NATIVE = 2, ALL = CONVERTED + NATIVE + 1 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_barrier_t barrier;
static sem_t semaphore;
static long counts[6];
static int turn, runs;
static int (*signals)(pthread_cond_t *), (*broadcasts)(pthread_cond_t *), (*unlocks)(pthread_rwlock_t *);
static void initialise(void) {
    usleep(500);
    runs++;
}
static NOINLINE void counted(pthread_mutex_t *lock, long *count) {
    CHECK(pthread_mutex_lock(lock) == 0);
    long before = *count;
    if (before % 7 == 0) WAIT();
    *count = before + 1;
    CHECK(pthread_mutex_unlock(lock) == 0);
}
static NOINLINE void works(int index) {
    pthread_barrier_wait(&barrier);
    pthread_once(&once, initialise);
    CHECK(runs == 1);
    for (int round = 0; round < ROUNDS; round++) {
        counted(&mutex, &counts[0]);
        counted(&adaptive, &counts[1]);
        counted(&checking, &counts[2]);
        CHECK(pthread_mutex_lock(&recursive) == 0);
        counted(&recursive, &counts[3]);
        CHECK(pthread_mutex_unlock(&recursive) == 0);
        sem_wait(&semaphore);
        counts[4]++;
        sem_post(&semaphore);
        if (round % 3 == 0) {
            CHECK(pthread_rwlock_wrlock(&rwlock) == 0);
            long before = counts[5];
            if (round % 2) WAIT();
            counts[5] = before + 1;
            if (round % 4) pthread_rwlock_unlock(&rwlock);
            else unlocks(&rwlock);
        } else {
            CHECK(pthread_rwlock_rdlock(&rwlock) == 0);
            long before = counts[5];
            WAIT();
            CHECK(before == counts[5]);
            pthread_rwlock_unlock(&rwlock);
        }
    }
    /* Each thread in its turn makes a signal or a broadcast, by the program or like a library. */
    for (int round = 0; round < 20; round++) {
        pthread_mutex_lock(&mutex);
        while (turn % ALL != index) pthread_cond_wait(&condition, &mutex);
        turn++;
        if (round % 2) pthread_cond_broadcast(&condition);
        else broadcasts(&condition);
        pthread_mutex_unlock(&mutex);
    }
    pthread_barrier_wait(&barrier);
}
static void *converted(void *argument) {
    works((int)(long)argument);
    return argument;
}
static jmp_buf unused[ALL];
static void *native(void *argument) {
    if (!setjmp(unused[(long)argument])) works((int)(long)argument);
    return argument;
}
static pthread_t threads[ALL];
static void *joins(void *argument) {
    long total = 0;
    for (int index = 0; index < ALL - 1; index++) {
        void *result;
        CHECK(pthread_join(threads[index], &result) == 0);
        total += (long)result;
    }
    CHECK(pthread_join(pthread_self(), NULL) == EDEADLK);
    return (void *)total;
}
/* One thread waits and one thread signals, in all combinations. */
static int ready;
static void *waits(void *argument) {
    pthread_mutex_lock(&mutex);
    while (!ready) pthread_cond_wait(&condition, &mutex);
    ready--;
    pthread_mutex_unlock(&mutex);
    return argument;
}
static void *waits_natively(void *argument) {
    if (!setjmp(unused[0])) waits(argument);
    return argument;
}
int main(void) {
    signals = (int (*)(pthread_cond_t *))dlsym(RTLD_DEFAULT, "pthread_cond_signal");
    broadcasts = (int (*)(pthread_cond_t *))dlsym(RTLD_DEFAULT, "pthread_cond_broadcast");
    unlocks = (int (*)(pthread_rwlock_t *))dlsym(RTLD_DEFAULT, "pthread_rwlock_unlock");
    sem_init(&semaphore, 0, 1);
    pthread_barrier_init(&barrier, NULL, ALL);
    for (long index = 0; index < ALL - 1; index++) {
        CHECK(!pthread_create(&threads[index], NULL, index < CONVERTED ? converted : native, (void *)index));
    }
    works(ALL - 1);
    printf("%ld\n", (long)run(joins, NULL));
    for (int index = 0; index < 6; index++) printf("%ld ", counts[index]);
    puts("");
    pthread_t one, other;
    pthread_create(&one, NULL, waits, NULL);
    pthread_create(&other, NULL, waits_natively, NULL);
    for (int index = 0; index < 2; index++) {
        usleep(1000);
        pthread_mutex_lock(&mutex);
        ready++;
        if (index) pthread_cond_signal(&condition);
        else signals(&condition);
        pthread_mutex_unlock(&mutex);
    }
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    puts("all woken");
}
