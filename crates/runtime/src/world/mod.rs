//! Worlds: what "wait" means on this kernel thread.
//!
//! Every blocking operation of this crate has the same shape, whatever the world: *attempt* it; when it
//! would block, *register* for what it waits for; *wait*; attempt it again. The worlds differ in the
//! wait, and only there:
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
//! A kernel thread is in the block world unless an [`EventLoop`](crate::event_loop::EventLoop) runs on
//! it. Block and park therefore never return `Pending`, with one exception that [`time::timeout`]
//! relies on: a wait that is cut short because the *ambient deadline* has passed returns `Pending`, in
//! every world, and the `timeout` that set the deadline sees it and drops the future. That is how
//! straight-line code that blocks a kernel thread can be cancelled like any other future.
//!
//! [`time::timeout`]: crate::time::timeout

pub mod block;
pub(crate) mod foreign;
pub(crate) mod park;
pub(crate) mod suspend;

use std::cell::Cell;
use std::ptr;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::event_loop::core::Core;
use crate::visibility::{Wait, seats};

thread_local! {
    /// The loop that runs on this kernel thread, null in the block world. A plain pointer, constant
    /// initialised: no destructor (a preloaded library could not have one), no lazy set-up.
    static LOOP: Cell<*const Core> = const { Cell::new(ptr::null()) };

    /// When the innermost `time::timeout` around the running task gives up.
    static AMBIENT_DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// What a wait came to.
pub(crate) enum Waited {
    /// Something may have changed: attempt again. May be spurious.
    Again,
    /// Return `Pending`: in the suspend world to be polled again, in the others because the ambient
    /// deadline has passed.
    Pending,
}

/// Calls `operation` with the loop of this kernel thread, or with `None` in the block world.
#[inline]
pub(crate) fn with_loop<R>(operation: impl FnOnce(Option<&Core>) -> R) -> R {
    // SAFETY: the operation is called now, and can keep no reference.
    operation(unsafe { this_loop() })
}

/// The loop of this kernel thread, or `None` in the block world: for what waits, which is to be a part of its callers
/// ([`park`] says why), as a closure may not be.
///
/// # Safety
///
/// The reference is used no longer than the call lasts within which it was made.
#[inline]
pub(crate) unsafe fn this_loop<'a>() -> Option<&'a Core> {
    // SAFETY: non-null only while `enter` is on the stack below us, which borrows the core.
    unsafe { LOOP.get().as_ref() }
}

/// Runs `body` with `core` as this kernel thread's loop (`None`: in the block world), then restores
/// what was there, even after a panic.
pub(crate) fn enter<R>(core: Option<&Core>, body: impl FnOnce() -> R) -> R {
    struct Restore(*const Core);
    impl Drop for Restore {
        fn drop(&mut self) {
            LOOP.set(self.0);
        }
    }
    let _seat = seats::sit();
    let _restore = Restore(LOOP.replace(core.map_or(ptr::null(), ptr::from_ref)));
    body()
}

/// The ambient deadline of the running task.
#[inline]
pub(crate) fn ambient_deadline() -> Option<Instant> {
    AMBIENT_DEADLINE.get()
}

/// Sets the ambient deadline and returns the one before. The park world saves it across its switches.
#[inline]
pub(crate) fn set_ambient_deadline(deadline: Option<Instant>) -> Option<Instant> {
    AMBIENT_DEADLINE.replace(deadline)
}

/// The earlier of two deadlines, where `None` means never.
#[inline]
pub(crate) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The present as this world sees it: a loop's clock is read once in each round.
#[inline]
pub(crate) fn now() -> Instant {
    with_loop(|core| core.map_or_else(Instant::now, Core::now))
}

/// Waits until `condition` is ready, where whoever makes it so wakes the waker it was given.
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
        // SAFETY: the reference ends with this call. `enter`, which lends the loop, is on the stack below the task until then.
        let waited = match unsafe { this_loop() } {
            None => {
                foreign::check(context, block::waker_here());
                let _seen = seats::waiting(wait);
                block::wait(deadline)
            }
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
