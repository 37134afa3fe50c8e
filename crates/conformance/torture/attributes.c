/* Tests what a thread sets for itself alone: its nice value, policy, I/O priority, timer slack, CPUs
 * and privileges. */
#include "test.h"
#include <sys/prctl.h>
#include <sys/resource.h>

#ifndef SCHED_RESET_ON_FORK
#define SCHED_RESET_ON_FORK 0x40000000
#endif
enum { BEST_EFFORT_6 = 2 << 13 | 6, SLACK = 123456 };

/* All that a thread can ask for by its number; the slack only of itself. */
struct seen {
    int nice, policy, io, slack;
    cpu_set_t cpus;
};
static struct seen seen_of(pid_t id) {
    struct seen seen = {0};
    seen.nice = getpriority(PRIO_PROCESS, id);
    seen.policy = sched_getscheduler(id);
    seen.io = syscall(SYS_ioprio_get, 1, id);
    seen.slack = id == 0 ? prctl(PR_GET_TIMERSLACK) : 0;
    sched_getaffinity(id, sizeof seen.cpus, &seen.cpus);
    return seen;
}
static bool same(struct seen one, struct seen other) {
    one.slack = one.slack && other.slack ? one.slack : 0;
    other.slack = one.slack ? other.slack : 0;
    return !memcmp(&one, &other, sizeof one);
}

/* The `nice` field of the process in /proc. */
static int nice_of_process(void) {
    char text[1024] = "";
    int file = open("/proc/self/stat", O_RDONLY);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    char *field = length > 0 ? strrchr(text, ')') : NULL;
    for (int index = 0; field && index < 17; index++) field = strchr(field + 1, ' ');
    return field ? atoi(field + 1) : -100;
}

static struct seen of_child_thread;
static void *look(void *argument) {
    of_child_thread = seen_of(0);
    return argument;
}

