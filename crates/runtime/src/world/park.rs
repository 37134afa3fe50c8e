//! The park world: a wait switches to another stack.
//!
//! A task is a fiber: a user-level thread. Its future is polled once, on the fiber's stack, and never
//! returns `Pending`, because each wait within it leaves the stack and comes back.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Instant;

use duality_fiber::{Fiber, Stack};

use super::{Waited, ambient_deadline, set_ambient_deadline};
use crate::world;

/// The fiber that runs `future` on `stack`; `waker` wakes the task that the fiber becomes.
pub(crate) fn fiber(
    stack: Stack,
    waker: Waker,
    future: impl Future<Output = ()> + 'static,
) -> Fiber {
    Fiber::with(stack, future, move |mut future| {
        let mut context = Context::from_waker(&waker);
        // `Pending` comes only from a future of somebody else's, which will use the waker.
        while future.as_mut().poll(&mut context).is_pending() {
            leave();
        }
    })
}

/// Switches to the loop and comes back for the task's next turn; in between maybe only to say where it is.
///
/// Part of its callers, like those of its callers that can be: between a switch and the next one of this thread, a
/// return from a function that was called before the first is one that the processor predicts wrongly.
#[inline(always)]
fn leave() {
    loop {
        duality_fiber::suspend();
        if !world::with_loop(|core| core.is_some_and(|core| core.sight.has_walked())) {
            return;
        }
    }
}

/// Switches to the loop, which comes back when the task has been woken.
#[inline(always)]
pub(crate) fn wait() -> Waited {
    if let Some(deadline) = ambient_deadline() {
        return wait_before(deadline);
    }
    leave();
    Waited::Again
}

/// The same under an ambient deadline: other tasks run on this kernel thread in between, each with its own, and who
/// leaves with one leaves none behind.
#[cold]
fn wait_before(deadline: Instant) -> Waited {
    set_ambient_deadline(None);
    leave();
    set_ambient_deadline(Some(deadline));
    if world::now() >= deadline { Waited::Pending } else { Waited::Again }
}
