/* Functions that name a thread: join, end and cancel. The pthread_t of a task is its address. */
#include "runtime.h"

pthread_t rt_pthread_self(void) {
    struct task *task = identity();
    return task ? (pthread_t)task : pthread_self();
}

/* ---- Joining ---- */

/* Joiners wait at the word `state` of a task. A task that ends wakes the joiners only if JOINED is
 * set. So a joiner sets JOINED first. */
static int join_begin(struct task *task) {
    if (task == identity()) return EDEADLK;
    return set_bits(&task->state, JOINED) & (JOINED | DETACHED) ? EINVAL : 0;
}

static void stop_joining(void *task) { clear_bits(&((struct task *)task)->state, JOINED); }

static void take(struct task *task, void **result) {
    if (result) *result = task->result;
    task_free(task);
}

/* The state that the joining task keeps while it waits. */
enum { THREAD, RESULT, CLOCK, UNTIL, VALUE, DEADLINE = VALUE };

/* Returns -1 if the joiner waits. */
static int join_attempt(struct task *joiner) {
    long *kept = joiner->engine.arguments;
    struct task *task = (struct task *)kept[THREAD];
    for (;;) {
        unsigned state = load(&task->state);
        if (state & ENDED) {
            take(task, (void **)kept[RESULT]);
            return 0;
        }
        if (has_passed(kept[DEADLINE])) {
            stop_joining(task);
            return ETIMEDOUT;
        }
        if (wait_at(joiner, (unsigned long)&task->state, state, kept[DEADLINE])) {
            reconsider(joiner);
            return -1;
        }
    }
}

static void join_again(struct rt_handle *handle) {
    (void)handle;
    struct task *joiner = self;
    if (joiner->engine.reason == ENGINE_INTERRUPTED && is_cancelled(joiner)) {
        stop_joining((struct task *)joiner->engine.arguments[THREAD]);
        leave(joiner, PTHREAD_CANCELED);
        return;
    }
    int result = join_attempt(joiner);
    if (result >= 0) complete(joiner, result);
}

/* A side thread joins a pthread. */
static void join_pthread(void *argument) {
    long *kept = ((struct task *)argument)->engine.arguments;
    pthread_t thread = kept[THREAD];
    void **result = (void **)kept[RESULT];
    const struct timespec *until = (const struct timespec *)kept[UNTIL];
    kept[VALUE] = until ? pthread_clockjoin_np(thread, result, (clockid_t)kept[CLOCK], until) : libc_pthread_join(thread, result);
}

static void joined_pthread(struct rt_handle *handle) {
    (void)handle;
    complete(self, self->engine.arguments[VALUE]);
}

static struct rt_int join(pthread_t thread, void **result, clockid_t clock, const struct timespec *until) {
    struct task *joiner = self;
    if (is_cancelled(joiner)) return (struct rt_int){leave(joiner, PTHREAD_CANCELED), 0};
    long *kept = joiner->engine.arguments;
    int error = is_task(thread) ? join_begin((struct task *)thread) : pthread_tryjoin_np(thread, result);
    if (!is_task(thread) && error != EBUSY) return (struct rt_int){NULL, error};
    if (is_task(thread) && error) return (struct rt_int){NULL, error};
    kept[THREAD] = thread;
    kept[RESULT] = (long)result;
    kept[CLOCK] = clock;
    kept[UNTIL] = (long)until;
    if (!is_task(thread)) {
        side_call(joiner, join_pthread, joiner, joined_pthread);
        return (struct rt_int){&joiner->waiter, 0};
    }
    unsigned long deadline = 0;
    if (until && !deadline_of(clock, until, &deadline)) {
        stop_joining((struct task *)thread);
        return (struct rt_int){NULL, EINVAL};
    }
    kept[DEADLINE] = deadline;
    suspend(joiner, join_again);
    int value = join_attempt(joiner);
    if (value < 0) return (struct rt_int){&joiner->waiter, 0};
    return has_had_its_turn() ? give_way_with(value) : (struct rt_int){NULL, value};
}

