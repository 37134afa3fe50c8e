/* The reference runtime: the declarations that its files share.
 *
 * The reference runtime tests the transformation, on one kernel thread. Users' programs do not use
 * this runtime. A converted thread of the program is a task without a stack. `main`, threads that
 * are not converted and calls on side stacks are fibers with stacks. Fibers call this runtime
 * because it defines the symbols read, poll, pthread_mutex_lock and so on (blocking.c), in front of
 * libc's.
 *
 * An operation that may block is a function `attempt`. The runtime tries it at once. If `attempt`
 * cannot complete the operation, it states the event that it waits for: a descriptor, an object, a
 * time. The runtime tries the operation again when that event may have happened.
 */
#ifndef CHECK_H
#define CHECK_H

#define _GNU_SOURCE
#include "../contract/duality_convert.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

struct task;

/* A descriptor that an operation waits for. */
struct watch {
    struct watch *next, **before;
    struct task *task;
    int descriptor;
    unsigned events;
};

struct operation {
    bool (*attempt)(struct operation *);
    long argument[6];
    long value;      /* the result of the call, once `attempt` was true; errno goes with it */
    int error;
    int step;        /* the number of done steps of an operation of several steps */
    size_t done;     /* bytes sent so far */
    bool timed_out;
    bool signalled;
    bool interruptible;
    /* The object of the task's wait. `attempt` sets it when it returns false. */
    const void *object;
    int descriptor;
    unsigned events;
    uint64_t deadline; /* on CLOCK_MONOTONIC, in nanoseconds; 0: none */
    struct watch *watches;
    size_t watch_count;
    struct watch own;
};

enum state { READY, RUNNING, WAITING, ENDED };

struct task {
    struct rt_handle waiter; /* what the innermost frame waits for */
    struct rt_handle root;   /* the parent of the start routine's frame */
    enum state state;
    bool fiber, begun, detached, joined, exiting, cancelled, cancel_disabled, done;
    int identity;
    int saved_errno;
    struct operation operation;
    struct task *next;          /* in the queue of ready tasks */
    struct task *queue_next;    /* in the queue of tasks that wait for objects of one bucket */
    size_t timer;               /* index in the heap, from 1; 0: none */
    void *(*start)(void *);
    rt_start async;
    void *argument, *result;
    void *locals;
    const void **specific;
    struct task *behalf;        /* the task that a side stack works for */
    struct task *side;          /* the side stack that works for this task */
    void (*side_call)(void *);
    ucontext_t context;         /* of a fiber */
    char *stack;
    void *clean_up;             /* of a fiber: handlers of pthread_cleanup_push, innermost first */
    struct rt_cleanup *cleanups; /* of a task: the same */
    struct array *arrays;
};

enum { STACK = 1 << 20, KEYS = 128 };

extern struct task *self;   /* the task or fiber that runs now */
extern struct task main_task;

/* loop.c */
void ready(struct task *);
void park(void);            /* of a fiber: others run until its operation is complete */
struct task *identity(void); /* `self`, or the task that a side stack works for */
void task_free(struct task *);
_Noreturn void fiber_exit(void);
uint64_t now(void);
_Noreturn void give_up(const char *);

/* waiting.c */
bool perform(bool (*attempt)(struct operation *), int count, const long *arguments);
void wake(const void *object, int count);
void unwait(struct task *);
void wait_for_events(void);
void retry(struct task *);
void forget_all(void);

/* threads.c */
void run_destructors(struct task *);

#define ARGUMENTS(...) (sizeof((long[]){__VA_ARGS__}) / sizeof(long)), (long[]){__VA_ARGS__}
/* Performs an operation for a primitive that returns `type`. */
#define PERFORM(type, attempt, ...) \
    (perform(attempt, ARGUMENTS(__VA_ARGS__)) ? (type){NULL, self->operation.value} : (type){&self->waiter, 0})

static inline bool complete(struct operation *operation, long value) {
    operation->value = value;
    operation->error = errno;
    return true;
}

#endif
