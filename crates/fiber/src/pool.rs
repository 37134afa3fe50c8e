//! A pool of stacks of one size, last in, first out.
//!
//! The stack that was used last is the one whose pages and cache lines are warm: reusing it costs
//! tens of nanoseconds, where mapping, touching and unmapping a new one costs microseconds.

use std::io;

use crate::Stack;

/// Stacks of one size, kept for reuse.
pub struct StackPool {
    size: usize,
    spare: Vec<Stack>,
}

impl StackPool {
    /// A pool that makes stacks of `size` usable bytes; it starts empty.
    pub const fn new(size: usize) -> Self {
        Self { size, spare: Vec::new() }
    }

    /// A spare stack, or a new one.
    ///
    /// # Errors
    ///
    /// Those of [`Stack::new`].
    pub fn take(&mut self) -> io::Result<Stack> {
        match self.spare.pop() {
            Some(stack) => Ok(stack),
            None => Stack::new(self.size),
        }
    }

    /// Puts back a stack that [`take`](StackPool::take) gave out.
    pub fn put(&mut self, stack: Stack) {
        self.spare.push(stack);
    }
}
