/* Side threads: pthreads that make calls for tasks, on their own stacks.
 *
 *   loop: task suspends, HANDED ──▶ side thread: makes the call, as the task
 *   side thread: ENGINE_READY   ──▶ loop: the task goes on
 *
 * Between duality_detach and duality_attach the frames of the task run on a side thread too.
 *
 * A thread that ends in the call (pthread_exit, cancellation) ends its task too: the task's loop
 * destroys the frames. A side thread can be cancelled only in a call.
 */
#include "runtime.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The most side threads that stay for the next call. */
enum { IDLE_MOST = 64 };
/* Of these, the threads that keep the memory of their stacks. */
enum { IDLE_WHOLE = 8 };

struct side {
    struct side *next; /* in the list of idle side threads */
    pthread_t thread;
    unsigned awake;    /* a futex: 1 when there is a task, or it must end */
    size_t stack;
    struct task *task;
    bool cancelled;    /* pthread_cancel was called for it: it serves no other task */
};

/* Guards the variables below, and `side` of every task's rare part. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct side *idle;
static unsigned idle_count, count;
/* Tasks for which no thread could be made. */
static struct task *first, **last = &first;

static _Thread_local bool in_call;

bool in_side_call(void) { return in_call; }

/* ---- The side thread ---- */

static void to_loop(struct task *task) {
    /* In the child of a fork the loop may not exist. */
    loop_ensure(task->loop);
    engine(ENGINE_READY, task, task->loop, 0l);
}

/* Runs when the thread ends in the middle of the call. */
static void torn(void *argument) {
    struct side *side = argument;
    struct task *task = behalf;
    pthread_mutex_lock(&lock);
    task->rare->side = NULL;
    count--;
    pthread_mutex_unlock(&lock);
    free(side);
    task->flags = (task->flags | EXITING) & ~AWAY;
    set_bits(&task->state, UNCANCELLABLE);
    leave_turn(task);
    behalf = NULL;
    mask_of_side(NULL);
    to_loop(task);
}

static void make_call(struct side *side, struct task *task) {
    struct rare *rare = task->rare;
    void (*call)(void *) = rare->call;
    rare->call = NULL;
    task->flags &= ~HANDED;
    if (!call) return;
    pthread_mutex_lock(&lock);
    rare->side = side;
    unsigned state = load(&task->state);
    if ((state & CANCELLED) && !side->cancelled) {
        side->cancelled = true;
        libc_pthread_cancel(pthread_self());
    }
    signals_to_side(task);
    pthread_mutex_unlock(&lock);
    pthread_cleanup_push(torn, side);
    in_call = true;
    if (!(state & UNCANCELLABLE)) {
        /* The result is this, unless pthread_exit sets another. */
        task->result = PTHREAD_CANCELED;
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    }
    call(rare->argument);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    in_call = false;
    pthread_cleanup_pop(0);
    pthread_mutex_lock(&lock);
    rare->side = NULL;
    signals_from_side(task);
    pthread_mutex_unlock(&lock);
}

static void serve(struct side *side, struct task *task) {
    behalf = task;
    mask_of_side(task);
    enter_turn(task);
    do {
        if (task->flags & HANDED) make_call(side, task);
        if (task->flags & AWAY) trampoline(&task->waiter);
    } while ((task->flags & AWAY) && !(task->flags & (EXITING | RETURNED)));
    task->flags &= ~AWAY;
    leave_turn(task);
    behalf = NULL;
    mask_of_side(NULL);
}

/* After a burst, the memory of a stack goes back to the kernel, except for the part in use. */
static void give_stack_back(void) {
    enum { KEPT = 16384 };
    pthread_attr_t attributes;
    void *low;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes)) return;
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    uintptr_t end = ((uintptr_t)__builtin_frame_address(0) - KEPT) & -(uintptr_t)KEPT;
    if (end > (uintptr_t)low) madvise(low, end - (uintptr_t)low, MADV_DONTNEED);
}

/* Makes the thread idle, or gives it the next task. Returns false if the thread must end. */
static bool rest(struct side *side) {
    if (__atomic_load_n(&idle_count, __ATOMIC_RELAXED) >= IDLE_WHOLE) give_stack_back();
    pthread_mutex_lock(&lock);
    bool stays = !side->cancelled && idle_count < IDLE_MOST;
    if (stays && first) {
        side->task = first;
        first = first->rare->next;
        if (!first) last = &first;
        store(&side->awake, 1);
    } else if (stays) {
        side->next = idle;
        idle = side;
        idle_count++;
    } else {
        count--;
    }
    pthread_mutex_unlock(&lock);
    return stays;
}

static void *side_main(void *argument) {
    struct side *side = argument;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_setname_np(pthread_self(), "duality-side");
    for (;;) {
        while (!load(&side->awake)) block_at(&side->awake, 0, 0);
        store(&side->awake, 0);
        struct task *task = side->task;
        if (!task) break;
        serve(side, task);
        /* The thread becomes idle first. Otherwise the task's next call would need another
         * thread. */
        bool stays = rest(side);
        to_loop(task);
        if (!stays) break;
    }
    free(side);
    return NULL;
}

