//! The requests of a connection of HTTP/2, run by the connection's own task.
//!
//! ```text
//!   the connection's task ─ polls ─┬─▶ hyper's connection ─ execute ─▶ Streams
//!                                  └─▶ Running: the requests under way ◀──┘
//! ```
//!
//! hyper hands each request to its executor as a future. A task for each would be a kernel thread
//! in the block world. Here all requests of a connection share its kernel thread: one runs at a
//! time, and others run while it waits.

use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use duality_runtime::task;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::rt::Executor;
use pin_project_lite::pin_project;

/// A request under way.
struct Request(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Future for Request {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // A panic ends its request only, as in a task of its own. The request is dropped.
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        polled.unwrap_or(Poll::Ready(()))
    }
}

/// The executor of a connection. hyper calls it only while the connection's task runs.
#[derive(Clone, Default)]
pub(crate) struct Streams(Arc<Mutex<Vec<Request>>>);

impl Streams {
    /// Runs `connection`, and beside it what it hands to this executor. What runs when the
    /// connection ends is dropped, as the request of a connection of HTTP/1 is.
    pub(crate) fn run<F: Future>(self, connection: F) -> impl Future<Output = F::Output> {
        task::gather(Alongside {
            connection,
            running: Running { begun: self, requests: FuturesUnordered::new() },
        })
    }

    fn take(&self) -> Vec<Request> {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, future: F) {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push(Request(Box::pin(future)));
    }
}

/// All requests under way.
struct Running {
    begun: Streams,
    requests: FuturesUnordered<Request>,
}

impl Running {
    /// Polls the requests that are new, or have been woken.
    fn poll(&mut self, context: &mut Context<'_>) {
        loop {
            self.requests.extend(self.begun.take());
            // A request that has ended may have handed over another future.
            if !matches!(self.requests.poll_next_unpin(context), Poll::Ready(Some(_))) {
                break;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Requests hold clones of the executor, which would keep each other.
        drop(self.begun.take());
    }
}

pin_project! {
    struct Alongside<F> {
        #[pin]
        connection: F,
        running: Running,
    }
}

impl<F: Future> Future for Alongside<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Poll::Ready(ended) = this.connection.poll(context) {
            return Poll::Ready(ended);
        }
        this.running.poll(context);
        Poll::Pending
    }
}
