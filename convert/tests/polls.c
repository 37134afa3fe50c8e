/* Hard case: threads that poll without a primitive, in ways that the pass cannot see, for what
 * another thread of their loop does. Afterwards each goes on as a converted thread: its frames, its
 * identity and its variables are its own.
 * Runtime: product */
#include "test.h"
#include <stdatomic.h>
static atomic_int slots[40];
static int taken;
static __thread int own;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t passed;
/* ---- Polling ---- */
static bool pop(int slot, int *value) {
    *value = atomic_load(&slots[slot]);
    return *value != 0;
}
static bool pop_none(int slot, int *value) { return false; }
static struct { bool (*pop)(int, int *); } poppers[] = {{pop}, {pop_none}};
static typeof(poppers[0]) *volatile by_pointer = poppers;
#define LOOK(at) if (atomic_load(&slots[(slot + at) % 40]) == slot + 100) return *value = slot + 100;
static NOINLINE int pop_long(int slot, int *value) {
    LOOK(0) LOOK(40) LOOK(80) LOOK(120) LOOK(160) LOOK(200) LOOK(240) LOOK(280) LOOK(320) LOOK(360)
    LOOK(400) LOOK(440) LOOK(480) LOOK(520) LOOK(560) LOOK(600) LOOK(640) LOOK(680) LOOK(720) LOOK(760)
    return 0;
}
static NOINLINE int pop_deep(int depth, int slot, int *value) { return depth ? pop_deep(depth - 1, slot, value) + 0 * depth : pop(slot, value); }
static char text[40][8];
static NOINLINE int pop_text(int slot, int *value) { return *value = strtol(text[slot], NULL, 10); }
static NOINLINE int until(int how, int slot) {
    int value = 0;
    switch (how) {
    case 0: while (!by_pointer->pop(slot, &value)); break;
    case 1: while (!pop_long(slot, &value)); break;
    case 2: while (!pop_deep(6, slot, &value)); break;
    case 3: while (!pop_text(slot, &value)); break; /* a library's function */
    case 4: for (int found = 0; found < 1;) if (by_pointer->pop(slot, &value)) ++found; break;
    }
    return value;
}
/* ---- Afterwards ---- */
static NOINLINE int sum(int depth, int value) {
    if (depth % 8 == 0) WAIT();
    return depth ? value + sum(depth - 1, value) : 0;
}
static void *takes(void *argument) {
    int slot = (int)(long)argument;
    pthread_t before = pthread_self();
    own = slot + 1;
    errno = slot + 1;
    for (int round = 0; round < 2; round++) {
        int value = until(slot % 5, slot);
        CHECK(pthread_equal(before, pthread_self()) && own == slot + 1 && errno == slot + 1);
        CHECK(value == slot + 100);
        CHECK(sum(20, value) == 20 * value);
        pthread_mutex_lock(&mutex);
        int seen = taken;
        usleep(10);
        taken = seen + 1;
        pthread_mutex_unlock(&mutex);
        errno = slot + 1;
        atomic_store(&slots[slot], 0);
        memset(text[slot], 0, sizeof text[slot]);
        sem_post(&passed);
    }
    return NULL;
}
static void *gives(void *argument) {
    for (int round = 0; round < 2; round++) {
        for (int slot = 0; slot < 10; slot++) {
            usleep(100);
            snprintf(text[slot], sizeof text[slot], "%d", slot + 100);
            atomic_store(&slots[slot], slot + 100);
        }
        for (int slot = 0; slot < 10; slot++) sem_wait(&passed);
    }
    return NULL;
}
/* ---- Two that only poll for each other ---- */
static void *plays(void *argument) {
    for (int round = 0; round < 20; round++) {
        int value;
        while (!by_pointer->pop(20, &value) || (value - 1) % 2 != (long)argument);
        atomic_store(&slots[20], value + 1);
    }
    return NULL;
}
/* ---- The end of threads that poll ---- */
static NOINLINE void *ends(void *argument) {
    until(0, 30);
    if (argument) pthread_exit(argument);
    for (;;) usleep(1000);
}
static void *forks(void *argument) {
    until(0, 30);
    pid_t child = fork();
    if (child == 0) {
        usleep(10);
        _exit(sum(3, 5));
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return (void *)(long)WEXITSTATUS(status);
}
static void *releases(void *argument) {
    usleep(1000);
    atomic_store(&slots[30], 1);
    return NULL;
}
int main(void) {
    pthread_t threads[12];
    void *result;
    CHECK(sem_init(&passed, 0, 0) == 0);
    for (long index = 0; index < 11; index++) pthread_create(&threads[index], NULL, index < 10 ? takes : gives, (void *)index);
    for (int index = 0; index < 11; index++) pthread_join(threads[index], NULL);
    printf("taken %d\n", taken);
    atomic_store(&slots[20], 1);
    fflush(stdout);
    run_many(2, plays);
    printf("ball %d\n", atomic_load(&slots[20]));
    void *(*const starts[])(void *) = {ends, ends, forks, releases};
    for (long index = 0; index < 4; index++) pthread_create(&threads[index], NULL, starts[index], index ? (void *)(index + 6) : NULL);
    CHECK(pthread_join(threads[1], &result) == 0 && result == (void *)7);
    CHECK(pthread_cancel(threads[0]) == 0 && pthread_join(threads[0], &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(pthread_join(threads[2], &result) == 0 && pthread_join(threads[3], NULL) == 0);
    printf("child %ld\n", (long)result);
}
