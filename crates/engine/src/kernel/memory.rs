//! The engine's own heap: size classes of powers of two, carved from anonymous mappings.
//!
//! The program's `malloc` cannot serve: a thread may enter the engine while it holds the lock of
//! `malloc`. Freed blocks are used again. Only blocks above 64 KiB return to the kernel.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::kernel::assertions::check;
use crate::kernel::sys;

/// The heap.
pub(crate) struct Heap {
    locked: AtomicBool,
    free: [Cell<usize>; CLASSES],
    fresh: Cell<usize>,
    end: Cell<usize>,
}

const SMALLEST: usize = 32;
const CLASSES: usize = 12;
const LARGEST: usize = SMALLEST << (CLASSES - 1);
const CHUNK: usize = 1 << 20;
/// No block has a larger alignment.
const PAGE: usize = 4096;

// SAFETY: the cells are used under the lock.
unsafe impl Sync for Heap {}

impl Heap {
    pub(crate) const fn new() -> Self {
        Self {
            locked: AtomicBool::new(false),
            free: [const { Cell::new(0) }; CLASSES],
            fresh: Cell::new(0),
            end: Cell::new(0),
        }
    }

    fn with_lock<T>(&self, work: impl FnOnce() -> T) -> T {
        while self.locked.swap(true, Ordering::Acquire) {
            core::hint::spin_loop();
        }
        let result = work();
        let was_locked = self.locked.swap(false, Ordering::Release);
        assert!(was_locked, "the heap was free before its release");
        result
    }

    /// Runs a function while nothing else changes the heap. A fork needs this, so that its child
    /// finds the heap whole.
    pub(crate) fn while_locked<T>(&self, work: impl FnOnce() -> T) -> T {
        self.with_lock(work)
    }

    /// Gives the memory of large free blocks back to the kernel, except for their first page. The
    /// blocks stay free.
    pub(crate) fn give_back(&self) {
        self.with_lock(|| {
            for (class, first) in self.free.iter().enumerate() {
                let (bytes, mut block) = (SMALLEST << class, first.get());
                while bytes > PAGE && block != 0 {
                    // SAFETY: the pages are free, and only the first word of a free block is read:
                    // the address of the next one.
                    block = unsafe {
                        sys::advise(block + PAGE, bytes - PAGE, libc::MADV_DONTNEED);
                        *(block as *const usize)
                    };
                }
            }
        });
    }

    fn take(&self, class: usize) -> usize {
        let free = self.free[class].get();
        if free != 0 {
            // SAFETY: a free block begins with the address of the next one.
            self.free[class].set(unsafe { *(free as *const usize) });
            return free;
        }
        let bytes = SMALLEST << class;
        // Smaller blocks fill the space before the next multiple of the size.
        while !self.fresh.get().is_multiple_of(bytes.min(PAGE)) {
            let filling = self.fresh.get().trailing_zeros() - SMALLEST.trailing_zeros();
            self.put(filling as usize, self.fresh.get());
            self.fresh.set(self.fresh.get() + (SMALLEST << filling));
        }
        if self.fresh.get() + bytes > self.end.get() {
            let Some(chunk) = sys::map(CHUNK, libc::PROT_READ | libc::PROT_WRITE, 0) else {
                return 0;
            };
            self.fresh.set(chunk);
            self.end.set(chunk + CHUNK);
        }
        let block = self.fresh.get();
        self.fresh.set(block + bytes);
        block
    }

    /// Whether a block is among the last ones that were given back.
    fn is_free(&self, class: usize, block: usize) -> bool {
        const LAST: usize = 16;
        let first = Some(self.free[class].get()).filter(|&first| first != 0);
        // SAFETY: a free block begins with the address of the next one.
        let next = |at: &usize| Some(unsafe { *(*at as *const usize) }).filter(|&next| next != 0);
        core::iter::successors(first, next).take(LAST).any(|free| free == block)
    }

