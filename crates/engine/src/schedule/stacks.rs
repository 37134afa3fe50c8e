//! The stacks of threads.
//!
//! libc maps a stack for each thread and protects its lower end. A stack is then two regions, and
//! the kernel allows 65,530 regions. The engine carves its stacks out of few large regions.
//! `MADV_GUARD_INSTALL` (Linux 6.13) guards a stack without a region. The engine uses it where the
//! kernel has it.
//!
//! System calls take the most time here, so the engine makes them without the lock. Meanwhile the
//! stack is in no list.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use crate::kernel::lock::{Guarded, lock};
use crate::kernel::sys::{self, failed};

const MADV_GUARD_INSTALL: i32 = 102;
const MADV_GUARD_REMOVE: i32 = 103;
/// Stacks are carved from pieces of at least this size.
const PIECE: usize = 64 << 20;
/// Addresses for the pieces, far from all other mappings, so that neighbouring pieces become one
/// region.
const FIRST_ADDRESS: usize = 0x1000_0000_0000;
const LAST_ADDRESS: usize = 0x3000_0000_0000;

/// A stack that no thread uses.
#[derive(Clone, Copy)]
struct Free {
    start: usize,
    length: usize,
    guard: usize,
}

/// All stacks.
pub(crate) struct Stacks {
    /// The memory that was mapped for stacks, and the part that has been given out.
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
        assert!(self.next <= self.mapped.end, "a stack is beyond the memory for stacks");
        self.fresh.push(Free { start, length, guard: 0 });
        Some(start)
    }

    fn extend(&mut self, length: usize) -> Option<()> {
        let piece = length.max(PIECE);
        if self.mapped.end + piece > LAST_ADDRESS {
            return None;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let wanted = self.mapped.end;
        if !sys::map_exactly(wanted, piece, protection, libc::MAP_NORESERVE) {
            return None;
        }
        // Huge pages would make every small stack cost two megabytes.
        // SAFETY: the advice changes how pages are made, and no content.
        unsafe { sys::advise(wanted, piece, libc::MADV_NOHUGEPAGE) };
        self.mapped.end += piece;
        Some(())
    }

    /// Takes the stack with this upper part out of the fresh ones.
    fn take_fresh(&mut self, address: usize, length: usize) -> Option<Free> {
        let is_upper_part =
            |fresh: &Free| address >= fresh.start && address + length == fresh.start + fresh.length;
        let index = self.fresh.iter().position(is_upper_part)?;
        Some(self.fresh.swap_remove(index))
    }

    /// Where the accessible part of a mapping for a stack begins.
    pub(crate) fn end_of(&self, start: usize) -> usize {
        start + self.guards.get(&start).copied().unwrap_or(0)
    }

    /// Takes memory back, if the memory is a stack.
    fn take_back(&mut self, start: usize, length: usize) -> Option<Free> {
        if !self.mapped.contains(&start) {
            return None;
        }
        self.fresh.retain(|fresh| fresh.start != start);
        let guard = self.guards.remove(&start).unwrap_or(0);
        Some(Free { start, length, guard })
    }
}

impl Free {
    /// Whether the program gives back what it has given back already. Natively that is no error.
    fn overlaps(&self, other: &Self) -> bool {
        self.start < other.start + other.length && other.start < self.start + self.length
    }

    /// Has the lower end of the stack guarded, up to `guard` bytes.
    fn set_guard(&mut self, guard: usize) {
        let accessible = libc::PROT_READ | libc::PROT_WRITE;
        if guard == self.guard {
            return;
        }
        // SAFETY: the stack is in no list and no thread has it, so nothing else uses its memory.
        unsafe {
            if self.guard > guard && failed(sys::advise(self.start, self.guard, MADV_GUARD_REMOVE))
            {
                sys::protect(self.start, self.guard, accessible);
            }
            if failed(sys::advise(self.start, guard, MADV_GUARD_INSTALL)) {
                sys::protect(self.start, guard, libc::PROT_NONE);
            }
        }
        self.guard = guard;
    }

    /// The next thread finds zeros, as in a new mapping.
    fn clear(&self) {
        let (start, length) = (self.start + self.guard, self.length - self.guard);
        // SAFETY: the stack is in no list and no thread has it, so nothing reads the pages.
        unsafe { sys::advise(start, length, libc::MADV_DONTNEED) };
    }
}

/// The upper part of a stack becomes accessible, and the rest is its guard. Returns whether the
/// memory is a carved stack.
pub(crate) fn open(address: usize, length: usize) -> bool {
    let Some(mut stack) = STACKS.of(&mut lock()).take_fresh(address, length) else { return false };
    stack.set_guard(address - stack.start);
    if stack.guard > 0 {
        STACKS.of(&mut lock()).guards.insert(stack.start, stack.guard);
    }
    true
}

/// Takes a stack back. Returns whether the memory was a carved stack.
pub(crate) fn give_back(start: usize, length: usize) -> bool {
    let Some(stack) = STACKS.of(&mut lock()).take_back(start, length) else { return false };
    stack.clear();
    let mut locked = lock();
    let free = &mut STACKS.of(&mut locked).free;
    if stack.guard > 0 || !free.iter().any(|other| other.overlaps(&stack)) {
        free.push(stack);
    }
    true
}

/// Whether stacks are carved from the page at this address.
pub(crate) fn contains(address: usize) -> bool {
    STACKS.of(&mut lock()).mapped.contains(&address)
}
