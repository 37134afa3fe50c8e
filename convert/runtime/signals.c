/* Signals: the mask of each task, and pthread_kill.
 *
 * While a thread runs a task, the thread has the task's mask. As long as all masks are alike, the
 * runtime changes no mask.
 *
 * A signal for the process goes to any thread of the program that does not block it. A thread of a
 * loop that waits stands for all tasks: it blocks what every task blocks, and all signals without a
 * task. A side thread without a call blocks all signals. A thread blocks these signals before
 * others can see that its task has ended or has gone elsewhere.
 *
 * A signal for a task that blocks it waits in the task's rare part, because the loop's thread will
 * have other masks. The thread that runs the task gets the signal when the task unblocks it. A side
 * thread that makes a call for the task gets the signal before the call, which may be sigwait. At
 * most one signal of each number waits. */
#include "runtime.h"

#include <signal.h>
#include <stdlib.h>

/* Some thread of the program has changed its mask. */
static bool masks_differ;

_Thread_local unsigned long thread_mask;

/* All signals but libc's own two. */
static const unsigned long ALL = ~(3ul << 31);

static unsigned long current(void) {
    sigset_t set;
    unsigned long mask;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    /* The part of the set that the kernel knows comes first. */
    memcpy(&mask, &set, sizeof mask);
    return mask;
}

static void change(unsigned long mask) {
    sigset_t set;
    sigemptyset(&set);
    memcpy(&set, &mask, sizeof mask);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
}

static unsigned long mask_of(struct task *task) {
    return task->flags & MASKED ? load(&task->rare->mask) : loops[task->loop].base;
}

bool mask_is(struct task *task, const sigset_t *set) {
    unsigned long mask;
    memcpy(&mask, set, sizeof mask);
    return ((mask ^ mask_of(task)) & ALL) == 0;
}

/* ---- The masks of all tasks ---- */

/* The number of tasks with each mask. A program has few different masks. If it has more, the
 * others count as none: a waiting thread then accepts all signals. */
static struct {
    unsigned long opened; /* the complement of the mask. 0: the place is free */
    unsigned count;
} masks[32];
static unsigned beyond; /* tasks with masks for which there is no place */

/* The word that counts the tasks with this mask. */
static unsigned *count_of(unsigned long mask) {
    for (size_t index = 0; index < sizeof masks / sizeof *masks; index++) {
        unsigned long none = 0;
        if (load(&masks[index].opened) == ~mask) return &masks[index].count;
        if (__atomic_compare_exchange_n(&masks[index].opened, &none, ~mask, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) || none == ~mask)
            return &masks[index].count;
    }
    return &beyond;
}

/* What every task blocks. `except` is NULL, or the count of the mask of a task that is left out. */
static unsigned long blocked_by_all(const unsigned *except) {
    unsigned long mask = load(&beyond) > (except == &beyond) ? 0 : ALL;
    for (size_t index = 0; index < sizeof masks / sizeof *masks && load(&masks[index].opened); index++) {
        unsigned *count = &masks[index].count;
        if (__atomic_load_n(count, __ATOMIC_SEQ_CST) > (except == count)) mask &= ~masks[index].opened;
    }
    return mask;
}

/* Tells the engine the mask of threads that wait. Handlers of signals may run in the middle, and
 * other threads may call this at the same time: the last one tells what holds. */
static void publish(void) {
    static unsigned long published; /* the complement of the mask; 0: none yet */
    if (!__atomic_load_n(&masks_differ, __ATOMIC_RELAXED)) return;
    unsigned long mask = blocked_by_all(NULL);
    while (load(&published) != ~mask) {
        engine(ENGINE_MASK, mask);
        store(&published, ~mask);
        mask = blocked_by_all(NULL);
    }
}

/* From now on, masks are applied. */
static void masks_matter(void) {
    if (__atomic_exchange_n(&masks_differ, true, __ATOMIC_RELAXED)) return;
    publish();
}

