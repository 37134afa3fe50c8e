/* The reference runtime: flockfile. All threads of the program share one kernel thread here, so
 * libc's functions own every lock. Tests of these functions use the product's runtime only. */
#include "reference.h"

#include <stdio.h>

enum { FILES = 64 };

/* The locked files. An entry with count 0 is free. */
static struct file_lock {
    FILE *file;
    struct task *owner;
    unsigned count;
} locks[FILES];

static struct file_lock *lock_of(FILE *file) {
    struct file_lock *unused = NULL;
    for (int index = 0; index < FILES; index++) {
        if (locks[index].count && locks[index].file == file) return &locks[index];
        if (!locks[index].count) unused = &locks[index];
    }
    if (!unused) give_up("too many locked files");
    *unused = (struct file_lock){file, NULL, 0};
    return unused;
}

static bool lock(FILE *file) {
    struct file_lock *lock = lock_of(file);
    if (lock->count && lock->owner != identity()) return false;
    lock->owner = identity();
    lock->count++;
    return true;
}

static bool try_flockfile(struct operation *o) {
    if (lock((FILE *)o->argument[0])) return complete(o, 0);
    o->object = (void *)o->argument[0];
    o->signalled = false;
    return false;
}

struct rt_handle *rt_flockfile(FILE *file) { return PERFORM(struct rt_int, try_flockfile, (long)file).handle; }
void rt_block_flockfile(FILE *file) {
    if (rt_flockfile(file)) park();
}
int rt_ftrylockfile(FILE *file) { return lock(file) ? 0 : EBUSY; }
void rt_funlockfile(FILE *file) {
    if (--lock_of(file)->count == 0) wake(file, 1);
}
int rt_fclose(FILE *file) {
    lock_of(file)->count = 0;
    return fclose(file);
}
