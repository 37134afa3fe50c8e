//! The clock of a loop, which a test may stop.
//!
//! A clock that stands moves only where nothing else can happen: no task is ready, no descriptor is
//! ready, and no [hold](Hold) exists. The clock then moves to the next deadline at once.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Instant;

use crate::threads;

pub(crate) struct Clock {
    time: Cell<Time>,
    shared: Arc<Shared>,
}

#[derive(Clone, Copy)]
enum Time {
    /// The machine's clock.
    Machines,
    /// When the machine's clock said `machine`, this one said `own`. It goes as fast.
    Goes { machine: Instant, own: Instant },
    /// Stands here.
    Stands(Instant),
}

#[derive(Default)]
struct Shared {
    holds: AtomicUsize,
    /// Whether the end of a hold must wake the loop.
    stands: AtomicBool,
}

impl Default for Clock {
    fn default() -> Self {
        Self { time: Cell::new(Time::Machines), shared: Arc::default() }
    }
}

impl Clock {
    /// The time of this clock, when the machine's clock says `machine`.
    #[inline]
    pub(crate) fn at(&self, machine: Instant) -> Instant {
        match self.time.get() {
            Time::Machines => machine,
            Time::Goes { machine: then, own } => own + machine.saturating_duration_since(then),
            Time::Stands(time) => time,
        }
    }

    /// The time now.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self.time.get() {
            Time::Stands(time) => time,
            _ => self.at(threads::now()),
        }
    }

    /// Has the clock stand at `time`, whatever it said before: a simulation moves it.
    pub(crate) fn stand_at(&self, time: Instant) {
        self.time.set(Time::Stands(time));
    }

    #[inline]
    pub(crate) fn stands(&self) -> bool {
        matches!(self.time.get(), Time::Stands(_))
    }

    /// Stops the clock. Returns where, or `None` if it stands already.
    pub(crate) fn stop(&self) -> Option<Instant> {
        if self.stands() {
            return None;
        }
        let own = self.at(threads::now());
        self.time.set(Time::Stands(own));
        self.shared.stands.store(true, Ordering::SeqCst);
        Some(own)
    }

    /// Has the clock go on from where it stands. False if it goes.
    pub(crate) fn go_on(&self) -> bool {
        let Time::Stands(own) = self.time.get() else { return false };
        self.time.set(Time::Goes { machine: threads::now(), own });
        self.shared.stands.store(false, Ordering::SeqCst);
        true
    }

    /// Moves a clock that stands to a later time. Returns the time where it stands afterwards, or
    /// `None` if it goes.
    pub(crate) fn move_on(&self, to: impl FnOnce(Instant) -> Instant) -> Option<Instant> {
        let Time::Stands(time) = self.time.get() else { return None };
        let moved = to(time).max(time);
        self.time.set(Time::Stands(moved));
        Some(moved)
    }

    /// Whether the clock may not move by itself.
    pub(crate) fn is_held(&self) -> bool {
        self.shared.holds.load(Ordering::SeqCst) > 0
    }

    /// Holds the time. `waker` is one of any task of the loop.
    pub(crate) fn hold(&self, waker: Waker) -> Hold {
        self.shared.holds.fetch_add(1, Ordering::SeqCst);
        Hold { shared: self.shared.clone(), waker }
    }
}

/// Keeps a clock that stands from moving by itself, until the hold is dropped, on any thread.
#[must_use]
pub struct Hold {
    shared: Arc<Shared>,
    waker: Waker,
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Hold").finish_non_exhaustive()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.shared.holds.fetch_sub(1, Ordering::SeqCst);
        if self.shared.stands.load(Ordering::SeqCst) {
            self.waker.wake_by_ref();
        }
    }
}
