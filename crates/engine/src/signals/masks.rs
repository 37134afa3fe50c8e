//! The signal masks of threads, and the mask that the kernel has for them.
//!
//! The kernel blocks what every thread blocks. While libc makes a thread, it blocks all signals.
//! The engine does not tell the kernel that mask. A signal that comes in the meantime waits in the
//! engine.
//!
//! Every worker has the same mask. A worker that changes the mask nudges the others, and their
//! handlers adopt it.

use crate::kernel::disposition::{HELPER_SIGNAL, TICK_SIGNAL, bit};
use crate::kernel::lock::{Guarded, Locked};
use crate::kernel::sys::sys;
use crate::schedule::worker::{self, Worker, worker};
use core::sync::atomic::{AtomicU64, Ordering};

/// How many threads block each signal, and how many threads count.
struct Masks {
    counts: [u32; 64],
    blocked_somewhere: u64,
    threads: u32,
}

static MASKS: Guarded<Masks> =
    Guarded::new(Masks { counts: [0; 64], blocked_somewhere: 0, threads: 0 });

/// The signals that the kernel should block for every worker.
pub(crate) static WANTED: AtomicU64 = AtomicU64::new(0);

/// The signals that the kernel should block while the program executes.
pub(crate) fn wanted() -> u64 {
    WANTED.load(Ordering::Relaxed)
}

/// The signals that no mask blocks.
pub(crate) const NEVER_BLOCKED: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP);
/// The signals that a faulting instruction raises. The kernel never blocks them for the engine.
pub(crate) const FAULTS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS);

/// Whether this is the mask that libc sets for a few instructions. The mask blocks all signals,
/// including libc's internal ones.
fn is_brief(mask: u64) -> bool {
    mask | NEVER_BLOCKED == u64::MAX
}

impl Masks {
    fn count(&mut self, mask: u64, enters: bool) {
        if is_brief(mask) {
            return;
        }
        assert!(enters || self.threads > 0, "more masks have gone than came");
        self.threads = if enters { self.threads + 1 } else { self.threads - 1 };
        let mut bits = mask;
        while bits != 0 {
            let index = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let count = self.counts[index];
            assert!(enters || count > 0, "a signal is blocked by fewer threads than none");
            self.counts[index] = if enters { count + 1 } else { count - 1 };
            if self.counts[index] == 0 {
                self.blocked_somewhere &= !(1 << index);
            } else {
                self.blocked_somewhere |= 1 << index;
            }
            assert!(self.counts[index] <= self.threads, "more threads block than there are");
        }
    }

    fn blocked_everywhere(&self) -> u64 {
        let mut everywhere = 0;
        let mut bits = self.blocked_somewhere;
        while bits != 0 {
            let index = bits.trailing_zeros();
            bits &= bits - 1;
            if self.counts[index as usize] == self.threads {
                everywhere |= 1 << index;
            }
        }
        everywhere & !(NEVER_BLOCKED | FAULTS | bit(TICK_SIGNAL) | bit(HELPER_SIGNAL))
    }
}

/// Notes that a thread's mask has changed.
pub(crate) fn change(locked: &mut Locked, before: u64, after: u64) {
    let masks = MASKS.of(locked);
    masks.count(before, false);
    masks.count(after, true);
    follow_masks(locked);
}

/// Notes that there is only one thread, with this mask.
pub(crate) fn restart(locked: &mut Locked, mask: u64) {
    *MASKS.of(locked) = Masks { counts: [0; 64], blocked_somewhere: 0, threads: 0 };
    MASKS.of(locked).count(mask, true);
    follow_masks(locked);
}

fn follow_masks(locked: &mut Locked) {
    let masks = MASKS.of(locked);
    if masks.threads == 0 {
        return;
    }
    let blocked = masks.blocked_everywhere();
    let before = WANTED.swap(blocked, Ordering::Relaxed);
    if before == blocked {
        return;
    }
    if worker().mask_is_stale.get() == 0 {
        adopt();
    }
    worker::others(locked).for_each(Worker::nudge);
    // A signal that is blocked from here on ends the process on no worker.
    if blocked & !before != 0 {
        worker::others(locked).for_each(|other| wait_for(other, blocked));
    }
}

/// Has the kernel block the wanted signals for the calling worker.
pub(crate) fn adopt() {
    let wanted = WANTED.load(Ordering::Relaxed);
    worker().kernel_mask.store(wanted, Ordering::Relaxed);
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &wanted, 0, 8);
}

/// Called in the handler. The interrupted code goes on with the wanted mask, unless it has a mask
/// of its own.
pub(crate) fn adopt_in_handler(mask: &mut u64) {
    if *mask == worker().kernel_mask.load(Ordering::Relaxed) {
        let wanted = WANTED.load(Ordering::Relaxed);
        worker().kernel_mask.store(wanted, Ordering::Relaxed);
        *mask = wanted;
    }
}

/// Waits for a moment until another worker blocks what a mask blocks. A worker inside a long call
/// of the kernel does so when the call ends.
fn wait_for(other: &Worker, mask: u64) {
    const YIELDS: u32 = 100;
    for _ in 0..YIELDS {
        if mask & !other.kernel_mask.load(Ordering::Relaxed) == 0 {
            return;
        }
        sys!(SYS_sched_yield);
    }
}

/// A new thread inherits its creator's mask. A thread that has ended blocks nothing.
pub(crate) fn count_thread(locked: &mut Locked, mask: u64, enters: bool) {
    if !is_brief(mask) {
        MASKS.of(locked).count(mask, enters);
        follow_masks(locked);
    }
}
