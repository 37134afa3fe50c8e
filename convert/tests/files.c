/* flockfile: a thread with a FILE's lock writes and reads without other threads in between, also
 * beside their printf.
 * Runtime: product */
#include "test.h"
enum { WRITERS = 8, LINES = 20, READERS = 4 };
static FILE *file;
static int asks[2], answers[2];
static sem_t begun;
/* ---- A line in parts, with waits in between ---- */
static NOINLINE void part(const char *text) {
    fputs(text, file);
    WAIT();
}
static NOINLINE void line(long number) {
    flockfile(file);
    fprintf(file, "%ld", number);
    flockfile(file);
    part("-");
    funlockfile(file);
    WAIT();
    part("-");
    putc_unlocked('+', file);
    putc('\n', file);
    funlockfile(file);
}
static void *writes(void *argument) {
    for (int index = 0; index < LINES; index++) {
        line((long)argument);
        fprintf(file, "%s\n", "whole");
        WAIT();
    }
    return argument;
}
static void check_lines(void) {
    char text[100];
    int count[WRITERS] = {0}, whole = 0, number;
    rewind(file);
    while (fgets(text, sizeof text, file)) {
        char rest[100];
        if (!strcmp(text, "whole\n")) {
            whole++;
            continue;
        }
        CHECK(sscanf(text, "%d%s", &number, rest) == 2 && number < WRITERS && !strcmp(rest, "--+"));
        count[number]++;
    }
    for (number = 0; number < WRITERS; number++) CHECK(count[number] == LINES);
    printf("%d lines\n", whole);
}
/* ---- The lock while its owner waits for another thread ---- */
static NOINLINE void holds(void) {
    char byte;
    flockfile(file);
    CHECK(write(asks[1], "a", 1) == 1);
    CHECK(read(answers[0], &byte, 1) == 1);
    fputs("first ", file);
    funlockfile(file);
}
static void *owner(void *argument) {
    holds();
    return argument;
}
static void *printer(void *argument) {
    fputs("second ", file);
    WAIT();
    return argument;
}
static void *locker(void *argument) {
    flockfile(file);
    WAIT();
    fputs("second ", file);
    funlockfile(file);
    return argument;
}
static void *asker(void *argument) {
    int *result = argument;
    *result = ftrylockfile(file);
    WAIT();
    return argument;
}
static void *native_printer(void *argument) {
    fputs("second ", file);
    return argument;
}
static void excludes(void *(*other)(void *), const char *name) {
    pthread_t threads[5];
    char byte, text[200];
    int result = 0;
    file = tmpfile();
    CHECK(pthread_create(&threads[0], NULL, owner, NULL) == 0);
    CHECK(read(asks[0], &byte, 1) == 1);
    CHECK(ftrylockfile(file) != 0);
    for (int index = 1; index < 4; index++) CHECK(pthread_create(&threads[index], NULL, other, NULL) == 0);
    CHECK(pthread_create(&threads[4], NULL, asker, &result) == 0);
    CHECK(pthread_join(threads[4], NULL) == 0);
    CHECK(result != 0);
    CHECK(write(answers[1], "b", 1) == 1);
    for (int index = 0; index < 4; index++) CHECK(pthread_join(threads[index], NULL) == 0);
    CHECK(ftrylockfile(file) == 0);
    funlockfile(file);
    rewind(file);
    CHECK(fgets(text, sizeof text, file));
    fclose(file);
    printf("%s: %s\n", name, text);
}
/* ---- Functions on a side stack: the lock is the thread's ---- */
static NOINLINE void locks_aside(void) {
    jmp_buf back;
    if (setjmp(back) == 0) {
        flockfile(file);
        WAIT();
        longjmp(back, 1);
    }
}
static NOINLINE void unlocks_aside(void) {
    jmp_buf back;
    if (setjmp(back) == 0) {
        WAIT();
        funlockfile(file);
        longjmp(back, 1);
    }
}
static void *reads_own(void *argument) {
    char text[20];
    locks_aside();
    WAIT();
    CHECK(fgets(text, sizeof text, file));
    flockfile(file);
    WAIT();
    CHECK(fgets(text, sizeof text, file));
    funlockfile(file);
    unlocks_aside();
    return argument;
}
static int compare(const void *one, const void *other) {
    flockfile(file);
    WAIT();
    funlockfile(file);
    return *(const int *)one - *(const int *)other;
}
static void *sorts(void *argument) {
    int numbers[] = {4, 2, 5, 1, 3};
    flockfile(file);
    WAIT();
    qsort(numbers, 5, sizeof(int), compare);
    WAIT();
    for (int index = 0; index < 5; index++) fprintf(file, "%d", numbers[index]);
    funlockfile(file);
    return argument;
}
/* ---- No cancellation point; and a file that is closed by the owner of its lock ---- */
static void *waits_for_lock(void *argument) {
    sem_post(&begun);
    flockfile(file);
    funlockfile(file);
    *(int *)argument = 1;
    for (;;) pthread_testcancel(), WAIT();
}
static void *closes(void *argument) {
    FILE *own = tmpfile();
    flockfile(own);
    WAIT();
    fputs("text", own);
    fclose(own);
    void *reused = calloc(1, 300);
    for (int round = 0; round < 10; round++) WAIT();
    free(reused);
    return argument;
}
static void cancels(void) {
    pthread_t thread;
    int passed = 0;
    void *result;
    sem_init(&begun, 0, 0);
    flockfile(file);
    CHECK(pthread_create(&thread, NULL, waits_for_lock, &passed) == 0);
    sem_wait(&begun);
    CHECK(pthread_cancel(thread) == 0);
    funlockfile(file);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    printf("cancelled after the lock: %d\n", passed);
}
/* ---- In the child of a fork all locks are free ---- */
static void *forks(void *argument) {
    int status;
    flockfile(file);
    WAIT();
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    WAIT();
    funlockfile(file);
    return argument;
}
int main(void) {
    CHECK(pipe(asks) == 0 && pipe(answers) == 0);
    file = tmpfile();
    run_many(WRITERS, writes);
    check_lines();
    excludes(printer, "printf");
    excludes(locker, "flockfile");
    excludes(native_printer, "a native thread");
    file = tmpfile();
    fputs("one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n", file);
    rewind(file);
    run_many(READERS, reads_own);
    run(sorts, NULL);
    cancels();
    run_many(4, closes);
    run(forks, NULL);
    CHECK(ftrylockfile(file) == 0);
    printf("at %ld\n", ftell(file));
}