static void keep(struct task *task, unsigned long mask) {
    store(&rare_of(task)->mask, mask);
    task->flags |= MASKED;
    /* The mask is stored before any look at the signals that wait for the task. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void mask_begins(struct task *task) {
    __atomic_add_fetch(count_of(mask_of(task)), 1, __ATOMIC_SEQ_CST);
    publish();
}

void mask_ends(struct task *task) {
    mask_without(task);
    __atomic_sub_fetch(count_of(mask_of(task)), 1, __ATOMIC_SEQ_CST);
    publish();
}

static void change_of_task(struct task *task, unsigned long mask) {
    unsigned *before = count_of(mask_of(task));
    __atomic_add_fetch(count_of(mask), 1, __ATOMIC_SEQ_CST);
    keep(task, mask);
    __atomic_sub_fetch(before, 1, __ATOMIC_SEQ_CST);
    masks_matter();
    publish();
}

/* ---- The masks of the threads that run tasks ---- */

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

void mask_without(struct task *task) {
    if (!__atomic_load_n(&masks_differ, __ATOMIC_RELAXED)) return;
    unsigned long wanted = thread_mask | blocked_by_all(count_of(mask_of(task)));
    if (wanted == thread_mask) return;
    thread_mask = wanted;
    change(wanted);
}

void mask_of_side(struct task *task) { change(task ? mask_of(task) : ALL); }

void mask_inherit(struct task *task) {
    unsigned long mask = own_loop ? thread_mask : current();
    if (mask == loops[task->loop].base) return;
    keep(task, mask);
    masks_matter();
}

/* ---- Signals that wait for a task ---- */

unsigned long signal_bit(int signal) { return signal > 0 && signal <= 64 ? 1ul << (signal - 1) : 0; }

int signal_send(pthread_t thread, int signal, const union sigval *value) {
    return value ? pthread_sigqueue(thread, signal, *value) : libc_pthread_kill(thread, signal);
}

bool signal_waits(struct task *task, int signal, const union sigval *value) {
    unsigned long bit = signal_bit(signal);
    if (!(mask_of(task) & bit)) return false;
    struct rare *rare = rare_try(task);
    if (rare && value && !rare->values) rare->values = calloc(64, sizeof *value);
    if (!rare || (value && !rare->values)) return false;
    if (!(load(&rare->pending) & bit)) {
        if (value) rare->values[signal - 1] = *value;
        if (value) set_bits(&rare->queued, bit);
        else clear_bits(&rare->queued, bit);
    }
    set_bits(&rare->pending, bit);
    /* Meanwhile the task may have unblocked the signal, and checked too early. */
    return mask_of(task) & bit || !(clear_bits(&rare->pending, bit) & bit);
}

/* The calling thread runs the task. The thread gets the wanted signals that wait for the task. */
static void get_waiting(struct task *task, unsigned long wanted) {
    struct rare *rare = load(&task->rare);
    if (!rare || !(load(&rare->pending) & wanted)) return;
    unsigned long taken = clear_bits(&rare->pending, wanted) & wanted;
    for (int signal = 1; signal <= 64; signal++) {
        unsigned long bit = signal_bit(signal);
        if (taken & bit) signal_send(pthread_self(), signal, load(&rare->queued) & bit ? &rare->values[signal - 1] : NULL);
    }
}

void signals_to_side(struct task *task) {
    struct rare *rare = task->rare;
    rare->aside = load(&rare->pending);
    if (!rare->aside) return;
    change(mask_of(task));
    get_waiting(task, rare->aside);
}

void signals_from_side(struct task *task) {
    struct rare *rare = task->rare;
    int saved = errno;
    for (int signal = 1; rare->aside && signal <= 64; signal++) {
        if (!(rare->aside & mask_of(task) & signal_bit(signal))) continue;
        sigset_t set;
        siginfo_t info;
        sigemptyset(&set);
        sigaddset(&set, signal);
        if (sigtimedwait(&set, &info, &(struct timespec){0, 0}) != signal) continue;
        signal_waits(task, signal, info.si_code == SI_QUEUE ? &info.si_value : NULL);
    }
    rare->aside = 0;
    errno = saved;
}

void signals_after_fork(void) {
    struct task *task = identity();
    if (task && task->rare) store(&task->rare->pending, 0);
    memset(masks, 0, sizeof masks);
    beyond = 0;
    if (task) mask_begins(task);
    else publish();
}

int rt_sigpending(sigset_t *set) {
    struct task *task = identity();
    struct rare *rare = task ? load(&task->rare) : NULL;
    int result = sigpending(set);
    unsigned long pending = 0;
    if (result || !rare) return result;
    memcpy(&pending, set, sizeof pending);
    pending |= load(&rare->pending);
    memcpy(set, &pending, sizeof pending);
    return 0;
}

int rt_pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
    int error = pthread_sigmask(how, set, before);
    struct task *task = identity();
    if (error || !set) return error;
    if (!task) {
        masks_matter();
        return 0;
    }
    unsigned long mask = current();
    if (own_loop || left) thread_mask = mask;
    change_of_task(task, mask);
    get_waiting(task, ~mask);
    return 0;
}

int rt_sigprocmask(int how, const sigset_t *set, sigset_t *before) {
    int error = rt_pthread_sigmask(how, set, before);
    if (error) errno = error;
    return error ? -1 : 0;
}

/* Ends the task's wait with EINTR, if a handler runs for the signal and the call is not
 * restarted. */
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
    /* The signal goes to the thread of the loop that runs the task, or to another thread of the
     * loop. */
    if (task == self) return signal_send(pthread_self(), signal, value);
    error = signal_send(loops[task->loop].thread, signal, value);
    if (!error) interrupt(task, signal);
    return error;
}

int rt_pthread_kill(pthread_t thread, int signal) {
    if (!is_task(thread)) return libc_pthread_kill(thread, signal);
    struct task *task = (struct task *)thread;
    if (load(&task->state) & ENDED) return ESRCH;
    return signal ? send_signal(task, signal, NULL) : 0;
}

int rt_raise(int signal) {
    if (!identity()) return raise(signal);
    int error = rt_pthread_kill(rt_pthread_self(), signal);
    if (error) errno = error;
    return error ? -1 : 0;
}

int rt_pthread_sigqueue(pthread_t thread, int signal, const union sigval value) {
    if (!is_task(thread)) return pthread_sigqueue(thread, signal, value);
    struct task *task = (struct task *)thread;
    return load(&task->state) & ENDED ? ESRCH : send_signal(task, signal, &value);
}
