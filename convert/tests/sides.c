/* Calls on side stacks that are cancelled or left by pthread_exit, and calls with recursive locks,
 * keys, fork and errno.
 * Runtime: product */
#include "test.h"
#include <ctype.h>
static int pair[2];
static pthread_key_t key;
static int destroyed;
static void destructor(void *value) {
    usleep(1);
    destroyed += (int)(long)value;
}
static NOINLINE void waits(void) { WAIT(); }
static void *reads_line(void *argument) {
    char line[100];
    FILE *file = fdopen(dup(pair[0]), "r");
    pthread_setspecific(key, (void *)1);
    waits();
    sem_post(argument);
    char *read = fgets(line, sizeof line, file);
    return read;
}
static NOINLINE int compare(const void *one, const void *other) {
    waits();
    if (*(int *)one == 13) pthread_exit((void *)13);
    return *(int *)one - *(int *)other;
}
static void *sorts(void *argument) {
    int numbers[] = {3, 1, 13, 5, 13, 2};
    pthread_setspecific(key, (void *)10);
    qsort(numbers, 6, sizeof *numbers, compare);
    return argument;
}
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static jmp_buf place;
static NOINLINE int locks(int value) {
    if (setjmp(place)) return -1;
    CHECK(pthread_mutex_lock(&recursive) == 0);
    CHECK(pthread_mutex_trylock(&recursive) == 0);
    CHECK(pthread_mutex_lock(&checking) == EDEADLK);
    usleep(1);
    pthread_mutex_unlock(&recursive);
    pthread_mutex_unlock(&recursive);
    CHECK(pthread_getspecific(key) == (void *)100 && errno == 7);
    errno = 8;
    return value;
}
static void *holds(void *argument) {
    pthread_setspecific(key, (void *)100);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&checking);
    waits();
    errno = 7;
    int result = locks(5);
    CHECK(errno == 8 && result == 5);
    CHECK(pthread_mutex_unlock(&checking) == 0 && pthread_mutex_unlock(&checking) == EPERM);
    CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == EPERM);
    return argument;
}
static NOINLINE pid_t forks_on_side(void) {
    if (setjmp(place)) return -1;
    usleep(1);
    return fork();
}
static void *forks(void *argument) {
    int status;
    waits();
    pid_t child = forks_on_side();
    if (!child) {
        waits();
        usleep(10);
        _exit(9);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 9);
    child = fork();
    /* The only thread of the child ends, and with it the child. */
    if (!child) return waits(), argument;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return argument;
}
static void *not_cancelled(void *argument) {
    int before;
    char line[10];
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    sem_post(argument);
    FILE *file = fdopen(dup(pair[0]), "r");
    CHECK(fgets(line, sizeof line, file) && !strcmp(line, "line\n"));
    fclose(file);
    usleep(1000);
    sem_post(argument);
    pthread_setcancelstate(before, NULL);
    for (;;) waits(), usleep(10);
}
int main(void) {
    pthread_t thread;
    void *result;
    sem_t begun;
    sem_init(&begun, 0, 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pthread_key_create(&key, destructor);
    for (int round = 0; round < 3; round++) {
        pthread_create(&thread, NULL, reads_line, &begun);
        sem_wait(&begun);
        if (round) usleep(1000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        CHECK(result == PTHREAD_CANCELED);
    }
    CHECK(run(sorts, NULL) == (void *)13);
    run(holds, NULL);
    run(forks, NULL);
    pthread_create(&thread, NULL, not_cancelled, &begun);
    sem_wait(&begun);
    pthread_cancel(thread);
    CHECK(write(pair[1], "line\n", 5) == 5);
    sem_wait(&begun);
    pthread_join(thread, &result);
    CHECK(result == PTHREAD_CANCELED);
    printf("%d\n", destroyed);
}
