//! The mode in which waits are gathered, and the notes of a wait in this mode. `world/gather.rs`
//! explains its purpose.

mod deadlines;
mod in_place;

use std::task::{Context, Poll};
use std::time::Duration;

pub(crate) use deadlines::{Deadlines, Key};
pub(crate) use in_place::{
    forget_descriptor, forget_drain, forget_time_in_place, move_time_in_place, note_descriptor,
    note_drain, note_time_in_place, wait_in_place,
};

use crate::wait::{Ambient, Waited, gathers, set_ambient};

/// The rounding of a task's one timer, in [`Timers`](duality_poller::Timers).
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Calls `poll` with waits gathered. The code that drives the task then waits for all noted waits.
/// So a method of another library's trait, such as `poll_read`, can be one attempt.
#[inline]
pub(crate) fn poll_gathering<T>(poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
    let _restore = Restore(set_ambient(Ambient::Gather));
    poll()
}

/// Restores the former ends of waits, even after a panic.
struct Restore(Ambient);

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        set_ambient(self.0);
    }
}

/// While waits are gathered: polls the future again after it has given up its turn, and not only
/// its task.
#[inline]
pub(crate) fn leave_turn(context: &Context<'_>) -> Waited {
    if gathers() {
        context.waker().wake_by_ref();
    }
    Waited::Pending
}
