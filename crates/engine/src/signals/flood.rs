//! Signals that come faster than the engine, or the program, can deal with them.

use core::sync::atomic::Ordering;

use crate::kernel::clock;
use crate::kernel::sys::{failed, sys};
use crate::schedule::ticks;
use crate::schedule::worker::{Worker, worker};
use crate::signals::disposition::{HELPER_SIGNAL, RECALL_VALUE, TICK_SIGNAL, bit};
use crate::signals::masks;

/// Signals in a row that make a storm.
const STORM: u32 = 16;

/// A timer of a few microseconds would interrupt the engine again and again, and nothing would ever
/// go on. The kernel blocks such a signal until the engine is left; at once if one waits already
/// that it is the same as.
pub(crate) fn endure(worker: &Worker, number: i32, known: bool, mask: &mut u64) {
    if number == TICK_SIGNAL {
        // Other workers wait until a nudge is answered.
        return;
    }
    let count = if known { STORM } else { worker.storm.get() + 1 };
    worker.storm.set(count);
    if count < STORM {
        return;
    }
    let known = *mask == worker.kernel_mask.load(Ordering::Relaxed);
    *mask |= bit(number);
    // Where the engine is about to change the mask, it goes on to do so.
    if known {
        worker.kernel_mask.store(*mask, Ordering::Relaxed);
    }
}

/// After a storm, or a moment without signals: the kernel blocks what the threads block.
#[cold]
pub(crate) fn calm() {
    if worker().storm.replace(0) >= STORM {
        masks::adopt();
    }
}

/// What the kernel blocks in a moment without signals.
pub(crate) const MOMENT: u64 =
    !(masks::NEVER_BLOCKED | masks::FAULTS | bit(TICK_SIGNAL) | bit(HELPER_SIGNAL));
/// So many handlers in so many nanoseconds have a moment follow: some two thousand signals a
/// second, on a machine that is busy otherwise.
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

/// Whether a thread goes on now for a moment, whatever waits for it. Where handlers follow each
/// other without a pause, as of a timer that its own handler sets for the next microsecond, nothing
/// else would ever go on. The moment ends with the thread's next call, or by a timer.
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
    let blocked = MOMENT;
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const blocked, 0, 8);
    worker.kernel_mask.store(blocked, Ordering::Relaxed);
    worker.storm.set(STORM);
    worker.attention.store(0, Ordering::Relaxed);
    // Last: should it come before the thread has gone on, the moment is over at once.
    let setting = [clock::timespec(0), clock::timespec(LENGTH)];
    let set = sys!(SYS_timer_settime, worker.recall_timer.get(), 0, setting.as_ptr(), 0);
    if failed(set) {
        calm();
    }
    !failed(set)
}

/// In the child of a fork, which inherits no timers.
pub(crate) fn reset_after_fork() {
    worker().recall_timer.set(-1);
}
