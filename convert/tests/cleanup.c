/* Hard case: pthread_cleanup_push (in C a hidden setjmp), with handlers that run by pthread_exit,
 * by cancellation and by hand. */
#include "test.h"
static char text[1000];
static void note(void *what) { strcat(text, what); }
static NOINLINE void waits(void) { WAIT(); }
static NOINLINE void leaves(int how) {
    pthread_cleanup_push(note, "inner ");
    waits();
    if (how == 1) pthread_exit((void *)1);
    if (how == 2) for (;;) usleep(1000);
    pthread_cleanup_pop(how == 3);
}
static void *start(void *argument) {
    waits();
    pthread_cleanup_push(note, "outer ");
    leaves((int)(long)argument);
    waits();
    pthread_cleanup_pop(1);
    return NULL;
}
static NOINLINE int counted(int how) {
    waits();
    leaves(how);
    return 1;
}
static void *converted(void *argument) { return (void *)(long)counted((int)(long)argument); }
int main(void) {
    for (long how = 0; how < 4; how++) {
        pthread_t thread;
        for (int which = 0; which < 2; which++) {
            pthread_create(&thread, NULL, which ? converted : start, (void *)how);
            usleep(1000);
            if (how == 2) pthread_cancel(thread);
            pthread_join(thread, NULL);
            strcat(text, "\n");
        }
    }
    fputs(text, stdout);
}
