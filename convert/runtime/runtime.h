/* The runtime of converted programs: the declarations that its files share.
 *
 *   program's pthreads ──rt_spawn──▶ task ─┐
 *                                          ▼
 *   loop (a pthread):  engine(ENGINE_NEXT) ──▶ task_run: a turn, by the trampoline
 *                          ▲                     │ waits: engine(ENGINE_TRY or ENGINE_WAIT)
 *                          │                     │ needs a stack: handed to a side thread
 *   side thread (a pthread): the call ──ENGINE_READY
 *
 * A task stays on its loop for ever. `start.c` finds the engine. `tasks.c` makes tasks and runs
 * their turns. `waiting.c` has the waits of tasks. `side.c` has side threads. Each other file has
 * the functions of the contract (contract/duality_convert.h) on one subject.
 */
#ifndef DUALITY_RUNTIME_H
#define DUALITY_RUNTIME_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "duality_convert.h"
#include "engine.h"
#include "libc.h"

#include <errno.h>
#include <fenv.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The runtime's code has a section of its own. The engine asks for its bounds: see engine.h. */
#if defined(__clang__)
#pragma clang section text = "duality_runtime"
#endif

enum { LOOPS = 64, NANOSECONDS = 1000000000, MILLISECOND = 1000000 };

/* The rare part of a task. A task has one only if it needs it. */
struct rare {
    struct side *side;          /* the side thread that makes `call` now; under side.c's lock */
    struct task *next;          /* in the queue of tasks that wait for a side thread */
    void (*call)(void *);       /* what a side thread must call; NULL: nothing */
    void *argument;
    void *locals;               /* the program's thread-local variables; NULL until they are used */
    struct specific *specific;  /* thread-specific data, by key */
    unsigned specific_count;
    struct held_file *files;    /* files that the task has locked */
    struct rt_cleanup *cleanups; /* of pthread_cleanup_push, innermost first */
    struct running_once *once;  /* routines of pthread_once that this task runs, innermost first */
    unsigned long used, since;  /* processor.c: in nanoseconds */
    struct timespec time;       /* of a wait whose system call has no room for it */
    long masked[2];             /* the last argument of pselect6: a mask and its size */
    unsigned long mask;         /* of signals, as the kernel has it */
    unsigned long pending;      /* signals for the task that it blocks: see signals.c */
    unsigned long queued;       /* of those, the ones with a value */
    unsigned long aside;        /* signals that the side thread has got for the task */
    union sigval *values;       /* by number; NULL until there is one */
    bool is_scheduled;          /* pthread_setschedparam was called, with what follows */
    int policy, priority;
    fenv_t environment;         /* of floating point, between turns; set if OWN is */
    locale_t locale;            /* of uselocale; NULL: the global one */
    struct exceptions {         /* of C++, between turns; set if HANDLING is */
        void *caught;           /* those that are handled, the last first */
        unsigned uncaught;      /* how many are on their way to a handler */
    } exceptions;
    char name[16];
};

/* Bits of `state`, which any thread may change. */
enum { ENDED = 1, DETACHED = 2, JOINED = 4, CANCELLED = 8, UNCANCELLABLE = 16, TIMED = 32 };
/* Bits of `flags`, of the thread that runs the task. */
enum {
    EXITING = 1,  /* ends in the middle: its frames are destroyed */
    RETURNED = 2, /* its start routine has returned */
    HANDED = 4,   /* goes to a side thread when it has suspended */
    AWAY = 8,     /* between duality_detach and duality_attach */
    MASKED = 16,  /* has a mask of signals of its own */
    OWN = 32,     /* has a floating-point environment or a locale of its own */
    HOLDS_FILES = 64, /* has locks of stdio's files */
    HANDLING = 128, /* handles exceptions of C++ while it waits */
};
/* The way from the result of a system call to the value of the function. */
enum shape { SHAPE_ERRNO, SHAPE_NUMBER, SHAPE_SLEEP };

/* A task. The struct is small, since a program may have a million tasks. */
struct task {
    struct engine_task engine; /* first: its address names the task. Also has `saved_errno` */
    union {
        /* The handle that the innermost frame waits for. `resume` runs at the next turn. */
        struct rt_handle waiter;
        struct {
            void (*resume)(struct rt_handle *);
            void *result; /* a task's own handle is never destroyed */
            struct rt_handle *parent;
        };
    };
    struct rare *rare;
    unsigned state; /* also the futex of those that join the task */
    unsigned char flags;
    unsigned char shape; /* an enum shape */
    unsigned char loop;
    unsigned char unused;
};
_Static_assert(sizeof(struct task) == 216, "a task has grown");

struct loop {
    pthread_t thread;
    unsigned begun;  /* a futex: the loop is known to the engine */
    bool exists;
    struct pool *pool;
    unsigned long base; /* the mask of signals of tasks without their own mask */
};

