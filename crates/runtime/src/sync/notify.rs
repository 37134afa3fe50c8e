//! Telling tasks that something has happened.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use super::queue::{Waiting, Wake};
use crate::visibility::Wait;

/// Tells waiting tasks that something has happened.
pub struct Notify {
    state: Waiting<State>,
    /// How often everybody has been notified, to be known without the lock.
    broadcasts: AtomicU64,
}

struct State {
    /// Notifications that nobody has come for yet: those who were woken, or the next to wait.
    kept: usize,
    /// The same as outside, for those that wait: they know of nothing but this state, and a waiter's size counts.
    broadcasts: u64,
}

impl Notify {
    /// With nothing to tell yet.
    pub const fn new() -> Self {
        let state = State { kept: 0, broadcasts: 0 };
        Self { state: Waiting::new(Wait::Notify, state), broadcasts: AtomicU64::new(0) }
    }

    /// Waits for a notification, or takes the one that is kept. When all are told, whoever has called this is
    /// among them, also before the first poll.
    pub fn notified(&self) -> impl Future<Output = ()> + Send {
        // Whoever sees that all have been told sees what was done before.
        let seen = self.broadcasts.load(Ordering::Acquire);
        self.state.until(move |state| {
            if state.kept > 0 {
                state.kept -= 1;
                return Some(());
            }
            (state.broadcasts != seen).then_some(())
        })
    }

    /// Tells one task: the one that has waited longest, or the next to come. As long as nobody comes, once is as good as
    /// many times.
    pub fn notify_one(&self) {
        self.state.change_knowing(|state, waited| {
            // Whom this wakes has one of its own, whether those before have come for theirs or not.
            state.kept = if waited { state.kept + 1 } else { state.kept.max(1) };
            ((), Wake::One)
        });
    }

    /// Tells all tasks that wait now.
    pub fn notify_waiters(&self) {
        self.state.change(|state| {
            state.broadcasts += 1;
            self.broadcasts.store(state.broadcasts, Ordering::Release);
            ((), Wake::All)
        });
    }
}

impl Default for Notify {
    fn default() -> Self {
        Self::new()
    }
}