    fn put(&self, class: usize, block: usize) {
        assert!(block != 0 && block.is_multiple_of(SMALLEST), "no block of the heap");
        check!(!self.is_free(class, block), "a block of the heap is given back twice");
        // SAFETY: the block is free, mapped, and has room for an address, for which it is aligned.
        unsafe { *(block as *mut usize) = self.free[class].get() };
        self.free[class].set(block);
    }
}

fn class_of(layout: Layout) -> usize {
    let bytes = layout.size().max(layout.align()).max(SMALLEST).next_power_of_two();
    (bytes / SMALLEST).trailing_zeros() as usize
}

// SAFETY: blocks are disjoint, and aligned to their size, which is a power of two, or to a page
// where that is less. An alignment above a page is refused.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > PAGE {
            return ptr::null_mut();
        }
        if layout.size().max(layout.align()) > LARGEST {
            let block = sys::map(layout.size(), libc::PROT_READ | libc::PROT_WRITE, 0);
            return block.map_or(ptr::null_mut(), |address| address as *mut u8);
        }
        self.with_lock(|| self.take(class_of(layout))) as *mut u8
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let bytes = layout.size().max(layout.align());
        if bytes > LARGEST && size > LARGEST {
            // The kernel moves pages instead of copying them.
            let flags = libc::MREMAP_MAYMOVE as usize;
            // SAFETY: the block is a mapping of its own, which its owner gives away.
            let moved = unsafe {
                sys::call(libc::SYS_mremap, [block as usize, layout.size(), size, flags, 0, 0])
            };
            return if sys::failed(moved) { ptr::null_mut() } else { moved as *mut u8 };
        }
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else {
            return ptr::null_mut();
        };
        // SAFETY: the caller promises what the two calls ask for, and both blocks have so many
        // bytes.
        unsafe {
            let new = self.alloc(wanted);
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size().max(layout.align()) > LARGEST {
            // SAFETY: the block is a mapping of its own, which its owner gives back.
            unsafe { sys::unmap(block as usize, layout.size()) };
            return;
        }
        let class = class_of(layout);
        self.with_lock(|| self.put(class, block as usize));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_disjoint_and_used_again() {
        let heap = Heap::new();
        let mut blocks: Vec<(usize, usize)> = Vec::new();
        for round in 0..200usize {
            for (size, align) in [(1, 1), (100, 64), (40, 8), (3000, 4096), (70_000, 16), (5, 512)]
            {
                let layout = Layout::from_size_align(size + round % 7, align).expect("valid");
                // SAFETY: `alloc` asks for a layout of at least one byte, which this is.
                let block = unsafe { heap.alloc(layout) };
                assert!(!block.is_null() && (block as usize).is_multiple_of(align));
                if layout.size() > LARGEST {
                    // SAFETY: the block came from this heap with this layout, and nothing has it.
                    unsafe { heap.dealloc(block, layout) };
                } else {
                    blocks.push((block as usize, layout.size()));
                }
            }
        }
        // Free blocks are as good as before without their memory.
        // SAFETY: the layout is not empty, and each block is given back once.
        unsafe {
            let layout = Layout::from_size_align(40_000, 8).expect("valid");
            let both = [heap.alloc(layout), heap.alloc(layout)];
            both.iter().for_each(|&block| block.write_bytes(7, layout.size()));
            both.iter().for_each(|&block| heap.dealloc(block, layout));
            heap.give_back();
            assert_eq!(both[1].add(PAGE).read(), 0);
            let again = [heap.alloc(layout), heap.alloc(layout)];
            assert_eq!(again, [both[1], both[0]]);
        }
        blocks.sort_unstable();
        assert!(blocks.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        let impossible = Layout::from_size_align(8, 1 << 16).expect("valid");
        // SAFETY: the layout has eight bytes, so it is not empty.
        assert!(unsafe { heap.alloc(impossible) }.is_null());
    }
}