/* ---- Handing over ---- */

static bool create(struct task *task) {
    struct side *side = calloc(1, sizeof *side);
    if (!side) return false;
    side->task = task;
    side->awake = 1;
    side->stack = stack_size();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, side->stack);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&side->thread, &attributes, side_main, side);
    pthread_attr_destroy(&attributes);
    if (error) free(side);
    return !error;
}

/* If no thread can be made, an existing thread will take the task. */
static void wait_for_side(struct task *task) {
    pthread_mutex_lock(&lock);
    bool any = count > 0;
    if (any) {
        task->rare->next = NULL;
        *last = task;
        last = &task->rare->next;
    }
    pthread_mutex_unlock(&lock);
    if (!any) give_up("no thread for a library function that may block: the limit of threads is reached (ulimit -u)");
}

static void run_at(struct side *side, struct task *task) {
    side->task = task;
    store(&side->awake, 1);
    wake_all(&side->awake);
}

/* An idle side thread, under the lock. Threads with too small a stack end. */
static struct side *take_idle(void) {
    for (struct side *side; (side = idle);) {
        idle = side->next;
        idle_count--;
        if (side->stack >= stack_size()) return side;
        count--;
        run_at(side, NULL);
    }
    return NULL;
}

void side_begin(struct task *task) {
    mask_without(task);
    pthread_mutex_lock(&lock);
    struct side *side = take_idle();
    if (!side) count++;
    pthread_mutex_unlock(&lock);
    if (side) {
        run_at(side, task);
    } else if (!create(task)) {
        pthread_mutex_lock(&lock);
        count--;
        pthread_mutex_unlock(&lock);
        wait_for_side(task);
    }
}

void side_call(struct task *task, void (*call)(void *), void *argument, void (*resume)(struct rt_handle *)) {
    struct rare *rare = rare_of(task);
    rare->call = call;
    rare->argument = argument;
    task->flags |= HANDED;
    suspend(task, resume);
}

struct rt_handle *rt_call_on_side_stack(void (*call)(void *), void *arguments) {
    struct task *task = identity();
    if (!task) {
        call(arguments);
        return NULL;
    }
    side_call(task, call, arguments, resume_parent);
    return &task->waiter;
}

/* ---- duality_detach and duality_attach ---- */

struct rt_handle *rt_duality_detach(void) {
    struct task *task = on_loop();
    if (!task) return NULL;
    rare_of(task)->call = NULL;
    task->flags |= AWAY | HANDED;
    suspend(task, resume_parent);
    return &task->waiter;
}

struct rt_handle *rt_duality_attach(void) {
    struct task *task = behalf;
    if (!task || !(task->flags & AWAY)) return NULL;
    task->flags &= ~AWAY;
    suspend(task, resume_parent);
    return &task->waiter;
}

/* The versions for originals, which already run on a pthread. */
void duality_detach_task(void) {}
void duality_attach_task(void) {}

/* ---- What others do to a task on a side thread ---- */

bool side_cancel(struct task *task) {
    pthread_mutex_lock(&lock);
    struct rare *rare = load(&task->rare);
    struct side *side = rare ? rare->side : NULL;
    if (side && !side->cancelled) {
        side->cancelled = true;
        libc_pthread_cancel(side->thread);
    }
    pthread_mutex_unlock(&lock);
    return side != NULL;
}

int side_kill(struct task *task, int signal, const union sigval *value) {
    int error = ESRCH;
    pthread_mutex_lock(&lock);
    struct rare *rare = load(&task->rare);
    struct side *side = rare ? rare->side : NULL;
    if (side) {
        error = signal_send(side->thread, signal, value);
        if (!error) rare->aside |= signal_bit(signal);
    } else if (signal_waits(task, signal, value)) {
        error = 0;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

unsigned long side_look_at_time(struct task *task) {
    pthread_mutex_lock(&lock);
    struct rare *rare = load(&task->rare);
    unsigned long used = rare ? load(&rare->used) : 0;
    pthread_mutex_unlock(&lock);
    return used;
}

void rare_free(struct task *task) {
    struct rare *rare = task->rare;
    if (!rare) return;
    pthread_mutex_lock(&lock);
    store(&task->rare, NULL);
    pthread_mutex_unlock(&lock);
    files_free(rare);
    free(rare->values);
    free(rare->specific);
    free(rare->locals);
    free(rare);
}

/* ---- fork ---- */

void side_before_fork(void) { pthread_mutex_lock(&lock); }

void side_after_fork(bool child) {
    if (child) {
        idle = NULL;
        idle_count = 0;
        count = behalf && !left ? 1 : 0;
        first = NULL;
        last = &first;
    }
    pthread_mutex_unlock(&lock);
}