/* The calling pthread blocks. */
static int block_join(struct task *task, void **result, clockid_t clock, const struct timespec *until) {
    unsigned long deadline = 0;
    int error = join_begin(task);
    if (error) return error;
    if (until && !deadline_of(clock, until, &deadline)) {
        stop_joining(task);
        return EINVAL;
    }
    unsigned state;
    pthread_cleanup_push(stop_joining, task);
    while (!((state = load(&task->state)) & ENDED) && !has_passed(deadline)) block_at(&task->state, state, deadline);
    pthread_cleanup_pop(0);
    if (state & ENDED) {
        take(task, result);
        return 0;
    }
    stop_joining(task);
    return ETIMEDOUT;
}

int rt_block_pthread_join(pthread_t thread, void **result) {
    return is_task(thread) ? block_join((struct task *)thread, result, CLOCK_REALTIME, NULL) : libc_pthread_join(thread, result);
}
int rt_block_pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock, const struct timespec *until) {
    return is_task(thread) ? block_join((struct task *)thread, result, clock, until) : pthread_clockjoin_np(thread, result, clock, until);
}
int rt_block_pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *until) {
    return rt_block_pthread_clockjoin_np(thread, result, CLOCK_REALTIME, until);
}

struct rt_int rt_pthread_join(pthread_t thread, void **result) {
    return on_loop() ? join(thread, result, CLOCK_REALTIME, NULL) : PLAIN(struct rt_int, rt_block_pthread_join(thread, result));
}
struct rt_int rt_pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock, const struct timespec *until) {
    return on_loop() ? join(thread, result, clock, until) : PLAIN(struct rt_int, rt_block_pthread_clockjoin_np(thread, result, clock, until));
}
struct rt_int rt_pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *until) {
    return rt_pthread_clockjoin_np(thread, result, CLOCK_REALTIME, until);
}

int rt_pthread_tryjoin_np(pthread_t thread, void **result) {
    if (!is_task(thread)) return fruitless(pthread_tryjoin_np(thread, result));
    struct task *task = (struct task *)thread;
    if (!(load(&task->state) & ENDED)) return fruitless(EBUSY);
    int error = join_begin(task);
    if (!error) take(task, result);
    return error;
}

int rt_pthread_detach(pthread_t thread) {
    if (!is_task(thread)) return libc_pthread_detach(thread);
    struct task *task = (struct task *)thread;
    unsigned before = set_bits(&task->state, DETACHED);
    if (before & DETACHED) return EINVAL;
    if (before & ENDED) task_free(task);
    return 0;
}

/* ---- Ending ---- */

struct rt_handle *rt_pthread_exit(void *result) {
    struct task *task = identity();
    if (!task) rt_block_pthread_exit(result);
    return leave(task, result);
}

struct rt_handle *rt_pthread_testcancel(void) {
    struct task *task = on_loop() ? self : behalf;
    if (!task) pthread_testcancel();
    if (task && is_cancelled(task)) return leave(task, PTHREAD_CANCELED);
    if (!self || !has_had_its_turn()) return NULL;
    give_way(task, resume_parent);
    return &task->waiter;
}

int rt_pthread_cancel(pthread_t thread) {
    if (!is_task(thread)) return libc_pthread_cancel(thread);
    struct task *task = (struct task *)thread;
    unsigned before = set_bits(&task->state, CANCELLED);
    if (before & ENDED || side_cancel(task)) return 0;
    if (!(before & UNCANCELLABLE)) engine(ENGINE_INTERRUPT, task, 0l);
    return 0;
}

int rt_pthread_setcancelstate(int state, int *before) {
    struct task *task = identity();
    if (!task) return pthread_setcancelstate(state, before);
    if (state != PTHREAD_CANCEL_ENABLE && state != PTHREAD_CANCEL_DISABLE) return EINVAL;
    bool disable = state == PTHREAD_CANCEL_DISABLE;
    unsigned old = disable ? set_bits(&task->state, UNCANCELLABLE) : clear_bits(&task->state, UNCANCELLABLE);
    if (before) *before = old & UNCANCELLABLE ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE;
    return in_side_call() ? pthread_setcancelstate(state, NULL) : 0;
}

/* A task is cancelled where it waits, never in the middle of a computation. */
int rt_pthread_setcanceltype(int type, int *before) {
    if (!identity()) return pthread_setcanceltype(type, before);
    if (type != PTHREAD_CANCEL_DEFERRED && type != PTHREAD_CANCEL_ASYNCHRONOUS) return EINVAL;
    if (before) *before = PTHREAD_CANCEL_DEFERRED;
    return 0;
}
