//! Memory: the stacks of threads, which memory other processes share, and code that arrives later.
//!
//! libc maps a stack for each thread and protects its lower end: two regions each, of which the kernel
//! allows 65,530. The engine carves them out of few large regions, and guards them with
//! `MADV_GUARD_INSTALL` where the kernel has it (Linux 6.13), which takes no region at all.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use crate::frame::Frame;
use crate::lock::{Guarded, lock};
use crate::objects;
use crate::sys::{self, failed, sys};

const MADV_GUARD_INSTALL: usize = 102;
const MADV_GUARD_REMOVE: usize = 103;
/// Stacks are carved from pieces of at least this size.
const PIECE: usize = 64 << 20;
/// Addresses for the pieces: in the middle of nowhere, so that they are neighbours and become one region.
const FIRST_ADDRESS: usize = 0x1000_0000_0000;
const LAST_ADDRESS: usize = 0x3000_0000_0000;

/// A stack that no thread has.
#[derive(Clone, Copy)]
struct Free {
    start: usize,
    length: usize,
    guard: usize,
}

struct Stacks {
    /// What has been mapped for stacks, and what of it has been given out.
    mapped: Range<usize>,
    next: usize,
    free: Vec<Free>,
    /// The stack that libc has mapped and not yet protected.
    fresh: Option<Free>,
    /// Guards of stacks in use, by the start of the stack.
    guards: BTreeMap<usize, usize>,
}

static STACKS: Guarded<Stacks> = Guarded::new(Stacks {
    mapped: FIRST_ADDRESS..FIRST_ADDRESS,
    next: FIRST_ADDRESS,
    free: Vec::new(),
    fresh: None,
    guards: BTreeMap::new(),
});

/// Memory that other processes may share.
static SHARED: Guarded<Vec<Range<usize>>> = Guarded::new(Vec::new());

/// Whether other processes may wait or wake at an address.
pub(crate) fn is_shared(address: usize) -> bool {
    SHARED.of(&mut lock()).iter().any(|range| range.contains(&address))
}

/// The kernel maps and unmaps whole pages.
fn pages(address: usize, length: usize) -> Range<usize> {
    const PAGE: usize = 4096;
    address..address.saturating_add(length.checked_next_multiple_of(PAGE).unwrap_or(length))
}

/// mmap(2)
pub(crate) fn mmap(frame: &mut Frame) -> isize {
    let [address, length, protection, flags, ..] = frame.arguments();
    let (protection, flags) = (protection as i32, flags as i32);
    if address == 0 && protection == libc::PROT_NONE && is_stack(flags) {
        let carved = STACKS.of(&mut lock()).carve(length);
        if let Some(stack) = carved {
            return stack as isize;
        }
    }
    let result = sys::pass(frame);
    if failed(result) {
        return result;
    }
    let mapped = pages(result as usize, length);
    if flags & libc::MAP_FIXED != 0 {
        forget_shared(&mapped);
    }
    if flags & libc::MAP_TYPE != libc::MAP_PRIVATE {
        SHARED.of(&mut lock()).push(mapped.clone());
    }
    if protection & libc::PROT_EXEC != 0 && flags & libc::MAP_ANONYMOUS == 0 {
        objects::patch_mapped(frame.r8 as i32, mapped, frame.r9 as u64);
    }
    result
}

fn is_stack(flags: i32) -> bool {
    let wanted = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
    flags & wanted == wanted && flags & libc::MAP_FIXED == 0
}

fn forget_shared(gone: &Range<usize>) {
    let mut locked = lock();
    let shared = SHARED.of(&mut locked);
    if shared.iter().all(|range| range.end <= gone.start || gone.end <= range.start) {
        return;
    }
    let mut left = Vec::with_capacity(shared.len() + 1);
    for range in shared.drain(..) {
        let before = range.start..range.end.min(gone.start);
        let after = range.start.max(gone.end)..range.end;
        left.extend([before, after].into_iter().filter(|part| part.start < part.end));
    }
    *shared = left;
}

/// mremap(2)
pub(crate) fn mremap(frame: &mut Frame) -> isize {
    let result = sys::pass(frame);
    if !failed(result) && is_shared(frame.rdi) {
        forget_shared(&pages(frame.rdi, frame.rsi));
        SHARED.of(&mut lock()).push(pages(result as usize, frame.rdx));
    }
    result
}

/// shmat(2)
pub(crate) fn shmat(frame: &mut Frame) -> isize {
    let result = sys::pass(frame);
    if !failed(result) {
        // SAFETY: all zeros are a `shmid_ds`.
        let mut status: libc::shmid_ds = unsafe { core::mem::zeroed() };
        sys!(SYS_shmctl, frame.rdi, libc::IPC_STAT, &raw mut status);
        SHARED.of(&mut lock()).push(pages(result as usize, status.shm_segsz));
    }
    result
}

/// mprotect(2): libc makes a new stack accessible except for its lower end.
pub(crate) fn mprotect(frame: &mut Frame) -> isize {
    let [address, length, protection, ..] = frame.arguments();
    let accessible = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    if protection == accessible && STACKS.of(&mut lock()).open(address, length) {
        return 0;
    }
    sys::pass(frame)
}

/// munmap(2)
pub(crate) fn munmap(frame: &mut Frame) -> isize {
    let (address, length) = (frame.rdi, frame.rsi);
    if STACKS.of(&mut lock()).give_back(address, length) {
        return 0;
    }
    let result = sys::pass(frame);
    if result == 0 {
        forget_shared(&pages(address, length));
    }
    result
}

/// madvise(2): a thread that ends gives back its stack, which the next one would have to fault in again.
pub(crate) fn madvise(frame: &mut Frame) -> isize {
    if frame.rdx as i32 == libc::MADV_DONTNEED && STACKS.of(&mut lock()).mapped.contains(&frame.rdi)
    {
        return 0;
    }
    sys::pass(frame)
}

/// Whether an address lies in the guard of the stack that `stack_pointer` is on.
pub(crate) fn is_guard(address: usize) -> bool {
    let mut locked = lock();
    let below = STACKS.of(&mut locked).guards.range(..=address).next_back();
    below.is_some_and(|(&start, &guard)| (start..start + guard).contains(&address))
}

impl Stacks {
    fn carve(&mut self, length: usize) -> Option<usize> {
        if let Some(index) = self.free.iter().rposition(|free| free.length == length) {
            let stack = self.free.swap_remove(index);
            self.fresh = Some(stack);
            return Some(stack.start);
        }
        if self.next + length > self.mapped.end {
            self.extend(length)?;
        }
        let start = self.next;
        self.next += length;
        self.fresh = Some(Free { start, length, guard: 0 });
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

    /// Takes note of the guard of the stack just carved.
    fn open(&mut self, address: usize, length: usize) -> bool {
        let Some(fresh) = self.fresh else { return false };
        let end = fresh.start + fresh.length;
        if address < fresh.start || address + length != end {
            return false;
        }
        self.fresh = None;
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

    fn give_back(&mut self, start: usize, length: usize) -> bool {
        if !self.mapped.contains(&start) {
            return false;
        }
        let guard = self.guards.remove(&start).unwrap_or(0);
        // The next thread finds zeros, as in a new mapping.
        sys!(SYS_madvise, start + guard, length - guard, libc::MADV_DONTNEED);
        self.free.push(Free { start, length, guard });
        true
    }
}
