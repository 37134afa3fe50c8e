//! Numbers that a process shares with the child processes that it forks later.

use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// Makes `COUNT` numbers, all zero, that this process and its later children share. The numbers are
/// never freed, so call this function once in a service. Without shareable memory, each process has
/// numbers of its own.
#[must_use]
pub fn words<const COUNT: usize>() -> &'static [AtomicU64; COUNT] {
    const { assert!(COUNT > 0, "a mapping is not empty") };
    let length = size_of::<[AtomicU64; COUNT]>();
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), length, protection, MapFlags::SHARED) };
    match mapped.ok().and_then(NonNull::new) {
        // SAFETY: the mapping is never unmapped, begins at a page, and is at least `length` bytes
        // long. The mapping is all zeroes, which is a valid value of atomic integers.
        Some(words) => unsafe { words.cast().as_ref() },
        None => Box::leak(Box::new([const { AtomicU64::new(0) }; COUNT])),
    }
}
