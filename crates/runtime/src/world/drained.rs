//! Waiting for the drain, for code that acts at a drain.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Here;
use crate::drain::requested;
use crate::gather::{Key, forget_drain, note_drain};

/// Waits until this process, or the [`Scope`](crate::drain::Scope) of this kernel thread, is asked
/// to drain.
///
/// A straight-line service does not need this, because the drain ends its input. Use it in tasks
/// that wait for other events, or that use the poll-style methods of a stream.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::time::{Duration, sleep};
/// use duality::{block_on, drained};
///
/// # fn main() {
/// block_on(async {
///     duality::select! {
///         () = drained() => println!("no more of this"),
///         () = sleep(Duration::from_millis(1)) => println!("a piece of work"),
///     }
/// });
/// # }
/// ```
pub fn drained() -> impl Future<Output = ()> + Send {
    Drained { is_noted: false }
}

struct Drained {
    is_noted: bool,
}

impl Drained {
    /// The key is the address: the future is pinned while it is polled.
    fn key(&self) -> Key {
        Key::Future(std::ptr::from_ref(self).addr())
    }
}

impl Future for Drained {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if requested() {
            return Poll::Ready(());
        }
        self.is_noted = true;
        // SAFETY: the references end with this call.
        match unsafe { Here::find() } {
            Here::Block => note_drain(self.key(), context),
            Here::Loop(core) => core.gathered.note_drain(self.key(), context.waker()),
            Here::Reactor(_, reactor) => {
                if !reactor.note_drain(self.key(), context.waker()) {
                    return Poll::Ready(());
                }
            }
        }
        Poll::Pending
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        if !self.is_noted {
            return;
        }
        // SAFETY: the references end with this call.
        match unsafe { Here::find() } {
            Here::Block => forget_drain(self.key()),
            Here::Loop(core) => core.gathered.forget_drain(self.key()),
            Here::Reactor(_, reactor) => reactor.forget_drain(self.key()),
        }
    }
}
