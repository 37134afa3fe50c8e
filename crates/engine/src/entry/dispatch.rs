//! Where every patched system call arrives.

use core::sync::atomic::Ordering;

use crate::calls::processes;
use crate::entry::table::{self, CLASSES, Class};
use crate::entry::tasks;
use crate::kernel::assertions::check;
use crate::kernel::clock;
use crate::kernel::frame::Frame;
use crate::kernel::lock::{self, Locked, lock};
use crate::kernel::settings;
use crate::kernel::stats;
use crate::kernel::sys::{BEGIN, RESTART, sys};
use crate::kernel::undelivered;
use crate::schedule::context::Context;
use crate::schedule::thread::ThreadRef;
use crate::schedule::ticks;
use crate::schedule::waiter::State;
use crate::schedule::worker::{HANDLER_ENTERED, Worker, current, set_in_engine, worker};
use crate::show::report;
use crate::signals::delivery;
use crate::signals::flood;
use crate::signals::masks;
use crate::workers::helpers::{Interrupted, offload};
use crate::workers::pump;

/// Executes a call of the program; called by the entry alone.
pub(crate) extern "C" fn dispatch(frame: &mut Frame) -> isize {
    let worker = worker();
    if worker.vfork_parent.get() != 0 {
        if worker.vfork_parent.get() as isize != sys!(SYS_getpid) {
            return in_vfork_child(frame);
        }
        if !processes::MEMORY_IS_SHARED.load(Ordering::Relaxed) {
            worker.vfork_parent.set(0);
        }
    }
    let result = execute(frame, worker);
    if !frame.goes_on_after() {
        // The thread goes on elsewhere: in the kernel, or at the place to which a handler's frame
        // returns.
        return result;
    }
    finish(frame, result)
}

/// What the entry needs of a call that came from a stack that is not the thread's.
#[repr(C)]
pub(crate) struct DispatchedAside {
    result: isize,
    /// The engine's mark is as the way back needs it. Otherwise the entry takes the mark away.
    stays: usize,
}

/// [`dispatch`], on the engine's stack for the thread.
pub(crate) extern "C" fn dispatch_aside(frame: &mut Frame) -> DispatchedAside {
    let result = execute(frame, worker());
    if !frame.goes_on_after() {
        return DispatchedAside { result, stays: 1 };
    }
    finish_with_mark(frame, result)
}

/// Called when a signal came before the thread had left the engine's stack.
pub(crate) extern "C" fn finish_aside(frame: &mut Frame) -> DispatchedAside {
    finish_with_mark(frame, frame.value() as isize)
}

/// Makes the engine's stack for the current thread. Without memory, the engine executes on the
/// thread's stack, whatever that is.
pub(crate) extern "C" fn make_aside() {
    let thread = current();
    if thread.aside.top(0).is_none() {
        thread.set_stack(0..usize::MAX);
    }
}

#[inline(always)]
fn execute(frame: &mut Frame, worker: &Worker) -> isize {
    let thread = worker.current.get();
    check!(begins_well(frame, worker), "a call begins in the wrong state");
    thread.call.set(frame.number() as u32);
    thread.place.set(&raw const *frame as usize);
    match CLASSES.get(frame.number() as usize) {
        Some(Class::Direct) if settings::STALL.get() != 0 => timed(frame),
        Some(Class::Direct) => frame.pass(),
        Some(Class::Emulated(call)) => call(frame),
        Some(Class::Offloaded(interrupted)) => {
            offload(frame.number(), frame.arguments(), *interrupted)
        }
        None if tasks::is_ours(frame.number() as usize) => tasks::call(frame),
        None => offload(frame.number(), frame.arguments(), Interrupted::Restarts),
    }
}

/// What holds when a call of the program arrives, and when its thread goes back. The engine has its
/// mark, this worker does not hold the lock, and the thread runs.
fn begins_well(frame: &Frame, worker: &Worker) -> bool {
    let aligned = (&raw const *frame as usize).is_multiple_of(16);
    aligned && frame.goes_on_after() && is_in_turn(worker)
}

fn is_in_turn(worker: &Worker) -> bool {
    if worker.vfork_parent.get() != 0 || processes::MEMORY_IS_SHARED.load(Ordering::Relaxed) {
        // Another process, which uses this worker too, may change its mark at any time.
        return true;
    }
    let thread = worker.current.get();
    let free = worker.is_in_engine() && !lock::is_held_here();
    free && thread.state.get(lock().held()) == State::Running
}

