/* Threads that start threads, by start routines that are not constants; many threads at once;
 * detached threads. */
#include "test.h"
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t none_left = PTHREAD_COND_INITIALIZER;
static int left, sum;
typedef void *(*routine)(void *);
static NOINLINE void begin(routine start, long number) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_mutex_lock(&lock);
    left++;
    pthread_mutex_unlock(&lock);
    CHECK(pthread_create(&thread, &attributes, start, (void *)number) == 0);
    pthread_attr_destroy(&attributes);
}
static NOINLINE void done(int number) {
    pthread_mutex_lock(&lock);
    sum += number;
    if (--left == 0) pthread_cond_signal(&none_left);
    pthread_mutex_unlock(&lock);
}
static void *leaf(void *argument) {
    WAIT();
    done((int)(long)argument);
    return NULL;
}
static void *other_leaf(void *argument) {
    usleep(1);
    done((int)(long)argument * 2);
    return NULL;
}
static void *root(void *argument) {
    for (long index = 0; index < 50; index++) {
        begin(index % 2 ? leaf : other_leaf, index);
        if (index % 7 == 0) WAIT();
    }
    done((int)(long)argument);
    return NULL;
}
int main(void) {
    for (long index = 0; index < 40; index++) begin(root, index);
    pthread_mutex_lock(&lock);
    while (left) pthread_cond_wait(&none_left, &lock);
    pthread_mutex_unlock(&lock);
    printf("%d\n", sum);
    /* No thread waits for the end of a detached thread, so the program gives it time to free its
     * memory.
       */
    usleep(1000);
}
