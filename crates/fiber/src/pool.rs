//! A pool of stacks of one size, last in, first out.
//!
//! The stack that was used last has warm pages and cache lines. Reusing a stack costs tens of
//! nanoseconds; mapping, guarding and touching a new stack costs microseconds. So reuse makes no
//! system call, with one exception: after the load has gone down, the pool returns the memory of
//! the peak.
//!
//! ```text
//!   slabs:  64 stacks │ 64 │ 128 │ 256 │ …        each as large as all before it, up to 1 GiB
//!
//!   spare:  ░░░░░░░░░░░░░░░▓▓▓▓▓▓▓▓ ◀─ put, take
//!           cold: without  warm: as many as are in use,
//!           memory         or 1,024
//! ```
//!
//! Spare stacks beyond the warm part give their memory back (`MADV_DONTNEED`, 1 µs, and 1.2 µs at
//! the next touch), the coldest first. The warm part grows with the number of stacks in use. So a
//! load that varies by half does not fault each time, and a finished load leaves only a few MiB. A
//! fixed bound would be too small for a varying load or too large after a finished load.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustix::param::page_size;

use crate::Stack;
use crate::slab::{GuardError, Guards, Slab};
use crate::stack::MIN_STACK_SIZE;

/// Stacks of one size, kept for reuse.
pub struct StackPool {
    size: usize,
    guards: Guards,
    slabs: Vec<Arc<Slab>>,
    /// Stacks that are not in use, in the order in which they were put back.
    spare: Vec<Stack>,
    /// The number of the first spare stacks that have given their memory back.
    cold: usize,
    /// The number of stacks, spare or in use, when the last new stack was made.
    made: usize,
}

impl fmt::Debug for StackPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StackPool")
            .field("size", &self.size)
            .field("spare", &self.spare.len())
            .finish_non_exhaustive()
    }
}

/// The number of stacks in the first slab.
const FIRST_SLAB: usize = 64;
/// The most bytes of address space that a slab has, unless a single stack is larger.
const LARGEST_SLAB: usize = 1 << 30;
/// The number of spare stacks that may always keep their memory.
const WARM: usize = 1024;

impl StackPool {
    /// Makes an empty pool, for stacks of at least `size` usable bytes.
    pub const fn new(size: usize) -> Self {
        Self {
            size,
            guards: Guards::Marked,
            slabs: Vec::new(),
            spare: Vec::new(),
            cold: 0,
            made: 0,
        }
    }

    /// Returns a spare stack, or a new stack.
    ///
    /// # Errors
    ///
    /// Returns `ENOMEM` if address space is used up. Before Linux 6.13, also returns
    /// [`io::ErrorKind::OutOfMemory`] with the remedy, if the process has only a reserve of
    /// mappings left (`vm.max_map_count`).
    #[inline]
    pub fn take(&mut self) -> io::Result<Stack> {
        self.take_leaving(0)
    }

    /// Like [`take`](StackPool::take), but makes a new stack only if `reserve` bytes of address
    /// space remain.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`take`](StackPool::take).
    #[inline]
    pub fn take_leaving(&mut self, reserve: usize) -> io::Result<Stack> {
        match self.spare.pop() {
            Some(stack) => {
                self.cold = self.cold.min(self.spare.len());
                Ok(stack)
            }
            None => self.make(reserve),
        }
    }

    /// Puts back a stack that [`take`](StackPool::take) gave out.
    #[inline]
    pub fn put(&mut self, stack: Stack) {
        self.spare.push(stack);
        let in_use = self.made.saturating_sub(self.spare.len());
        // The loop runs at most twice: one more stack is spare, and one fewer is in use.
        while self.spare.len() - self.cold > in_use.max(WARM) {
            self.spare[self.cold].forget_contents();
            self.cold += 1;
        }
    }

    /// A new stack, alone in its slab.
    pub(crate) fn take_alone(&mut self) -> io::Result<Stack> {
        loop {
            let slab = Arc::new(Slab::new(self.rounded_size()?, 1, self.guards, 0)?);
            if let Some(stack) = self.carve(&slab)? {
                return Ok(stack);
            }
        }
    }

