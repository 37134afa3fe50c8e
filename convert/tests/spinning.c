/* Hard case: threads that wait by spinning on a volatile or atomic variable, which another thread
 * sets. */
#include "test.h"
static volatile int flag;
static int atomic_flag, spin_lock, shared;
static NOINLINE void wait_for(int value) {
    while (flag < value) {
    }
}
static NOINLINE void lock(void) {
    while (__atomic_exchange_n(&spin_lock, 1, __ATOMIC_ACQUIRE)) __builtin_ia32_pause();
}
static void unlock(void) { __atomic_store_n(&spin_lock, 0, __ATOMIC_RELEASE); }
static void *waits(void *argument) {
    wait_for(1);
    while (!__atomic_load_n(&atomic_flag, __ATOMIC_ACQUIRE)) {
    }
    for (int round = 0; round < 10; round++) {
        lock();
        int before = shared;
        WAIT();
        shared = before + 1;
        unlock();
    }
    return argument;
}
static void *sets(void *argument) {
    WAIT();
    flag = 1;
    WAIT();
    __atomic_store_n(&atomic_flag, 1, __ATOMIC_RELEASE);
    return argument;
}
int main(void) {
    pthread_t threads[4];
    for (int index = 0; index < 4; index++) pthread_create(&threads[index], NULL, index < 3 ? waits : sets, NULL);
    for (int index = 0; index < 4; index++) pthread_join(threads[index], NULL);
    printf("%d\n", shared);
}
