/* flockfile: the locks of stdio's files, in glibc's own layout. Tasks, pthreads and libc share
 * these locks.
 *
 * glibc's functions (printf, fgets, …) lock a file too, with their kernel thread as the owner. An
 * owner may lock again. So the owner of a task's lock is the kernel thread that runs the task.
 * Between turns, the owner is the task.
 *
 *   turn begins: owner = the thread ──▶ printf by the task goes on
 *   turn ends:   owner = the task   ──▶ printf by others waits; a spare thread runs the loop
 */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>

/* The type of `_lock` of a FILE. `word` is like a mutex's word: 0 free, 1 held, 2 held and waited
 * for. */
struct file_lock {
    unsigned word;
    int count;
    void *owner;
};

/* A file that a task has locked. */
struct held_file {
    struct held_file *next;
    FILE *file;
};

static struct file_lock *lock_of(FILE *file) { return (struct file_lock *)file->_lock; }

static void *this_thread(void) { return (void *)pthread_self(); }

static void set_owner(struct task *task, void *owner) {
    for (struct held_file *held = task->rare->files; held; held = held->next) {
        __atomic_store_n(&lock_of(held->file)->owner, owner, __ATOMIC_RELAXED);
    }
}

void files_enter(struct task *task) {
    if (task->flags & HOLDS_FILES) set_owner(task, this_thread());
}

void files_leave(struct task *task) {
    if (task->flags & HOLDS_FILES) set_owner(task, task);
}

/* Notes that the task has locked the file, perhaps once more. */
static void note(struct task *task, FILE *file) {
    if (lock_of(file)->count > 1) return;
    struct held_file *held = malloc(sizeof *held);
    if (!held) give_up("out of memory for flockfile");
    *held = (struct held_file){rare_of(task)->files, file};
    task->rare->files = held;
    task->flags |= HOLDS_FILES;
}

static void forget(struct task *task, FILE *file) {
    if (!(task->flags & HOLDS_FILES)) return;
    struct held_file **place = &task->rare->files;
    while (*place && (*place)->file != file) place = &(*place)->next;
    struct held_file *held = *place;
    if (!held) return;
    *place = held->next;
    free(held);
    if (!task->rare->files) task->flags &= ~HOLDS_FILES;
}

void files_free(struct rare *rare) {
    while (rare->files) {
        struct held_file *held = rare->files;
        rare->files = held->next;
        free(held);
    }
}

/* libc has released all locks in the child. */
void files_after_fork(void) {
    struct task *task = identity();
    if (!task || !(task->flags & HOLDS_FILES)) return;
    files_free(task->rare);
    task->flags &= ~HOLDS_FILES;
}

/* ---- flockfile ---- */

/* Returns false if the task waits. */
static bool lock_again(struct task *task, FILE *file) {
    struct file_lock *lock = lock_of(file);
    do {
        if (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) == 0) {
            lock->count = 1;
            __atomic_store_n(&lock->owner, this_thread(), __ATOMIC_RELAXED);
            note(task, file);
            return true;
        }
    } while (!wait_at(task, (unsigned long)&lock->word, 2, 0));
    return false;
}

static void locked_later(struct rt_handle *handle) {
    (void)handle;
    if (lock_again(self, (FILE *)self->engine.arguments[0])) complete(self, 0);
}

static struct rt_int lock_file(struct task *task, void *file, clockid_t clock, const struct timespec *until) {
    (void)clock, (void)until;
    if (ftrylockfile(file) == 0) {
        note(task, file);
        return (struct rt_int){NULL, 0};
    }
    task->engine.arguments[0] = (long)file;
    suspend(task, locked_later);
    return (struct rt_int){lock_again(task, file) ? NULL : &task->waiter, 0};
}

void rt_block_flockfile(FILE *file) {
    flockfile(file);
    if (behalf) note(behalf, file);
}

struct rt_handle *rt_flockfile(FILE *file) {
    if (on_loop()) return in_turn(lock_file, file, CLOCK_REALTIME, NULL).handle;
    rt_block_flockfile(file);
    return NULL;
}

int rt_ftrylockfile(FILE *file) {
    int result = ftrylockfile(file);
    if (!result && identity()) note(identity(), file);
    return fruitless(result);
}

void rt_funlockfile(FILE *file) {
    if (identity() && lock_of(file)->count == 1) forget(identity(), file);
    funlockfile(file);
}

/* A closed file has no lock any more. */
int rt_fclose(FILE *file) {
    if (identity()) forget(identity(), file);
    return fclose(file);
}
