//! The waker of a loop's task: the task's name in a word.
//!
//! There is nothing to count and nothing to free, so making, cloning and dropping a waker cost
//! nothing. On the loop's own kernel thread, a wake is a push to the loop's queue. On any other
//! thread, the wake goes through the loop's inbox ([`remote`]). A wake for a task or a loop that no
//! longer exists does nothing.

use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::current;
use crate::remote::{self, TaskName};

/// The waker of the task with this name. Without a name, a waker that does nothing.
#[inline]
pub(crate) fn of(name: Option<TaskName>) -> Waker {
    let bits = name.map_or(0, TaskName::bits);
    // SAFETY: the functions of the table only ever read the data as an integer, on any thread. So
    // they uphold the contract of `RawWaker` for all data.
    unsafe { Waker::from_raw(raw(ptr::without_provenance(bits as usize))) }
}

const fn raw(name: *const ()) -> RawWaker {
    RawWaker::new(name, &TABLE)
}

fn wake(name: *const ()) {
    if let Some(name) = TaskName::from_bits(name.addr() as u64) {
        current::with_loop(|core| match core {
            Some(core) => core.wake_wherever(name),
            None => remote::wake(name),
        });
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(raw, wake, wake, |_| {});
