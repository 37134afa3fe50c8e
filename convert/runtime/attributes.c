/* The attributes of a thread: a name, a stack, a priority, processors. A task has only a name. All
 * other attributes belong to its loop. */
#include "runtime.h"

#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static struct task *task_of(pthread_t thread) { return is_task(thread) ? (struct task *)thread : NULL; }

int rt_pthread_setname_np(pthread_t thread, const char *name) {
    struct task *task = task_of(thread);
    if (!task) return pthread_setname_np(thread, name);
    size_t size = strlen(name) + 1;
    struct rare *rare = rare_try(task);
    if (!rare) return ENOMEM;
    if (size > sizeof rare->name) return ERANGE;
    memcpy(rare->name, name, size);
    return 0;
}

int rt_pthread_getname_np(pthread_t thread, char *name, size_t size) {
    struct task *task = task_of(thread);
    if (!task) return pthread_getname_np(thread, name, size);
    if (size < 16) return ERANGE;
    /* At first, a task has the program's name. */
    bool own = task->rare && task->rare->name[0];
    snprintf(name, size, "%.15s", own ? task->rare->name : program_invocation_short_name);
    return 0;
}

int rt_pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes) {
    struct task *task = task_of(thread);
    if (!task) return pthread_getattr_np(thread, attributes);
    /* A task runs on the stack of the thread that calls. */
    pthread_t on = task == identity() ? pthread_self() : load(&loops[task->loop].thread);
    int error = pthread_getattr_np(on, attributes);
    if (error) return error;
    return pthread_attr_setdetachstate(attributes, load(&task->state) & DETACHED ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
}

/* Tasks take turns, and no attribute below changes the turns. The runtime remembers the requested
   values. */
static int schedule(struct task *task, int policy, int priority) {
    struct rlimit limit;
    int least = sched_get_priority_min(policy);
    if (least < 0 || priority < least || priority > sched_get_priority_max(policy)) return EINVAL;
    if (priority && geteuid() && (getrlimit(RLIMIT_RTPRIO, &limit) || (rlim_t)priority > limit.rlim_cur)) return EPERM;
    struct rare *rare = rare_try(task);
    if (!rare) return ENOMEM;
    rare->policy = policy;
    rare->priority = priority;
    store(&rare->is_scheduled, true);
    return 0;
}

int rt_pthread_getschedparam(pthread_t thread, int *policy, struct sched_param *parameters) {
    struct task *task = task_of(thread);
    struct rare *rare = task ? load(&task->rare) : NULL;
    if (!rare || !load(&rare->is_scheduled)) return pthread_getschedparam(task ? loops[task->loop].thread : thread, policy, parameters);
    *policy = rare->policy;
    parameters->sched_priority = rare->priority;
    return 0;
}
int rt_pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *parameters) {
    struct task *task = task_of(thread);
    return task ? schedule(task, policy, parameters->sched_priority) : pthread_setschedparam(thread, policy, parameters);
}
int rt_pthread_setschedprio(pthread_t thread, int priority) {
    struct task *task = task_of(thread);
    struct sched_param parameters;
    int policy, error = task ? rt_pthread_getschedparam(thread, &policy, &parameters) : 0;
    if (error) return error;
    return task ? schedule(task, policy, priority) : pthread_setschedprio(thread, priority);
}
int rt_pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set) {
    return task_of(thread) ? 0 : pthread_setaffinity_np(thread, size, set);
}
int rt_pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *set) {
    struct task *task = task_of(thread);
    return pthread_getaffinity_np(task ? loops[task->loop].thread : thread, size, set);
}
