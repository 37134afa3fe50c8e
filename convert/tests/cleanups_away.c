/* The handlers of pthread_cleanup_push of threads that end beside their loop: between
 * duality_detach and duality_attach, and while they compute past their turn.
 * Runtime: product */
#include "../contract/duality.h"
#include "test.h"
enum { DETACHES = 1, EXITS = 2, COMPUTES = 4, EXITS_LATER = 8, ALL = 16 };
static char text[1000];
static sem_t reached;
static void note(void *what) { strcat(text, what); }
static NOINLINE void computes(void) {
    volatile unsigned long sum = 0;
    for (unsigned long number = 0; number < 60000000; number++) sum += number;
}
static NOINLINE void inner(int how) {
    char own[20];
    strcpy(own, "inner ");
    pthread_cleanup_push(note, own);
    if (how & DETACHES) duality_detach();
    sem_post(&reached);
    if (how & EXITS) pthread_exit((void *)3);
    if (how & (COMPUTES | EXITS_LATER)) computes();
    if (how & EXITS_LATER) pthread_exit((void *)4);
    for (;;) usleep(1000);
    pthread_cleanup_pop(0);
}
static void *start(void *how) {
    WAIT();
    pthread_cleanup_push(note, "outer ");
    inner((int)(long)how);
    pthread_cleanup_pop(0);
    return NULL;
}
/* The variant that also sets the type of cancellation. */
static void *defers(void *unused) {
    (void)unused;
    pthread_cleanup_push_defer_np(note, "defers ");
    sem_post(&reached);
    for (;;) usleep(1000);
    pthread_cleanup_pop_restore_np(0);
    return NULL;
}
static void ends(void *(*begin)(void *), long how) {
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, begin, (void *)how) == 0);
    sem_wait(&reached);
    if (!(how & (EXITS | EXITS_LATER))) pthread_cancel(thread);
    CHECK(pthread_join(thread, &result) == 0);
    sprintf(text + strlen(text), "%ld\n", result == PTHREAD_CANCELED ? -1 : (long)result);
}
int main(void) {
    sem_init(&reached, 0, 0);
    for (long how = 0; how < ALL; how++) ends(start, how);
    ends(defers, 0);
    fputs(text, stdout);
}
