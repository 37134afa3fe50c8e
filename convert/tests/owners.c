/* A thread that has locked a lock for writing does not wait for itself, even if others of its loop
 * wait for that lock.
 * Runtime: product */
#include "test.h"
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int written;
static void *writes(void *argument) {
    struct timespec until = in_milliseconds(CLOCK_REALTIME, 10000);
    for (int round = 0; round < 20; round++) {
        CHECK(pthread_rwlock_wrlock(&lock) == 0);
        CHECK(pthread_rwlock_wrlock(&lock) == EDEADLK && pthread_rwlock_rdlock(&lock) == EDEADLK);
        CHECK(pthread_rwlock_timedwrlock(&lock, &until) == EDEADLK && pthread_rwlock_timedrdlock(&lock, &until) == EDEADLK);
        CHECK(pthread_rwlock_trywrlock(&lock) == EBUSY && pthread_rwlock_tryrdlock(&lock) == EBUSY);
        int before = written;
        WAIT();
        written = before + 1;
        CHECK(pthread_rwlock_unlock(&lock) == 0);
        if (pthread_rwlock_trywrlock(&lock) == 0) {
            CHECK(pthread_rwlock_wrlock(&lock) == EDEADLK);
            CHECK(pthread_rwlock_unlock(&lock) == 0);
        }
        CHECK(pthread_rwlock_rdlock(&lock) == 0 && pthread_rwlock_rdlock(&lock) == 0);
        WAIT();
        CHECK(pthread_rwlock_unlock(&lock) == 0 && pthread_rwlock_unlock(&lock) == 0);
    }
    return argument;
}
int main(void) {
    run_many(4, writes);
    printf("%d\n", written);
}
