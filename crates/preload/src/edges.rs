//! What is known of a descriptor in one direction: the edges that have come, and who waits.
//!
//! Edges are counted, since another worker may take one between an attempt and the wait that follows it: a
//! call says how many had been `seen` before its attempt, and does not park if there are more.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::lock::Locked;
use crate::waiter::WaiterRef;

/// Waits of one direction.
pub(crate) struct Side {
    /// Twice the number of edges so far; one more if an attempt has shown since that the next would block.
    edges: AtomicU32,
    pub(crate) first: Cell<Option<WaiterRef>>,
}

/// The edges that had come before an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen(pub(crate) u32);

impl Side {
    pub(crate) fn may_succeed(&self) -> bool {
        self.edges.load(Ordering::Relaxed) & 1 == 0
    }

    pub(crate) fn seen(&self) -> Seen {
        Seen(self.edges.load(Ordering::Relaxed) >> 1)
    }

    /// An edge has come.
    pub(crate) fn count(&self) {
        let counted = |edges: u32| Some((edges | 1).wrapping_add(1));
        let _always = self.edges.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted);
    }

    /// The next attempt would block, unless there has been an edge.
    pub(crate) fn exhaust(&self, seen: Seen) {
        let expected = seen.0 << 1;
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let _unless_newer = self.edges.compare_exchange(expected, expected | 1, success, failure);
    }

    /// Those that wait.
    pub(crate) fn iter(&self) -> impl Iterator<Item = WaiterRef> {
        core::iter::successors(self.first.get(), |waiter| waiter.next_waiter.get())
    }

    /// Adds a waiter.
    pub(crate) fn add(&self, _: &mut Locked, waiter: WaiterRef) {
        waiter.next_waiter.set(None);
        let mut place = &self.first;
        while let Some(other) = place.get() {
            place = &other.next_waiter;
        }
        place.set(Some(waiter));
    }

    /// Takes a waiter out, if it is one of them.
    pub(crate) fn remove(&self, _: &mut Locked, waiter: WaiterRef) {
        let mut place = &self.first;
        while let Some(other) = place.get() {
            if other.is(waiter) {
                place.set(waiter.next_waiter.get());
                return;
            }
            place = &other.next_waiter;
        }
    }
}
