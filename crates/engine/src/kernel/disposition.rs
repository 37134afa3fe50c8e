//! The properties of a signal by its number, and the program's action for the signal.

use crate::kernel::info::queued;
use crate::kernel::plain::Plain;
use crate::kernel::sys::sys;

/// The signals of the engine: ticks, and interruptions of helpers. The program can use both signals
/// too.
pub(crate) const TICK_SIGNAL: i32 = 62;
pub(crate) const HELPER_SIGNAL: i32 = 61;

/// The first signal that waits in a queue. Two earlier real-time signals are libc's own and do not
/// queue.
pub(crate) const FIRST_QUEUED: i32 = 34;

pub(crate) const SA_ONSTACK: u64 = libc::SA_ONSTACK as u32 as u64;
pub(crate) const SA_RESTORER: u64 = 0x0400_0000;
pub(crate) const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;

/// The value in the signal of a tick.
pub(crate) const TICK_VALUE: usize = 0x6475_616c_7469_636b;
/// The value in a signal that is meant for a helper.
pub(crate) const HELPER_VALUE: usize = 0x6475_616c_6865_6c70;

/// The value in a signal that makes a worker look for new work.
pub(crate) const NUDGE_VALUE: usize = 0x6475_616c_6e75_6467;
/// The value in the signal that ends a thread's moment without signals (`signals/flood.rs`).
pub(crate) const RECALL_VALUE: usize = 0x6475_616c_7265_6361;

/// Sends a signal with a value to a kernel thread of this process.
pub(crate) fn send(kernel_thread: i32, number: i32, value: usize) {
    let info = queued(number, value);
    let process = sys!(SYS_getpid);
    sys!(SYS_rt_tgsigqueueinfo, process, kernel_thread, number, &info);
}

/// The kernel's `struct sigaction`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Action {
    pub(crate) handler: u64,
    pub(crate) flags: u64,
    pub(crate) restorer: u64,
    pub(crate) mask: u64,
}

impl Action {
    pub(crate) const DEFAULT: Self = Self { handler: SIG_DFL, flags: 0, restorer: 0, mask: 0 };

    pub(crate) fn has(&self, flag: i32) -> bool {
        self.flags & u64::from(flag as u32) != 0
    }

    pub(crate) fn runs(&self) -> bool {
        self.handler > SIG_IGN
    }

    pub(crate) fn ignores(&self, number: i32) -> bool {
        let by_default =
            matches!(number, libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT);
        self.handler == SIG_IGN || (self.handler == SIG_DFL && by_default)
    }
}

// SAFETY: an action has four integers and no padding, so any bytes are one.
unsafe impl Plain for Action {}

/// A signal in a set of signals.
pub(crate) const fn bit(number: i32) -> u64 {
    1 << (number - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_a_bit_of_its_own() {
        let all = (1..=64).map(bit).fold(0, |all, bit| {
            assert_eq!(all & bit, 0);
            all | bit
        });
        assert_eq!(all, u64::MAX);
    }

    #[test]
    fn what_is_ignored_follows_from_handler_and_number() {
        let handled = |handler| Action { handler, ..Action::DEFAULT };
        for (handler, number, ignores, runs) in [
            (SIG_DFL, libc::SIGCHLD, true, false),
            (SIG_DFL, libc::SIGWINCH, true, false),
            (SIG_DFL, libc::SIGTERM, false, false),
            (SIG_IGN, libc::SIGTERM, true, false),
            (0x40_1000, libc::SIGCHLD, false, true),
        ] {
            let action = handled(handler);
            assert_eq!((action.ignores(number), action.runs()), (ignores, runs), "{number}");
        }
        let restarts = Action { flags: libc::SA_RESTART as u64, ..Action::DEFAULT };
        assert!(restarts.has(libc::SA_RESTART) && !restarts.has(libc::SA_SIGINFO));
    }
}