/* The task that runs on this loop; NULL on all other threads. */
extern _Thread_local struct task *self;
/* The task that this side thread works for. */
extern _Thread_local struct task *behalf;
/* The loop that this thread runs. */
extern _Thread_local struct loop *own_loop;
/* The loop that this thread has left in the middle of a task's turn, because the task computes. */
extern _Thread_local struct loop *left;
/* Where this thread's frames come from. NULL: from the pool that threads share. */
extern _Thread_local struct pool *own_pool;
extern struct loop loops[LOOPS];

/* The parent of each start routine's frame. */
extern struct rt_handle root;

static inline struct task *identity(void) { return self ? self : behalf; }

/* Has this thread run the loop again that it has left. Returns its task. */
struct task *come_back(void);
/* The task that runs on this loop, for a primitive: only a loop's thread has its task wait. NULL on
 * other threads. */
static inline struct task *on_loop(void) { return self || !left ? self : come_back(); }

#define load(place) __atomic_load_n(place, __ATOMIC_ACQUIRE)
#define store(place, value) __atomic_store_n(place, value, __ATOMIC_RELEASE)
#define set_bits(place, bits) __atomic_fetch_or(place, bits, __ATOMIC_SEQ_CST)
#define clear_bits(place, bits) __atomic_fetch_and(place, ~(bits), __ATOMIC_SEQ_CST)

static inline bool is_cancelled(struct task *task) {
    return (__atomic_load_n(&task->state, __ATOMIC_SEQ_CST) & (CANCELLED | UNCANCELLABLE)) == CANCELLED;
}

/* Subtracts a call from the turn. */
static inline bool has_had_its_turn(void) { return --rt_turn <= 0; }

/* For a function that need not wait. `result` says that another thread has the object that the task
 * asks for. */
static inline int fruitless(int result) {
    if (result && self) rt_turn -= RT_FRUITLESS;
    return result;
}

/* start.c */
_Noreturn void give_up(const char *problem);
extern unsigned core_count;

/* The place of a task's state among the engine's words, and two of the states. */
enum { ENGINE_STATE = 69, RUNNING = 2, PARKED = 3 };

/* memory.c */
struct pool *pool_new(void);
/* Leaves the pool of a thread that ends to another thread. */
void pool_leave(struct pool *);
struct task *task_allocate(void);
void task_free(struct task *);
bool is_task(pthread_t);
/* The number of a task as the owner of a mutex: larger than all numbers of threads. */
enum { FIRST_TASK_NUMBER = 0x40000000 };
int task_number(const struct task *);
/* The task with this number. NULL if there never was such a task. */
struct task *task_numbered(int);
/* The rare part of the task, made at its first use. NULL if memory is lacking. */
struct rare *rare_try(struct task *);
struct rare *rare_of(struct task *);
void memory_before_fork(void);
void memory_after_fork(bool child);

/* tasks.c */
void task_run(struct task *);
/* A thread calls these two functions around code that it runs for a task. In between, the thread
 * has the task's own state. */
void enter_turn(struct task *);
void leave_turn(struct task *);
void trampoline(struct rt_handle *);
/* Ends the task in the middle of its calls, with this result, once it has suspended. */
struct rt_handle *leave(struct task *, void *result);
void loop_ensure(unsigned index);
/* The size of the stacks on which code of the program runs. */
enum { SMALLEST_STACK = 16 << 20 };
size_t stack_size(void);
void thread_ended(void);
void tasks_before_fork(void);
void tasks_after_fork(bool child);

/* waiting.c */
void suspend(struct task *, void (*resume)(struct rt_handle *));
void complete(struct task *, long value);
struct rt_ssize call_begin(struct task *, enum shape, long number, const long arguments[6]);
/* A side thread makes the call, whatever the engine could do. */
struct rt_handle *call_aside_begin(struct task *, long number, const long arguments[6]);
/* Puts the task behind the ready tasks. `resume` is its next turn. */
void give_way(struct task *, void (*resume)(struct rt_handle *));
/* Gives way after a call. The task then gets the call's value. */
struct rt_int give_way_with(int value);
/* A primitive that may wait at an object, until a time on a clock (NULL: for ever). */
typedef struct rt_int object_call(struct task *, void *object, clockid_t, const struct timespec *until);
struct rt_int later(object_call *, void *object, clockid_t, const struct timespec *until);
/* Makes the task wait at `key`. Returns false if the word has another value than expected. A
 * `deadline` of 0 means none. */
bool wait_at(struct task *, unsigned long key, unsigned expected, unsigned long deadline);
/* Interrupts the task's wait if the task was cancelled before it waited. */
void reconsider(struct task *);
unsigned long now(void);
/* Computes the time on CLOCK_MONOTONIC, which is never 0. Returns false if the time is not
 * valid. */
bool deadline_of(clockid_t, const struct timespec *, unsigned long *deadline);
/* For objects that are shared with other processes: the engine does not see the wake-ups of other
 * processes. */
