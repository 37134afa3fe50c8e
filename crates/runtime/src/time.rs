//! Time: sleeping, and giving up after a while.

pub use std::time::{Duration, Instant};

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use crate::visibility::Wait;
use crate::world;

/// Waits for at least `duration`.
pub async fn sleep(duration: Duration) {
    // A duration beyond what the clock can tell is for ever.
    match Instant::now().checked_add(duration) {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Waits until `deadline`, or not at all if it has passed.
pub async fn sleep_until(deadline: Instant) {
    poll_fn(|context| {
        world::wait_until(context, Wait::Time, Some(deadline), |_| Poll::<()>::Pending).map(|_| ())
    })
    .await;
}

/// Runs `future`, and drops it where it waits if it is not done when `limit` has passed.
///
/// This holds in every world, for what waits by this crate's operations: a kernel thread that blocks in
/// a read leaves it too. A task that computes without waiting is not interrupted.
///
/// # Errors
///
/// [`Elapsed`] when the limit passed first.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let deadline = Instant::now().checked_add(limit);
    let mut future = pin!(future);
    poll_fn(|context| poll_before(deadline, future.as_mut(), context)).await
}

/// The time limit of [`timeout`] passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the time limit passed")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for std::io::Error {
    fn from(_: Elapsed) -> Self {
        Self::new(std::io::ErrorKind::TimedOut, Elapsed)
    }
}

/// Polls with `deadline` as the ambient one; see [`world`](crate::world) for what that does.
fn poll_before<F: Future>(
    deadline: Option<Instant>,
    future: Pin<&mut F>,
    context: &mut Context<'_>,
) -> Poll<Result<F::Output, Elapsed>> {
    let outer = world::ambient_deadline();
    world::set_ambient_deadline(world::earlier(deadline, outer));
    let polled = future.poll(context);
    world::set_ambient_deadline(outer);
    match polled {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending if deadline.is_some_and(|deadline| world::now() >= deadline) => {
            Poll::Ready(Err(Elapsed))
        }
        Poll::Pending => Poll::Pending,
    }
}
