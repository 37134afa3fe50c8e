//! What every wait shares, whatever the world: how it ends, and the ambient deadline.

use std::cell::Cell;
use std::time::Instant;

thread_local! {
    /// When the innermost `time::timeout` around the running task gives up.
    static AMBIENT_DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
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