    #[cold]
    fn make(&mut self, reserve: usize) -> io::Result<Stack> {
        loop {
            // The last slab is the largest. Other slabs have room only where a stack was dropped.
            for index in (0..self.slabs.len()).rev() {
                let slab = self.slabs[index].clone();
                if let Some(stack) = self.carve(&slab)? {
                    self.made += 1;
                    return Ok(stack);
                }
            }
            // Slabs with a kind of guard that is no longer available are of no use.
            self.slabs.retain(|slab| slab.guards() == self.guards);
            self.made = self.slabs.iter().map(|slab| slab.taken()).sum();
            let slab = self.next_slab(reserve)?;
            self.slabs.push(Arc::new(slab));
        }
    }

    /// Takes a stack of this slab. `None` if all stacks are taken, or if the slab's kind of guard
    /// is not available.
    fn carve(&mut self, slab: &Arc<Slab>) -> io::Result<Option<Stack>> {
        if slab.guards() != self.guards {
            return Ok(None);
        }
        match slab.take() {
            Ok(index) => Ok(index.map(|index| Stack::new_in(slab, index))),
            Err(GuardError::Refused(error)) => Err(error),
            Err(GuardError::CannotMark) => {
                self.guards = Guards::Protected;
                Ok(None)
            }
        }
    }

    /// Makes a slab as large as all present slabs together, or as large as address space allows.
    fn next_slab(&self, reserve: usize) -> io::Result<Slab> {
        let size = self.rounded_size()?;
        let count = self.slabs.iter().map(|slab| slab.count()).sum::<usize>().max(FIRST_SLAB);
        let mut count = count.min(LARGEST_SLAB / size).max(1);
        loop {
            match Slab::new(size, count, self.guards, reserve) {
                Err(_) if count > 1 => count /= 2,
                made => return made,
            }
        }
    }

    fn rounded_size(&self) -> io::Result<usize> {
        let page = page_size();
        let size = self.size.max(MIN_STACK_SIZE).checked_add(Stack::ABOVE_BASE);
        let size = size.and_then(|size| size.checked_next_multiple_of(page));
        size.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::ptr;

    use proptest::prelude::*;

    use super::*;

    impl StackPool {
        /// A pool that behaves as on a kernel without guard marks in page tables.
        fn protected(size: usize) -> Self {
            Self { guards: Guards::Protected, ..Self::new(size) }
        }
    }

    /// Whether this page is in memory, and so accessible.
    fn resident(address: usize) -> bool {
        let mut state = 0;
        let page = ptr::with_exposed_provenance_mut(address);
        // SAFETY: mincore(2) writes one byte for one page, and does not touch the range.
        let outcome = unsafe { libc::mincore(page, page_size(), &raw mut state) };
        outcome == 0 && state & 1 == 1
    }

    /// Whether the kernel can write at `address`: for a guard it returns `EFAULT`, without a
    /// signal.
    fn writable(address: usize) -> bool {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"!").unwrap();
        // SAFETY: the byte is in a stack that no fiber has, or in a guard.
        let read =
            unsafe { libc::read(reader.as_raw_fd(), ptr::with_exposed_provenance_mut(address), 1) };
        read == 1
    }

    fn highest_page(stack: &Stack) -> usize {
        (stack.base() - 1) & !(page_size() - 1)
    }

