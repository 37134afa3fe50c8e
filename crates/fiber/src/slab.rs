//! A slab: one mapping that many stacks are carved from.
//!
//! ```text
//!   lowest          stride
//!   │◀──────────────────────────▶│
//!   ├───────┬────────────────────┼───────┬────────────────────┼──   ──┬────────────────────┤
//!   │ guard │ ◀───── stack 0     │ guard │ ◀───── stack 1     │   …   │ ◀─ stack count − 1 │
//!   └───────┴────────────────────┴───────┴────────────────────┴──   ──┴────────────────────┘
//!   one page   grows downwards
//! ```
//!
//! The mapping is reserved, not committed: a stack costs the pages that its calls have touched. The
//! mapping refuses huge pages: the first touch of a stack would make 2 MiB of stacks resident.
//!
//! A guard is a mark in the page table if the kernel has such marks (`MADV_GUARD_INSTALL`, Linux
//! 6.13). Then a million stacks are a handful of mappings. On older kernels a guard is a page
//! without access (mprotect(2)), and cuts the mapping in two. Older kernels limit the stacks of a
//! process to well below `vm.max_map_count`: with no mapping left, every later malloc(3) fails as
//! well.

use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};
use rustix::param::page_size;

/// The way to make the page below a stack inaccessible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guards {
    /// By a mark in the page table.
    Marked,
    /// By taking its access rights away.
    Protected,
}

/// A mapping, and the set of its vacant stacks. Each stack holds a reference to its slab.
pub(crate) struct Slab {
    lowest: NonZeroUsize,
    stride: usize,
    count: usize,
    guards: Guards,
    /// Bit s of word w: stack 64·w + s is vacant. Stacks are dropped on any thread.
    vacant: Box<[AtomicU64]>,
    /// The words before this word have no bit set.
    first: AtomicUsize,
}

