//! One value, once, from one task to another.

use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::join_cell::{Completer, Joiner, join_cell};
use crate::visibility::Wait;
use crate::visibility::graph;
use crate::world;

/// A channel for one value.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::sync::oneshot;
/// use duality::{block_on, task};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let (sender, receiver) = oneshot::channel();
///     task::spawn(async move { sender.send(7).expect("the receiver waits") })?;
///     assert_eq!(receiver.await, Ok(7));
///     Ok(())
/// })
/// # }
/// ```
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (completer, joiner) = join_cell();
    (Sender { completer: Some(completer) }, Receiver { joiner })
}

/// The end that the value goes in at. Its drop tells the receiver that no value will come.
pub struct Sender<T> {
    /// `None` after the value was sent.
    completer: Option<Completer<Result<T, Closed>, Waker>>,
}

/// The end that the value comes out of: a future, which may be polled again until it is ready.
pub struct Receiver<T> {
    joiner: Joiner<Result<T, Closed>, Waker>,
}

/// The sender was dropped without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the sender was dropped without a value")
    }
}

impl std::error::Error for Closed {}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T> Sender<T> {
    /// Sends the value.
    ///
    /// # Errors
    ///
    /// The value, when the receiver is gone.
    pub fn send(mut self, value: T) -> Result<(), T> {
        self.complete(Ok(value)).map_err(|unsent| unsent.unwrap_or_else(|_| unreachable!()))
    }

    /// Whether the receiver is gone, so that work for it can be spared.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.completer.as_ref().is_none_or(Completer::is_abandoned)
    }

    fn complete(&mut self, outcome: Result<T, Closed>) -> Result<(), Result<T, Closed>> {
        let Some(mut completer) = self.completer.take() else { return Ok(()) };
        if let Some(waiter) = completer.complete(outcome)? {
            waiter.wake();
        }
        Ok(())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // The receiver may be gone, too.
        let _ = self.complete(Err(Closed));
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Closed>;

    /// # Panics
    ///
    /// When it has been ready before.
    #[track_caller]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { joiner } = self.get_mut();
        graph::arrive_again("receive", Location::caller());
        let received = world::wait_until(context, Wait::Receive, None, |context| {
            let waker = || context.waker().clone();
            joiner.poll(waker).map_or(Poll::Pending, Poll::Ready)
        });
        received.map(|received| {
            graph::depart();
            received.expect("without a deadline it waits until there is an outcome")
        })
    }
}