static struct {
    pid_t id;
    struct seen own;
    pthread_barrier_t set, looked;
} differing;
static void *differ(void *argument) {
    struct sched_param none = {0};
    cpu_set_t one;
    int cpu = 0;
    sched_getaffinity(0, sizeof one, &one);
    while (!CPU_ISSET(cpu, &one)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    differing.id = gettid();
    if (setpriority(PRIO_PROCESS, 0, 7)) return (void *)1;
    if (sched_setscheduler(0, SCHED_BATCH, &none)) return (void *)2;
    if (syscall(SYS_ioprio_set, 1, 0, BEST_EFFORT_6)) return (void *)3;
    if (prctl(PR_SET_TIMERSLACK, SLACK)) return (void *)4;
    if (sched_setaffinity(0, sizeof one, &one)) return (void *)5;
    differing.own = seen_of(0);
    pthread_barrier_wait(&differing.set);
    for (int index = 0; index < 20; index++) {
        sleep_ms(1);
        if (!same(seen_of(0), differing.own)) return (void *)6;
    }
    join(start(look, NULL));
    if (!same(of_child_thread, differing.own)) return (void *)7;
    pid_t child = fork();
    if (!child) _exit(same(seen_of(0), differing.own) && nice_of_process() == 7 ? 0 : 1);
    int status;
    if (waitpid(child, &status, 0) != child || status) return (void *)8;
    pthread_barrier_wait(&differing.looked);
    return argument;
}

TEST(what_a_thread_sets_is_its_own) {
    struct seen before = seen_of(0);
    pthread_barrier_init(&differing.set, NULL, 2);
    pthread_barrier_init(&differing.looked, NULL, 2);
    pthread_t thread = start(differ, NULL);
    pthread_barrier_wait(&differing.set);
    struct seen own = differing.own;
    CHECK(own.nice == 7 && own.policy == SCHED_BATCH && own.io == BEST_EFFORT_6 && own.slack == SLACK);
    CHECK(CPU_COUNT(&own.cpus) == 1);
    for (int index = 0; index < 20; index++) {
        sleep_ms(1);
        CHECK(same(seen_of(0), before) && same(seen_of(getpid()), before));
        CHECK(same(seen_of(differing.id), differing.own));
    }
    CHECK(nice_of_process() == before.nice);
    pthread_barrier_wait(&differing.looked);
    CHECK(join(thread) == 0);
    join(start(look, NULL));
    CHECK(same(seen_of(0), before) && same(of_child_thread, before));
    CHECK(getpriority(PRIO_PROCESS, differing.id) < 0 && errno == ESRCH);
    CHECK(setpriority(PRIO_PROCESS, differing.id, 1) < 0 && errno == ESRCH);
    CHECK(sched_getscheduler(differing.id) < 0 && errno == ESRCH);
    return 0;
}

static pthread_barrier_t all_lowered;
static void *lower_to_5(void *argument) {
    int failed = setpriority(PRIO_PROCESS, 0, 5);
    pthread_barrier_wait(&all_lowered);
    pthread_barrier_wait(&all_lowered);
    return failed ? (void *)1 : argument;
}
/* Threads that give way to other programs must do so here too. */
TEST(threads_that_are_all_lowered_lower_the_process) {
    pthread_t threads[2];
    pthread_barrier_init(&all_lowered, NULL, 3);
    for (int index = 0; index < 2; index++) threads[index] = start(lower_to_5, NULL);
    CHECK(nice_of_process() == 0);
    CHECK(!setpriority(PRIO_PROCESS, 0, 4));
    pthread_barrier_wait(&all_lowered);
    CHECK(nice_of_process() == 4 && getpriority(PRIO_PROCESS, 0) == 4);
    pthread_barrier_wait(&all_lowered);
    CHECK(!join(threads[0]) && !join(threads[1]));
    /* The only thread again. */
    CHECK(!setpriority(PRIO_PROCESS, getpid(), 6) && nice_of_process() == 6);
    CHECK(getpriority(PRIO_PROCESS, gettid()) == 6);
    join(start(look, NULL));
    CHECK(of_child_thread.nice == 6);
    return 0;
}

/* The errors of the kernel, for the only thread and for one of several. */
static void *refused(void *argument) {
    struct sched_param none = {0}, ten = {.sched_priority = 10};
    if (sched_setscheduler(0, SCHED_FIFO, &none) == 0 || errno != EINVAL) return (void *)1;
    if (sched_setscheduler(0, SCHED_OTHER, &ten) == 0 || errno != EINVAL) return (void *)2;
    if (sched_setscheduler(0, 77, &none) == 0 || errno != EINVAL) return (void *)3;
    if (sched_setscheduler(-1, SCHED_OTHER, &none) == 0 || errno != EINVAL) return (void *)4;
    if (sched_setscheduler(0, SCHED_OTHER, NULL) == 0 || errno != EINVAL) return (void *)5;
    if (sched_setparam(0, &ten) == 0 || errno != EINVAL) return (void *)6;
    if (syscall(SYS_ioprio_set, 1, 0, 5 << 13) == 0 || errno != EINVAL) return (void *)7;
    if (syscall(SYS_sched_setattr, 0, NULL, 0) == 0 || errno != EINVAL) return (void *)8;
    if (setpriority(PRIO_PROCESS, 0, 3) || getpriority(PRIO_PROCESS, 0) != 3) return (void *)9;
    if (setpriority(PRIO_PROCESS, 0, 99) || getpriority(PRIO_PROCESS, 0) != 19) return (void *)10;
    return argument;
}
static void *refused_without_privilege(void *argument) {
    struct sched_param none = {0}, ten = {.sched_priority = 10};
    if (setpriority(PRIO_PROCESS, 0, 2) || setpriority(PRIO_PROCESS, 0, 1) == 0) return (void *)1;
    if (errno != EACCES) return (void *)2;
    if (sched_setscheduler(0, SCHED_FIFO, &ten) == 0 || errno != EPERM) return (void *)3;
    if (sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none)) return (void *)4;
    if (sched_setscheduler(0, SCHED_BATCH, &none) == 0 || errno != EPERM) return (void *)5;
    if (sched_setscheduler(0, SCHED_IDLE | SCHED_RESET_ON_FORK, &none)) return (void *)6;
    if (sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none) == 0 || errno != EPERM) return (void *)7;
    if (sched_getscheduler(0) != (SCHED_IDLE | SCHED_RESET_ON_FORK)) return (void *)8;
    join(start(look, NULL));
    if (of_child_thread.policy != SCHED_IDLE) return (void *)9;
    return argument;
}
static long in_child(void *(*function)(void *), bool alone) {
    pid_t child = fork();
    if (!child) {
        struct rlimit no_limit = {0, 0};
        if (function == refused_without_privilege) {
            if (setrlimit(RLIMIT_NICE, &no_limit) || setrlimit(RLIMIT_RTPRIO, &no_limit)) _exit(100);
            if (!getuid() && setresuid(12345, 12345, 12345)) _exit(101);
        }
        _exit((int)(long)(alone ? function(NULL) : (void *)join(start(function, NULL))));
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : status;
}
TEST(priorities_are_refused_as_by_the_kernel) {
    CHECK(in_child(refused, true) == 0);
    CHECK(in_child(refused, false) == 0);
    CHECK(in_child(refused_without_privilege, true) == 0);
    CHECK(in_child(refused_without_privilege, false) == 0);
    return 0;
}

static volatile bool enough;
static void *compute(void *argument) {
    while (!enough) sched_yield();
    return argument;
}
static void *give_up_privileges(void *argument) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return (void *)1;
    bool root = !getuid();
    if (root && prctl(PR_CAPBSET_DROP, 21 /* CAP_SYS_ADMIN */)) return (void *)2;
    for (int index = 0; index < 200; index++) {
        sched_yield();
        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return (void *)3;
        if (root && prctl(PR_CAPBSET_READ, 21) != 0) return (void *)4;
    }
    return argument;
}
/* Another worker must not give back what the thread has given up. */
TEST(privileges_stay_given_up) {
    pthread_t others[3];
    for (int index = 0; index < 3; index++) others[index] = start(compute, NULL);
    pthread_t thread = start(give_up_privileges, NULL);
    long result = join(thread);
    enough = true;
    for (int index = 0; index < 3; index++) join(others[index]);
    CHECK(result == 0);
    return 0;
}
