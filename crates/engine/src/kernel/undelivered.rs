//! Signals that the kernel delivered while the engine was executing. The signals wait until the
//! engine can look at them.
//!
//! The places belong to the process, since any worker may deal with a signal that the process
//! received. The handler of signals fills them, and may interrupt the code that empties one. So
//! there is no lock: one word of bits says which places are taken, another says which of them can
//! be read.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::kernel::disposition::FIRST_QUEUED;

/// Signals that can wait, one for each bit of a word. Further signals are lost. But a signal that
/// comes while the engine executes makes the kernel keep later signals (`signals/flood.rs`).
const MOST: usize = 64;

struct WaitingSignal {
    number: AtomicI32,
    /// Signals are taken in the order in which they came.
    order: AtomicU64,
    info: UnsafeCell<libc::siginfo_t>,
}

// SAFETY: `info` belongs to the code that has set the place's bit in `TAKEN`, until this code sets
// the bit in `READY`. Then `info` belongs to the code that clears the bit in `READY`.
unsafe impl Sync for WaitingSignal {}

static WAITING: [WaitingSignal; MOST] = [const {
    WaitingSignal {
        number: AtomicI32::new(0),
        order: AtomicU64::new(0),
        // SAFETY: a `siginfo_t` has integers and addresses, for which zeros are valid.
        info: UnsafeCell::new(unsafe { core::mem::zeroed() }),
    }
}; MOST];

static TAKEN: AtomicU64 = AtomicU64::new(0);
static READY: AtomicU64 = AtomicU64::new(0);
static CAME: AtomicU64 = AtomicU64::new(0);

/// The places of these bits.
fn places(bits: u64) -> impl Iterator<Item = (u64, &'static WaitingSignal)> {
    let all = WAITING.iter().enumerate().map(|(index, place)| (1 << index, place));
    all.filter(move |(bit, _)| bits & bit != 0)
}

/// Holds back a signal; called by the handler alone. An ordinary signal does not queue. The signals
/// of timers count how often they came.
pub(crate) fn hold(info: &libc::siginfo_t) {
    let queues = info.si_signo >= FIRST_QUEUED || info.si_code == libc::SI_TIMER;
    let mut waiting = places(READY.load(Ordering::Acquire));
    if !queues && waiting.any(|(_, place)| place.number.load(Ordering::Relaxed) == info.si_signo) {
        return;
    }
    let free = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
    let Ok(before) = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, free) else { return };
    let place = &WAITING[before.trailing_ones() as usize];
    place.number.store(info.si_signo, Ordering::Relaxed);
    place.order.store(CAME.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    // SAFETY: this code has set the bit in `TAKEN`, so the place is its own until `READY`.
    unsafe { *place.info.get() = *info };
    READY.fetch_or(1 << before.trailing_ones(), Ordering::Release);
}

/// Whether a signal waits.
#[inline(always)]
pub(crate) fn any() -> bool {
    READY.load(Ordering::Relaxed) != 0
}

/// Takes the signal that has waited longest.
pub(crate) fn take() -> Option<libc::siginfo_t> {
    loop {
        let waiting = places(READY.load(Ordering::Acquire));
        let (bit, place) = waiting.min_by_key(|(_, place)| place.order.load(Ordering::Relaxed))?;
        if READY.fetch_and(!bit, Ordering::Acquire) & bit != 0 {
            // SAFETY: this code has cleared the bit in `READY`, so the place is its own now.
            let info = unsafe { *place.info.get() };
            TAKEN.fetch_and(!bit, Ordering::Release);
            return Some(info);
        }
    }
}

/// The numbers of the signals that wait, as bits.
pub(crate) fn bits() -> u64 {
    let numbers = places(READY.load(Ordering::Acquire));
    numbers.fold(0, |bits, (_, place)| bits | 1 << (place.number.load(Ordering::Relaxed) - 1))
}

/// Called in the child of a fork. The waiting signals were for the parent.
pub(crate) fn reset_after_fork() {
    READY.store(0, Ordering::Relaxed);
    TAKEN.store(0, Ordering::Relaxed);
}
