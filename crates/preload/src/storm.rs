//! Signals that come faster than the engine can look at them.

use core::sync::atomic::Ordering;

use crate::action::{TICK_SIGNAL, bit};
use crate::masks;
use crate::worker::{Worker, worker};

/// Signals in a row that make a storm.
const STORM: u32 = 16;

/// A timer of a few microseconds would interrupt the engine again and again, and nothing would ever go on. The
/// kernel blocks such a signal until the engine is left.
pub(crate) fn endure(worker: &Worker, number: i32, mask: &mut u64) {
    if number == TICK_SIGNAL {
        // Other workers wait until a nudge is answered.
        return;
    }
    let count = worker.storm.get() + 1;
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

/// After a storm: the kernel blocks what the threads block.
#[cold]
pub(crate) fn calm() {
    if worker().storm.replace(0) >= STORM {
        masks::adopt();
    }
}
