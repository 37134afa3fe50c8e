/* The reference runtime: functions that name a thread. A pthread_t is the address of the task. */
#include "reference.h"

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

static struct task *task_of(pthread_t thread) { return (struct task *)thread; }

pthread_t rt_pthread_self(void) { return (pthread_t)identity(); }

static bool try_join(struct operation *o) {
    struct task *task = task_of(o->argument[0]);
    if (task->detached) return complete(o, EINVAL);
    if (task == identity()) return complete(o, EDEADLK);
    if (task->state != ENDED) {
        if (o->timed_out) return complete(o, ETIMEDOUT);
        const struct timespec *until = (const struct timespec *)o->argument[3];
        if (until && !o->deadline) {
            struct timespec current;
            clock_gettime(o->argument[2], &current);
            long left = (until->tv_sec - current.tv_sec) * 1000000000l + until->tv_nsec - current.tv_nsec;
            o->deadline = now() + (left > 0 ? left : 0);
        }
        o->object = task;
        return false;
    }
    if (o->argument[1]) *(void **)o->argument[1] = task->result;
    task_free(task);
    return complete(o, 0);
}

struct rt_int rt_pthread_join(pthread_t thread, void **result) { return PERFORM(struct rt_int, try_join, (long)thread, (long)result); }
struct rt_int rt_pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *until) {
    return PERFORM(struct rt_int, try_join, (long)thread, (long)result, CLOCK_REALTIME, (long)until);
}
struct rt_int rt_pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock, const struct timespec *until) {
    return PERFORM(struct rt_int, try_join, (long)thread, (long)result, clock, (long)until);
}
int rt_pthread_tryjoin_np(pthread_t thread, void **result) {
    if (task_of(thread)->state != ENDED) return EBUSY;
    if (result) *result = task_of(thread)->result;
    task_free(task_of(thread));
    return 0;
}
int rt_pthread_detach(pthread_t thread) {
    struct task *task = task_of(thread);
    if (task->detached) return EINVAL;
    if (task->state == ENDED) task_free(task);
    else task->detached = true;
    return 0;
}

struct rt_handle *rt_pthread_exit(void *result) {
    self->exiting = true;
    self->result = result;
    return &self->waiter;
}

void rt_cleanup_push(struct rt_cleanup *cleanup, void (*routine)(struct rt_cleanup *)) {
    cleanup->routine = routine;
    cleanup->next = identity()->cleanups;
    identity()->cleanups = cleanup;
}
void rt_cleanup_pop(void) { identity()->cleanups = identity()->cleanups->next; }

/* In fibers, glibc's pthread_cleanup_push in C: __sigsetjmp, then __pthread_register_cancel. */
void __pthread_register_cancel(__pthread_unwind_buf_t *buffer) {
    buffer->__pad[0] = self->clean_up;
    self->clean_up = buffer;
}
void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer) { self->clean_up = buffer->__pad[0]; }
_Noreturn void __pthread_unwind_next(__pthread_unwind_buf_t *buffer) {
    self->clean_up = buffer->__pad[0];
    rt_block_pthread_exit(self->result);
}
_Noreturn void rt_block_pthread_exit(void *result) {
    self->result = result;
    if (self->behalf) self->exiting = true;
    __pthread_unwind_buf_t *buffer = self->clean_up;
    /* The buffer starts like a jmp_buf, up to the signal mask, which was not saved. */
    if (buffer) siglongjmp((struct __jmp_buf_tag *)(void *)buffer, 1);
    fiber_exit();
}

/* All threads share one kernel thread, so there is no other thread to move to. */
struct rt_handle *rt_duality_detach(void) { return NULL; }
struct rt_handle *rt_duality_attach(void) { return NULL; }
void duality_detach_task(void) {}
void duality_attach_task(void) {}

