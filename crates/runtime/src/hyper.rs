//! The runtime's side of hyper, in every world: a timer and an executor. hyper uses a
//! [`TcpStream`](crate::net::TcpStream) as its connection. This is the feature `hyper`.
//!
//! hyper waits for its client and for the application at once, so its waits are
//! [gathered](crate::task::gather). In hyper, a drain does not end a connection's input. Wait for
//! [`drained`](crate::drained), and have hyper end the connection (`graceful_shutdown`).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;

use crate::gather::poll_gathering;
use crate::task;
use crate::time::{clock, sleep_until};

/// hyper's timer, which uses the time of the world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

impl hyper::rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        // A duration beyond the range of the clock becomes some years.
        let now = clock::now();
        let deadline = now.checked_add(duration).unwrap_or(now + Duration::from_secs(1 << 30));
        self.sleep_until(deadline)
    }

    fn now(&self) -> Instant {
        clock::now()
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Slept { sleep: sleep_until(deadline) })
    }
}

pin_project! {
    /// A sleep that returns `Pending` in every world.
    struct Slept<F> {
        #[pin]
        sleep: F,
    }
}

impl<F: Future<Output = ()>> Future for Slept<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let sleep = self.project().sleep;
        poll_gathering(|| sleep.poll(context))
    }
}

impl<F: Future<Output = ()> + Send + Sync> hyper::rt::Sleep for Slept<F> {}

/// hyper's executor: each future becomes its own task, as by [`task::spawn`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Executor;

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        // Without room for a task, the future is dropped. hyper resets its stream.
        drop(task::spawn(future));
    }
}
