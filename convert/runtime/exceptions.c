/* Exceptions of C++ in tasks.
 *
 * A coroutine that was resumed has the trampoline below it, not its caller. So an exception that
 * leaves the coroutine goes into `rt_thrown`. Then the parent is resumed, and throws the exception
 * again. The pass emits this code: pass/exceptions.cpp. This file has:
 *
 * - the state that libstdc++ keeps for each kernel thread, as each task's own;
 * - the end of a task in the middle of its calls (pthread_exit, cancellation). An exception without
 *   a handler goes through its frames, so that their destructors run, as by glibc's forced
 *   unwinding.
 *
 * A program in C uses no part of this file. */
#include "runtime.h"

#include <stdlib.h>
#include <unwind.h>

_Thread_local void *rt_thrown;

/* The handled exceptions, and the number of uncaught exceptions (C++ ABI for Itanium, 2.2.2). */
struct exceptions *__cxa_get_globals(void) __attribute__((weak));
void *__cxa_begin_catch(void *) __attribute__((weak));
_Noreturn void _ZSt9terminatev(void) __attribute__((weak));
_Unwind_Reason_Code _Unwind_RaiseException(struct _Unwind_Exception *) __attribute__((weak));
_Unwind_Reason_Code _Unwind_ForcedUnwind(struct _Unwind_Exception *, _Unwind_Stop_Fn, void *) __attribute__((weak));

static bool throws, unwinds;
static _Thread_local struct exceptions *of_thread;

void exceptions_inherit(const struct rt_program *program) {
    if (!program || !__cxa_get_globals) return;
    if (program->flags & RT_THROWS) __atomic_store_n(&throws, true, __ATOMIC_RELAXED);
    if (program->flags & RT_UNWINDS) __atomic_store_n(&unwinds, true, __ATOMIC_RELAXED);
}

static struct exceptions *own(void) {
    if (!of_thread) of_thread = __cxa_get_globals();
    return of_thread;
}

void exceptions_enter(struct task *task) {
    if (!(task->flags & HANDLING)) return;
    *own() = task->rare->exceptions;
    task->flags &= ~HANDLING;
}

void exceptions_leave(struct task *task) {
    if (!__atomic_load_n(&throws, __ATOMIC_RELAXED)) return;
    struct exceptions *now = own();
    if (!now->caught && !now->uncaught) return;
    rare_of(task)->exceptions = *now;
    task->flags |= HANDLING;
    *now = (struct exceptions){0};
}

/* ---- The end of a task in the middle ---- */

/* "DUALEND" and a zero: no language has this class of exceptions. */
enum { END_LOW = 0x454e4400, END_HIGH = 0x4455414c };
static const _Unwind_Exception_Class END = (_Unwind_Exception_Class)END_HIGH << 32 | END_LOW;

/* Asked for each frame: the unwinding goes on. */
static _Unwind_Reason_Code goes_on(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                   struct _Unwind_Exception *exception, struct _Unwind_Context *context, void *argument) {
    (void)version, (void)class, (void)exception, (void)context, (void)argument;
    if (actions & _UA_END_OF_STACK) give_up("the end of a thread (pthread_exit, cancellation) has left its frames");
    return _URC_NO_REASON;
}

void rt_rethrow(void *exception) {
    /* As glibc does it: so the end is an abi::__forced_unwind, and no std::exception_ptr keeps it. */
    if (((struct _Unwind_Exception *)exception)->exception_class == END) _Unwind_ForcedUnwind(exception, goes_on, NULL);
    else _Unwind_RaiseException(exception);
    /* There is no handler. */
    __cxa_begin_catch(exception);
    _ZSt9terminatev();
}

static void kept(_Unwind_Reason_Code reason, struct _Unwind_Exception *exception) {
    (void)reason, (void)exception;
    give_up("a catch (...) has kept the end of a thread (pthread_exit, cancellation): throw it again");
}

bool exceptions_unwind(struct task *task) {
    struct rt_handle *innermost = task->waiter.parent;
    if (!__atomic_load_n(&unwinds, __ATOMIC_RELAXED) || !innermost) return false;
    struct _Unwind_Exception *end = calloc(1, sizeof *end);
    if (!end) give_up("no memory for the end of a thread");
    end->exception_class = END;
    end->exception_cleanup = kept;
    task->flags &= ~EXITING;
    rt_thrown = end;
    trampoline(innermost);
    return true;
}

bool exceptions_leave_root(void) {
    struct _Unwind_Exception *thrown = rt_thrown;
    if (!thrown) return false;
    rt_thrown = NULL;
    if (thrown->exception_class != END) rt_rethrow(thrown);
    free(thrown);
    return true;
}
