//! Signals that the kernel delivered while the engine was executing: they wait until it can look at them.
//!
//! The list belongs to the process, since any worker may deal with a signal that the process received. The
//! handler runs with all signals blocked, and so does whatever else holds the list.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::kernel::sys::sys;
use crate::signals::disposition::FIRST_QUEUED;

/// Signals that can wait. More are lost, as ordinary signals are when one of their number waits already.
const MOST: usize = 128;

struct Held {
    busy: AtomicBool,
    count: AtomicUsize,
    list: UnsafeCell<[libc::siginfo_t; MOST]>,
}

// SAFETY: the list is reached by the one that has set `busy`.
unsafe impl Sync for Held {}

static HELD: Held = Held {
    busy: AtomicBool::new(false),
    count: AtomicUsize::new(0),
    // SAFETY: all zeros are a `siginfo_t`.
    list: UnsafeCell::new(unsafe { core::mem::zeroed() }),
};

fn with_list<T>(work: impl FnOnce(&mut [libc::siginfo_t; MOST]) -> T) -> T {
    while HELD.busy.swap(true, Ordering::Acquire) {
        core::hint::spin_loop();
    }
    // SAFETY: see `Held`.
    let result = work(unsafe { &mut *HELD.list.get() });
    HELD.busy.store(false, Ordering::Release);
    result
}

/// Holds back a signal; called by the handler alone. Returns `false` where that changes nothing, for ordinary signals do
/// not queue. Those of timers count how often they came.
pub(crate) fn hold(info: &libc::siginfo_t) -> bool {
    with_list(|list| {
        let count = HELD.count.load(Ordering::Relaxed);
        let queues = info.si_signo >= FIRST_QUEUED || info.si_code == libc::SI_TIMER;
        let known = !queues && list[..count].iter().any(|other| other.si_signo == info.si_signo);
        if known || count == MOST {
            return false;
        }
        list[count] = *info;
        HELD.count.store(count + 1, Ordering::Relaxed);
        true
    })
}

/// Whether a signal waits.
#[inline(always)]
pub(crate) fn any() -> bool {
    HELD.count.load(Ordering::Relaxed) != 0
}

/// Takes the signal that has waited longest.
pub(crate) fn take() -> Option<libc::siginfo_t> {
    if !any() {
        return None;
    }
    without_signals(|| {
        with_list(|list| {
            let count = HELD.count.load(Ordering::Relaxed);
            if count == 0 {
                return None;
            }
            let info = list[0];
            list.copy_within(1..count, 0);
            HELD.count.store(count - 1, Ordering::Relaxed);
            Some(info)
        })
    })
}

/// The numbers of the signals that wait, as bits.
pub(crate) fn bits() -> u64 {
    without_signals(|| {
        with_list(|list| {
            let count = HELD.count.load(Ordering::Relaxed);
            list[..count].iter().fold(0, |bits, info| bits | 1 << (info.si_signo - 1))
        })
    })
}

/// In the child of a fork: what waited was for the parent.
pub(crate) fn reset_after_fork() {
    HELD.busy.store(false, Ordering::Relaxed);
    HELD.count.store(0, Ordering::Relaxed);
}

/// Blocks every signal for this kernel thread meanwhile.
pub(crate) fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    let all = u64::MAX;
    let mut before = 0u64;
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, &raw mut before, 8);
    let result = work();
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const before, 0, 8);
    result
}
