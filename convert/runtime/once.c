/* pthread_once, on glibc's own word, so that tasks and pthreads share it: 0, then the generation of
 * the process with IN_PROGRESS, then DONE. In the child of a fork, a routine that another
 * generation began starts again. */
#include "runtime.h"

#include <stdlib.h>

enum { IN_PROGRESS = 1, DONE = 2, GENERATION = 4 };

static unsigned generation;

struct running_once {
    struct running_once *next;
    unsigned *word;
};

static void note(struct task *task, unsigned *word) {
    struct running_once *once = malloc(sizeof *once);
    if (!once) give_up("out of memory for pthread_once");
    struct rare *rare = rare_of(task);
    *once = (struct running_once){rare->once, word};
    rare->once = once;
}

static void forget(struct rare *rare) {
    struct running_once *once = rare->once;
    rare->once = once->next;
    free(once);
}

/* Returns 1 if the caller must run the routine, 0 if it has run, and -1 if the task waits. */
static int attempt(struct task *task, unsigned *word) {
    for (;;) {
        unsigned value = load(word), mine = generation | IN_PROGRESS;
        if (value & DONE) return 0;
        if (value != mine) {
            if (__atomic_compare_exchange_n(word, &value, mine, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return 1;
        } else if (!self) {
            block_at(word, value, 0);
        } else if (wait_at(task, (unsigned long)word, value, 0)) {
            return -1;
        }
    }
}

static void again(struct rt_handle *handle) {
    (void)handle;
    struct task *task = self;
    unsigned *word = (unsigned *)task->engine.arguments[0];
    int result = attempt(task, word);
    if (result == 1) note(task, word);
    if (result >= 0) complete(task, result);
}

struct rt_int rt_once_begin(pthread_once_t *once) {
    struct task *task = on_loop() ? self : behalf;
    unsigned *word = (unsigned *)once;
    if (load(word) & DONE) return self && has_had_its_turn() ? give_way_with(0) : (struct rt_int){NULL, 0};
    task->engine.arguments[0] = (long)word;
    suspend(task, again);
    int result = attempt(task, word);
    if (result == 1) note(task, word);
    return result >= 0 ? (struct rt_int){NULL, result} : (struct rt_int){&task->waiter, 0};
}

void rt_once_end(pthread_once_t *once) {
    forget(identity()->rare);
    store((unsigned *)once, DONE);
    wake_all((unsigned *)once);
}

/* An exception has left the routine. */
void rt_once_abandon(pthread_once_t *once) {
    forget(identity()->rare);
    store((unsigned *)once, 0);
    wake_all((unsigned *)once);
}

/* A task that ends in a routine leaves the routine to the next thread. */
void once_abandon(struct task *task) {
    while (task->rare && task->rare->once) {
        unsigned *word = task->rare->once->word;
        forget(task->rare);
        store(word, 0);
        wake_all(word);
    }
}

void once_after_fork(void) { generation += GENERATION; }
