//! One stack: a part of a slab, whose lowest page is a guard.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

use corosensei::stack::{Stack as RawStack, StackPointer};

use crate::StackPool;
use crate::slab::Slab;

/// A stack for a [`Fiber`](crate::Fiber), with a guard page below it.
///
/// Dropping it returns its memory to the kernel; [`StackPool::put`] keeps it for another fiber.
pub struct Stack {
    base: NonZeroUsize,
    slab: Arc<Slab>,
}

impl Stack {
    /// Maps a stack of at least `size` usable bytes, alone in a slab. Many of them come from a
    /// [`StackPool`].
    ///
    /// # Errors
    ///
    /// Those of [`StackPool::take`].
    pub fn new(size: usize) -> io::Result<Self> {
        StackPool::new(size).take_alone()
    }

    /// The stack of a slab that was taken from it under `index`.
    pub(crate) fn new_in(slab: &Arc<Slab>, index: usize) -> Self {
        Self { base: slab.top(index), slab: slab.clone() }
    }

    /// Returns the memory of this stack, which no fiber has, to the kernel.
    pub(crate) fn forget_contents(&mut self) {
        self.slab.forget_contents(self.index());
    }

    fn index(&self) -> usize {
        self.slab.index_of(self.base.get() - 1)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // No fiber runs on it any more: a fiber owns its stack and ends before it drops it.
        self.slab.give_back(self.index());
    }
}

// SAFETY: a slab gives a stack to one owner at a time. Below it is an inaccessible page, and it is
// itself at least a page long (4,096 bytes, corosensei's MIN_STACK_SIZE), readable and writable; both
// ends are page-aligned, hence aligned as a stack must be.
unsafe impl RawStack for Stack {
    #[inline]
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.slab.limit(self.index())
    }
}
