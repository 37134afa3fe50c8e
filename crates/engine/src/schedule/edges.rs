//! The state of a descriptor in one direction: the edges that have come, and the waiters.
//!
//! The engine counts edges, since another worker may take an edge between an attempt and the wait
//! that follows. A call says how many edges had been `seen` before its attempt. The call does not
//! park if more edges have come.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::kernel::assertions::check;
use crate::kernel::lock::{Held, Locked};
use crate::schedule::waiter::{Waiter, WaiterRef};

/// The waits of one direction.
pub(crate) struct Side {
    /// Twice the number of edges so far, plus one if an attempt has since shown that the next
    /// attempt would block.
    edges: AtomicU32,
    /// The first waiter. Changes under the lock.
    first: AtomicPtr<Waiter>,
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

    /// Notes that an edge has come.
    pub(crate) fn count(&self) {
        let counted = |edges: u32| Some((edges | 1).wrapping_add(1));
        let _always = self.edges.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted);
    }

    /// Notes that the next attempt would block, unless an edge has come.
    pub(crate) fn exhaust(&self, seen: Seen) {
        let expected = seen.0 << 1;
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let _unless_newer = self.edges.compare_exchange(expected, expected | 1, success, failure);
    }

    /// Whether there is a waiter. Without the lock, the answer may be out of date at once.
    #[inline(always)]
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.first.load(Ordering::Relaxed).is_null()
    }

    /// The first waiter. The waiter may have been woken and not yet have gone on.
    pub(crate) fn first(&self) -> Option<WaiterRef> {
        // SAFETY: waiters in the list are not given back, see `WaiterRef`.
        unsafe { self.first.load(Ordering::Relaxed).as_ref() }
    }

    /// The waiters, including woken waiters that have not yet gone on.
    pub(crate) fn iter(&self, held: Held<'_>) -> impl Iterator<Item = WaiterRef> {
        core::iter::successors(self.first(), move |waiter| waiter.next_waiter.get(held))
    }

    /// Adds a waiter.
    pub(crate) fn add(&self, locked: &mut Locked, waiter: WaiterRef) {
        let held = locked.held();
        check!(!self.has(held, waiter), "a waiter waits for a descriptor twice");
        waiter.next_waiter.set(held, None);
        match self.iter(held).last() {
            Some(last) => last.next_waiter.set(held, Some(waiter)),
            None => self.set_first(Some(waiter)),
        }
        check!(self.has(held, waiter), "a waiter is not in the list that it was put into");
    }

    /// Whether a waiter is in the list.
    fn has(&self, held: Held<'_>, waiter: WaiterRef) -> bool {
        self.iter(held).any(|other| other.is(waiter))
    }

    /// Takes a waiter out, if it is in the list.
    pub(crate) fn remove(&self, locked: &mut Locked, waiter: WaiterRef) {
        let held = locked.held();
        let next = waiter.next_waiter.get(held);
        let follows =
            |other: &WaiterRef| other.next_waiter.get(held).is_some_and(|is| is.is(waiter));
        if self.first().is_some_and(|first| first.is(waiter)) {
            self.set_first(next);
        } else if let Some(previous) = self.iter(held).find(follows) {
            previous.next_waiter.set(held, next);
        }
        check!(!self.has(held, waiter), "a waiter is in the list that it left");
    }

    /// Called in the child of a fork, where nothing waits.
    pub(crate) fn clear(&self) {
        self.set_first(None);
    }

    fn set_first(&self, waiter: Option<WaiterRef>) {
        let first = waiter.map_or(ptr::null_mut(), |waiter| ptr::from_ref(waiter).cast_mut());
        self.first.store(first, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(edges: u32) -> Side {
        Side { edges: AtomicU32::new(edges), first: AtomicPtr::new(ptr::null_mut()) }
    }

    #[test]
    fn an_edge_between_an_attempt_and_its_end_is_not_lost() {
        let side = side(0);
        let seen = side.seen();
        side.count();
        side.exhaust(seen);
        assert!(side.may_succeed(), "the edge came after the attempt began");
        assert!(side.seen() != seen);
    }

    #[test]
    fn an_attempt_without_an_edge_is_not_made_again_until_one_comes() {
        let side = side(0);
        side.exhaust(side.seen());
        assert!(!side.may_succeed());
        side.exhaust(side.seen());
        assert!(!side.may_succeed(), "to exhaust it twice is no edge");
        side.count();
        assert!(side.may_succeed());
    }

    #[test]
    fn the_count_of_edges_begins_anew_after_its_last() {
        let side = side(u32::MAX);
        let seen = side.seen();
        side.count();
        assert!(side.may_succeed() && side.seen() != seen && side.seen() == Seen(0));
    }
}
