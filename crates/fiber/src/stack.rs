//! One stack: an anonymous mapping whose lowest page is a guard.
//!
//! ```text
//!   limit                                              base
//!   │ guard page │ touched only as deep as calls go … │
//!   low addresses                        grows ◀────── high addresses
//! ```
//!
//! The mapping is reserved, not committed: a stack costs the pages that its calls have touched.

use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::ptr;

use corosensei::stack::{Stack as RawStack, StackPointer};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::param::page_size;

/// A stack for a [`Fiber`](crate::Fiber), with a guard page below it.
pub struct Stack {
    lowest: NonZeroUsize,
    length: usize,
}

impl Stack {
    /// Maps a stack of at least `size` usable bytes (rounded up to whole pages).
    ///
    /// # Errors
    ///
    /// `ENOMEM` when memory or the mappings a process may have (`vm.max_map_count`) are used up.
    pub fn new(size: usize) -> io::Result<Self> {
        let page = page_size();
        let length = size.max(page).next_multiple_of(page) + page;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let address = unsafe {
            mmap_anonymous(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        let lowest = NonZeroUsize::new(address as usize).expect("mmap never returns null");
        let stack = Self { lowest, length };
        // SAFETY: the page is the lowest of the mapping just made, which nothing uses yet.
        unsafe { mprotect(address, page, MprotectFlags::empty())? };
        Ok(stack)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping is this stack's own, and no fiber runs on it any more: a fiber owns
        // its stack and ends before it drops it. Unmapping a whole mapping cannot fail.
        let _ = unsafe { munmap(self.lowest.get() as *mut c_void, self.length) };
    }
}

// SAFETY: the mapping is at least two pages, of which the lowest is inaccessible and the others
// (4,096 bytes at the least, corosensei's MIN_STACK_SIZE) are readable and writable; both ends are
// page-aligned, hence aligned as a stack must be.
unsafe impl RawStack for Stack {
    fn base(&self) -> StackPointer {
        self.lowest.checked_add(self.length).expect("a mapping ends below the top of memory")
    }

    fn limit(&self) -> StackPointer {
        self.lowest
    }
}
