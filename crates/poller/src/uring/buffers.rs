//! Provided buffers: the kernel takes one when bytes arrive, so a connection without bytes holds no
//! buffer.
//!
//! ```text
//!    ring     ┌─▶ [ 7 │ 2 │ 9 │ … ] ──▶ the kernel takes the oldest and fills it
//!             │                            │ a completion names it
//!    give_back│                            ▼
//!             └──────────── a task has copied its bytes out
//! ```
//!
//! The ring is first in, first out, so all its buffers pass through the caches in turn. So there
//! are few buffers at first. The poller adds more when they run out.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Bytes of one buffer.
pub(super) const SIZE: usize = 4096;
/// The most buffers.
const MOST: u16 = 4096;
/// Buffers that the kernel has at first.
const FIRST: u16 = 256;

pub(super) struct Buffers {
    ring: Mapping,
    memory: Mapping,
    /// The ring's next place to fill, as the kernel counts.
    tail: u16,
    /// Buffers in circulation, from number 0 on.
    provided: u16,
    /// The content of each buffer.
    contents: Vec<Content>,
    /// How many buffers the kernel has handed over.
    held: u16,
}

#[derive(Clone, Copy, Default)]
struct Content {
    /// The number of bytes; 0 while the kernel has the buffer.
    length: u16,
    /// The next buffer in the chain, if there is one.
    next: u16,
}

/// Buffers that one reader has yet to read, in order.
#[derive(Default)]
pub(super) struct Chain {
    first: u16,
    last: u16,
    /// The number of buffers.
    count: u16,
    /// How much of the first buffer has been read.
    consumed: u16,
}

impl Chain {
    pub(super) fn count(&self) -> u16 {
        self.count
    }
}

impl Buffers {
    pub(super) fn new() -> io::Result<Self> {
        let ring = Mapping::new(usize::from(MOST) * size_of::<BufRingEntry>())?;
        let memory = Mapping::new(usize::from(MOST) * SIZE)?;
        let contents = vec![Content::default(); usize::from(MOST)];
        let mut buffers = Self { ring, memory, tail: 0, provided: 0, contents, held: 0 };
        buffers.provide(FIRST);
        Ok(buffers)
    }

    /// The ring's address and its number of entries, in the form that the kernel takes.
    pub(super) fn ring(&self) -> (u64, u16) {
        (self.ring.start.addr().get() as u64, MOST)
    }

    /// Appends a buffer that the kernel has filled with `length` bytes.
    pub(super) fn append(&mut self, chain: &mut Chain, number: u16, length: u32) {
        let content = &mut self.contents[usize::from(number)];
        assert_eq!(content.length, 0, "the kernel fills what it was given");
        content.length = u16::try_from(length).expect("a buffer is of less than 64 KiB");
        if length == 0 {
            return self.push(number);
        }
        match chain.count {
            0 => *chain = Chain { first: number, ..Chain::default() },
            _ => self.contents[usize::from(chain.last)].next = number,
        }
        chain.last = number;
        chain.count += 1;
        self.held += 1;
    }

    /// Moves bytes from the chain to `target`, as many as fit, and gives empty buffers back to the
    /// kernel.
    pub(super) fn read(&mut self, chain: &mut Chain, target: &mut [MaybeUninit<u8>]) -> usize {
        let mut filled = 0;
        while chain.count > 0 && filled < target.len() {
            let rest = &self.bytes(chain.first)[usize::from(chain.consumed)..];
            let count = rest.len().min(target.len() - filled);
            for (to, from) in target[filled..].iter_mut().zip(&rest[..count]) {
                to.write(*from);
            }
            filled += count;
            if count == rest.len() {
                self.drop_first(chain);
            } else {
                chain.consumed += count as u16;
            }
        }
        filled
    }

    /// Gives all buffers of a chain back to the kernel.
    pub(super) fn clear(&mut self, chain: &mut Chain) {
        while chain.count > 0 {
            self.drop_first(chain);
        }
    }

    /// Whether the kernel has a buffer left.
    pub(super) fn any_left(&self) -> bool {
        self.held < self.provided
    }

    /// Puts more buffers into circulation, after the kernel's ran out.
    pub(super) fn grow(&mut self) {
        self.provide(self.provided.saturating_mul(2).min(MOST));
    }

    fn drop_first(&mut self, chain: &mut Chain) {
        let number = chain.first;
        let content = &mut self.contents[usize::from(number)];
        content.length = 0;
        (chain.first, chain.consumed) = (content.next, 0);
        chain.count -= 1;
        self.held -= 1;
        self.push(number);
    }

    /// The bytes that a buffer holds for us.
    fn bytes(&self, number: u16) -> &[u8] {
        let length = usize::from(self.contents[usize::from(number)].length);
        assert!(length <= SIZE, "the kernel wrote no more than there was room for");
        // SAFETY: the buffer lies within the mapping. All of it is initialized, since the mapping
        // began as zeroes. The kernel does not write to a buffer that has a length.
        unsafe {
            let start = self.memory.start.add(usize::from(number) * SIZE);
            std::slice::from_raw_parts(start.as_ptr(), length)
        }
    }

    fn provide(&mut self, count: u16) {
        for number in self.provided..count {
            self.push(number);
        }
        self.provided = count;
    }

    fn push(&mut self, number: u16) {
        let ring = self.ring.start.cast::<BufRingEntry>();
        // SAFETY: the index is masked to the ring's entries, which are all within the mapping. This
        // thread owns the place at the tail. There are as many places as buffers, so the kernel has
        // taken the place's former entry. The tail lies in the first entry, in a field that the
        // other entries do not use (io_uring_register(2)). The tail is aligned, and only this
        // thread writes it.
        unsafe {
            let place = ring.add(usize::from(self.tail & (MOST - 1))).as_mut();
            place.set_addr(self.memory.start.add(usize::from(number) * SIZE).addr().get() as u64);
            place.set_len(SIZE as u32);
            place.set_bid(number);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(ring.as_ptr()).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

/// Anonymous memory, all zeroes. Untouched pages cost nothing.
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    fn new(length: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), length, access, flags)? };
        let start = NonNull::new(start.cast()).expect("mmap never returns null");
        Ok(Self { start, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own. Unmapping a whole mapping cannot fail.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_read_in_order_and_buffers_go_round() -> io::Result<()> {
        let mut buffers = Buffers::new()?;
        let (mut one, mut other) = (Chain::default(), Chain::default());
        for number in 0..FIRST {
            assert!(buffers.any_left());
            let chain = if number % 2 == 0 { &mut one } else { &mut other };
            buffers.append(chain, number, 10);
        }
        assert!(!buffers.any_left());
        let mut target = [MaybeUninit::new(1); 25];
        assert_eq!(buffers.read(&mut one, &mut target), 25);
        // SAFETY: they were initialised before, too.
        let bytes = target.map(|byte| unsafe { byte.assume_init() });
        assert_eq!((bytes, one.count()), ([0; 25], FIRST / 2 - 2));
        assert!(buffers.any_left());
        buffers.append(&mut other, 0, 3);
        buffers.clear(&mut other);
        assert_eq!(buffers.read(&mut other, &mut target), 0);
        let mut rest = vec![MaybeUninit::uninit(); 5000];
        assert_eq!(buffers.read(&mut one, &mut rest), usize::from(FIRST / 2) * 10 - 25);
        assert_eq!(buffers.held, 0);
        buffers.grow();
        assert_eq!(buffers.provided, 2 * FIRST);
        Ok(())
    }
}