int rt_pthread_cancel(pthread_t thread) {
    struct task *task = task_of(thread);
    task->cancelled = true;
    struct task *waits = task->side ? task->side : task;
    if (task->cancel_disabled || waits->state != WAITING) return 0;
    if (waits->fiber && waits->side == NULL && waits == &main_task) return 0;
    unwait(waits);
    waits->exiting = true;
    waits->result = PTHREAD_CANCELED;
    ready(waits);
    return 0;
}
struct rt_handle *rt_pthread_testcancel(void) {
    if (!identity()->cancelled || identity()->cancel_disabled) return NULL;
    return rt_pthread_exit(PTHREAD_CANCELED);
}
int rt_pthread_setcancelstate(int state, int *before) {
    if (before) *before = identity()->cancel_disabled ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE;
    identity()->cancel_disabled = state == PTHREAD_CANCEL_DISABLE;
    return 0;
}
int rt_pthread_setcanceltype(int type, int *before) {
    (void)type;
    if (before) *before = PTHREAD_CANCEL_DEFERRED;
    return 0;
}
int rt_pthread_kill(pthread_t thread, int signal) {
    (void)thread;
    return signal ? raise(signal) : 0;
}

int rt_pthread_sigqueue(pthread_t thread, int signal, const union sigval value) { return (void)value, rt_pthread_kill(thread, signal); }

/* ---- Thread-specific data: keys of this runtime's own ---- */

static struct { bool used; void (*destructor)(void *); } keys[KEYS];

int rt_pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
    for (unsigned index = 0; index < KEYS; index++) {
        if (keys[index].used) continue;
        keys[index].used = true;
        keys[index].destructor = destructor;
        *key = index;
        return 0;
    }
    return EAGAIN;
}
int rt_pthread_key_delete(pthread_key_t key) {
    keys[key].used = false;
    return 0;
}
void *rt_pthread_getspecific(pthread_key_t key) { return identity()->specific ? (void *)identity()->specific[key] : NULL; }
int rt_pthread_setspecific(pthread_key_t key, const void *value) {
    if (!identity()->specific) identity()->specific = calloc(KEYS, sizeof(void *));
    identity()->specific[key] = value;
    return 0;
}
void run_destructors(struct task *task) {
    struct task *before = self;
    if (!task->specific) return;
    self = task;
    for (int round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS; round++) {
        for (unsigned key = 0; key < KEYS; key++) {
            void *value = (void *)task->specific[key];
            if (!value || !keys[key].destructor) continue;
            task->specific[key] = NULL;
            keys[key].destructor(value);
        }
    }
    self = before;
}

/* One kernel thread has one mask. */
int rt_pthread_sigmask(int how, const sigset_t *set, sigset_t *before) { return sigprocmask(how, set, before) ? errno : 0; }
int rt_raise(int signal) { return raise(signal); }
int rt_sigpending(sigset_t *set) { return sigpending(set); }
int rt_sigprocmask(int how, const sigset_t *set, sigset_t *before) { return sigprocmask(how, set, before); }
int rt_pthread_setname_np(pthread_t thread, const char *name) { return (void)thread, strlen(name) > 15 ? ERANGE : 0; }
int rt_pthread_getname_np(pthread_t thread, char *name, size_t size) { return (void)thread, snprintf(name, size, "task"), 0; }
int rt_pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes) {
    (void)thread;
    return pthread_attr_init(attributes);
}
int rt_pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *parameters) { return (void)thread, (void)policy, (void)parameters, 0; }
int rt_pthread_setschedprio(pthread_t thread, int priority) { return (void)thread, (void)priority, 0; }
int rt_pthread_getschedparam(pthread_t thread, int *policy, struct sched_param *parameters) {
    (void)thread;
    *policy = SCHED_OTHER;
    parameters->sched_priority = 0;
    return 0;
}
int rt_pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set) { return (void)thread, (void)size, (void)set, 0; }
int rt_pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *set) { return (void)thread, sched_getaffinity(0, size, set) ? errno : 0; }
int rt_pthread_getcpuclockid(pthread_t thread, clockid_t *clock) { return (void)thread, *clock = CLOCK_PROCESS_CPUTIME_ID, 0; }
int rt_clock_gettime(clockid_t clock, struct timespec *time) { return clock_gettime(clock, time); }

/* Tests of programs that change the locale use the product's runtime only. */
locale_t rt_uselocale(locale_t locale) { return uselocale(locale); }
