/* Signals: the mask of each task, and pthread_kill.
 *
 * The thread that runs a task has the task's mask meanwhile. As long as all masks are alike,
 * nothing is changed. */
#include "runtime.h"

#include <signal.h>

/* Some task has a mask that differs from its loop's. */
static bool masks_differ;

/* What this thread of a loop has now. */
static _Thread_local unsigned long thread_mask;

static unsigned long current(void) {
    sigset_t set;
    unsigned long mask;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    /* The kernel's part comes first. */
    memcpy(&mask, &set, sizeof mask);
    return mask;
}

static void change(unsigned long mask) {
    sigset_t set;
    sigemptyset(&set);
    memcpy(&set, &mask, sizeof mask);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
}

static unsigned long mask_of(struct task *task) { return task->flags & MASKED ? task->rare->mask : loops[task->loop].base; }

static void keep(struct task *task, unsigned long mask) {
    rare_of(task)->mask = mask;
    task->flags |= MASKED;
    __atomic_store_n(&masks_differ, true, __ATOMIC_RELAXED);
}

void mask_of_loop(bool first) {
    thread_mask = current();
    if (first) own_loop->base = thread_mask;
}

void mask_apply(struct task *task) {
    if (!__atomic_load_n(&masks_differ, __ATOMIC_RELAXED)) return;
    unsigned long wanted = mask_of(task);
    if (wanted == thread_mask) return;
    thread_mask = wanted;
    change(wanted);
}

void mask_of_side(struct task *task) {
    if (__atomic_load_n(&masks_differ, __ATOMIC_RELAXED)) change(mask_of(task));
}

void mask_inherit(struct task *task) {
    unsigned long mask = own_loop ? thread_mask : current();
    if (mask != loops[task->loop].base) keep(task, mask);
}

int rt_pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
    int error = pthread_sigmask(how, set, before);
    struct task *task = identity();
    if (error || !set || !task) return error;
    unsigned long mask = current();
    if (own_loop) thread_mask = mask;
    keep(task, mask);
    return 0;
}

int rt_sigprocmask(int how, const sigset_t *set, sigset_t *before) {
    int error = rt_pthread_sigmask(how, set, before);
    if (error) errno = error;
    return error ? -1 : 0;
}

/* Ends the task's wait with EINTR, if a handler runs for the signal and the call is not restarted. */
static void interrupt(struct task *task, int signal) {
    struct sigaction action;
    if (sigaction(signal, NULL, &action)) return;
    bool handled = (action.sa_flags & SA_SIGINFO) || (action.sa_handler != SIG_IGN && action.sa_handler != SIG_DFL);
    if (handled) engine(ENGINE_INTERRUPT, task, (long)(action.sa_flags & SA_RESTART));
}

/* The handler runs on the loop's thread, or on the side thread that works for the task. */
static int send_signal(struct task *task, int signal, const union sigval *value) {
    int error = side_kill(task, signal, value);
    if (error != ESRCH) return error;
    pthread_t loop = loops[task->loop].thread;
    error = value ? pthread_sigqueue(loop, signal, *value) : pthread_kill(loop, signal);
    if (!error && task != self) interrupt(task, signal);
    return error;
}

int rt_pthread_kill(pthread_t thread, int signal) {
    if (!is_task(thread)) return pthread_kill(thread, signal);
    struct task *task = (struct task *)thread;
    if (load(&task->state) & ENDED) return ESRCH;
    return signal ? send_signal(task, signal, NULL) : 0;
}

int rt_pthread_sigqueue(pthread_t thread, int signal, const union sigval value) {
    if (!is_task(thread)) return pthread_sigqueue(thread, signal, value);
    struct task *task = (struct task *)thread;
    return load(&task->state) & ENDED ? ESRCH : send_signal(task, signal, &value);
}
