//! Worlds: what "wait" means on this kernel thread.
//!
//! Every blocking operation of this crate has the same shape, whatever the world: *attempt* it;
//! when it would block, *register* for what it waits for; *wait*; attempt it again. The worlds
//! differ in the wait, and only there:
//!
//! ```text
//!            attempt ──ok──▶ Ready
//!               ▲ │ would block
//!               │ ▼
//!               │ register (a poller, a queue of wakers)
//!               │ │
//!               │ ▼ wait
//!   block:  ◀── the kernel thread sleeps
//!   park:   ◀── another fiber runs on this kernel thread     (both: go round)
//!   suspend:    return Pending; the loop polls us again      (go round from the caller)
//! ```
//!
//! The block world is in [`block`]; park and suspend, which share the event loop, are in
//! `event_loop/park.rs`.
//!
//! A kernel thread is in the block world unless an [`EventLoop`](crate::event_loop::EventLoop) runs
//! on it. Block and park therefore never return `Pending`, with one exception that
//! [`time::timeout`] relies on: a wait that is cut short because the *ambient deadline* has passed
//! returns `Pending`, in every world, and the `timeout` that set the deadline sees it and drops the
//! future. So straight-line code that blocks a kernel thread can be cancelled like any other
//! future.
//!
//! [`time::timeout`]: crate::time::timeout

pub mod block;
pub(crate) mod foreign;

use std::task::{Context, Poll};
use std::time::Instant;

use crate::blocks;
use crate::event_loop::core::Core;
use crate::event_loop::current;
use crate::visibility::{Wait, thread_slots};
use crate::wait::Waited;

/// The present as this world sees it: a loop's clock is read once in each round.
#[inline]
pub(crate) fn now() -> Instant {
    current::with_loop(|core| core.map_or_else(Instant::now, Core::now))
}

/// Waits until `condition` is ready. What makes it ready wakes the waker that the condition was
/// given.
///
/// `deadline` ends the wait with `Ready(None)`; `wait` is what it is called in a dump.
pub(crate) fn wait_until<T>(
    context: &mut Context<'_>,
    wait: Wait,
    deadline: Option<Instant>,
    mut condition: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<Option<T>> {
    loop {
        if let Poll::Ready(value) = condition(context) {
            return Poll::Ready(Some(value));
        }
        if deadline.is_some_and(|deadline| now() >= deadline) {
            return Poll::Ready(None);
        }
        // SAFETY: the reference ends with this call. `enter`, which lends the loop, is on the stack
        // below the task until then.
        let waited = match unsafe { current::this_loop() } {
            None => blocks::running(|task| match task.filter(|task| task.reactor().is_some()) {
                Some(task) => task.wait(context, wait, deadline),
                None => {
                    foreign::check(context, block::waker_here());
                    let _seen = thread_slots::show_wait(wait);
                    block::wait(deadline)
                }
            }),
            Some(core) => {
                foreign::check(context, core.running_waker());
                core.set_wait(wait);
                core.wait(deadline)
            }
        };
        match waited {
            Waited::Again => {}
            Waited::Pending => return Poll::Pending,
        }
    }
}
