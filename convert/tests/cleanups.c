/* Hard case: pthread_cleanup_push in converted functions. Its handlers run innermost first, before
 * the frames of their functions are freed, and may wait.
 * Runtime: product, because handlers wait. */
#include "test.h"
static char text[4000];
static void say(const char *what) { strcat(text, what); }
static void note(void *what) { say(what); }
static int pipes[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t reached;

static void unlock(void *lock) {
    CHECK(pthread_mutex_trylock(lock) == EBUSY);
    say("unlocks ");
    pthread_mutex_unlock(lock);
}
static void waits_itself(void *number) {
    usleep(2000);
    WAIT();
    say(*(int *)number == 7 ? "slept " : "lost its variable ");
}
static NOINLINE void blocks(void) {
    char byte;
    sem_post(&reached);
    read(pipes[0], &byte, 1);
    say("read on ");
}

/* Cancelled in a condition: the handler has the mutex. */
static void *in_condition(void *unused) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, &mutex);
    sem_post(&reached);
    for (;;) pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(1);
    return NULL;
}
static NOINLINE void inner(int number) {
    int kept = number;
    pthread_cleanup_push(waits_itself, &kept);
    pthread_cleanup_push(note, "innermost ");
    blocks();
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
}
/* Handlers of two functions. */
static void *nested(void *unused) {
    char bytes[100];
    strcpy(bytes, "bytes of a frame ");
    pthread_cleanup_push(note, bytes);
    inner(7);
    pthread_cleanup_pop(0);
    return NULL;
}
/* One push in a loop, and two of which one is popped before the wait. */
static void *in_loop(void *how) {
    char number[12];
    for (int turn = 0; turn < 5; turn++) {
        sprintf(number, "%d ", turn);
        pthread_cleanup_push(note, number);
        WAIT();
        if (turn == 3 && how) blocks();
        pthread_cleanup_pop(turn % 2);
    }
    pthread_cleanup_push(note, "first ");
    pthread_cleanup_push(note, "second ");
    WAIT();
    pthread_cleanup_pop(1);
    blocks();
    pthread_cleanup_pop(1);
    return NULL;
}
/* The code of the handler is in the function. */
static int opened;
static inline void closes(void *descriptor) {
    opened += *(int *)descriptor;
    say(opened == 4 ? "closed " : "wrong ");
    errno = 0;
}
static void *without_call(void *number) {
    int descriptor = (int)(long)number;
    pthread_cleanup_push(closes, &descriptor);
    errno = 3;
    blocks();
    pthread_cleanup_pop(1);
    return NULL;
}
/* Cancellation that is held back reaches the thread after the scope. */
static void *deferred(void *unused) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_cleanup_push(note, "too early ");
    sem_post(&reached);
    usleep(5000);
    pthread_cleanup_pop(0);
    pthread_cleanup_push(note, "in time ");
    pthread_setcancelstate(before, NULL);
    for (;;) usleep(1000);
    pthread_cleanup_pop(0);
    return NULL;
}
static void *exits(void *result) {
    pthread_cleanup_push(note, "exit ");
    WAIT();
    pthread_exit(result);
    pthread_cleanup_pop(0);
    return NULL;
}
/* The handlers come before the destructors of thread-specific data. */
static pthread_key_t key;
static void *with_key(void *unused) {
    pthread_setspecific(key, "destructor ");
    pthread_cleanup_push(note, "handler ");
    blocks();
    pthread_cleanup_pop(0);
    return NULL;
}
static NOINLINE void *in_callback(void *unused) {
    blocks();
    return NULL;
}
static int compare(const void *one, const void *other) {
    pthread_cleanup_push(note, "of a library ");
    in_callback(NULL);
    pthread_cleanup_pop(0);
    return 0;
}
/* A side stack in between. */
static void *through_library(void *unused) {
    int numbers[2] = {2, 1};
    WAIT();
    pthread_cleanup_push(note, "of the thread ");
    qsort(numbers, 2, sizeof *numbers, compare);
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancel(void *(*start)(void *), void *argument, bool lets_go) {
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, start, argument) == 0);
    sem_wait(&reached);
    if (lets_go) write(pipes[1], "", 1);
    else pthread_cancel(thread);
    CHECK(pthread_join(thread, &result) == 0);
    sprintf(text + strlen(text), "%s\n", result == PTHREAD_CANCELED ? "cancelled" : result ? "ended" : "returned");
}

int main(void) {
    CHECK(pipe(pipes) == 0);
    sem_init(&reached, 0, 0);
    pthread_key_create(&key, note);
    cancel(in_condition, NULL, false);
    CHECK(pthread_mutex_trylock(&mutex) == 0);
    cancel(nested, NULL, false);
    cancel(nested, NULL, true);
    cancel(in_loop, NULL, false);
    cancel(in_loop, &key, false);
    cancel(in_loop, NULL, true);
    cancel(without_call, (void *)4, false);
    opened = 0;
    cancel(without_call, (void *)4, true);
    cancel(deferred, NULL, false);
    CHECK(run(exits, (void *)6) == (void *)6);
    cancel(with_key, NULL, false);
    cancel(through_library, NULL, false);
    fputs(text, stdout);
}
