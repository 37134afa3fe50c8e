//! The common part of waits in all worlds: how a wait ends, and what else ends it.

use std::cell::Cell;
use std::time::Instant;

thread_local! {
    static AMBIENT: Cell<Ambient> = const { Cell::new(Ambient::Never) };
}

/// What ends the waits of the running task, besides what they wait for.
///
/// Both variants without data are niches of the nanoseconds. So a wait outside all time limits
/// compares one word, as it would with an `Option<Instant>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ambient {
    /// Nothing.
    Never,
    /// The time at which the innermost `time::timeout` gives up.
    Before(Instant),
    /// The waits are [gathered](crate::world::gather): each notes what it waits for, and returns
    /// `Pending` at once. The code that set this waits for all that was noted.
    Gather,
}

const _: () = assert!(size_of::<Ambient>() == size_of::<Option<Instant>>());

impl From<Option<Instant>> for Ambient {
    #[inline]
    fn from(deadline: Option<Instant>) -> Self {
        deadline.map_or(Self::Never, Self::Before)
    }
}

/// How a wait ended.
pub(crate) enum Waited {
    /// Something may have changed: attempt again. May be spurious.
    Again,
    /// Return `Pending`: in the suspend world to be polled again, in the others because the ambient
    /// deadline has passed.
    Pending,
}

/// What ends the waits of the running task.
#[inline]
pub(crate) fn ambient() -> Ambient {
    AMBIENT.get()
}

/// Sets what ends the waits of the running task, and returns what did before. The park world saves
/// it across its switches.
#[inline]
pub(crate) fn set_ambient(ambient: Ambient) -> Ambient {
    AMBIENT.replace(ambient)
}

/// The ambient deadline of the running task. There is none where waits are gathered.
#[inline]
pub(crate) fn ambient_deadline() -> Option<Instant> {
    match AMBIENT.get() {
        Ambient::Before(deadline) => Some(deadline),
        Ambient::Never | Ambient::Gather => None,
    }
}

/// Whether the waits of the running task are gathered.
#[inline]
pub(crate) fn gathers() -> bool {
    AMBIENT.get() == Ambient::Gather
}

/// The earlier of two deadlines, or the shorter of two times, where `None` means never.
#[inline]
pub(crate) fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
