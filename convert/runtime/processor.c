/* The processor time of threads. The time of a task is the time of its turns, on any thread.
 *
 * If the pass has seen that the program reads such a time, the count begins with the task.
 * Otherwise the count begins when the program first reads the time. The clock of a task is its
 * number, which no clock of the kernel has. */
#include "runtime.h"

/* The result is never 0. */
static unsigned long time_of_thread(void) { return engine(ENGINE_TIME) + 1ul; }

void processor_inherit(struct task *task, const struct rt_program *program) {
    if (!program || !(program->flags & RT_READS_TIMES)) return;
    /* The engine counts from now on. */
    time_of_thread();
    rare_of(task);
    set_bits(&task->state, TIMED);
}

void processor_enter(struct task *task) {
    if (load(&task->state) & TIMED) task->rare->since = time_of_thread();
}

static unsigned long count(struct task *task) {
    struct rare *rare = task->rare;
    unsigned long current = time_of_thread();
    if (rare->since) store(&rare->used, rare->used + current - rare->since);
    rare->since = current;
    return rare->used;
}

void processor_leave(struct task *task) {
    if (!(load(&task->state) & TIMED)) return;
    count(task);
    task->rare->since = 0;
}

static int tell(unsigned long used, struct timespec *time) {
    *time = (struct timespec){used / NANOSECONDS, used % NANOSECONDS};
    return 0;
}

static int tell_of_caller(struct timespec *time) {
    struct task *task = identity();
    if (!task) return tell(engine(ENGINE_TIME), time);
    rare_of(task);
    set_bits(&task->state, TIMED);
    return tell(count(task), time);
}

static int tell_of(clockid_t clock, struct timespec *time) {
    struct task *task = task_numbered(clock);
    if (task && task == identity()) return tell_of_caller(time);
    /* The time is up to the end of the task's last turn, or to its own last question. */
    if (task && !(load(&task->state) & ENDED)) return tell(side_look_at_time(task), time);
    errno = EINVAL;
    return -1;
}

int rt_clock_gettime(clockid_t clock, struct timespec *time) {
    if (clock == CLOCK_THREAD_CPUTIME_ID) return tell_of_caller(time);
    return clock >= FIRST_TASK_NUMBER ? tell_of(clock, time) : clock_gettime(clock, time);
}

/* Only a pthread itself can query its processor time. */
int rt_pthread_getcpuclockid(pthread_t thread, clockid_t *clock) {
    if (!is_task(thread)) return ENOENT;
    struct task *task = (struct task *)thread;
    if (load(&task->state) & ENDED) return ESRCH;
    *clock = task_number(task);
    return 0;
}
