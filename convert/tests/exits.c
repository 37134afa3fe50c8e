/* Pitfall 8 and pthread_exit, pthread_cancel deep in a chain: any end of the thread frees its
 * frames once. */
#include "test.h"
static NOINLINE int deep(int depth, void *result) {
    char buffer[100];
    memset(buffer, depth, sizeof buffer);
    WAIT();
    if (depth == 0) pthread_exit(result);
    return deep(depth - 1, result) + buffer[50];
}
static void *exits(void *argument) { return (void *)(long)deep(10, argument); }
static NOINLINE void *sleeps(int depth) {
    char buffer[64];
    sprintf(buffer, "%d", depth);
    if (depth) sleeps(depth - 1);
    for (;;) sleep(1000);
    return buffer;
}
static void *cancelled(void *argument) { return sleeps((int)(long)argument); }
static void *cancels_itself(void *argument) {
    pthread_cancel(pthread_self());
    pthread_testcancel();
    return argument;
}
static void *defers(void *argument) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    sem_post(argument);
    usleep(2000);
    pthread_setcancelstate(before, NULL);
    for (;;) pause(), usleep(1000);
}
static void *detached(void *argument) {
    deep(3, argument);
    return NULL;
}
static sem_t ended;
static pthread_key_t key;
static void at_end(void *value) {
    (void)value;
    sem_post(&ended);
}
static void *with_key(void *argument) {
    pthread_setspecific(key, argument);
    deep(2, argument);
    return NULL;
}
int main(void) {
    printf("%ld\n", (long)run(exits, (void *)42));
    pthread_t thread;
    void *result;
    for (long depth = 0; depth < 5; depth++) {
        pthread_create(&thread, NULL, cancelled, (void *)depth);
        if (depth % 2) sched_yield();
        pthread_cancel(thread);
        pthread_join(thread, &result);
        CHECK(result == PTHREAD_CANCELED);
    }
    CHECK(run(cancels_itself, NULL) == PTHREAD_CANCELED);
    sem_t begun;
    sem_init(&begun, 0, 0);
    sem_init(&ended, 0, 0);
    pthread_key_create(&key, at_end);
    pthread_create(&thread, NULL, with_key, &begun);
    pthread_detach(thread);
    sem_wait(&ended);
    pthread_create(&thread, NULL, detached, NULL);
    pthread_detach(thread);
    usleep(1000);
    (void)defers;
    puts("ended");
}
