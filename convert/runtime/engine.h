/* The calls of the converted programs' runtime into the engine. The calls concern only tasks that
 * wait.
 *
 * The engine is the engine of `duality run` (crates/engine). The engine knows threads, which have
 * stacks, and tasks, which have none. Both wait in the same queues, for descriptors, futexes and
 * times, and wake each other. These calls enter the engine as a patched system call does, with
 * numbers that no kernel has.
 *
 *   a loop:   for (;;) run(engine(ENGINE_NEXT));       a thread of the engine, with a stack
 *   a task:   ENGINE_TRY(task) ── done: the result
 *                              ├─ ENGINE_WAITS: it comes out of ENGINE_NEXT later, and tries again
 *                              └─ ENGINE_BLOCKS: only a thread can make this call
 *
 * A task belongs to one loop. The engine touches the task only while the task waits or is ready.
 *
 * HOW IT STARTS
 *   The engine is a shared object with two symbols:
 *
 *       unsigned long duality_engine_entry;   where the calls enter; 0 until the engine has started
 *       void duality_engine_start(const char *settings, unsigned long vdso,
 *                                 unsigned long capabilities);
 *
 *   In a program that `duality run` started, the engine is already in the global scope, and has
 *   started. Any other program loads it with dlopen, and starts it before it makes a thread. The
 *   arguments are the settings of crates/engine/src/kernel/settings.rs, getauxval(AT_SYSINFO_EHDR)
 *   and getauxval(AT_HWCAP2). An example of settings is "cores=1:tick=10000:uring=0", with the tick
 *   in microseconds.
 */
#ifndef DUALITY_ENGINE_H
#define DUALITY_ENGINE_H

/* The numbers of the calls, their arguments and their results. */
enum engine_call {
    ENGINE_FIRST = 0x44550000,
    /* () -> ENGINE_VERSION. Any other answer means that the process has no engine, or a different
     * engine. */
    ENGINE_HELLO = ENGINE_FIRST,
    /* (index, turn, facts, mask): from now on the calling thread belongs to the loop with this
     * number, from 0 to 63. The engine sets *turn, an int, to 1 when the loop has run for a tick
     * without a call of ENGINE_NEXT. `facts` is a struct engine_facts, for the whole program.
     * `mask` is the address of an unsigned long, the thread's mask of signals, for ENGINE_MASK.
     * -> 0 */
    ENGINE_LOOP,
    /* (may_end) -> the next ready task of the calling loop, taken from its queue. Waits until a
     * task is ready. Returns 0 if a signal came first and its handler has run. Returns
     * ENGINE_MAKE_SPARE if the loop needs another thread. That thread calls ENGINE_LOOP with the
     * loop's number, and ENGINE_NEXT. One thread of a loop at a time runs tasks. While that thread
     * blocks in some library, another thread of the loop runs tasks. With `may_end`, a boolean,
     * returns ENGINE_END if enough threads wait already: the thread must end. */
    ENGINE_NEXT,
    /* (task, index, behind): puts a task that does not wait at the end of the ready tasks of a
     * loop. The task then belongs to that loop. With `behind`, a boolean, the task has had its
     * turn: tasks that have waited go first, except for a share of the turns. Any thread may call
     * this, once for each time that the task comes out of ENGINE_NEXT. -> 0 */
    ENGINE_READY,
    /* (task): makes the system call `task->number` with `task->arguments`. The caller is the task's
     * loop. -> the kernel's result (-errno for errors), ENGINE_WAITS or ENGINE_BLOCKS. A task that
     * waited and has come out of ENGINE_NEXT tries again with the same call. The engine remembers
     * the transferred bytes and the deadline. An interrupted wait (ENGINE_INTERRUPT) ends with
     * -EINTR, or with the number of transferred bytes.
     *
     * The call may be read, readv, recvfrom, recvmsg, write, writev, sendto, sendmsg, sendfile,
     * accept, accept4, connect, poll, ppoll, select, pselect6, epoll_wait, nanosleep or
     * clock_nanosleep. The engine ignores masks of signals. */
    ENGINE_TRY,
    /* (task, key, expected, deadline): makes the task wait for ENGINE_WAKE or FUTEX_WAKE at `key`.
     * An even key is the address of a 32-bit word. The task waits only if that word holds
     * `expected`. Otherwise the result is -EAGAIN. An odd key is any number. `deadline` is in
     * nanoseconds on CLOCK_MONOTONIC, or 0. -> ENGINE_WAITS; afterwards `task->reason` says how the
     * wait ended. */
    ENGINE_WAIT,
    /* (key, count) -> the number of woken tasks and threads (threads that wait in FUTEX_WAIT,
     * private). */
    ENGINE_WAKE,
    /* (task, restarts): makes a waiting task ready, with the reason ENGINE_INTERRUPTED. With
     * `restarts`, does so only if SA_RESTART does not restart the task's call, see signal(7). ->
     * whether the task waited */
    ENGINE_INTERRUPT,
    /* () -> the processor time of the calling thread in nanoseconds. The count begins at the first
     * such call of the process. */
    ENGINE_TIME,
    /* (): the calling thread has left its loop (`leave` of struct engine_facts), and runs the loop
     * again from now on. Waits for the turn of the loop's present thread. -> 0 */
    ENGINE_RETURN,
    /* (mask): the signals that threads of loops block while they wait in ENGINE_NEXT. The engine
     * stores the mask at the address of each thread that gets it. -> 0 */
    ENGINE_MASK,
};
enum { ENGINE_VERSION = 4 };

/* ENGINE_NEXT returns these values in place of a task. */
#define ENGINE_MAKE_SPARE 1L
#define ENGINE_END 2L

/* These results are different from all results of system calls. */
#define ENGINE_WAITS (-0x44550001L)
#define ENGINE_BLOCKS (-0x44550002L)

enum engine_reason { ENGINE_WOKEN, ENGINE_TIMED_OUT, ENGINE_INTERRUPTED };

/* A task, all zeros at first. */
struct engine_task {
    /* Words of the engine. */
    unsigned long engine[14];
    /* The system call of ENGINE_TRY; its pointers stay valid until the call is complete. */
    long number;
    long arguments[6];
    /* The end of the last wait: an engine_reason. */
    int reason;
    /* Words of the runtime. */
    int saved_errno;
};

/* What the engine must know of the runtime. */
struct engine_facts {
    /* The name of a task, for a line about a task that computes for long. The engine may call the
     * function anywhere, like a signal's handler. */
    const char *(*name)(struct engine_task *);
    /* Has the calling thread leave its loop with the task that it runs, and go on beside the loop.
     * Returns whether it has left. The engine calls the function when the task's turn is over for
     * more than a tick and other tasks are ready. The thread was interrupted outside of the code
     * between `start` and `end`, or in a library that code outside of these has called. */
    int (*leave)(void);
    const void *start, *end;
};

/* engine.S */
long engine(enum engine_call, ...);

#endif
