/* The contract between converted code and its runtime.
 *
 * `duality cc` links a program with a pass (convert/pass). The pass turns functions that may block
 * into coroutines. Converted code calls the functions below, and nothing else of the runtime. A
 * runtime supplies all of these functions. This file is the whole interface: the code that the pass
 * emits, the expectations of that code, and the side that frees each object.
 *
 * WHERE CODE RUNS
 *   A task is a thread of the program with a converted start routine. Tasks have no stack. Tasks
 *   run on the stack of the runtime's loop, one at a time, until they return a handle. `main` is an
 *   ordinary pthread, and so is each thread with a start routine that was not converted. An
 *   ordinary pthread runs the original of every function. Originals call libc, except for the
 *   functions in "Renamed everywhere" below.
 *
 * THE CALL
 *   For a function `R f(A...)` that may block, the pass makes `{handle, R} f.async(A...)` (`handle`
 *   where R is void). A primitive of the runtime has the same shape: `ssize_t read(A...)` becomes
 *   `struct rt_ssize rt_read(A...)`. The handle says whether the call is complete:
 *
 *     handle == NULL   the call is complete, and the value is beside the handle;
 *     handle != NULL   the call waits. The caller stores its own handle in `handle->parent` and
 *     suspends.
 *
 *   When the wait is over, the runtime (or the callee) stores the value in `rt_ret`, and resumes
 *   `handle->parent`. The parent loads the value before anything else runs. The handle of a blocked
 *   primitive belongs to the runtime. The handle is usually embedded in the task, because a task
 *   waits for one thing at a time. So blocking allocates nothing.
 *
 * THE TRAMPOLINE
 *   A resumed coroutine runs until it suspends, or until it returns. When it returns, its frame is
 *   freed, its value is in `rt_ret`, and its parent is in `rt_next`. The runtime, and not the
 *   child, resumes the parent, so that the stack does not grow:
 *
 *       for (struct rt_handle *handle = first; handle; handle = rt_next) {
 *           rt_next = NULL;
 *           handle->resume(handle);
 *       }
 *
 *   A runtime's own handle (the root of a task, a thread on a side stack) has a `resume` of the
 *   runtime.
 *
 * FRAMES
 *   A coroutine's frame starts with `struct rt_handle`. The frame comes from rt_frame_allocate and
 *   goes back by rt_frame_free. A task that ends in the middle of its calls (pthread_exit,
 *   cancellation) suspends for ever. The runtime then calls `handle->destroy(handle)` from the
 *   innermost frame outwards, by the parent links. `destroy` frees one frame. With RT_UNWINDS an
 *   exception ends such a task instead, so that destructors run: the runtime sets `rt_thrown` and
 *   resumes the innermost frame.
 *
 * THE STATE OF A TASK
 *   The runtime saves `errno` when a task suspends and restores it before the task is resumed.
 *   The runtime does the same for a floating-point environment that the task has changed, and for
 *   the exceptions of C++ that it handles.
 *   `rt_locals` gives each task its own copy of the program's thread-local variables.
 */
#ifndef DUALITY_CONVERT_H
#define DUALITY_CONVERT_H

#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

/* The first words of a frame, and of any other object that a coroutine can wait for. The order is
 * fixed: LLVM lays the first two out, and the pass puts the third at offset 16. */
struct rt_handle {
    void (*resume)(struct rt_handle *);
    void (*destroy)(struct rt_handle *);
    struct rt_handle *parent;
};

/* Three variables of each thread. A runtime may have several loops, and may resume a task on a
 * thread beside them.
 *
 * The return register: the value of the call that the resumed coroutine waited for. The value is at
 * the start of the register, as its C type. */
extern _Thread_local _Alignas(16) char rt_ret[64];
/* The coroutine that the trampoline resumes next, set by a coroutine that returned. */
extern _Thread_local struct rt_handle *rt_next;

/* C++: the exception that the resumed coroutine must throw at the place of its wait, or NULL. If an
 * exception leaves a coroutine after a wait, the coroutine puts the exception here, and its parent
 * into `rt_next`. */
extern _Thread_local void *rt_thrown;
/* Throws a caught exception again (_Unwind_Exception of the C++ ABI for Itanium). Without a handler
 * the process ends by std::terminate(). */
void rt_rethrow(void *exception) __attribute__((noreturn));

/* The result of a primitive. The C ABI returns the two words in two registers, as the pass does. */
struct rt_int { struct rt_handle *handle; int value; };
struct rt_uint { struct rt_handle *handle; unsigned value; };
struct rt_ssize { struct rt_handle *handle; ssize_t value; };

/* ---- Frames ---------------------------------------------------------------------------------- */