impl Slab {
    /// Maps `count` stacks of `size` bytes, a multiple of the page size, if `reserve` bytes of
    /// address space remain.
    ///
    /// # Errors
    ///
    /// Returns `ENOMEM` when there is no address space, or no mapping, for the stacks.
    pub(crate) fn new(
        size: usize,
        count: usize,
        guards: Guards,
        reserve: usize,
    ) -> io::Result<Self> {
        let stride = size.checked_add(page_size()).ok_or(io::ErrorKind::OutOfMemory)?;
        let length = stride.checked_mul(count).ok_or(io::ErrorKind::OutOfMemory)?;
        let reserve = reserve.next_multiple_of(page_size());
        let whole = length.checked_add(reserve).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let address = unsafe {
            mmap_anonymous(ptr::null_mut(), whole, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        if reserve > 0 {
            // SAFETY: the range is the end of the mapping just made, which nothing uses. A mapping
            // that is cut at its end stays one mapping, so the kernel has no reason to refuse.
            let _ = unsafe { munmap(address.wrapping_byte_add(length), reserve) };
        }
        // SAFETY: the range is the mapping just made. A kernel without huge pages refuses, rightly.
        let _ = unsafe { madvise(address, length, Advice::LinuxNoHugepage) };
        let lowest = NonZeroUsize::new(address as usize).expect("mmap never returns null");
        let vacant = (0..count.div_ceil(64))
            .map(|word| match count - word * 64 {
                64.. => AtomicU64::new(u64::MAX),
                rest => AtomicU64::new((1 << rest) - 1),
            })
            .collect();
        Ok(Self { lowest, stride, count, guards, vacant, first: AtomicUsize::new(0) })
    }

    /// Takes a vacant stack and guards it. `None` when all stacks are taken.
    ///
    /// # Errors
    ///
    /// Returns a [`GuardError`] when the stack cannot be guarded.
    pub(crate) fn take(&self) -> Result<Option<usize>, GuardError> {
        let first = self.first.swap(self.vacant.len(), Ordering::Relaxed);
        for (number, word) in self.vacant.iter().enumerate().skip(first) {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let lowest_bit = bits & bits.wrapping_neg();
                bits = word.fetch_and(!lowest_bit, Ordering::Acquire);
                if bits & lowest_bit != 0 {
                    self.first.fetch_min(number, Ordering::Relaxed);
                    let index = number * 64 + lowest_bit.trailing_zeros() as usize;
                    self.guard(index).inspect_err(|_| self.set_vacant(index))?;
                    return Ok(Some(index));
                }
            }
        }
        Ok(None)
    }

    /// Takes back a stack on which nothing runs any more, and returns its memory to the kernel.
    pub(crate) fn give_back(&self, index: usize) {
        self.forget_contents(index);
        if self.guards == Guards::Protected {
            let access = MprotectFlags::READ | MprotectFlags::WRITE;
            // SAFETY: the page is this slab's own. The mappings on both sides become one again. In
            // the unlikely case of a failure, the page stays a guard and stays counted.
            if unsafe { mprotect(self.guard_page(index), page_size(), access) }.is_ok() {
                PROTECTED.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.set_vacant(index);
    }

    /// Returns the memory of a stack to the kernel. Nothing runs on the stack, and the stack's
    /// guard stays.
    pub(crate) fn forget_contents(&self, index: usize) {
        let lowest = self.guard_page(index).wrapping_byte_add(page_size());
        // SAFETY: the range is a stack of this slab, and the caller promises that nothing uses the
        // stack. The call fails only for locked memory (mlock), and that memory stays.
        let _ = unsafe { madvise(lowest, self.size(), Advice::LinuxDontNeed) };
    }

    /// Bytes of a stack, without its guard.
    pub(crate) fn size(&self) -> usize {
        self.stride - page_size()
    }

    /// Bytes from a stack to the next stack, guard included.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The lowest address of a stack, its guard included. A page begins there.
    pub(crate) fn limit(&self, index: usize) -> NonZeroUsize {
        debug_assert!(index < self.count);
        self.lowest.checked_add(index * self.stride).expect("within the mapping")
    }

    /// The stack that an address is in.
    pub(crate) fn index_of(&self, address: usize) -> usize {
        (address - self.lowest.get()) / self.stride
    }

    /// The way in which the slab's stacks are guarded.
    pub(crate) fn guards(&self) -> Guards {
        self.guards
    }

    /// The number of stacks, vacant and taken.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The number of taken stacks.
    pub(crate) fn taken(&self) -> usize {
        let vacant = self.vacant.iter().map(|word| word.load(Ordering::Relaxed).count_ones());
        self.count - vacant.sum::<u32>() as usize
    }

    fn set_vacant(&self, index: usize) {
        self.vacant[index / 64].fetch_or(1 << (index % 64), Ordering::Release);
        self.first.fetch_min(index / 64, Ordering::Relaxed);
    }

    fn guard_page(&self, index: usize) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.limit(index).get())
    }

    fn guard(&self, index: usize) -> Result<(), GuardError> {
        let page = self.guard_page(index);
        match self.guards {
            // SAFETY: the page is this slab's own, below a stack that is not in use, and holds
            // nothing.
            Guards::Marked => match unsafe { libc::madvise(page, page_size(), GUARD_INSTALL) } {
                0 => Ok(()),
                _ => Err(GuardError::unmarked(io::Error::last_os_error())),
            },
            Guards::Protected => {
                let limit = protected_limit();
                if PROTECTED.fetch_add(1, Ordering::Relaxed) >= limit {
                    PROTECTED.fetch_sub(1, Ordering::Relaxed);
                    return Err(GuardError::Refused(too_many(limit)));
                }
                // SAFETY: the page is this slab's own, below a stack that is not in use, and holds
                // nothing.
                unsafe { mprotect(page, page_size(), MprotectFlags::empty()) }.map_err(|error| {
                    PROTECTED.fetch_sub(1, Ordering::Relaxed);
                    GuardError::Refused(error.into())
                })
            }
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        let address = ptr::with_exposed_provenance_mut(self.lowest.get());
        // SAFETY: the mapping is this slab's own, and no stack of the slab is left: each stack
        // holds the slab. Unmapping a whole mapping cannot fail.
        let _ = unsafe { munmap(address, self.stride * self.count) };
    }
}

/// The reason why a stack has no guard.
#[derive(Debug)]
pub(crate) enum GuardError {
    /// This kernel has no guard marks in page tables, or no marks for locked memory (mlockall(2)).
    CannotMark,
    /// No memory or no mapping is left for the guard.
    Refused(io::Error),
}

impl GuardError {
    fn unmarked(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EINVAL) => Self::CannotMark,
            _ => Self::Refused(error),
        }
    }
}

/// `MADV_GUARD_INSTALL` of madvise(2), which the `libc` crate does not have yet.
const GUARD_INSTALL: i32 = 102;

/// The number of stacks of this process that are guarded by protection.
static PROTECTED: AtomicUsize = AtomicUsize::new(0);

/// The most stacks that may be guarded by protection. Each stack takes two mappings, and the rest
/// of the process needs some.
fn protected_limit() -> usize {
    const RESERVE: usize = 4096;
    /// The kernel's default.
    const USUAL: usize = 65_530;
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let mappings = read_number(c"/proc/sys/vm/max_map_count").unwrap_or(USUAL);
        mappings.saturating_sub(RESERVE) / 2
    })
}

fn read_number(path: &std::ffi::CStr) -> Option<usize> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0; 32];
    let length = rustix::io::read(&file, &mut text).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.trim().parse().ok()
}

fn too_many(limit: usize) -> io::Error {
    let message = format!(
        "{limit} stacks are all that vm.max_map_count leaves room for on this kernel: raise it with sysctl(8), or use Linux 6.13, which needs no mapping for each"
    );
    io::Error::new(io::ErrorKind::OutOfMemory, message)
}
