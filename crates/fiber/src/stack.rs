//! One stack: a part of a slab, whose lowest page is a guard.
//!
//! ```text
//!                                                          base
//!   │ guard │ touched only as deep as calls go …  ◀─────────┤ label │ colour │
//!   low addresses                                 one cache line ▲
//! ```
//!
//! The *label* says where the guard is, to whoever knows nothing but that the stack is running. It lies
//! in the cache line that every switch touches anyway, with the way back to the loop.
//!
//! The *colour* is a number of cache lines that are left out at the top, another for each stack and its
//! neighbours. Without it, what all stacks touch would have the same few places in a page, which are the
//! same few sets of each cache: a wake among 1,000 threads cost 41 ns without and 33 ns with 16 colours,
//! and was the same within a tenth for 100, 10,000 and 100,000 (`benches/wakes.rs` of the runtime). More
//! colours would gain a little more there, and have more stacks begin a second page.

use std::io;
use std::num::NonZeroUsize;
use std::ptr;
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

/// Bytes of the label. It ends a cache line.
const LABEL: usize = 16;
const CACHE_LINE: usize = 64;
const COLOURS: usize = 16;

impl Stack {
    /// The most that lies above the base of a stack, in bytes.
    pub(crate) const ABOVE_BASE: usize = LABEL + CACHE_LINE * (COLOURS - 1);

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
        let base = slab.top(index).get() - CACHE_LINE * (index % COLOURS) - LABEL;
        let base = NonZeroUsize::new(base).expect("a stack is above the address 0");
        Self { base, slab: slab.clone() }
    }

    /// Writes on the stack where its guard is, and returns the address of that.
    pub(crate) fn label(&mut self) -> usize {
        let label = ptr::with_exposed_provenance_mut::<usize>(self.base.get());
        // SAFETY: `new_in` has left room for it, in the highest page, and nothing runs on the stack.
        unsafe { label.write(self.limit().get()) };
        self.base.get()
    }

    /// The guard of the running stack that `yielder` lives on.
    pub(crate) fn guard_of_running(yielder: usize) -> usize {
        let label = (yielder & !(CACHE_LINE - 1)) + CACHE_LINE - LABEL;
        // SAFETY: corosensei has the yielder in the 16 bytes below the base, and above them, in the same
        // cache line, is the label.
        unsafe { ptr::with_exposed_provenance::<usize>(label).read() }
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

// SAFETY: a slab gives a stack to one owner at a time. Below it is an inaccessible page. Between that and
// the base, which is a multiple of 16, a pool has left MIN_STACK_SIZE at the least.
unsafe impl RawStack for Stack {
    #[inline]
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.slab.limit(self.index())
    }
}
