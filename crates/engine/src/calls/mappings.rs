//! The calls about memory: memory that other processes share, and code that arrives later.

use crate::calls::shared_memory::{self, pages};
use crate::kernel::frame::Frame;
use crate::kernel::lock::lock;
use crate::kernel::plain::zeroed;
use crate::kernel::sys::{error, failed, sys};
use crate::objects::patching;
use crate::schedule::stacks::{self, STACKS};
use crate::workers::pump;

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
    let mut result = frame.pass();
    if result == error(libc::ENOMEM) && is_stack(flags) {
        // Meanwhile, threads that are about to end would natively have given back their stacks, on
        // their own processors.
        pump::give_turn();
        result = frame.pass();
    }
    if failed(result) {
        return result;
    }
    let mapped = pages(result as usize, length);
    if flags & libc::MAP_FIXED != 0 {
        shared_memory::forget(&mapped);
    }
    if flags & libc::MAP_TYPE != libc::MAP_PRIVATE {
        shared_memory::add(mapped.clone());
    }
    if protection & libc::PROT_EXEC != 0 && flags & libc::MAP_ANONYMOUS == 0 {
        patching::patch_mapped(frame.argument(4) as i32, mapped, frame.argument(5) as u64);
    }
    result
}

fn is_stack(flags: i32) -> bool {
    let wanted = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
    flags & wanted == wanted && flags & libc::MAP_FIXED == 0
}

/// mremap(2)
pub(crate) fn mremap(frame: &mut Frame) -> isize {
    let result = frame.pass();
    if !failed(result) && shared_memory::contains(&mut lock(), frame.argument(0)) {
        shared_memory::forget(&pages(frame.argument(0), frame.argument(1)));
        shared_memory::add(pages(result as usize, frame.argument(2)));
    }
    result
}

/// shmat(2)
pub(crate) fn shmat(frame: &mut Frame) -> isize {
    let result = frame.pass();
    if !failed(result) {
        let mut status: libc::shmid_ds = zeroed();
        sys!(SYS_shmctl, frame.argument(0), libc::IPC_STAT, &mut status);
        shared_memory::add(pages(result as usize, status.shm_segsz));
    }
    result
}

/// mprotect(2): libc makes a new stack accessible except for its lower end.
pub(crate) fn mprotect(frame: &mut Frame) -> isize {
    let [address, length, protection, ..] = frame.arguments();
    let accessible = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    if protection == accessible && stacks::open(address, length) {
        return 0;
    }
    frame.pass()
}

/// munmap(2)
pub(crate) fn munmap(frame: &mut Frame) -> isize {
    let (address, length) = (frame.argument(0), frame.argument(1));
    if stacks::give_back(address, length) {
        return 0;
    }
    let result = frame.pass();
    if result == 0 {
        shared_memory::forget(&pages(address, length));
    }
    result
}

/// madvise(2): a thread that ends gives back its stack, which the next one would have to fault in
/// again.
pub(crate) fn madvise(frame: &mut Frame) -> isize {
    if frame.argument(2) as i32 == libc::MADV_DONTNEED && stacks::contains(frame.argument(0)) {
        return 0;
    }
    frame.pass()
}
