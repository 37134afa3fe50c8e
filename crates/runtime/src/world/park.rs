//! The park world: a wait switches to another stack.
//!
//! A task is a fiber: a user-level thread. Its future is polled once, on the fiber's stack, and never
//! returns `Pending`, because each wait within it leaves the stack and comes back.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Instant;

use duality_fiber::{Fiber, Stack};

use super::{Waited, set_ambient_deadline};
use crate::event_loop::core::Core;
use crate::world;

/// The fiber that runs the future that `make` makes on `stack`; `waker` wakes the task that the fiber becomes.
#[inline(always)]
pub(crate) fn fiber<F: Future<Output = ()> + 'static>(
    stack: Stack,
    waker: Waker,
    make: impl FnOnce() -> F,
) -> Fiber {
    Fiber::with(stack, make, move |mut future| {
        let mut context = Context::from_waker(&waker);
        // `Pending` comes only from a future of somebody else's, which will use the waker.
        while future.as_mut().poll(&mut context).is_pending() {
            // SAFETY: the reference ends with this call. The loop that has given this fiber a turn lives until the fiber has
            // ended or is dropped, and a drop unwinds from here without another look at the loop.
            leave(unsafe { world::this_loop() }.expect("a fiber is run by a loop"));
        }
    })
}

/// Leaves the running task for the next one, or the loop, and comes back for the task's next turn.
///
/// Part of its callers, as [`suspend_for`](duality_fiber::suspend_for) is.
#[inline(always)]
fn leave(core: &Core) {
    // SAFETY: a fiber that is given a turn is suspended, or had its turn until now; and it stays in its control block
    // until the turn ends.
    unsafe { duality_fiber::suspend_for(|| core.next_fiber()) };
}

/// Leaves the running task, whose ambient deadline this is, until it has been woken.
#[inline(always)]
pub(crate) fn wait(core: &Core, ambient: Option<Instant>) -> Waited {
    if let Some(deadline) = ambient {
        return wait_before(core, deadline);
    }
    leave(core);
    Waited::Again
}

/// The same under an ambient deadline: other tasks run on this kernel thread in between, each with its own, and who
/// leaves with one leaves none behind.
#[cold]
fn wait_before(core: &Core, deadline: Instant) -> Waited {
    set_ambient_deadline(None);
    leave(core);
    set_ambient_deadline(Some(deadline));
    if world::now() >= deadline { Waited::Pending } else { Waited::Again }
}
