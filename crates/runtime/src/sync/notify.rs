//! Telling tasks that something has happened.

use std::future::Future;

use super::queue::{Waiting, Wake};
use crate::visibility::Wait;

/// Tells waiting tasks that something has happened.
pub struct Notify {
    state: Waiting<State>,
}

struct State {
    /// A notification that found nobody waiting, kept for the next who waits.
    stored: bool,
    /// How often everybody has been notified.
    broadcasts: u64,
}

impl Notify {
    /// With nothing to tell yet.
    pub const fn new() -> Self {
        Self { state: Waiting::new(Wait::Notify, State { stored: false, broadcasts: 0 }) }
    }

    /// Waits for a notification, or takes the one that is stored. When all are told, whoever has called this is
    /// among them, also before the first poll.
    pub fn notified(&self) -> impl Future<Output = ()> + Send {
        let seen = self.state.change(|state| (state.broadcasts, Wake::Nobody));
        self.state.until(move |state| {
            let told = std::mem::take(&mut state.stored) || state.broadcasts != seen;
            told.then_some(())
        })
    }

    /// Tells one task: the one that has waited longest, or the next to come.
    pub fn notify_one(&self) {
        self.state.change(|state| {
            state.stored = true;
            ((), Wake::One)
        });
    }

    /// Tells all tasks that wait now.
    pub fn notify_waiters(&self) {
        self.state.change(|state| {
            state.broadcasts += 1;
            ((), Wake::All)
        });
    }
}

impl Default for Notify {
    fn default() -> Self {
        Self::new()
    }
}
