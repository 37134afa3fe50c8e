//! Where every patched system call arrives.

use core::sync::atomic::Ordering;

use crate::calls::processes;
use crate::calls::tasks;
use crate::entry::frame::Frame;
use crate::entry::settings;
use crate::entry::table::{self, CLASSES, Class};
use crate::kernel::clock;
use crate::kernel::lock::Locked;
use crate::kernel::sys::{BEGIN, RESTART, sys};
use crate::schedule::helpers::{Interrupted, offload};
use crate::schedule::pump;
use crate::schedule::ticks;
use crate::schedule::worker::{HANDLER_ENTERED, current, set_in_engine, worker};
use crate::show::report;
use crate::show::stats;
use crate::signals::context::Context;
use crate::signals::delivery;
use crate::signals::flood;
use crate::signals::masks;
use crate::signals::undelivered;

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
    let thread = worker.current.get();
    thread.call.set(frame.rax as u32);
    thread.place.set(&raw const *frame as usize);
    let result = match CLASSES.get(frame.rax) {
        Some(Class::Direct) if settings::STALL.get() != 0 => timed(frame),
        Some(Class::Direct) => frame.pass(),
        Some(Class::Emulated(call)) => call(frame),
        Some(Class::Offloaded(interrupted)) => {
            offload(frame.number(), frame.arguments(), *interrupted)
        }
        None if tasks::is_ours(frame.rax) => tasks::call(frame),
        None => offload(frame.number(), frame.arguments(), Interrupted::Restarts),
    };
    if frame.rip != frame.after {
        // The thread goes on elsewhere: in the kernel, or at the place to which a handler's frame
        // returns.
        return result;
    }
    finish(frame, result)
}

/// Executes a call, and reports it if it took too long.
fn timed(frame: &Frame) -> isize {
    let start = clock::now();
    let result = frame.pass();
    let took = clock::now() - start;
    if took > settings::STALL.get() * 1_000_000 {
        report::stall(table::name(frame.rax as u32), took);
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
    loop {
        // From here on, a signal may move the thread to another worker.
        set_in_engine(false);
        let quiet = !undelivered::any()
            && thread.deliverable() == 0
            && thread.mask_after.get().is_none()
            && !matches!(result, RESTART | BEGIN);
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

/// Runs before a thread goes on from a frame in the kernel's format. The thread goes on where it
/// was interrupted in its own code, or where a handler returns to. Returns the signals that the
/// kernel must block from then on. The entry calls this function again if a signal comes before the
/// thread has gone on.
pub(crate) extern "C" fn resume(context: &mut Context) -> u64 {
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
