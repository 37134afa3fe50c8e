//! The park world: a wait switches to another stack.
//!
//! A task is a fiber: a user-level thread. Its future is polled once, on the fiber's stack, and never
//! returns `Pending`, because each wait within it leaves the stack and comes back.

use std::future::Future;
use std::task::{Context, Waker};

use duality_fiber::{Fiber, Stack};

use super::{Waited, ambient_deadline, set_ambient_deadline};
use crate::event_loop::core::Core;
use crate::world;

/// The fiber that runs `future` on `stack`; `waker` wakes the task that the fiber becomes.
pub(crate) fn fiber(
    stack: Stack,
    waker: Waker,
    future: impl Future<Output = ()> + 'static,
) -> Fiber {
    Fiber::with(stack, future, move |mut future| {
        set_ambient_deadline(None);
        let mut context = Context::from_waker(&waker);
        // `Pending` comes only from a future of somebody else's, which will use the waker.
        while future.as_mut().poll(&mut context).is_pending() {
            world::with_loop(|core| leave(core.expect("a fiber runs on a loop")));
        }
    })
}

/// Switches to the loop and comes back for the task's next turn; in between maybe only to say where it is.
#[inline]
fn leave(core: &Core) {
    loop {
        duality_fiber::suspend();
        if !core.sight.has_walked() {
            return;
        }
    }
}

/// Switches to the loop, which comes back when the task has been woken.
#[inline]
pub(crate) fn wait(core: &Core) -> Waited {
    let ambient = ambient_deadline();
    leave(core);
    // Other tasks have run on this kernel thread in between, each with its own deadline.
    set_ambient_deadline(ambient);
    match ambient {
        Some(deadline) if core.now() >= deadline => Waited::Pending,
        _ => Waited::Again,
    }
}
