//! The stacks of threads.
//!
//! libc maps a stack for each thread and protects its lower end: two regions each, of which the
//! kernel allows 65,530. The engine carves them out of few large regions, and guards them with
//! `MADV_GUARD_INSTALL` where the kernel has it (Linux 6.13), which takes no region at all.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use crate::kernel::lock::{Guarded, lock};
use crate::kernel::sys::{failed, sys};

const MADV_GUARD_INSTALL: usize = 102;
const MADV_GUARD_REMOVE: usize = 103;
/// Stacks are carved from pieces of at least this size.
const PIECE: usize = 64 << 20;
/// Addresses for the pieces: in the middle of nowhere, so that they are neighbours and become one
/// region.
const FIRST_ADDRESS: usize = 0x1000_0000_0000;
const LAST_ADDRESS: usize = 0x3000_0000_0000;

/// A stack that no thread has.
#[derive(Clone, Copy)]
struct Free {
    start: usize,
    length: usize,
    guard: usize,
}

/// All stacks.
pub(crate) struct Stacks {
    /// What has been mapped for stacks, and what of it has been given out.
    mapped: Range<usize>,
    next: usize,
    free: Vec<Free>,
    /// The stacks that libc has mapped and not yet protected.
    fresh: Vec<Free>,
    /// Guards of stacks in use, by the start of the stack.
    guards: BTreeMap<usize, usize>,
}

pub(crate) static STACKS: Guarded<Stacks> = Guarded::new(Stacks {
    mapped: FIRST_ADDRESS..FIRST_ADDRESS,
    next: FIRST_ADDRESS,
    free: Vec::new(),
    fresh: Vec::new(),
    guards: BTreeMap::new(),
});

/// Whether an address lies in the guard of the stack that `stack_pointer` is on.
pub(crate) fn is_guard(address: usize) -> bool {
    let mut locked = lock();
    let below = STACKS.of(&mut locked).guards.range(..=address).next_back();
    below.is_some_and(|(&start, &guard)| (start..start + guard).contains(&address))
}

impl Stacks {
    /// Finds room for a stack, guard included.
    pub(crate) fn carve(&mut self, length: usize) -> Option<usize> {
        if let Some(index) = self.free.iter().rposition(|free| free.length == length) {
            let stack = self.free.swap_remove(index);
            self.fresh.push(stack);
            return Some(stack.start);
        }
        if self.next + length > self.mapped.end {
            self.extend(length)?;
        }
        let start = self.next;
        self.next += length;
        self.fresh.push(Free { start, length, guard: 0 });
        Some(start)
    }

    fn extend(&mut self, length: usize) -> Option<()> {
        let piece = length.max(PIECE);
        if self.mapped.end + piece > LAST_ADDRESS {
            return None;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS
            | libc::MAP_NORESERVE
            | libc::MAP_FIXED_NOREPLACE;
        let wanted = self.mapped.end;
        let got = sys!(SYS_mmap, wanted, piece, protection, flags, -1isize, 0);
        if got != wanted as isize {
            if !failed(got) {
                sys!(SYS_munmap, got, piece);
            }
            return None;
        }
        // Huge pages would make every small stack cost two megabytes.
        sys!(SYS_madvise, wanted, piece, libc::MADV_NOHUGEPAGE);
        self.mapped.end += piece;
        Some(())
    }

    /// Takes note of the guard of a stack that has been carved.
    pub(crate) fn open(&mut self, address: usize, length: usize) -> bool {
        let is_upper_part =
            |fresh: &Free| address >= fresh.start && address + length == fresh.start + fresh.length;
        let Some(index) = self.fresh.iter().position(is_upper_part) else { return false };
        let fresh = self.fresh.swap_remove(index);
        let guard = address - fresh.start;
        if guard != fresh.guard {
            if fresh.guard > guard {
                let removed = sys!(SYS_madvise, fresh.start, fresh.guard, MADV_GUARD_REMOVE);
                if failed(removed) {
                    let accessible = libc::PROT_READ | libc::PROT_WRITE;
                    sys!(SYS_mprotect, fresh.start, fresh.guard, accessible);
                }
            }
            let installed = sys!(SYS_madvise, fresh.start, guard, MADV_GUARD_INSTALL);
            if failed(installed) {
                sys!(SYS_mprotect, fresh.start, guard, libc::PROT_NONE);
            }
        }
        if guard > 0 {
            self.guards.insert(fresh.start, guard);
        }
        true
    }

    /// Where the accessible part of a mapping for a stack begins.
    pub(crate) fn end_of(&self, start: usize) -> usize {
        start + self.guards.get(&start).copied().unwrap_or(0)
    }

    /// Takes a stack back; returns whether it was one.
    pub(crate) fn give_back(&mut self, start: usize, length: usize) -> bool {
        if !self.mapped.contains(&start) {
            return false;
        }
        self.fresh.retain(|fresh| fresh.start != start);
        let guard = self.guards.remove(&start).unwrap_or(0);
        // The next thread finds zeros, as in a new mapping.
        sys!(SYS_madvise, start + guard, length - guard, libc::MADV_DONTNEED);
        self.free.push(Free { start, length, guard });
        true
    }
}

/// Whether stacks are carved from the page at this address.
pub(crate) fn contains(address: usize) -> bool {
    STACKS.of(&mut lock()).mapped.contains(&address)
}