/* Memory for a frame, aligned to `alignment` (a power of two, at least 16). Never NULL, because the
 * program has no code for a call that fails. A runtime that has no memory left ends the process
 * with a line. Every call of a coroutine calls this function, even if the coroutine does not wait.
 * With free lists for each size, it takes a few instructions. */
void *rt_frame_allocate(size_t size, size_t alignment);
void rt_frame_free(void *frame, size_t size, size_t alignment);
/* Memory for a variable-length array or alloca() in a coroutine, linked into the list of that
 * frame. `list` is in the frame, and NULL at first. `mark` is an earlier value of `*list`. The
 * function rt_array_release frees the memory that was added after `mark`, or all memory of the list
 * if `mark` is NULL. */
void *rt_array_allocate(void **list, size_t size, size_t alignment);
void rt_array_release(void **list, void *mark);

/* ---- Threads --------------------------------------------------------------------------------- */

/* The pass's facts about the program. Each program has one such structure. */
struct rt_program {
    unsigned version;          /* RT_VERSION */
    unsigned flags;            /* RT_READS_FLAGS and so on */
    size_t locals_size;        /* bytes of the program's thread-local variables; 0 if it has none */
    size_t locals_alignment;
    const void *locals_image;  /* their initial values */
};
enum { RT_VERSION = 2 };
/* The meanings of the bits, in order. The program reads the flags of floating-point exceptions. The
 * program reads the processor time of threads. The program is in C++. The program is in C++ and
 * ends threads, so the end of a thread is an exception. */
enum { RT_READS_FLAGS = 1, RT_READS_TIMES = 2, RT_THROWS = 4, RT_UNWINDS = 8 };

/* A start routine as a coroutine: `{handle, value} start.async(argument)`. */
struct rt_pointer { struct rt_handle *handle; void *value; };
typedef struct rt_pointer (*rt_start)(void *);

/* pthread_create. `async` is the converted start routine, and the new thread is a task. If `async`
 * is NULL, the start routine never blocks or cannot be converted. Then the new thread is a pthread.
 * Otherwise `start` may be NULL. The task begins when its turn comes, never inside this call. The
 * pass replaces every pthread_create of the program by this call, in originals too. */
int rt_spawn(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument, rt_start async,
             const struct rt_program *program);

/* Calls `call(arguments)` for the calling task on a thread with a stack, which may block in any
 * way. The task waits until the call has returned.
 *
 * The pass uses this call for functions that cannot be converted (setjmp, C++ exceptions). The pass
 * also uses it for two kinds of library functions. The first kind may block in a way that the pass
 * does not see (getaddrinfo, fgets). The second kind gets a callback that may block (qsort).
 *
 * `call` is a thunk that unpacks `arguments` and stores the value in them. While the thunk runs,
 * pthread_self, errno, thread-specific and thread-local data are the task's. The task gets the
 * errno of the call. A pthread_exit in the call ends the task. Returns NULL if the call has
 * completed. */
struct rt_handle *rt_call_on_side_stack(void (*call)(void *), void *arguments);

/* pthread_cleanup_push in C: a record in a frame, with the values that its routine needs after these
 * fields. The records of a task are a list, innermost first. rt_cleanup_pop drops the innermost
 * record. If the task ends in the middle of its calls, the runtime calls the routines, and then
 * destroys the frames. */
struct rt_cleanup {
    struct rt_cleanup *next;
    void (*routine)(struct rt_cleanup *);
};
void rt_cleanup_push(struct rt_cleanup *, void (*routine)(struct rt_cleanup *));
void rt_cleanup_pop(void);

/* Returns the code that a call by address runs in place of `function`. Returns the function's
 * coroutine, if the function has a note of this shape and of its place in the table (see
 * pass/indirect.cpp). Returns the function itself, if the function may block and must run on a side
 * stack. Returns NULL if the function has no note: such a function does not block. */
void *rt_coroutine_of(void *function, unsigned shape, void *const coroutines[]);

/* Returns the program's thread-local variables for the code that runs now. These are the variables
 * of the task, or `own`, the variables of the native thread. */
void *rt_locals(void *own, const struct rt_program *program);

/* pthread_once in two halves. The first half returns 1 if the caller must run the routine and then
 * call the second half. The first half returns 0 when the routine has run. Threads that come in
 * between wait. */
struct rt_int rt_once_begin(pthread_once_t *once);
void rt_once_end(pthread_once_t *once);
/* C++: the routine has thrown, and the next thread runs it again. */
void rt_once_abandon(pthread_once_t *once);

/* C++: syscall(SYS_futex, …) with FUTEX_WAIT, or with FUTEX_WAIT_BITSET for all waiters. Like the
 * kernel's call, it may return 0 without a wake-up. */
