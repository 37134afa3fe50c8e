/* The waits of a task: for a system call, or at a key. The file also has times, and the waits of a
 * pthread for a task. */
#include "runtime.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- Times ---- */

unsigned long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * (unsigned long)NANOSECONDS + time.tv_nsec;
}

bool deadline_of(clockid_t clock, const struct timespec *until, unsigned long *deadline) {
    if (until->tv_nsec < 0 || until->tv_nsec >= NANOSECONDS) return false;
    if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return false;
    struct timespec current;
    clock_gettime(clock, &current);
    long left;
    if (__builtin_mul_overflow(until->tv_sec - current.tv_sec, (long)NANOSECONDS, &left)) {
        left = until->tv_sec < current.tv_sec ? 0 : LONG_MAX / 2;
    }
    left += until->tv_nsec - current.tv_nsec;
    *deadline = left > 0 ? now() + left : 1;
    return true;
}

unsigned long soon(unsigned long deadline) {
    unsigned long next = now() + MILLISECOND;
    return deadline && deadline < next ? deadline : next;
}

bool has_passed(unsigned long deadline) { return deadline && now() >= deadline; }

/* ---- Tasks ---- */

void suspend(struct task *task, void (*resume)(struct rt_handle *)) { task->waiter.resume = resume; }

/* The frame that waits goes on with this value. */
void complete(struct task *task, long value) {
    memcpy(rt_ret, &value, sizeof value);
    rt_next = task->waiter.parent;
}

void resume_parent(struct rt_handle *handle) { rt_next = handle->parent; }

void reconsider(struct task *task) {
    if (is_cancelled(task)) engine(ENGINE_INTERRUPT, task, 0l);
}

bool wait_at(struct task *task, unsigned long key, unsigned expected, unsigned long deadline) {
    long result = engine(ENGINE_WAIT, task, key, (unsigned long)expected, deadline);
    if (result == ENGINE_WAITS) return true;
    if (result == -EAGAIN) return false;
    give_up("the engine refuses to have a thread wait");
}

/* ---- Turns ---- */

void give_way(struct task *task, void (*resume)(struct rt_handle *)) {
    suspend(task, resume);
    engine(ENGINE_READY, task, task->loop, 1l);
}

static void go_on_with(struct rt_handle *handle) {
    (void)handle;
    complete(self, self->engine.arguments[0]);
}

struct rt_int give_way_with(int value) {
    struct task *task = self;
    task->engine.arguments[0] = value;
    give_way(task, go_on_with);
    return (struct rt_int){&task->waiter, 0};
}

/* The state that the task keeps for a call at an object. */
enum { OBJECT, CLOCK, UNTIL, CALL };

static void call_in_turn(struct rt_handle *handle) {
    (void)handle;
    struct task *task = self;
    long *kept = task->engine.arguments;
    struct rt_int result =
        ((object_call *)kept[CALL])(task, (void *)kept[OBJECT], (clockid_t)kept[CLOCK], (const struct timespec *)kept[UNTIL]);
    if (!result.handle) complete(task, result.value);
}

struct rt_int later(object_call *call, void *object, clockid_t clock, const struct timespec *until) {
    struct task *task = self;
    long *kept = task->engine.arguments;
    kept[OBJECT] = (long)object;
    kept[CLOCK] = clock;
    kept[UNTIL] = (long)until;
    kept[CALL] = (long)call;
    give_way(task, call_in_turn);
    return (struct rt_int){&task->waiter, 0};
}

/* ---- System calls ---- */

static long value_of(struct task *task, long result) {
    if (result >= 0) return result;
    if (task->shape == SHAPE_NUMBER) return -result;
    errno = (int)-result;
    /* The result is the remaining seconds, which the call has stored. */
    return task->shape == SHAPE_SLEEP ? task->engine.arguments[4] : -1;
}

/* Runs on a side thread: makes a call that only a thread can make. The result replaces the
 * number. */
static void call_aside(void *argument) {
    struct task *task = argument;
    long *a = task->engine.arguments;
    int saved = errno, type;
    /* As in libc, cancellation must be able to interrupt the kernel. */
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    long result = syscall(task->engine.number, a[0], a[1], a[2], a[3], a[4], a[5]);
    pthread_setcanceltype(type, NULL);
    task->engine.number = result < 0 ? -errno : result;
    errno = saved;
}

static void call_made_aside(struct rt_handle *handle) {
    (void)handle;
    complete(self, value_of(self, self->engine.number));
}

struct rt_handle *call_aside_begin(struct task *task, long number, const long arguments[6]) {
    if (is_cancelled(task)) return leave(task, PTHREAD_CANCELED);
    task->shape = SHAPE_ERRNO;
    task->engine.number = number;
    memcpy(task->engine.arguments, arguments, sizeof task->engine.arguments);
    side_call(task, call_aside, task, call_made_aside);
    return &task->waiter;
}

static void call_again(struct rt_handle *);

/* Returns true if the call is complete. */
static bool attempt(struct task *task, long *result) {
    for (;;) {
        *result = engine(ENGINE_TRY, task);
        if (*result == ENGINE_WAITS) {
            suspend(task, call_again);
            reconsider(task);
            return false;
        }
        if (*result == ENGINE_BLOCKS) {
            side_call(task, call_aside, task, call_made_aside);
            return false;
        }
        /* The call brought an error, the end of a file, or no ready descriptor. */
        if (*result <= 0) rt_turn -= RT_FRUITLESS;
        if (*result != -EINTR) return true;
        unsigned state = load(&task->state);
        if (!(state & CANCELLED)) return true;
        if (!(state & UNCANCELLABLE)) {
            leave(task, PTHREAD_CANCELED);
            return false;
        }
        /* The cancellation came when the task did not accept it any more. The program must not see
         * this. */
    }
}

static void call_again(struct rt_handle *handle) {
    (void)handle;
    struct task *task = self;
    long result;
    if (attempt(task, &result)) complete(task, value_of(task, result));
}

struct rt_ssize call_begin(struct task *task, enum shape shape, long number, const long arguments[6]) {
    if (is_cancelled(task)) return (struct rt_ssize){leave(task, PTHREAD_CANCELED), 0};
    task->shape = shape;
    task->engine.number = number;
    memcpy(task->engine.arguments, arguments, sizeof task->engine.arguments);
    if (has_had_its_turn()) {
        give_way(task, call_again);
        return (struct rt_ssize){&task->waiter, 0};
    }
    long result;
    if (!attempt(task, &result)) return (struct rt_ssize){&task->waiter, 0};
    return (struct rt_ssize){NULL, value_of(task, result)};
}

/* ---- Pthreads ---- */

void block_at(unsigned *word, unsigned expected, unsigned long deadline) {
    /* The time of FUTEX_WAIT_BITSET is a point in time, on CLOCK_MONOTONIC. */
    struct timespec until = {deadline / NANOSECONDS, deadline % NANOSECONDS};
    int saved = errno, type;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, deadline ? &until : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
    pthread_setcanceltype(type, NULL);
    errno = saved;
}

void wake_all(unsigned *word) { engine(ENGINE_WAKE, (unsigned long)word, INT_MAX); }
