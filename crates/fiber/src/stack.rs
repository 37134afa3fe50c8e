//! One stack: a part of a slab, whose lowest page is a guard.
//!
//! ```text
//!                                                base
//!   │ guard │ touched only as deep as calls go … ◀─┤ label │ value │ colour │
//!   low addresses                              one cache line
//! ```
//!
//! The *label* says where the guard and the slab are, so that a fiber need not, whose size counts, and a
//! signal handler can know.
//!
//! The *value* is what the fiber was made with, such as the future that it runs: next to the frames that
//! use it, it needs no page of its own.
//!
//! The *colour* is a number of cache lines that are left out at the top, another for each stack and its
//! neighbours. Without it, what all stacks touch would have the same few places in a page, which are the
//! same few sets of each cache: a wake among 1,000 threads cost 41 ns without and 33 ns with 16 colours,
//! and was the same within a tenth for 100, 10,000 and 100,000 (`benches/wakes.rs` of the runtime; two
//! alternating runs). More
//! colours would gain a little more there, and have more stacks begin a second page.

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::ptr;
use std::sync::Arc;

use rustix::param::page_size;

use crate::StackPool;
use crate::sanitizer::{Bounds, vacated};
use crate::slab::Slab;

/// A stack for a [`Fiber`](crate::Fiber), with a guard page below it.
///
/// Dropping it returns its memory to the kernel; [`StackPool::put`] keeps it for another fiber.
pub struct Stack {
    place: Place,
    slab: Arc<Slab>,
}

impl fmt::Debug for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Stack").finish_non_exhaustive()
    }
}

/// Where the guard of a stack begins, and in the low bits, which are 0 there, the stack's colour: all else follows from
/// them without the stack's number, for which one would have to divide.
#[derive(Clone, Copy)]
struct Place(NonZeroUsize);

impl Place {
    fn new(limit: NonZeroUsize, colour: usize) -> Self {
        Self(limit | colour)
    }

    fn limit(self) -> usize {
        self.0.get() & !(COLOURS - 1)
    }

    fn colour(self) -> usize {
        self.0.get() & (COLOURS - 1)
    }
}

/// The least room for calls, in bytes.
pub(crate) const MIN_STACK_SIZE: usize = 4096;
/// Bytes of the label. It ends a cache line.
const LABEL: usize = size_of::<Label>();
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
        Self { place: Place::new(slab.limit(index), index % COLOURS), slab: slab.clone() }
    }

    /// Returns the memory of this stack, which no fiber has, to the kernel.
    pub(crate) fn forget_contents(&mut self) {
        self.slab.forget_contents(self.index());
    }

    /// Where calls begin.
    pub(crate) fn base(&self) -> usize {
        self.limit() + self.slab.stride() - CACHE_LINE * self.place.colour() - LABEL
    }

    /// Where the guard begins.
    pub(crate) fn limit(&self) -> usize {
        self.place.limit()
    }

    fn index(&self) -> usize {
        self.slab.index_of(self.limit())
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // No fiber runs on it any more: a fiber owns its stack and ends before it drops it.
        self.slab.give_back(self.index());
    }
}

/// What lies above the base of a stack that has a fiber.
struct Label {
    place: Place,
    /// What `Arc::into_raw` gave.
    slab: *const Slab,
}

/// A stack in the hands of a fiber: one word, since all else is on its label.
pub(crate) struct Occupied {
    base: NonZeroUsize,
}

impl Occupied {
    /// Leaves `room` bytes free above the label, aligned like a cache line; see [`Occupied::room`]. Below the label are
    /// at least `beginning` bytes, which the fiber begins with, and those that calls need at least.
    ///
    /// # Panics
    ///
    /// When the stack is too small for that.
    pub(crate) fn new(stack: Stack, room: usize, beginning: usize) -> Self {
        let guard = stack.limit();
        vacated(Bounds::new(|| (guard, stack.base() + LABEL - guard)));
        let lowest = guard + page_size() + MIN_STACK_SIZE;
        let base = room.checked_next_multiple_of(CACHE_LINE);
        let base = base.and_then(|above| stack.base().checked_sub(above));
        let fits = |base: usize| base.checked_sub(beginning).is_some_and(|end| end >= lowest);
        let base = base.filter(|&base| fits(base)).and_then(NonZeroUsize::new);
        let base = base.expect("a value on a stack leaves most of it to the calls");
        let stack = ManuallyDrop::new(stack);
        // SAFETY: the stack is not dropped, so this is the only reader of its slab.
        let slab = Arc::into_raw(unsafe { ptr::read(&raw const stack.slab) });
        let occupied = Self { base };
        // SAFETY: `new_in` has left room for it, in the highest page, and nothing runs on the stack.
        unsafe { occupied.label().write(Label { place: stack.place, slab }) };
        occupied
    }

    /// The stack, which its fiber has left for good.
    pub(crate) fn vacate(self) -> Stack {
        ManuallyDrop::new(self).read()
    }

    /// The place above the label.
    pub(crate) fn room<T>(&self) -> *mut T {
        ptr::with_exposed_provenance_mut(self.base.get() + LABEL)
    }

    /// Where calls begin: a multiple of 16.
    #[inline]
    pub(crate) fn base(&self) -> usize {
        self.base.get()
    }

    /// Where the guard begins.
    pub(crate) fn guard(&self) -> usize {
        // SAFETY: `new` wrote the label.
        unsafe { (*self.label()).place.limit() }
    }

    /// From the guard to the end of the label.
    #[inline(always)]
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds::new(|| (self.guard(), self.base() + LABEL - self.guard()))
    }

    /// The size that was asked for, in bytes, in whole pages.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: `new` wrote the label, and keeps the slab.
        let size = unsafe { (*(*self.label()).slab).size() };
        (size - Stack::ABOVE_BASE) / page_size() * page_size()
    }

    /// May be called once.
    fn read(&self) -> Stack {
        // SAFETY: `new` wrote the label, which nobody else knows of, and leaked the slab.
        unsafe {
            let Label { place, slab } = self.label().read();
            Stack { place, slab: Arc::from_raw(slab) }
        }
    }

    fn label(&self) -> *mut Label {
        ptr::with_exposed_provenance_mut(self.base.get())
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        drop(self.read());
    }
}
