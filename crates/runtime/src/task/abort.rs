//! Ending a task from outside.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::Notify;

/// Makes `future` one that [`AbortHandle::abort`] ends. Its output is then [`Aborted`].
///
/// An aborted future is dropped where it waits. It ends at its next wait if it is not waiting. A
/// task that computes without waiting is not interrupted, and neither is work that it has
/// [offloaded](super::offload).
///
/// ```
/// # use duality_runtime as duality;
/// use duality::task::{Aborted, abortable};
/// use duality::time::{Duration, sleep};
/// use duality::{block_on, task};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let (hour, handle) = abortable(sleep(Duration::from_secs(3600)));
///     let task = task::spawn(hour)?;
///     handle.abort();
///     assert_eq!(task.await, Ok(Err(Aborted)));
///     Ok(())
/// })
/// # }
/// ```
///
/// The waits of such a future are [gathered](super::gather), because the order to end is one more
/// thing to wait for. A task that is not `abortable` need not pay for that: a kernel thread waits
/// in the plain system call.
pub fn abortable<F: Future>(
    future: F,
) -> (impl Future<Output = Result<F::Output, Aborted>>, AbortHandle) {
    let order = Arc::new(Order { is_given: AtomicBool::new(false), told: Notify::new() });
    let handle = AbortHandle { order: order.clone() };
    let abortable = async move {
        crate::select! {
            () = order.told.notified() => Err(Aborted),
            output = future => Ok(output),
        }
    };
    (abortable, handle)
}

/// Ends the future that it was made with. The future goes on if this is dropped.
#[derive(Clone)]
pub struct AbortHandle {
    order: Arc<Order>,
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AbortHandle").field("is_aborted", &self.is_aborted()).finish()
    }
}

struct Order {
    is_given: AtomicBool,
    told: Notify,
}

/// The future was ended by [`AbortHandle::abort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted;

impl fmt::Display for Aborted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the task was aborted")
    }
}

impl std::error::Error for Aborted {}

impl AbortHandle {
    /// Ends the future at its present or next wait. A future that has ended keeps its output.
    pub fn abort(&self) {
        self.order.is_given.store(true, Ordering::Release);
        self.order.told.notify_one();
    }

    /// Whether [`abort`](AbortHandle::abort) was called.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.order.is_given.load(Ordering::Acquire)
    }
}
