//! The common part of waits in all worlds: how a wait ends, and the ambient deadline.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

thread_local! {
    /// When the innermost `time::timeout` around the running task gives up.
    static AMBIENT_DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Lets go a wait in [`thread::park`].
    static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
}

/// Wakes a kernel thread that waits in [`thread::park`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Calls `operation` with the waker of what waits in place: this kernel thread, in
/// [`thread::park`].
pub(crate) fn with_waker_of_this_thread<R>(operation: impl FnOnce(&Waker) -> R) -> R {
    WAKER.with(operation)
}

/// How a wait ended.
pub(crate) enum Waited {
    /// Something may have changed: attempt again. May be spurious.
    Again,
    /// Return `Pending`: in the suspend world to be polled again, in the others because the ambient
    /// deadline has passed.
    Pending,
}

/// The ambient deadline of the running task.
#[inline]
pub(crate) fn ambient_deadline() -> Option<Instant> {
    AMBIENT_DEADLINE.get()
}

/// Sets the ambient deadline and returns the one before. The park world saves it across its
/// switches.
#[inline]
pub(crate) fn set_ambient_deadline(deadline: Option<Instant>) -> Option<Instant> {
    AMBIENT_DEADLINE.replace(deadline)
}

/// The earlier of two deadlines, or the shorter of two times, where `None` means never.
#[inline]
pub(crate) fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
