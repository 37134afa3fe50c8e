/* Functions of libc that name a thread, a condition variable or a lock. A library may get such an
 * object of the program. So for all libraries, the program's definitions replace libc's.
 *
 *   library ──▶ pthread_join (here) ──▶ rt_block_pthread_join ──▶ a task, or libc_pthread_join
 */
#include "runtime.h"

#include <dlfcn.h>

static struct {
    int (*join)(pthread_t, void **);
    int (*detach)(pthread_t);
    int (*cancel)(pthread_t);
    int (*kill)(pthread_t, int);
    int (*signal)(pthread_cond_t *);
    int (*broadcast)(pthread_cond_t *);
    int (*unlock)(pthread_rwlock_t *);
} libc;

/* Finds libc's own function, of this version if there are several. */
static void find(const char *name, const char *version, void *function) {
    void *found = version ? dlvsym(RTLD_NEXT, name, version) : NULL;
    if (!found) found = dlsym(RTLD_NEXT, name);
    if (!found) give_up("libc lacks a function of threads");
    memcpy(function, &found, sizeof found);
}

/* The search is early, since the child of a fork may find the dynamic linker locked. The
 * constructor of a library may come even earlier. */
__attribute__((constructor(101))) static void find_all(void) {
    if (libc.unlock) return;
    find("pthread_join", NULL, &libc.join);
    find("pthread_detach", NULL, &libc.detach);
    find("pthread_cancel", NULL, &libc.cancel);
    find("pthread_kill", NULL, &libc.kill);
    find("pthread_cond_signal", "GLIBC_2.3.2", &libc.signal);
    find("pthread_cond_broadcast", "GLIBC_2.3.2", &libc.broadcast);
    find("pthread_rwlock_unlock", NULL, &libc.unlock);
}

int libc_pthread_join(pthread_t thread, void **result) { return find_all(), libc.join(thread, result); }
int libc_pthread_detach(pthread_t thread) { return find_all(), libc.detach(thread); }
int libc_pthread_cancel(pthread_t thread) { return find_all(), libc.cancel(thread); }
int libc_pthread_kill(pthread_t thread, int signal) { return find_all(), libc.kill(thread, signal); }
int libc_pthread_cond_signal(pthread_cond_t *condition) { return find_all(), libc.signal(condition); }
int libc_pthread_cond_broadcast(pthread_cond_t *condition) { return find_all(), libc.broadcast(condition); }
int libc_pthread_rwlock_unlock(pthread_rwlock_t *lock) { return find_all(), libc.unlock(lock); }

#define IN_FRONT __attribute__((visibility("default")))

IN_FRONT int pthread_join(pthread_t thread, void **result) { return rt_block_pthread_join(thread, result); }
IN_FRONT int pthread_detach(pthread_t thread) { return rt_pthread_detach(thread); }
IN_FRONT int pthread_cancel(pthread_t thread) { return rt_pthread_cancel(thread); }
IN_FRONT int pthread_kill(pthread_t thread, int signal) { return rt_pthread_kill(thread, signal); }
IN_FRONT int pthread_cond_signal(pthread_cond_t *condition) { return rt_pthread_cond_signal(condition); }
IN_FRONT int pthread_cond_broadcast(pthread_cond_t *condition) { return rt_pthread_cond_broadcast(condition); }
IN_FRONT int pthread_rwlock_unlock(pthread_rwlock_t *lock) { return rt_pthread_rwlock_unlock(lock); }
