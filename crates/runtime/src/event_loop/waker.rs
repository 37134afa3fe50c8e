//! The waker of a loop's task: its name in a word.
//!
//! ```text
//!   63        54 53                                                   0
//!   │ loop (10) │ the task's identity in its loop (54)                 │
//! ```
//!
//! There is nothing to count and nothing to free: making, cloning and dropping one costs nothing. On
//! the loop's own kernel thread a wake is a push to the loop's queue; from any other it goes through
//! the loop's [`remote`](super::remote) door. A wake for a task, or a loop, that is gone does nothing.

use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::remote;
use super::tasks::TaskId;
use crate::world;

const _: () = assert!(usize::BITS == 64, "a task's name needs a word of 64 bits");

/// A task of some loop of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskName(u64);

impl TaskName {
    pub(crate) const fn new(lane: u16, task: TaskId) -> Self {
        Self((lane as u64) << TaskId::BITS | task.bits())
    }

    pub(crate) const fn lane(self) -> u16 {
        (self.0 >> TaskId::BITS) as u16
    }

    pub(crate) const fn task(self) -> TaskId {
        TaskId::from_bits(self.0)
    }

    pub(crate) fn waker(self) -> Waker {
        // SAFETY: the functions of the table only ever read the data as an integer, on any thread; so
        // they uphold the contract of `RawWaker` for every value of it.
        unsafe { Waker::from_raw(raw(ptr::without_provenance(self.0 as usize))) }
    }

    /// The name of a task of the loop that this one, whose identity is 0, names a task of.
    #[inline]
    pub(crate) const fn of(self, task: TaskId) -> Self {
        Self(self.0 | task.bits())
    }

    /// The identity of this task if it is of the same loop as `first`, whose identity is 0.
    #[inline]
    pub(crate) fn beside(self, first: Self) -> Option<TaskId> {
        let own = self.0 ^ first.0;
        (own >> TaskId::BITS == 0).then(|| TaskId::from_bits(own))
    }

    fn wake(self) {
        world::with_loop(|core| match core {
            Some(core) => core.wake_named(self),
            None => remote::wake(self),
        });
    }
}

const fn raw(name: *const ()) -> RawWaker {
    RawWaker::new(name, &TABLE)
}

fn wake(name: *const ()) {
    TaskName(name.addr() as u64).wake();
}

static TABLE: RawWakerVTable = RawWakerVTable::new(raw, wake, wake, |_| {});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_packing() {
        for lane in [0, 1, 1023] {
            for bits in [0, 77, (1 << TaskId::BITS) - 1] {
                let name = TaskName::new(lane, TaskId::from_bits(bits));
                assert_eq!((name.lane(), name.task().bits()), (lane, bits));
            }
        }
    }
}
