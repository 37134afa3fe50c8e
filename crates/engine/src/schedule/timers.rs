//! Deadlines of parked threads: a binary heap in which every thread knows its place.
//!
//! `duality-poller` has a timing wheel with O(1) operations, which rounds up to a millisecond. A
//! program that sleeps for 50 microseconds natively wakes after 50. So deadlines are exact here,
//! and cost O(log n) for threads that wait with one.

use alloc::vec::Vec;

use crate::kernel::assertions::{LONGEST_WALK, check};
use crate::kernel::clock::Nanoseconds;

/// An item of a heap.
pub(crate) trait Timed: Copy {
    /// The proof that access to the item's fields requires.
    type Right<'a>: Copy;
    /// The deadline of the item.
    fn deadline(self, right: Self::Right<'_>) -> Nanoseconds;
    /// The item's place in the heap. `None` if it is not in the heap.
    fn place(self, right: Self::Right<'_>) -> Option<usize>;
    /// Sets the item's place.
    fn moved(self, right: Self::Right<'_>, place: Option<usize>);
}

/// The heap.
pub(crate) struct Timers<T> {
    heap: Vec<T>,
}

impl<T: Timed> Timers<T> {
    pub(crate) const fn new() -> Self {
        Self { heap: Vec::new() }
    }

    pub(crate) fn next(&self, right: T::Right<'_>) -> Option<Nanoseconds> {
        self.heap.first().map(|timed| timed.deadline(right))
    }

    pub(crate) fn add(&mut self, right: T::Right<'_>, timed: T) {
        assert!(timed.place(right).is_none(), "an item has two deadlines");
        self.heap.push(timed);
        self.up(right, self.heap.len() - 1);
        check!(self.is_ordered(right), "the deadlines are out of order after one came");
    }

    pub(crate) fn remove(&mut self, right: T::Right<'_>, timed: T) {
        let Some(place) = timed.place(right) else { return };
        assert!(self.heap[place].place(right) == Some(place), "a deadline is in another place");
        timed.moved(right, None);
        let last = self.heap.pop().expect("a heap that holds it");
        if place < self.heap.len() {
            self.heap[place] = last;
            self.up(right, place);
            self.down(right, last.place(right).expect("just placed"));
        }
        check!(self.is_ordered(right), "the deadlines are out of order after one went");
    }

    /// No item is due before the one above it, and each knows its place.
    fn is_ordered(&self, right: T::Right<'_>) -> bool {
        self.heap.iter().take(LONGEST_WALK).enumerate().all(|(place, timed)| {
            let above = self.heap[place.saturating_sub(1) / 2];
            timed.place(right) == Some(place) && above.deadline(right) <= timed.deadline(right)
        })
    }

    /// Takes out an item that is due at `now`.
    pub(crate) fn expired(&mut self, right: T::Right<'_>, now: Nanoseconds) -> Option<T> {
        let first = *self.heap.first()?;
        if first.deadline(right) > now {
            return None;
        }
        assert!(first.place(right) == Some(0), "the first deadline is in another place");
        self.remove(right, first);
        assert!(first.place(right).is_none(), "a deadline that passed is still awaited");
        Some(first)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, right: T::Right<'_>) {
        for timed in self.heap.drain(..) {
            timed.moved(right, None);
        }
    }

    fn up(&mut self, right: T::Right<'_>, mut place: usize) {
        let timed = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].deadline(right) <= timed.deadline(right) {
                break;
            }
            self.put(right, place, self.heap[parent]);
            place = parent;
        }
        self.put(right, place, timed);
    }

    fn down(&mut self, right: T::Right<'_>, mut place: usize) {
        let timed = self.heap[place];
        loop {
            let left = 2 * place + 1;
            let Some(mut child) = self.heap.get(left).copied() else { break };
            let mut at = left;
            if let Some(&sibling) = self.heap.get(left + 1)
                && sibling.deadline(right) < child.deadline(right)
            {
                (child, at) = (sibling, left + 1);
            }
            if timed.deadline(right) <= child.deadline(right) {
                break;
            }
            self.put(right, place, child);
            place = at;
        }
        self.put(right, place, timed);
    }

    fn put(&mut self, right: T::Right<'_>, place: usize, timed: T) {
        self.heap[place] = timed;
        timed.moved(right, Some(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    struct Item(u64, Cell<Option<usize>>);

    impl Timed for &Item {
        type Right<'a> = ();

        fn deadline(self, (): ()) -> u64 {
            self.0
        }
        fn place(self, (): ()) -> Option<usize> {
            self.1.get()
        }
        fn moved(self, (): (), place: Option<usize>) {
            self.1.set(place);
        }
    }

    proptest::proptest! {
        #[test]
        fn they_expire_in_order_and_removed_ones_never(
            deadlines in proptest::collection::vec(1u64..50, 0..40),
            removed in proptest::collection::vec(0usize..40, 0..20),
        ) {
            let items: Vec<Item> = deadlines.iter().map(|&at| Item(at, Cell::new(None))).collect();
            let mut timers = Timers::new();
            items.iter().for_each(|item| timers.add((), item));
            for &index in &removed {
                if let Some(item) = items.get(index) {
                    timers.remove((), item);
                }
            }
            let mut expected: Vec<u64> = (0..items.len())
                .filter(|index| !removed.contains(index)).map(|index| deadlines[index]).collect();
            expected.sort_unstable();
            let mut seen = Vec::new();
            for now in 0..50 {
                while let Some(item) = timers.expired((), now) {
                    assert_eq!(item.0, now);
                    seen.push(item.0);
                }
            }
            assert_eq!(seen, expected);
            assert_eq!(timers.next(()), None);
        }
    }
}