    fn touch(stack: &Stack) {
        assert!(writable(stack.base() - 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// No byte belongs to two stacks, for any order in which stacks are taken, put back and
        /// dropped.
        #[test]
        fn no_stack_is_given_out_twice(
            pages in 1_usize..6,
            protected: bool,
            steps in prop::collection::vec((0..8_u8, any::<prop::sample::Index>()), 1..400),
        ) {
            let size = pages * page_size() - 100;
            let mut pool = if protected { StackPool::protected(size) } else { StackPool::new(size) };
            let mut held: Vec<Stack> = Vec::new();
            for (step, which) in steps {
                match step {
                    0 if !held.is_empty() => drop(held.swap_remove(which.index(held.len()))),
                    1 | 2 if !held.is_empty() => pool.put(held.swap_remove(which.index(held.len()))),
                    _ => held.push(pool.take().unwrap()),
                }
            }
            held.sort_unstable_by_key(Stack::base);
            for stack in &held {
                let usable = stack.base() - stack.limit() - page_size();
                prop_assert!(usable >= size, "{usable} of {size} bytes");
                prop_assert_eq!(stack.base() % 16, 0);
                prop_assert_eq!(stack.limit() % page_size(), 0);
            }
            for pair in held.windows(2) {
                prop_assert!(pair[0].base() <= pair[1].limit());
            }
        }
    }

    #[test]
    fn a_stack_can_be_used_down_to_its_guard() {
        for mut pool in [StackPool::new(3 * page_size()), StackPool::protected(3 * page_size())] {
            let stacks: Vec<_> = (0..3).map(|_| pool.take().unwrap()).collect();
            let check = |stack: &Stack| {
                let lowest = stack.limit() + page_size();
                assert!(writable(stack.base() - 1) && writable(lowest));
                assert!(!writable(lowest - 1) && !writable(stack.limit()));
            };
            stacks.iter().for_each(check);
            // A stack keeps its guard when its memory goes.
            for mut stack in stacks {
                stack.forget_contents();
                check(&stack);
            }
        }
    }

    #[test]
    fn what_a_peak_leaves_behind_is_returned() {
        let mut pool = StackPool::new(page_size());
        let mut stacks: Vec<_> = (0..3 * WARM).map(|_| pool.take().unwrap()).collect();
        stacks.iter().for_each(touch);
        let tops: Vec<_> = stacks.iter().map(highest_page).collect();
        let kept = |tops: &[usize]| tops.iter().filter(|top| resident(**top)).count();
        // Puts half of the stacks back: as many are spare as in use, and all keep their memory.
        for stack in stacks.split_off(3 * WARM / 2) {
            pool.put(stack);
        }
        assert_eq!(kept(&tops), 3 * WARM);
        stacks.drain(..).for_each(|stack| pool.put(stack));
        assert_eq!(kept(&tops), WARM);
        // The stacks that were put back last are warm.
        assert_eq!(kept(&tops[WARM / 2..3 * WARM / 2]), WARM);
        let taken = pool.take().unwrap();
        assert_eq!(highest_page(&taken), tops[3 * WARM / 2 - 1]);
    }

    #[test]
    fn a_dropped_stack_leaves_no_memory_and_its_place_is_used_again() {
        let mut pool = StackPool::new(page_size());
        let stacks: Vec<_> = (0..FIRST_SLAB).map(|_| pool.take().unwrap()).collect();
        let slab = pool.slabs[0].clone();
        touch(&stacks[7]);
        let top = highest_page(&stacks[7]);
        assert!(resident(top));
        // The drop is on another kernel thread, because a loop may end there.
        std::thread::spawn(|| drop(stacks)).join().unwrap();
        assert!(!resident(top));
        assert_eq!(slab.taken(), 0);
        let _again: Vec<_> = (0..FIRST_SLAB).map(|_| pool.take().unwrap()).collect();
        assert_eq!(pool.slabs.len(), 1);
    }

    /// The test runs in a child process, because it uses up all mappings of its process.
    #[test]
    fn protected_stacks_end_before_the_mappings_do() {
        let test = "pool::tests::protected_stacks_end_before_the_mappings_do";
        if std::env::var_os("DUALITY_FIBER_MAPPINGS").is_none() {
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", test]).env("DUALITY_FIBER_MAPPINGS", "all");
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            return;
        }
        let mut pool = StackPool::protected(page_size());
        let mut stacks = Vec::new();
        let error = loop {
            match pool.take() {
                Ok(stack) => stacks.push(stack),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("vm.max_map_count"), "{error}");
        assert!(stacks.len() > 1000, "{}", stacks.len());
        // There is room for other mappings: threads map their stacks and signal stacks.
        let threads: Vec<_> = (0..50).map(|_| std::thread::spawn(|| vec![1_u8; 1 << 20])).collect();
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap().len(), 1 << 20));
        // There is room for a stack as soon as another is gone.
        stacks.pop();
        pool.take().unwrap();
    }

    #[test]
    fn no_stack_is_made_of_what_is_to_be_left() {
        // A process has 2^47 bytes of addresses at the most, on x86-64, and 2^48 on AArch64.
        const HALF: usize = 1 << 46;
        let mut pool = StackPool::new(page_size());
        let _stack = pool.take_leaving(HALF).unwrap();
        // Existing stacks need no new slab.
        let _others: Vec<_> =
            (1..FIRST_SLAB).map(|_| pool.take_leaving(4 * HALF).unwrap()).collect();
        let error = pool.take_leaving(4 * HALF).err().unwrap();
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
    }

    #[test]
    fn absurd_sizes_are_errors() {
        for size in [usize::MAX, usize::MAX / 2, 1 << 47] {
            assert!(StackPool::new(size).take().is_err());
        }
    }
}
