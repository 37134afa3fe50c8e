//! The mode in which waits are gathered, and what a wait notes in it. `world/gather.rs` says what
//! it is for.

mod deadlines;
mod in_place;

use std::task::{Context, Poll};
use std::time::Duration;

pub(crate) use deadlines::{Deadlines, Key};
pub(crate) use in_place::{
    forget_descriptor, forget_drain, forget_time_in_place, note_descriptor, note_drain,
    note_time_in_place, wait_in_place,
};

use crate::wait::{Ambient, Waited, gathers, set_ambient};

/// The rounding of a task's one timer, in [`Timers`](duality_poller::Timers).
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Calls `poll` with waits gathered. The code that drives the task waits for what was noted. So a
/// method such as `poll_read` of another library's trait is one attempt by this.
#[inline]
pub(crate) fn poll_gathering<T>(poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
    let _restore = Restore(set_ambient(Ambient::Gather));
    poll()
}

/// Restores what ended waits before, also after a panic.
struct Restore(Ambient);

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        set_ambient(self.0);
    }
}

/// Where waits are gathered: has the future polled again that gives up its turn, and not only its
/// task.
#[inline]
pub(crate) fn leave_turn(context: &Context<'_>) -> Waited {
    if gathers() {
        context.waker().wake_by_ref();
    }
    Waited::Pending
}
