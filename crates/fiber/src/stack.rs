//! One stack: a part of a slab, with a guard as its lowest page.
//!
//! ```text
//!                                                base
//!   │ guard │ touched only as deep as calls go … ◀─┤ header │ value │
//!   low addresses                              one cache line
//! ```
//!
//! The *header* says where the guard and the slab are. So a signal handler finds both, and a fiber
//! need not store them. A fiber stays small.
//!
//! The *value* comes from the maker of the fiber, for example the future that the fiber runs. The
//! value lies next to the frames that use it, so it needs no page of its own.
//!
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::ptr;
use std::sync::Arc;

use rustix::param::page_size;

use crate::sanitizer::{Bounds, vacated};
use crate::slab::Slab;
use crate::{LINE, StackPool};

/// A stack for a [`Fiber`](crate::Fiber), with a guard page below it.
///
/// Dropping a stack returns its memory to the kernel. [`StackPool::put`] keeps the stack for
/// another fiber.
pub struct Stack {
    limit: NonZeroUsize,
    slab: Arc<Slab>,
}

impl fmt::Debug for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Stack").finish_non_exhaustive()
    }
}

/// The least room for calls, in bytes.
pub(crate) const MIN_STACK_SIZE: usize = 4096;
/// Bytes of the header. The header ends a cache line.
const HEADER: usize = size_of::<StackHeader>();

impl Stack {
    /// The most that lies above the base of a stack, in bytes.
    pub(crate) const ABOVE_BASE: usize = HEADER;

    /// Maps a stack of at least `size` usable bytes, alone in a slab. For many stacks, use a
    /// [`StackPool`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`StackPool::take`].
    pub fn new(size: usize) -> io::Result<Self> {
        StackPool::new(size).take_alone()
    }

    /// The stack that was taken from `slab` under `index`.
    pub(crate) fn new_in(slab: &Arc<Slab>, index: usize) -> Self {
        Self { limit: slab.limit(index), slab: slab.clone() }
    }

    /// Returns the memory of this stack to the kernel. No fiber has the stack.
    pub(crate) fn forget_contents(&mut self) {
        self.slab.forget_contents(self.index());
    }

    /// The address at which calls begin.
    pub(crate) fn base(&self) -> usize {
        self.limit() + self.slab.stride() - HEADER
    }

    /// The address at which the guard begins.
    pub(crate) fn limit(&self) -> usize {
        self.limit.get()
    }

    fn index(&self) -> usize {
        self.slab.index_of(self.limit())
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // No fiber runs on the stack any more: a fiber owns its stack, and ends before it drops the
        // stack.
        self.slab.give_back(self.index());
    }
}

/// The header above the base of a stack that has a fiber.
struct StackHeader {
    limit: NonZeroUsize,
    /// The result of `Arc::into_raw`.
    slab: *const Slab,
}

/// A stack that belongs to a fiber. This type is one word, since the header has everything else.
pub(crate) struct Occupied {
    base: NonZeroUsize,
}

impl Occupied {
    /// Leaves `room` bytes free above the header, aligned like a cache line; see
    /// [`Occupied::room`]. Below the header there are at least `beginning` bytes for the fiber's
    /// first frame, and the least bytes that calls need.
    ///
    /// # Panics
    ///
    /// Panics if the stack is too small.
    pub(crate) fn new(stack: Stack, room: usize, beginning: usize) -> Self {
        let guard = stack.limit();
        vacated(Bounds::new(|| (guard, stack.base() + HEADER - guard)));
        let lowest = guard + page_size() + MIN_STACK_SIZE;
        let base = room.checked_next_multiple_of(LINE);
        let base = base.and_then(|above| stack.base().checked_sub(above));
        let fits = |base: usize| base.checked_sub(beginning).is_some_and(|end| end >= lowest);
        let base = base.filter(|&base| fits(base)).and_then(NonZeroUsize::new);
        let base = base.expect("a value on a stack leaves most of it to the calls");
        let stack = ManuallyDrop::new(stack);
        // SAFETY: the stack is never dropped, so only this copy of its slab's `Arc` is used.
        let slab = Arc::into_raw(unsafe { ptr::read(&raw const stack.slab) });
        let occupied = Self { base };
        // SAFETY: `new_in` has left room for the header, in the highest page, and nothing runs on
        // the stack.
        unsafe { occupied.header().write(StackHeader { limit: stack.limit, slab }) };
        occupied
    }

    /// The stack, which its fiber has left for good.
    pub(crate) fn vacate(self) -> Stack {
        ManuallyDrop::new(self).read()
    }

    /// The place above the header.
    pub(crate) fn room<T>(&self) -> *mut T {
        ptr::with_exposed_provenance_mut(self.base.get() + HEADER)
    }

    /// The address at which calls begin, a multiple of 16.
    #[inline]
    pub(crate) fn base(&self) -> usize {
        self.base.get()
    }

    /// The address at which the guard begins.
    pub(crate) fn guard(&self) -> usize {
        // SAFETY: `new` has written the header.
        unsafe { (*self.header()).limit.get() }
    }

    /// The bytes from the guard to the end of the header.
    #[inline(always)]
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds::new(|| (self.guard(), self.base() + HEADER - self.guard()))
    }

    /// The requested size, in bytes, rounded to whole pages.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: `new` wrote the header, and keeps the slab.
        let size = unsafe { (*(*self.header()).slab).size() };
        (size - Stack::ABOVE_BASE) / page_size() * page_size()
    }

    /// Call this once only.
    fn read(&self) -> Stack {
        // SAFETY: `new` wrote the header, which no other code knows of, and leaked the slab.
        unsafe {
            let StackHeader { limit, slab } = self.header().read();
            Stack { limit, slab: Arc::from_raw(slab) }
        }
    }

    fn header(&self) -> *mut StackHeader {
        ptr::with_exposed_provenance_mut(self.base.get())
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        drop(self.read());
    }
}