struct rt_ssize rt_futex(long number, unsigned *word, int operation, unsigned expected, const struct timespec *time);
/* C++: __cxa_guard_acquire, for a static variable with an initialiser that may block. Returns 1 if
 * the caller must initialise the variable. */
struct rt_int rt_guard_acquire(unsigned *guard);

/* The rest of the running task's turn, as a number of calls that need not wait. Each primitive
 * subtracts one. At zero, the primitive suspends the task behind the other ready tasks.
 *
 * The pass adds this count to loops that could go on for ever without a primitive. In such a loop,
 * the converted code subtracts RT_FRUITLESS if the loop waits for a variable, and otherwise 1. At
 * zero, the converted code calls rt_give_way. When the time of a turn is up, one call is left. */
extern _Thread_local volatile int rt_turn;
struct rt_int rt_give_way(void);
enum {
    RT_TURN = 256,
    RT_FRUITLESS = 32 /* the cost of a call without a result: the task may wait for another task */
};

/* ---- Primitives: as the function of the same name, but may return a handle ------------------- */

struct rt_ssize rt_read(int, void *, size_t);
struct rt_ssize rt_readv(int, const struct iovec *, int);
struct rt_ssize rt_recv(int, void *, size_t, int);
struct rt_ssize rt_recvfrom(int, void *, size_t, int, struct sockaddr *, socklen_t *);
struct rt_ssize rt_recvmsg(int, struct msghdr *, int);
struct rt_ssize rt_write(int, const void *, size_t);
struct rt_ssize rt_writev(int, const struct iovec *, int);
struct rt_ssize rt_send(int, const void *, size_t, int);
struct rt_ssize rt_sendto(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
struct rt_ssize rt_sendmsg(int, const struct msghdr *, int);
struct rt_ssize rt_sendfile(int, int, off_t *, size_t);
struct rt_int rt_accept(int, struct sockaddr *, socklen_t *);
struct rt_int rt_accept4(int, struct sockaddr *, socklen_t *, int);
struct rt_int rt_connect(int, const struct sockaddr *, socklen_t);
struct rt_int rt_poll(struct pollfd *, nfds_t, int);
struct rt_int rt_ppoll(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
struct rt_int rt_select(int, fd_set *, fd_set *, fd_set *, struct timeval *);
struct rt_int rt_pselect(int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *);
struct rt_int rt_epoll_wait(int, struct epoll_event *, int, int);
struct rt_int rt_epoll_pwait(int, struct epoll_event *, int, int, const sigset_t *);

struct rt_uint rt_sleep(unsigned);
struct rt_int rt_usleep(useconds_t);
struct rt_int rt_nanosleep(const struct timespec *, struct timespec *);
struct rt_int rt_clock_nanosleep(clockid_t, int, const struct timespec *, struct timespec *);
struct rt_int rt_sched_yield(void);

struct rt_int rt_pthread_mutex_lock(pthread_mutex_t *);
struct rt_int rt_pthread_mutex_timedlock(pthread_mutex_t *, const struct timespec *);
struct rt_int rt_pthread_mutex_clocklock(pthread_mutex_t *, clockid_t, const struct timespec *);
struct rt_int rt_pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *);
struct rt_int rt_pthread_cond_timedwait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
struct rt_int rt_pthread_cond_clockwait(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
struct rt_int rt_pthread_rwlock_rdlock(pthread_rwlock_t *);
struct rt_int rt_pthread_rwlock_timedrdlock(pthread_rwlock_t *, const struct timespec *);
struct rt_int rt_pthread_rwlock_clockrdlock(pthread_rwlock_t *, clockid_t, const struct timespec *);
struct rt_int rt_pthread_rwlock_wrlock(pthread_rwlock_t *);
struct rt_int rt_pthread_rwlock_timedwrlock(pthread_rwlock_t *, const struct timespec *);
struct rt_int rt_pthread_rwlock_clockwrlock(pthread_rwlock_t *, clockid_t, const struct timespec *);
struct rt_int rt_pthread_barrier_wait(pthread_barrier_t *);
struct rt_int rt_pthread_spin_lock(pthread_spinlock_t *);
struct rt_handle *rt_flockfile(FILE *);
struct rt_int rt_sem_wait(sem_t *);
struct rt_int rt_sem_timedwait(sem_t *, const struct timespec *);
struct rt_int rt_sem_clockwait(sem_t *, clockid_t, const struct timespec *);
struct rt_int rt_pthread_join(pthread_t, void **);
struct rt_int rt_pthread_timedjoin_np(pthread_t, void **, const struct timespec *);
struct rt_int rt_pthread_clockjoin_np(pthread_t, void **, clockid_t, const struct timespec *);
/* Both functions end the task, or return a handle that is never resumed. rt_pthread_testcancel
 * returns NULL if no thread has cancelled the task. Waiting primitives are cancellation points, as
 * in POSIX. */
struct rt_handle *rt_pthread_exit(void *);
struct rt_handle *rt_pthread_testcancel(void);
/* duality_detach and duality_attach (duality.h). Between the two, a thread that may block resumes
 * the task's frames. On that thread, no primitive returns a handle, and rt_ret and rt_next are the
 * thread's own. */
struct rt_handle *rt_duality_detach(void);
struct rt_handle *rt_duality_attach(void);

/* ---- Renamed everywhere, in originals too: they do not wait, but must know tasks ------------- */

/* In the child, only the calling task or thread goes on. The runtime drops all others, and its own
 * poller. */
pid_t rt_fork(void);
/* The mask belongs to the task, with one exception: signals for the process go to any thread. */
int rt_pthread_sigmask(int, const sigset_t *, sigset_t *);
int rt_sigprocmask(int, const sigset_t *, sigset_t *);
pthread_t rt_pthread_self(void);
int rt_pthread_detach(pthread_t);
int rt_pthread_cancel(pthread_t);
int rt_pthread_kill(pthread_t, int);
int rt_raise(int);
int rt_sigpending(sigset_t *);
int rt_pthread_sigqueue(pthread_t, int, const union sigval);
int rt_pthread_tryjoin_np(pthread_t, void **);
int rt_pthread_setcancelstate(int, int *);
int rt_pthread_setcanceltype(int, int *);
int rt_pthread_mutex_trylock(pthread_mutex_t *);
int rt_pthread_mutex_unlock(pthread_mutex_t *);
int rt_pthread_cond_signal(pthread_cond_t *);
int rt_pthread_cond_broadcast(pthread_cond_t *);
int rt_pthread_rwlock_tryrdlock(pthread_rwlock_t *);
int rt_pthread_rwlock_trywrlock(pthread_rwlock_t *);
int rt_pthread_rwlock_unlock(pthread_rwlock_t *);
int rt_sem_post(sem_t *);
int rt_sem_trywait(sem_t *);
/* The lock of a file belongs to the task, also for the functions of stdio. */
int rt_ftrylockfile(FILE *);
void rt_funlockfile(FILE *);
int rt_fclose(FILE *);
/* The locale belongs to the task. */
locale_t rt_uselocale(locale_t);
/* Keys belong here too: the runtime runs the destructors when a task ends. */
int rt_pthread_key_create(pthread_key_t *, void (*)(void *));
int rt_pthread_key_delete(pthread_key_t);
void *rt_pthread_getspecific(pthread_key_t);
int rt_pthread_setspecific(pthread_key_t, const void *);
int rt_pthread_setname_np(pthread_t, const char *);
int rt_pthread_getname_np(pthread_t, char *, size_t);
int rt_pthread_getattr_np(pthread_t, pthread_attr_t *);
int rt_pthread_setschedparam(pthread_t, int, const struct sched_param *);
int rt_pthread_setschedprio(pthread_t, int);
int rt_pthread_getschedparam(pthread_t, int *, struct sched_param *);
int rt_pthread_setaffinity_np(pthread_t, size_t, const cpu_set_t *);
int rt_pthread_getaffinity_np(pthread_t, size_t, cpu_set_t *);
/* The clock of a task is a number that rt_clock_gettime knows. */
int rt_pthread_getcpuclockid(pthread_t, clockid_t *);
int rt_clock_gettime(clockid_t, struct timespec *);

/* ---- In originals only ----
 *
 * Functions that block, and that name a thread (perhaps a task) or depend on their caller. The
 * calling pthread blocks. */

int rt_block_pthread_join(pthread_t, void **);
int rt_block_pthread_timedjoin_np(pthread_t, void **, const struct timespec *);
int rt_block_pthread_clockjoin_np(pthread_t, void **, clockid_t, const struct timespec *);
/* On a side stack, the owner of a recursive mutex is the task. */
int rt_block_pthread_mutex_lock(pthread_mutex_t *);
int rt_block_pthread_mutex_timedlock(pthread_mutex_t *, const struct timespec *);
int rt_block_pthread_mutex_clocklock(pthread_mutex_t *, clockid_t, const struct timespec *);
void rt_block_flockfile(FILE *);
/* The pthread_exit of an original, which runs on a pthread. On a side stack it ends the task.
 */
void rt_block_pthread_exit(void *) __attribute__((noreturn));

#endif
