/* fork: in the child, only the calling task or thread goes on. The runtime takes its locks around
 * the fork, so that the child finds the guarded state whole. */
#include "runtime.h"

#include <unistd.h>

static void before(void) {
    tasks_before_fork();
    side_before_fork();
    memory_before_fork();
}

static void after(bool child) {
    memory_after_fork(child);
    side_after_fork(child);
    tasks_after_fork(child);
}

static void in_parent(void) { after(false); }

static void in_child(void) {
    after(true);
    conditions_after_fork();
    rwlocks_after_fork();
    once_after_fork();
    files_after_fork();
    signals_after_fork();
}

__attribute__((constructor(102))) static void watch_fork(void) {
    if (pthread_atfork(before, in_parent, in_child)) give_up("out of memory for fork");
}

/* Libraries fork too, so the handlers do all the work. */
pid_t rt_fork(void) { return fork(); }
