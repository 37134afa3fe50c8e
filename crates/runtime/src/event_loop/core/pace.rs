//! The length of a round: how long a loop gives turns before it looks at its poller again.
//!
//! ```text
//!   a look at the poller          has a slice passed?            a look at the poller
//!   │ turn │ turn │ turn │ turn │ ▲ │ turn │ turn │ turn │ turn │ ▲ yes: the round ends │
//!   └───────── a stride ────────┘     └───────── a stride ────────┘
//! ```
//!
//! A look costs a system call, as much as a hundred switches between tasks that only wake one
//! another. A reading of the clock costs as much as seven. So the clock is read once in a stride.
//! A stride is as many turns as lately took a slice, and one turn if turns are long. So a busy task
//! holds up sockets and times for two slices, or for its own turn. A turn has a budget, too.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::threads;

/// The length of a round, if enough tasks become ready.
const SLICE: Duration = Duration::from_micros(25);

/// The length of a round while tasks that were ready at its beginning wait for their turns. They
/// have come before all tasks that a look at the poller could wake.
const LONG_SLICE: Duration = Duration::from_millis(1);

/// The most turns in a stride.
const MOST: usize = 256;

pub(super) struct Pace {
    /// After the turn with this number, all tasks that were ready at the round's beginning have had
    /// their turns.
    due: Cell<usize>,
    /// After the turn with this number, the stride is over.
    last: Cell<usize>,
    stride: Cell<usize>,
    /// Whether the round ends once nothing is due.
    is_ending: Cell<bool>,
    /// The machine's time at the beginning of the round and of the stride.
    round_began: Cell<Instant>,
    stride_began: Cell<Instant>,
}

impl Pace {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            due: Cell::new(0),
            last: Cell::new(0),
            stride: Cell::new(1),
            is_ending: Cell::new(false),
            round_began: Cell::new(now),
            stride_began: Cell::new(now),
        }
    }

    /// No task is left that could have a turn, after `taken` turns.
    #[inline]
    pub(super) fn run_dry(&self, taken: usize, now: Instant) {
        if now.saturating_duration_since(self.stride_began.get()) > SLICE {
            let left = self.last.get().wrapping_sub(taken);
            self.learn(self.stride.get().wrapping_sub(left), now);
        }
    }

    /// The loop has looked at its poller, at `now`.
    #[inline]
    pub(super) fn look(&self, now: Instant) {
        self.round_began.set(now);
        self.stride_began.set(now);
    }

    /// Begins a round after `taken` turns. `ready` tasks are ready.
    #[inline]
    pub(super) fn begin_round(&self, taken: usize, ready: usize) {
        self.due.set(taken.wrapping_add(ready));
        self.last.set(taken.wrapping_add(self.stride.get()));
        self.is_ending.set(false);
    }

    /// Begins a round of one turn, after `taken` turns.
    pub(super) fn begin_turn(&self, taken: usize) {
        self.due.set(taken.wrapping_add(1));
        self.last.set(taken.wrapping_add(1));
        self.is_ending.set(true);
    }

    /// Has the round end once nothing is due.
    #[inline]
    pub(super) fn end_round(&self) {
        self.is_ending.set(true);
        // The end of the stride finds out that the round is over.
        if is_before(self.due.get(), self.last.get()) {
            self.last.set(self.due.get());
        }
    }

    /// Whether the stride has a turn after `taken` turns.
    #[inline]
    pub(super) fn has_turn(&self, taken: usize) -> bool {
        is_before(taken, self.last.get())
    }

    /// Begins another stride after `taken` turns. False if the round is over.
    #[cold]
    pub(super) fn prolong(&self, taken: usize) -> bool {
        let is_due = is_before(taken, self.due.get());
        if self.is_ending.get() && !is_due {
            return false;
        }
        let now = threads::now();
        self.learn(self.stride.get(), now);
        let slice = if is_due { LONG_SLICE } else { SLICE };
        if now.saturating_duration_since(self.round_began.get()) >= slice {
            return false;
        }
        let end = taken.wrapping_add(self.stride.get());
        let ends_before = self.is_ending.get() && is_before(self.due.get(), end);
        self.last.set(if ends_before { self.due.get() } else { end });
        true
    }

    /// Chooses the next strides, since `turns` turns of one have ended at `now`.
    fn learn(&self, turns: usize, now: Instant) {
        let took = now.saturating_duration_since(self.stride_began.replace(now));
        let fitting = turns * SLICE.as_nanos() as usize / (took.as_nanos() as usize).max(1);
        self.stride.set(fitting.clamp(1, MOST.min(self.stride.get() * 2)));
    }
}

/// Whether one number of turns comes before another.
#[inline]
fn is_before(one: usize, other: usize) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}
