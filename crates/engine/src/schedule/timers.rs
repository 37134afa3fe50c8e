//! Deadlines of parked threads: a binary heap in which every thread knows its place.
//!
//! `duality-poller` has a timing wheel with O(1) operations. It rounds up to a millisecond, and a
//! program that sleeps for 50 microseconds here would natively wake after 50; so deadlines are
//! exact here, and cost O(log n) for threads that wait with one.

use alloc::vec::Vec;

use crate::kernel::clock::Nanoseconds;

/// What a heap can hold.
pub(crate) trait Timed: Copy {
    /// When it is due.
    fn deadline(self) -> Nanoseconds;
    /// Its place in the heap; `None` outside.
    fn place(self) -> Option<usize>;
    /// Tells it its place.
    fn moved(self, place: Option<usize>);
}

/// The heap.
pub(crate) struct Timers<T> {
    heap: Vec<T>,
}

impl<T: Timed> Timers<T> {
    pub(crate) const fn new() -> Self {
        Self { heap: Vec::new() }
    }

    pub(crate) fn next(&self) -> Option<Nanoseconds> {
        self.heap.first().map(|timed| timed.deadline())
    }

    pub(crate) fn add(&mut self, timed: T) {
        self.heap.push(timed);
        self.up(self.heap.len() - 1);
    }

    pub(crate) fn remove(&mut self, timed: T) {
        let Some(place) = timed.place() else { return };
        timed.moved(None);
        let last = self.heap.pop().expect("a heap that holds it");
        if place < self.heap.len() {
            self.heap[place] = last;
            self.up(place);
            self.down(last.place().expect("just placed"));
        }
    }

    /// Takes out one that is due at `now`.
    pub(crate) fn expired(&mut self, now: Nanoseconds) -> Option<T> {
        let first = *self.heap.first()?;
        if first.deadline() > now {
            return None;
        }
        self.remove(first);
        Some(first)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        for timed in self.heap.drain(..) {
            timed.moved(None);
        }
    }

    fn up(&mut self, mut place: usize) {
        let timed = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].deadline() <= timed.deadline() {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, timed);
    }

    fn down(&mut self, mut place: usize) {
        let timed = self.heap[place];
        loop {
            let left = 2 * place + 1;
            let Some(mut child) = self.heap.get(left).copied() else { break };
            let mut at = left;
            if let Some(&right) = self.heap.get(left + 1)
                && right.deadline() < child.deadline()
            {
                (child, at) = (right, left + 1);
            }
            if timed.deadline() <= child.deadline() {
                break;
            }
            self.put(place, child);
            place = at;
        }
        self.put(place, timed);
    }

    fn put(&mut self, place: usize, timed: T) {
        self.heap[place] = timed;
        timed.moved(Some(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    struct Item(u64, Cell<Option<usize>>);

    impl Timed for &Item {
        fn deadline(self) -> u64 {
            self.0
        }
        fn place(self) -> Option<usize> {
            self.1.get()
        }
        fn moved(self, place: Option<usize>) {
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
            items.iter().for_each(|item| timers.add(item));
            for &index in &removed {
                if let Some(item) = items.get(index) {
                    timers.remove(item);
                }
            }
            let mut expected: Vec<u64> = (0..items.len())
                .filter(|index| !removed.contains(index)).map(|index| deadlines[index]).collect();
            expected.sort_unstable();
            let mut seen = Vec::new();
            for now in 0..50 {
                while let Some(item) = timers.expired(now) {
                    assert_eq!(item.0, now);
                    seen.push(item.0);
                }
            }
            assert_eq!(seen, expected);
            assert_eq!(timers.next(), None);
        }
    }
}
