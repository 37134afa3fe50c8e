//! The spare buffers of a loop's connections, or of a kernel thread that runs blocks. A connection
//! takes one for its bytes, and gives it back when they are used.
//!
//! A micro-optimisation, of memory more than of time. An idle connection has no buffer, and all
//! connections of a thread read into the one that is still in a cache. Taking and giving back a
//! buffer are a few pairs of moves, without a lock, because the buffers are the thread's own.
//! Without spare buffers, each would be a call of malloc(3) or free(3). In the block world no
//! buffer is given back: each task is a kernel thread there, and keeps its buffers. In the reactor
//! world the next block of a task may run on another thread, and gives the buffer back there.
//!
//! | gain | measured by | delete it if it gains less than |
//! | --- | --- | --- |
//! | 4.9 % [1.6 to 8.3] of a request of http on epoll at 100 connections, 3.0 % [−0.3 to 6.3] on uthreads; at 1,000 it is within the noise | `duality compare http -a epoll,uthreads -c 100,1000 --binary …` | 1 % of a request |

use std::cell::RefCell;
use std::mem;

use super::current;
use crate::blocks::{self, TaskState};

/// The number of free blocks of a kind that a loop keeps. If many connections are within a request,
/// more blocks are in use.
const KEPT: usize = 64;
/// The longest block that a loop keeps, in bytes.
const LONGEST: usize = 32 << 10;

/// The purpose of memory.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// All bytes of the memory have been written once.
    Reading,
    /// The memory is empty, and has a capacity.
    Writing,
}

/// The spare blocks of one loop, or of one kernel thread of the reactor world.
#[derive(Default)]
pub(crate) struct Spare {
    reading: RefCell<Vec<Vec<u8>>>,
    writing: RefCell<Vec<Vec<u8>>>,
}

thread_local! {
    /// The spare blocks of a kernel thread that has no loop.
    static OF_THREAD: Spare = const { Spare::new() };
}

impl Spare {
    const fn new() -> Self {
        Self { reading: RefCell::new(Vec::new()), writing: RefCell::new(Vec::new()) }
    }

    fn take(&self, purpose: Purpose) -> Option<Vec<u8>> {
        self.of(purpose).borrow_mut().pop()
    }

    fn keep(&self, purpose: Purpose, block: Vec<u8>) {
        let mut kept = self.of(purpose).borrow_mut();
        if kept.len() < KEPT && block.capacity() <= LONGEST {
            kept.push(block);
        }
    }

    fn of(&self, purpose: Purpose) -> &RefCell<Vec<Vec<u8>>> {
        match purpose {
            Purpose::Reading => &self.reading,
            Purpose::Writing => &self.writing,
        }
    }
}

/// Gives `bytes`, which has no memory, the buffer that was given back last, if any.
#[inline]
pub(crate) fn borrow(purpose: Purpose, bytes: &mut Vec<u8>) {
    current::with_loop(|core| {
        let spare = match core {
            Some(core) => core.spare.take(purpose),
            None if in_reactor_world() => OF_THREAD.with(|spare| spare.take(purpose)),
            None => None,
        };
        if let Some(spare) = spare {
            *bytes = spare;
        }
    });
}

/// Takes the memory of `bytes`. The content is no longer needed. Does nothing where waits hold
/// the kernel thread.
#[inline]
pub(crate) fn give_back(purpose: Purpose, bytes: &mut Vec<u8>) {
    if bytes.capacity() == 0 {
        return;
    }
    current::with_loop(|core| match core {
        Some(core) => core.spare.keep(purpose, mem::take(bytes)),
        None if in_reactor_world() => {
            OF_THREAD.with(|spare| spare.keep(purpose, mem::take(bytes)));
        }
        None => {}
    });
}

/// Whether the task that runs on this kernel thread suspends, and is of no loop.
fn in_reactor_world() -> bool {
    blocks::running(|task: Option<&TaskState>| task.is_some_and(|task| task.reactor().is_some()))
}
