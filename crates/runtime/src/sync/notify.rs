//! Notifies tasks of events.

use std::fmt;
use std::future::Future;
use std::mem;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

use super::wait_queue::{Position, WaitQueue, Wake, Want};
use crate::visibility::Wait;
use crate::visibility::graph;

/// Notifies waiting tasks of an event.
///
/// ```
/// # use duality_runtime as duality;
/// use std::sync::Arc;
///
/// use duality::sync::Notify;
/// use duality::{block_on, task};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let ready = Arc::new(Notify::new());
///     let told = ready.clone();
///     let task = task::spawn(async move { told.notified().await })?;
///     // A notification is kept for a task that waits later.
///     ready.notify_one();
///     task.await.expect("the task does not panic");
///     Ok(())
/// })
/// # }
/// ```
pub struct Notify {
    state: WaitQueue<State>,
    /// The number of notifications of all tasks, readable without the lock.
    broadcasts: AtomicU64,
}

impl fmt::Debug for Notify {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Notify").finish_non_exhaustive()
    }
}

struct State {
    /// There is a notification for the next task. Then no task waits.
    kept: bool,
    /// A copy of the outer `broadcasts`, for waiters. A waiter refers to this state alone, so that
    /// the waiter stays small.
    broadcasts: u64,
}

impl Notify {
    /// A new object without a notification.
    pub const fn new() -> Self {
        let state = State { kept: false, broadcasts: 0 };
        Self { state: WaitQueue::new(Wait::Notify, state), broadcasts: AtomicU64::new(0) }
    }

    /// Waits for a notification, or takes the stored one. A call before a notification of all tasks
    /// takes part in it, even before the first poll.
    #[track_caller]
    pub fn notified(&self) -> impl Future<Output = ()> + Send {
        graph::arrive("notify", Location::caller());
        // A task that sees the broadcast sees all stores before it.
        self.state.until(Notified { seen: self.broadcasts.load(Ordering::Acquire) })
    }

    /// Notifies one task: the task that has waited longest, or the next one to come. As long as no
    /// task comes, several notifications count as one. A notified task that gives up its wait
    /// passes the notification on.
    pub fn notify_one(&self) {
        self.state.change(|state, waited| ((), state.tell_one(waited)));
    }

    /// Notifies all tasks that wait now.
    pub fn notify_waiters(&self) {
        self.state.change(|state, _| {
            state.broadcasts += 1;
            self.broadcasts.store(state.broadcasts, Ordering::Release);
            ((), Wake::All)
        });
    }
}

impl State {
    fn tell_one(&mut self, waited: bool) -> Wake {
        self.kept |= !waited;
        Wake::One
    }
}

/// The wish for a notification.
struct Notified {
    /// The number of notifications of all tasks when this future was made.
    seen: u64,
}

impl Want<State> for Notified {
    type Gain = ();

    fn attempt(&mut self, state: &mut State, position: Position) -> Option<()> {
        let is_handed = position == Position::Handed
            || mem::take(&mut state.kept)
            || state.broadcasts != self.seen;
        is_handed.then_some(())
    }

    fn decline(&mut self, state: &mut State, waited: bool) -> Wake {
        state.tell_one(waited)
    }
}

impl Default for Notify {
    fn default() -> Self {
        Self::new()
    }
}
