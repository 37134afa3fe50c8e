//! Gathered waits: one task waits for several things at once.
//!
//! A straight-line task waits for one thing at a time, within `poll` in the block and the park
//! world. While waits are *gathered*, each wait is noted and returns `Pending`, in every world. So
//! a combinator of any library may poll several futures. [`gather`] then waits once for all noted
//! waits:
//!
//! ```text
//!   gather(future) ──polls──▶ future ──polls──▶ read: would block: noted, Pending
//!        ▲  │                        ╰─polls──▶ sleep: noted, Pending
//!        │  ▼ all are pending
//!        │  wait:  block    one poll(2) over the noted descriptors and deadlines
//!        │         park     a switch; an event, a time or a waker wakes the task
//!        ╰──       suspend, reactor    Pending; they wake the task
//! ```
//!
//! The mode is an extreme ambient deadline, which has always passed. The code checks the mode where
//! it checks the deadline. So a wait outside [`gather`] has no additional cost.
//!
//! A combinator may poll a future with its own waker, and polls the future again only after this
//! waker is used. So each note keeps the waker with which it was made. Before that, a combinator
//! need not poll the future again. So a note stays until it comes true, or its future or socket is
//! dropped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use pin_project_lite::pin_project;

use super::Here;
use crate::gather::{
    Key, forget_time_in_place, move_time_in_place, note_time_in_place, poll_gathering,
    wait_in_place,
};
use crate::visibility::Wait;
use crate::wait::Waited;

/// Waits for everything that `future` waits for at once. So `future` may poll several futures, by a
/// combinator of any library: `FuturesUnordered`, `select`, `join_all`.
///
/// [`select!`](crate::select) and [`join!`](crate::join) use this function.
///
/// A single operation that is dropped before it is ready loses no data: a read that has not
/// returned has taken no bytes. `read_exact` is several operations.
///
/// ```
/// # use duality_runtime as duality;
/// use std::future::{Future, poll_fn};
/// use std::pin::pin;
/// use std::task::Poll;
/// use std::time::Duration;
///
/// use duality::{block_on, task, time::sleep};
///
/// block_on(task::gather(async {
///     let mut short = pin!(sleep(Duration::from_millis(1)));
///     let mut long = pin!(sleep(Duration::from_secs(3600)));
///     poll_fn(|context| match long.as_mut().poll(context) {
///         Poll::Pending => short.as_mut().poll(context),
///         ready => ready,
///     })
///     .await;
/// }));
/// ```
pub fn gather<F: Future>(future: F) -> impl Future<Output = F::Output> {
    Gather { future }
}

pin_project! {
    struct Gather<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Gather<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut future = self.project().future;
        loop {
            if let Poll::Ready(output) = poll_gathering(|| future.as_mut().poll(context)) {
                return Poll::Ready(output);
            }
            // SAFETY: the references end with this call.
            let here = unsafe { Here::find() };
            match here.wait_for_several() {
                Waited::Again => {}
                Waited::Pending => return Poll::Pending,
            }
        }
    }
}

/// Has the waker of `context` used at `deadline`.
#[cold]
pub(crate) fn note_time(key: Key, deadline: Instant, context: &Context<'_>) {
    // SAFETY: the references end with this call.
    match unsafe { Here::find() } {
        Here::Block => note_time_in_place(key, deadline, context),
        Here::Loop(core) => core.gathered.note_time(key, deadline, context.waker()),
        Here::Reactor(_, reactor) => reactor.note_time(key, deadline, context.waker()),
    }
}

/// Moves the deadline with this key, and keeps its waker. Returns whether there was one.
#[cold]
pub(crate) fn move_time(key: Key, deadline: Instant) -> bool {
    // SAFETY: the references end with this call.
    match unsafe { Here::find() } {
        Here::Block => move_time_in_place(key, deadline),
        Here::Loop(core) => core.gathered.move_time(key, deadline, core.now()),
        Here::Reactor(_, reactor) => reactor.move_time(key, deadline),
    }
}

/// Forgets the deadline with this key. If a task is dropped outside of its world, the deadline
/// stays, and wakes in vain.
#[cold]
pub(crate) fn forget_time(key: Key) {
    // SAFETY: the references end with this call.
    match unsafe { Here::find() } {
        Here::Block => forget_time_in_place(key),
        Here::Loop(core) => core.gathered.forget_time(key),
        Here::Reactor(_, reactor) => reactor.forget_time(key),
    }
}

impl Here<'_> {
    /// Waits for all noted waits.
    #[inline]
    fn wait_for_several(self) -> Waited {
        match self {
            Self::Block => wait_in_place(crate::wait::ambient()),
            Self::Loop(core) => {
                core.set_wait(Wait::Several);
                core.wait(None)
            }
            Self::Reactor(task, _) => {
                task.set_wait(Wait::Several);
                Waited::Pending
            }
        }
    }
}