unsigned long soon(unsigned long deadline);
bool has_passed(unsigned long deadline);
/* The calling pthread blocks, until the word may have another value. */
void block_at(unsigned *word, unsigned expected, unsigned long deadline);
void wake_all(unsigned *word);

/* side.c */
/* A side thread calls `call(argument)` when the task has suspended. After the call, `resume` is the
 * task's next turn. */
void side_call(struct task *, void (*call)(void *), void *argument, void (*resume)(struct rt_handle *));
void side_begin(struct task *);
/* Cancels the side thread that makes a call for the task, or sends it a signal. Without such a
 * thread, side_kill returns ESRCH, unless the task blocks the signal. */
bool side_cancel(struct task *);
int side_kill(struct task *, int signal, const union sigval *value);
bool in_side_call(void);
void rare_free(struct task *);
/* The processor time of another task, which may end meanwhile. */
unsigned long side_look_at_time(struct task *);
void side_before_fork(void);
void side_after_fork(bool child);
void resume_parent(struct rt_handle *);

/* mutexes.c */
/* Returns the value, or -1 if the task waits and must try again at its next turn. */
int mutex_lock_again(struct task *, pthread_mutex_t *, unsigned long deadline);
int mutex_lock_first(struct task *, pthread_mutex_t *);

/* specific.c */
bool specific_has_destructors(struct task *);
void specific_destroy(struct task *);

/* cleanups.c */
bool cleanups_left(struct task *);
/* Runs the handlers of pthread_cleanup_push: `call` of side_call. */
void cleanups_run(void *task);

/* once.c */
void once_abandon(struct task *);
void once_after_fork(void);

/* signals.c */
/* The present mask of this thread of a loop. The engine changes it where the thread waits. */
extern _Thread_local unsigned long thread_mask;
void mask_inherit(struct task *);
/* Whether this is the mask of the task. */
bool mask_is(struct task *, const sigset_t *);
/* Count the mask of a task among those of all tasks. */
void mask_begins(struct task *);
void mask_ends(struct task *);
void mask_apply(struct task *);
/* This thread of a loop has run the task, and now lets go of it. From now on the thread blocks what
 * all other tasks block. */
void mask_without(struct task *);
void mask_of_loop(bool first);
/* The mask of a side thread that works for the task, or for none (NULL). */
void mask_of_side(struct task *);
/* Whether the task blocks the signal. A blocked signal waits for the task. The caller must keep the
 * task's rare part. */
bool signal_waits(struct task *, int signal, const union sigval *value);
/* The side thread that works for the task gets the signals that wait for the task. The side thread
 * gives back the signals that it has not taken. */
void signals_to_side(struct task *);
void signals_from_side(struct task *);
/* The child has no pending signals. */
void signals_after_fork(void);
/* Sends to a kernel thread; `value` may be NULL. */
int signal_send(pthread_t, int signal, const union sigval *value);
unsigned long signal_bit(int signal);

/* environment.c */
/* Takes the environment of the calling thread for all tasks without their own. Call this once for
 * each process. */
void environment_of_process(void);
void environment_of_loop(void);
void environment_inherit(struct task *, const struct rt_program *);
/* A thread calls these two functions around each turn that it runs. */
void environment_enter(struct task *);
void environment_leave(struct task *);

/* processor.c */
void processor_inherit(struct task *, const struct rt_program *);
/* A thread calls these two functions around each turn that it runs. */
void processor_enter(struct task *);
void processor_leave(struct task *);

/* exceptions.c */
void exceptions_inherit(const struct rt_program *);
/* A thread calls these two functions around each turn that it runs. */
void exceptions_enter(struct task *);
void exceptions_leave(struct task *);
/* Ends the task by an exception that goes through its frames. Returns false if the program is not
 * in C++, or if the task has no frames. */
bool exceptions_unwind(struct task *);
/* Handles an exception that has left the start routine: it is the end of a task, or it ends the
 * process. Returns false if there is no exception. */
bool exceptions_leave_root(void);

/* files.c */
void files_enter(struct task *);
void files_leave(struct task *);
void files_free(struct rare *);
void files_after_fork(void);

/* conditions.c, rwlocks.c */
void conditions_after_fork(void);
void rwlocks_after_fork(void);

/* The running task makes `call` at an object, when it is the task's turn. A task gives way before
 * it has a lock, and not while it holds the lock. */
static inline struct rt_int in_turn(object_call *call, void *object, clockid_t clock, const struct timespec *until) {
    return has_had_its_turn() ? later(call, object, clock, until) : call(self, object, clock, until);
}

/* Makes the call at once if the code runs on a pthread, which may block. Converted code does so
 * only between duality_detach and duality_attach. */
#define PLAIN(type, call) \
    (behalf && is_cancelled(behalf) ? (type){leave(behalf, PTHREAD_CANCELED), 0} : (type){NULL, call})

#endif
