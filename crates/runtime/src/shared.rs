//! Numbers that a process shares with the child processes that it forks later.
//!
//! A mapping has at least a page, and a process may have some 65,000 of them. So small groups of
//! numbers share mappings: simulations start servers again and again.
//!
//! ```text
//!   mapping   │ next │ … │ group │ … │ group │ … │ free …
//!             its first number says where the free ones begin, for parent and children alike
//! ```

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// The numbers of a mapping for small groups: 64 KiB.
const WORDS: usize = 8 << 10;

/// Groups begin at multiples of this, so that none shares its cache line with another one.
const APART: usize = 16;

/// The mapping that has room. Null before the first one.
static NEWEST: AtomicPtr<[AtomicU64; WORDS]> = AtomicPtr::new(ptr::null_mut());

/// Makes `COUNT` numbers, all zero, that this process and its later children share. The numbers are
/// never freed, so call this function once in a service. Without shareable memory, each process has
/// numbers of its own.
#[must_use]
pub fn words<const COUNT: usize>() -> &'static [AtomicU64; COUNT] {
    const { assert!(COUNT > 0, "a mapping is not empty") };
    let shared = if COUNT > WORDS / 8 { map() } else { from_newest().or_else(from_another) };
    shared.unwrap_or_else(|| Box::leak(Box::new([const { AtomicU64::new(0) }; COUNT])))
}

/// A group of the newest mapping, if it has room.
fn from_newest<const COUNT: usize>() -> Option<&'static [AtomicU64; COUNT]> {
    // SAFETY: the pointer is null, or was made from a reference for ever.
    let newest = unsafe { NEWEST.load(Ordering::Acquire).as_ref() }?;
    let taken = COUNT.next_multiple_of(APART) as u64;
    // The first group's place is for the number itself.
    let start = newest[0].fetch_add(taken, Ordering::Relaxed) as usize + APART;
    newest.get(start..start.checked_add(COUNT)?)?.try_into().ok()
}

/// A group of a new mapping. If two threads make one at the same time, one keeps its room unused.
fn from_another<const COUNT: usize>() -> Option<&'static [AtomicU64; COUNT]> {
    let mapped: &'static [AtomicU64; WORDS] = map()?;
    NEWEST.store(ptr::from_ref(mapped).cast_mut(), Ordering::Release);
    from_newest()
}

/// A mapping of its own. `None` without memory.
fn map<const COUNT: usize>() -> Option<&'static [AtomicU64; COUNT]> {
    let length = size_of::<[AtomicU64; COUNT]>();
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), length, protection, MapFlags::SHARED) };
    // SAFETY: the mapping is never unmapped, begins at a page, and is at least `length` bytes long.
    // The mapping is all zeroes, which is a valid value of atomic integers.
    NonNull::new(mapped.ok()?).map(|words| unsafe { words.cast().as_ref() })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_groups_share_a_number_and_all_begin_at_zero() {
        let mut seen = HashSet::new();
        for round in 0..2_000 {
            let some: (&[AtomicU64; 1], &[AtomicU64; 3], &[AtomicU64; 40]) =
                (words(), words(), words());
            for word in some.0.iter().chain(some.1).chain(some.2) {
                assert_eq!(word.swap(u64::MAX, Ordering::Relaxed), 0, "{round}");
                assert!(seen.insert(ptr::from_ref(word)));
            }
        }
    }

    #[test]
    fn many_groups_take_few_mappings() {
        let count = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        let before = count();
        (0..10_000).for_each(|_| _ = words::<4>());
        // Other tests of this process map memory meanwhile.
        assert!(count() < before + 1_000);
    }
}
