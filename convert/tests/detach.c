/* duality_detach: a converted thread that computes, or waits in a way that the pass does not see.
 * The thread needs other threads meanwhile.
 * Runtime: product */
#include "../contract/duality.h"
#include "test.h"
static int wanted, done;
static NOINLINE void waits(void) { WAIT(); }
/* This loop does more than spin, so the pass does not change it. */
static NOINLINE void spins(int value) {
    while (__atomic_load_n(&wanted, __ATOMIC_ACQUIRE) < value) getpid();
}
static NOINLINE int nested(int depth) {
    char buffer[50];
    memset(buffer, depth, sizeof buffer);
    waits();
    if (depth) return nested(depth - 1) + buffer[20];
    spins(1);
    usleep(100);
    return buffer[20];
}
static __thread jmp_buf place;
static NOINLINE int on_side(int value) {
    if (setjmp(place)) return value;
    usleep(10);
    longjmp(place, 1);
}
static __thread int own = 3;
static pthread_key_t key;
static void *detaches(void *argument) {
    long result = 0;
    pthread_t me = pthread_self();
    pthread_setspecific(key, argument);
    for (int round = 0; round < 3; round++) {
        own++;
        errno = 5;
        duality_detach();
        CHECK(errno == 5 && pthread_equal(me, pthread_self()) && pthread_getspecific(key) == argument);
        result += nested(5) + on_side(7) + own;
        CHECK(read(-1, NULL, 0) == -1 && errno == EBADF);
        errno = 9;
        duality_attach();
        CHECK(errno == 9 && pthread_equal(me, pthread_self()));
        waits();
    }
    duality_attach();
    __atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
    return (void *)result;
}
static void *helps(void *argument) {
    usleep(2000);
    __atomic_store_n(&wanted, 1, __ATOMIC_RELEASE);
    return argument;
}
static void *ends_away(void *argument) {
    duality_detach();
    waits();
    return argument;
}
static void *exits_away(void *argument) {
    duality_detach();
    nested(3);
    pthread_exit(argument);
}
static void *cancelled_away(void *argument) {
    sem_post(argument);
    duality_detach();
    for (;;) nested(2);
    return NULL;
}
int main(void) {
    pthread_t threads[5];
    long total = 0;
    pthread_key_create(&key, NULL);
    for (int index = 0; index < 4; index++) CHECK(!pthread_create(&threads[index], NULL, detaches, (void *)&wanted));
    CHECK(!pthread_create(&threads[4], NULL, helps, NULL));
    for (int index = 0; index < 5; index++) {
        void *result;
        pthread_join(threads[index], &result);
        total += (long)result;
    }
    printf("%ld %d\n", total, done);
    printf("%ld %ld\n", (long)run(ends_away, (void *)11), (long)run(exits_away, (void *)12));
    sem_t begun;
    void *result;
    sem_init(&begun, 0, 0);
    pthread_create(&threads[0], NULL, cancelled_away, &begun);
    sem_wait(&begun);
    pthread_cancel(threads[0]);
    pthread_join(threads[0], &result);
    CHECK(result == PTHREAD_CANCELED);
    /* In a thread that is not converted, both functions do nothing. */
    duality_detach();
    duality_attach();
}
