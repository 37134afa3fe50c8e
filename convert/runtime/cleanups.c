/* pthread_cleanup_push in C. In C++ it is an object with a destructor, of which the runtime need not
 * know. */
#include "runtime.h"

void rt_cleanup_push(struct rt_cleanup *cleanup, void (*routine)(struct rt_cleanup *)) {
    struct rare *rare = rare_of(identity());
    cleanup->routine = routine;
    cleanup->next = rare->cleanups;
    rare->cleanups = cleanup;
}

void rt_cleanup_pop(void) {
    struct rare *rare = identity()->rare;
    rare->cleanups = rare->cleanups->next;
}

bool cleanups_left(struct task *task) {
    struct rare *rare = load(&task->rare);
    return rare && rare->cleanups;
}

void cleanups_run(void *argument) {
    struct rare *rare = ((struct task *)argument)->rare;
    while (rare->cleanups) {
        struct rt_cleanup *cleanup = rare->cleanups;
        /* A handler may itself end the thread. */
        rare->cleanups = cleanup->next;
        cleanup->routine(cleanup);
    }
}
