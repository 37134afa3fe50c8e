//! Futures that another executor polls, on a thread that runs neither a loop nor `block_on`. Such a
//! thread cannot wait for a descriptor or a time, so the entered runtime waits and wakes it.
//!
//! ```text
//!   futures::executor::block_on ──▶ poll ─ would wait ─▶ a task of the entered runtime ─▶ waker
//! ```

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use duality_poller::Direction;
use duality_runtime::net::SharedDescriptor;
use duality_runtime::time::Alarm;
use real::time::Instant;

use crate::join::JoinHandle;
use crate::scheduler::{Handle, context};

/// The runtime that must wait for the calling code. `None` if the calling code can wait, or if no
/// runtime is entered.
fn helper() -> Option<Handle> {
    match context::is_inside() {
        true => None,
        false => context::try_current().ok(),
    }
}

/// Returns `polled`. If it is pending, has the task woken once the descriptor is ready, by a
/// duplicate of the descriptor.
#[inline]
pub(crate) fn helped<T>(
    descriptor: impl AsFd,
    context: &Context<'_>,
    direction: Direction,
    polled: Poll<io::Result<T>>,
) -> Poll<io::Result<T>> {
    if polled.is_pending()
        && let Some(runtime) = helper()
    {
        let duplicate = descriptor.as_fd().try_clone_to_owned()?;
        let duplicate = SharedDescriptor::of_nonblocking(duplicate);
        let waker = context.waker().clone();
        runtime.spawn(async move {
            let _ = poll_fn(|context| duplicate.poll_ready(context, direction)).await;
            waker.wake();
        });
    }
    polled
}

/// A sleep that a runtime waits for.
#[derive(Debug, Default)]
pub(crate) struct Sleeping(Option<JoinHandle<()>>);

impl Sleeping {
    /// Forgets the sleep, since its time has changed.
    pub(crate) fn stop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }

    /// Waits until `deadline`. `None` if the calling code can wait by itself.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, until: Instant) -> Option<Poll<()>> {
        if self.0.is_none() {
            self.0 = Some(helper()?.spawn(Alarm::new(Some(until.into_std()))));
        }
        let task = Pin::new(self.0.as_mut()?);
        let ended = match task.poll(context) {
            Poll::Pending => return Some(Poll::Pending),
            Poll::Ready(ended) => ended,
        };
        self.0 = None;
        // A runtime that has ended waits for nothing.
        ended.is_ok().then_some(Poll::Ready(()))
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        self.stop();
    }
}
