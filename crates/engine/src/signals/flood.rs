//! Signals that come faster than the engine, or the program, can deal with them.

use core::sync::atomic::Ordering;

use crate::kernel::clock;
use crate::kernel::disposition::{HELPER_SIGNAL, RECALL_VALUE, TICK_SIGNAL, bit};
use crate::kernel::sys::{failed, sys};
use crate::schedule::ticks;
use crate::schedule::worker::{Worker, worker};
use crate::signals::masks;

/// The signals that the kernel blocks while the engine deals with a signal, and in a moment without
/// signals. The mask lets nudges through, because other workers wait for the answer.
pub(crate) const SEAL: u64 =
    !(masks::NEVER_BLOCKED | masks::FAULTS | bit(TICK_SIGNAL) | bit(HELPER_SIGNAL));

/// Makes the kernel keep further signals until the engine is left. Each signal would interrupt the
/// engine, which costs several times as much as the call that unblocks them. Called by the handler,
/// with the mask of what it interrupted.
pub(crate) fn seal(worker: &Worker, mask: &mut u64) {
    let known = *mask == worker.kernel_mask.load(Ordering::Relaxed);
    *mask |= SEAL;
    // If the engine is about to change the mask, the change follows the handler.
    if known {
        worker.kernel_mask.store(*mask, Ordering::Relaxed);
    }
    worker.mask_is_stale.set(1);
}

/// Whether the engine must correct the kernel's mask before a thread goes on.
#[inline(always)]
pub(crate) fn is_sealed() -> bool {
    worker().mask_is_stale.get() != 0
}

/// Notes that the thread leaves the engine by `sigreturn`, which sets the mask. No other call is
/// needed.
pub(crate) fn leaves_by_sigreturn() {
    worker().mask_is_stale.set(1);
}

/// Makes the kernel block the signals that the threads block.
#[cold]
pub(crate) fn unseal() {
    worker().mask_is_stale.set(0);
    masks::adopt();
}

/// After this many handlers in this many nanoseconds, a moment follows. The rate is some two
/// thousand signals a second, on an otherwise busy machine.
const DELIVERIES: u32 = 8;
const WINDOW: u64 = 4_000_000;
/// Nanoseconds that a moment takes at most: several times the delivery of a signal.
const LENGTH: u64 = 50_000;

/// A thread enters a handler before it goes on.
pub(crate) fn count_delivery() {
    let worker = worker();
    let now = clock::now();
    if now - worker.deliveries_since.get() > WINDOW {
        worker.deliveries_since.set(now);
        worker.deliveries.set(0);
    }
    worker.deliveries.set(worker.deliveries.get() + 1);
}

/// Whether the thread now has a moment in which it goes on, even if signals wait for it. Some
/// handlers follow each other without a pause, such as the handler of a timer that sets the timer
/// for the next microsecond. Without the moment, the rest of the program would never go on. The
/// moment ends with the thread's next call, or by a timer.
pub(crate) fn gives_moment() -> bool {
    let worker = worker();
    if worker.deliveries.get() < DELIVERIES {
        return false;
    }
    worker.deliveries.set(0);
    if worker.recall_timer.get() < 0 {
        let made = ticks::timer(libc::CLOCK_MONOTONIC, RECALL_VALUE);
        worker.recall_timer.set(made.unwrap_or(-1));
    }
    worker.mask_is_stale.set(1);
    worker.attention.store(0, Ordering::Relaxed);
    // Set the timer last. If it expires before the thread has gone on, the moment is over at once.
    let setting = [clock::timespec(0), clock::timespec(LENGTH)];
    let set = sys!(SYS_timer_settime, worker.recall_timer.get(), 0, &setting, 0);
    !failed(set)
}

/// Called in the child of a fork, which inherits no timers.
pub(crate) fn reset_after_fork() {
    worker().recall_timer.set(-1);
}
