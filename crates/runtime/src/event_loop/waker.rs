//! The waker of a loop's task: its name in a word.
//!
//! ```text
//!   63        54 53                          26 25                     0
//!   │ loop (10) │ serial of the task (28)      │ slot of the task (26) │
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
pub(crate) struct TaskName {
    pub(crate) lane: u16,
    pub(crate) task: TaskId,
}

impl TaskName {
    const LOOP_SHIFT: u32 = TaskId::SLOT_BITS + TaskId::SERIAL_BITS;

    pub(crate) fn pack(self) -> usize {
        (usize::from(self.lane) << Self::LOOP_SHIFT)
            | ((self.task.serial as usize) << TaskId::SLOT_BITS)
            | self.task.slot as usize
    }

    pub(crate) fn unpack(word: usize) -> Self {
        let slot = (word & ((1 << TaskId::SLOT_BITS) - 1)) as u32;
        let serial = ((word >> TaskId::SLOT_BITS) & ((1 << TaskId::SERIAL_BITS) - 1)) as u32;
        Self { lane: (word >> Self::LOOP_SHIFT) as u16, task: TaskId { slot, serial } }
    }

    pub(crate) fn waker(self) -> Waker {
        // SAFETY: the functions of the table only ever read the data as an integer, on any thread; so
        // they uphold the contract of `RawWaker` for every value of it.
        unsafe { Waker::from_raw(raw(self.pack())) }
    }

    fn wake(self) {
        let local = world::with_loop(|core| {
            core.filter(|core| core.lane() == self.lane).map(|core| core.wake(self.task))
        });
        if local.is_none() {
            remote::wake(self);
        }
    }
}

const fn raw(word: usize) -> RawWaker {
    RawWaker::new(ptr::without_provenance(word), &TABLE)
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |data| raw(data.addr()),
    |data| TaskName::unpack(data.addr()).wake(),
    |data| TaskName::unpack(data.addr()).wake(),
    |_| {},
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_packing() {
        for lane in [0, 1, 1023] {
            for slot in [0, 77, (1 << TaskId::SLOT_BITS) - 1] {
                for serial in [0, 5, (1 << TaskId::SERIAL_BITS) - 1] {
                    let name = TaskName { lane, task: TaskId { slot, serial } };
                    assert_eq!(TaskName::unpack(name.pack()), name);
                }
            }
        }
    }
}
