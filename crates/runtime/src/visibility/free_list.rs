//! The free slots among a fixed number: a list without a lock (Treiber 1986), for threads and
//! processes.
//!
//! ```text
//!   head: [ changes │ 3 ] ─▶ below[2]: 1 ─▶ below[0]: 0    free: 2, 0, and all from `opened` on
//! ```
//!
//! The head has a count of its changes. A thread reads the head, and then the slot below the head.
//! The thread takes the slot only if no slot has been taken or given back in between (ABA). All
//! zeroes are a list in which all slots are free.

use self::shim::{AtomicU32, AtomicU64, Ordering};

#[cfg(all(test, loom))]
use loom::sync::atomic as shim;
#[cfg(not(all(test, loom)))]
use std::sync::atomic as shim;

#[repr(C)]
pub(super) struct FreeList<const COUNT: usize> {
    /// The first free slot, plus one, and above it the number of changes.
    head: AtomicU64,
    /// All slots that have ever been taken are below this number.
    opened: AtomicU32,
    /// For each free slot: the slot below it in the list, plus one. 0 ends the list.
    below: [AtomicU32; COUNT],
}

impl<const COUNT: usize> FreeList<COUNT> {
    /// Takes the free slot that was given back last. This thread sees the writes of the slot's last
    /// holder.
    pub(super) fn take(&self) -> Option<usize> {
        let mut head = self.head.load(Ordering::Acquire);
        while let Some(index) = (head as u32).checked_sub(1) {
            let next = after(head, self.below[index as usize].load(Ordering::Relaxed));
            let order = (Ordering::Acquire, Ordering::Acquire);
            match self.head.compare_exchange_weak(head, next, order.0, order.1) {
                Ok(_) => return Some(index as usize),
                Err(now) => head = now,
            }
        }
        let index = self.opened.fetch_add(1, Ordering::Relaxed) as usize;
        if index >= COUNT {
            self.opened.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(index)
    }

    /// Gives back a taken slot.
    pub(super) fn give_back(&self, index: usize) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            self.below[index].store(head as u32, Ordering::Relaxed);
            let next = after(head, index as u32 + 1);
            let order = (Ordering::Release, Ordering::Relaxed);
            match self.head.compare_exchange_weak(head, next, order.0, order.1) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// All slots that have ever been taken are below this number.
    pub(super) fn opened(&self) -> usize {
        COUNT.min(self.opened.load(Ordering::Relaxed) as usize)
    }
}

/// The head that follows `head` and names the slot `first`.
const fn after(head: u64, first: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | first as u64
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Slots, each with a cell that only its holder may touch. loom fails the model otherwise.
    struct World {
        free: FreeList<3>,
        contents: [UnsafeCell<u32>; 3],
    }

    // SAFETY: loom checks that only one thread at a time is at a cell.
    unsafe impl Sync for World {}
    // SAFETY: the list and the contents are numbers, which belong to no thread.
    unsafe impl Send for World {}

    impl World {
        fn take(&self) -> usize {
            let index = self.free.take().expect("there are slots for all");
            self.touch(index, |content| {
                assert_eq!(std::mem::replace(content, 1), 0, "it has a holder")
            });
            index
        }

        fn give_back(&self, index: usize) {
            self.touch(index, |content| *content = 0);
            self.free.give_back(index);
        }

        fn touch(&self, index: usize, touch: impl FnOnce(&mut u32)) {
            // SAFETY: no other thread is at the cell, or loom fails the model here.
            self.contents[index].with_mut(|content| touch(unsafe { &mut *content }));
        }
    }

    /// One thread takes a slot. Another takes two and gives the first of them back, which is then
    /// first again.
    #[test]
    fn loom_a_slot_has_one_holder() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let number = || AtomicU32::new(0);
            let free = FreeList {
                head: AtomicU64::new(0),
                opened: number(),
                below: std::array::from_fn(|_| number()),
            };
            let contents = std::array::from_fn(|_| UnsafeCell::new(0));
            let world = Arc::new(World { free, contents });
            let both = [world.take(), world.take()];
            both.into_iter().for_each(|index| world.give_back(index));
            let other = {
                let world = world.clone();
                thread::spawn(move || {
                    let (first, _second) = (world.take(), world.take());
                    world.give_back(first);
                })
            };
            world.take();
            other.join().unwrap();
            world.take();
        });
    }
}
