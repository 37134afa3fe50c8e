//! The numbers of tasks.

use std::cell::Cell;
use std::fmt;
use std::num::NonZeroU64;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::watchdog;

/// The number of a task, which no other task of the process has.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(NonZeroU64);

impl Id {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(NonZeroU64::new(number).expect("2^64 tasks take longer than the process lives"))
    }

    /// Makes this the number of the running task, until the result is dropped.
    pub(super) fn enter(self) -> Running {
        Running(RUNNING.replace(Some(self)))
    }

    /// Like [`enter`](Self::enter), for a task that has its turn. The watchdog may name the place
    /// that spawned it.
    pub(super) fn enter_from(self, spawned: &'static Location<'static>) -> Turn {
        let shown = watchdog::show(self.0.get(), Some(spawned));
        Turn { _running: self.enter(), shown }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

thread_local! {
    static RUNNING: Cell<Option<Id>> = const { Cell::new(None) };
}

/// Restores the number of the task that ran before.
pub(super) struct Running(Option<Id>);

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// Ends the turn of a task.
pub(super) struct Turn {
    _running: Running,
    /// The task and its place that were shown before.
    shown: (u64, Option<&'static Location<'static>>),
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (task, spawned) = self.shown;
        watchdog::show(task, spawned);
    }
}

/// The number of the running task.
///
/// # Panics
///
/// Outside of a task, as in the future of `block_on`.
#[track_caller]
pub fn id() -> Id {
    try_id().expect("Can't get a task id when not inside a task")
}

/// The number of the running task, if a task runs.
#[must_use]
pub fn try_id() -> Option<Id> {
    RUNNING.get()
}
