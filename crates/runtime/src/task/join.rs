//! The end of a spawned task, and the handle that waits for it.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;

use crate::join_cell::{Completer, Joiner};
use crate::visibility::Wait;
use crate::visibility::graph::{self, Trace};
use crate::wait::{Ambient, set_ambient};
use crate::world;

/// A task that was spawned; awaiting it gives what the task returned. Dropping it lets the task run
/// on. A task that is to be ended from outside is spawned as [`abortable`](super::abortable), or in
/// a [`JoinSet`](super::JoinSet).
///
/// ```
/// # use duality_runtime as duality;
/// use duality::{block_on, task};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let task = task::spawn(async { assert_eq!(1 + 1, 3, "a sum") })?;
///     let error = task.await.unwrap_err();
///     assert!(error.is_panic());
///     assert!(error.to_string().contains("a sum"));
///     Ok(())
/// })
/// # }
/// ```
pub struct JoinHandle<T> {
    joiner: Joiner<Result<T, JoinError>, Waker>,
}

impl<T> JoinHandle<T> {
    pub(super) fn new(joiner: Joiner<Result<T, JoinError>, Waker>) -> Self {
        Self { joiner }
    }

    /// The outcome, if the task has ended. A later await would have none.
    pub(super) fn outcome(&mut self) -> Option<Result<T, JoinError>> {
        self.joiner.is_complete().then(|| self.joiner.poll(|| Waker::noop().clone())).flatten()
    }

    /// Whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.joiner.is_complete()
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("JoinHandle")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

/// The task ended without a result. It panicked, or it was *cancelled*: aborted, or dropped with
/// its loop.
///
/// Two errors are equal if both are panics, or if both are not.
pub struct JoinError {
    /// What the task panicked with. `None` if it was cancelled.
    panic: Option<Box<Payload>>,
}

/// The lock only makes it `Sync`.
struct Payload(Mutex<Box<dyn Any + Send>>);

impl JoinError {
    pub(super) const CANCELLED: Self = Self { panic: None };

    #[cold]
    fn panicked(payload: Box<dyn Any + Send>) -> Self {
        // Of a time limit or a gathered wait that the panic has left.
        set_ambient(Ambient::Never);
        Self { panic: Some(Box::new(Payload(Mutex::new(payload)))) }
    }

    /// Whether the task panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        self.panic.is_some()
    }

    /// Whether the task was aborted, or dropped before it ended.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.panic.is_none()
    }

    /// What the task panicked with, for [`resume_unwind`](std::panic::resume_unwind).
    ///
    /// # Panics
    ///
    /// If the task was cancelled.
    #[must_use]
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        self.try_into_panic().expect("the task has not panicked: ask is_panic first")
    }

    /// What the task panicked with.
    ///
    /// # Errors
    ///
    /// This error, if the task was cancelled.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.panic {
            Some(payload) => Ok(payload.0.into_inner().unwrap_or_else(PoisonError::into_inner)),
            None => Err(self),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "JoinError({self})")
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(payload) = &self.panic else {
            return formatter.write_str("the task was cancelled before it ended");
        };
        let payload = payload.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = payload.downcast_ref::<&str>().copied();
        match text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)) {
            Some(text) => write!(formatter, "the task panicked: {text}"),
            None => formatter.write_str("the task panicked"),
        }
    }
}

impl PartialEq for JoinError {
    fn eq(&self, other: &Self) -> bool {
        self.is_panic() == other.is_panic()
    }
}

impl Eq for JoinError {}

impl std::error::Error for JoinError {}

impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> Self {
        Self::other(error)
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { joiner } = self.get_mut();
        graph::arrive_again("join", Location::caller());
        let outcome = world::wait_until(context, Wait::Join, None, |context| {
            let waker = || context.waker().clone();
            let outcome = joiner.poll(waker);
            outcome.map_or(Poll::Pending, Poll::Ready)
        });
        outcome.map(|outcome| {
            graph::depart();
            outcome.expect("without a deadline it waits until there is an outcome")
        })
    }
}

pin_project! {
    /// The future that runs as a task. Written by hand: an `async` block would store the future
    /// twice, as captured and as awaited.
    pub(super) struct Spawned<F: Future> {
        #[pin]
        pub(super) future: F,
        pub(super) finish: Finish<F::Output>,
        pub(super) trace: Option<Box<Trace>>,
    }
}

impl<F: Future> Future for Spawned<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let turn = graph::run(this.trace);
        let future = this.future;
        match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => {
                if let Some(turn) = turn {
                    turn.ends();
                }
                this.finish.outcome = Ok(output);
            }
            Err(payload) => this.finish.outcome = Err(JoinError::panicked(payload)),
        }
        Poll::Ready(())
    }
}

/// The task's end of its handle. A drop reports the outcome of the task, which is an error unless
/// the task ended.
pub(super) struct Finish<T> {
    completer: Completer<Result<T, JoinError>, Waker>,
    outcome: Result<T, JoinError>,
}

impl<T> Finish<T> {
    pub(super) fn new(completer: Completer<Result<T, JoinError>, Waker>) -> Self {
        Self { completer, outcome: Err(JoinError::CANCELLED) }
    }
}

impl<T> Drop for Finish<T> {
    fn drop(&mut self) {
        let outcome = mem::replace(&mut self.outcome, Err(JoinError::CANCELLED));
        if let Ok(Some(waiter)) = self.completer.complete(outcome) {
            waiter.wake();
        }
    }
}
