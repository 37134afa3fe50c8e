//! The common part of waits in all worlds: the end of a wait, and its causes.

use std::cell::Cell;
use std::time::Instant;

/// The most operations that a task may complete in one turn (`world/budget.rs`).
pub(crate) const BUDGET: u32 = 64;

thread_local! {
    static AMBIENT: Cell<Ambient> = const { Cell::new(Ambient::Never) };
}

/// The causes, besides the awaited event, that end the waits of the running task.
///
/// Both variants without data are niches of the nanoseconds. So a wait outside of all time limits
/// compares one word, like an `Option<Instant>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ambient {
    /// Nothing.
    Never,
    /// The time at which the innermost `time::timeout` gives up.
    Before(Instant),
    /// The waits are [gathered](crate::world::gather): each is noted, and returns `Pending` at
    /// once. The code that set this value waits for all noted waits.
    Gather,
}

const _: () = assert!(size_of::<Ambient>() == size_of::<Option<Instant>>());

impl From<Option<Instant>> for Ambient {
    #[inline]
    fn from(deadline: Option<Instant>) -> Self {
        deadline.map_or(Self::Never, Self::Before)
    }
}

/// The end of a wait.
pub(crate) enum Waited {
    /// Something may have changed, so attempt again. May be spurious.
    Again,
    /// Return `Pending`: in the suspend world the future will be polled again. In the other worlds
    /// the ambient deadline has passed.
    Pending,
}

/// The ends of the running task's waits.
#[inline]
pub(crate) fn ambient() -> Ambient {
    AMBIENT.get()
}

/// Sets the ends of the running task's waits, and returns the former ones. The park world saves
/// them across its switches.
#[inline]
pub(crate) fn set_ambient(ambient: Ambient) -> Ambient {
    AMBIENT.replace(ambient)
}

/// The ambient deadline of the running task. There is none while waits are gathered.
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

/// The earlier of two deadlines, or the shorter of two times. `None` means never.
#[inline]
pub(crate) fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
