//! Enters the handlers of signals that wait for a thread, before the thread goes on.

use crate::kernel::disposition::{Action, bit};
use crate::kernel::frame::Frame;
use crate::kernel::info;
use crate::kernel::lock::{Locked, lock};
use crate::kernel::sys::{BEGIN, EINTR, RESTART};
use crate::schedule::context::{AfterCall, Beneath, Context, Delivery, room, stack_pointer};
use crate::schedule::thread::{NO_STACK, Pending, ThreadRef};
use crate::schedule::worker::current;
use crate::signals::flood;
use crate::signals::handling::{
    act_by_default, action, add_pending, assign_held, begin_handler, set_mask, take_pending,
};
use crate::signals::seccomp;

/// Called before a call returns to the program, since handlers of pending signals come first.
#[cold]
pub(crate) fn deliver_on_return(frame: &mut Frame, result: isize) -> isize {
    let mut locked = lock();
    assign_held(&mut locked);
    let thread = current();
    let Some(next) = next_delivery(&mut locked) else {
        if let Some(mask) = thread.mask_after.take() {
            set_mask(&mut locked, thread, mask);
        }
        if matches!(result, RESTART | BEGIN) {
            frame.go_on_at(frame.restart_address());
            return frame.value() as isize;
        }
        return result;
    };
    let (pending, action) = &next;
    let (rip, value) = if seccomp::thread(pending).is_some() {
        // As in the kernel, the handler sets the value that the call returns.
        (frame.return_address(), frame.value())
    } else if result == BEGIN {
        (frame.restart_address(), frame.value())
    } else if result == RESTART {
        // The handlers of libc's own signals unwind the stack from here. Only an address in the
        // text lets them unwind.
        let internal = matches!(pending.number, 32 | 33);
        let restarts = action.has(libc::SA_RESTART) && (frame.restarts_in_text() || !internal);
        if restarts {
            (frame.restart_address(), frame.value())
        } else {
            (frame.return_address(), EINTR as usize)
        }
    } else if frame.goes_on_after() {
        (frame.return_address(), result as usize)
    } else {
        (frame.goes_on_at(), result as usize)
    };
    let mut left = AfterCall::new(frame, rip, value);
    let aside = thread.aside.contains(&raw const *frame as usize);
    let beneath = if aside { Beneath::Nothing } else { Beneath::Call };
    if aside {
        left.is_now_aside();
    }
    if !deliver(locked, left.context(), &next, beneath) {
        return result;
    }
    left.go_on()
}

/// Called before a thread goes on that was interrupted in its own code. Makes the thread enter the
/// handler of a pending signal. Returns whether there was a signal to deliver. More signals may be
/// pending.
pub(crate) fn deliver_on_context(context: &mut Context) -> bool {
    // Room for a frame, and for a handler that makes calls.
    const ROOM: u64 = 6 << 10;
    let mut locked = lock();
    assign_held(&mut locked);
    if !context.is_aside() && room(current(), stack_pointer()) < ROOM {
        // The thread's next call delivers the signal, which takes less room on the stack.
        return false;
    }
    let Some(next) = next_delivery(&mut locked) else { return false };
    let beneath = if context.is_aside() { Beneath::Nothing } else { Beneath::Frame };
    deliver(locked, context, &next, beneath);
    true
}

/// Prepares a context for `sigreturn`. The entry fills in the mask. The signal stack is the
/// worker's: flags that the kernel does not know have it leave the signal stack alone.
pub(crate) fn seal(context: &mut Context) {
    const UNKNOWN: i32 = 4;
    context.stack = libc::stack_t { ss_flags: UNKNOWN, ..NO_STACK };
}

/// Takes a pending signal of the current thread that has a handler to run. Pending signals without
/// a handler take their default action.
fn next_delivery(locked: &mut Locked) -> Option<(Pending, Action)> {
    loop {
        let thread = current();
        let pending = take_pending(locked, thread, !thread.mask.get())?;
        let action = action(locked, pending.number);
        if action.runs() {
            return Some((pending, action));
        }
        if !action.ignores(pending.number) {
            act_by_default(pending.number);
        }
    }
}

/// Makes a context enter the handler of a signal. If there is no memory for that, the thread faults
/// instead.
fn deliver(
    mut locked: Locked,
    context: &mut Context,
    next: &(Pending, Action),
    beneath: Beneath,
) -> bool {
    let (pending, action) = next;
    let thread = current();
    let (mask, after) = (thread.mask.get(), thread.mask_after.take());
    flood::leaves_by_sigreturn();
    begin_handler(&mut locked, thread, pending.number, action);
    drop(locked);
    // Beneath the new frame, the engine does nothing more: see `duality_resume`.
    let delivery = Delivery {
        number: pending.number,
        info: &pending.info,
        action,
        mask: after.unwrap_or(mask),
    };
    let entered = context.enter_handler(thread, &delivery, beneath).is_ok();
    if !entered {
        set_mask(&mut lock(), thread, mask);
        thread.mask_after.set(after);
        fault_instead(thread, pending.number);
    }
    entered
}

/// Called when a handler cannot be entered for lack of stack. The thread faults, as by
/// `force_sigsegv` of the kernel.
#[cold]
fn fault_instead(thread: ThreadRef, number: i32) {
    let fault = libc::SIGSEGV;
    let blocked = thread.mask.get() & bit(fault) != 0;
    let mut locked = lock();
    if number == fault || blocked || !action(&mut locked, fault).runs() {
        return act_by_default(fault);
    }
    let info = info::bare(fault, libc::SI_KERNEL);
    add_pending(&mut locked, thread, Pending { number: fault, info });
}