/// Executes a call, and reports it if it took too long.
fn timed(frame: &Frame) -> isize {
    let start = clock::now();
    let result = frame.pass();
    let took = clock::now() - start;
    if took > settings::STALL.get() * 1_000_000 {
        report::stall(table::name(frame.number() as u32), took);
    }
    result
}

/// A new thread's first code. The code returns to the program, after the call that made the thread.
pub(crate) extern "C" fn thread_begins(frame: &mut Frame) -> isize {
    drop(Locked::taken_over());
    finish(frame, 0)
}

/// A child of vfork(2) has our memory, but is a process of its own: the kernel executes its calls.
fn in_vfork_child(frame: &mut Frame) -> isize {
    let executes = matches!(frame.number(), libc::SYS_execve | libc::SYS_execveat);
    if executes && settings::CHILDREN.get() {
        let result = processes::execve_with_engine(frame);
        set_in_engine(false);
        return result;
    }
    set_in_engine(false);
    frame.leave_to_kernel()
}

/// Returns to the program, unless a signal or the end of the turn comes first.
#[inline(always)]
fn finish(frame: &mut Frame, mut result: isize) -> isize {
    if ticks::turn_is_over(worker()) {
        end_turn();
    }
    let thread = current();
    check!(is_in_turn(worker()), "a call ends in the wrong state");
    loop {
        // From here on, a signal may move the thread to another worker.
        set_in_engine(false);
        let quiet = is_quiet(thread, result);
        if quiet && !flood::is_sealed() {
            return result;
        }
        set_in_engine(true);
        if quiet {
            flood::unseal();
        } else {
            result = delivery::deliver_on_return(frame, result);
        }
    }
}

/// [`finish`], with the engine's mark: the entry looks at `attention` once it has taken the mark
/// away.
fn finish_with_mark(frame: &mut Frame, mut result: isize) -> DispatchedAside {
    if ticks::turn_is_over(worker()) {
        end_turn();
    }
    let thread = current();
    check!(is_in_turn(worker()), "a call beside the thread's stack ends in the wrong state");
    loop {
        // From here on, each signal leaves a mark.
        worker().attention.store(0, Ordering::Relaxed);
        let quiet = is_quiet(thread, result);
        if quiet && !flood::is_sealed() {
            return DispatchedAside { result, stays: 0 };
        }
        if quiet {
            flood::unseal();
        } else {
            result = delivery::deliver_on_return(frame, result);
        }
    }
}

/// Whether the thread may go on: no signal waits for it, and its call is over.
#[inline(always)]
fn is_quiet(thread: ThreadRef, result: isize) -> bool {
    !undelivered::any()
        && thread.deliverable() == 0
        && thread.mask_after.get().is_none()
        && !matches!(result, RESTART | BEGIN)
}

/// Runs before a thread goes on from a frame in the kernel's format. The thread goes on where it
/// was interrupted in its own code, or where a handler returns to. Returns the signals that the
/// kernel must block from then on. The entry calls this function again if a signal comes before the
/// thread has gone on.
pub(crate) extern "C" fn resume(context: &mut Context) -> u64 {
    check!(is_in_turn(worker()), "a thread goes on from a frame in the wrong state");
    current().place.set(&raw const *context as usize + 1);
    let entered = worker().attention.swap(0, Ordering::Relaxed) & HANDLER_ENTERED != 0;
    if ticks::turn_is_over(worker()) {
        ticks::hurry(end_turn());
    } else if ticks::may_give_way(worker()) && pump::look_for_woken() {
        end_turn();
    }
    delivery::seal(context);
    if !entered && flood::gives_moment() {
        return flood::SEAL;
    }
    if delivery::deliver_on_context(context) {
        flood::count_delivery();
        // There may be more signals: the entry looks again, beneath the handler's frame.
        worker().attention.fetch_or(HANDLER_ENTERED, Ordering::Relaxed);
    }
    worker().mask_is_stale.set(0);
    masks::wanted()
}

/// Ends the turn of the current thread. Returns whether other threads waited for their turn.
#[cold]
fn end_turn() -> bool {
    ticks::pass_turn(worker());
    stats::PREEMPTIONS.add_unlocked(1);
    tasks::tell_turn_is_over();
    pump::end_turn()
}
