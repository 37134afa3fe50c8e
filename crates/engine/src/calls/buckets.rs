//! Waiters for words in memory, in buckets by address.

use core::mem;
use core::ptr;

use crate::kernel::assertions::{LONGEST_WALK, check};
use crate::kernel::lock::{Guarded, Held, Locked};
use crate::schedule::waiter::WaiterRef;

const BUCKETS: usize = 1 << 14;

#[derive(Clone, Copy)]
struct Bucket {
    first: Option<WaiterRef>,
    last: Option<WaiterRef>,
}

static TABLE: Guarded<[Bucket; BUCKETS]> =
    Guarded::new([const { Bucket { first: None, last: None } }; BUCKETS]);

fn bucket_of(locked: &mut Locked, key: usize) -> (&mut Bucket, Held<'_>) {
    let hash = (key >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
    let (table, held) = TABLE.with_cells(locked);
    (&mut table[hash % BUCKETS], held)
}

/// Puts a waiter at the end of the bucket of `key`.
pub(crate) fn insert(locked: &mut Locked, waiter: WaiterRef, key: usize, bits: u32) {
    let (bucket, held) = bucket_of(locked, key);
    waiter.futex_key.set(held, key);
    waiter.futex_bits.set(held, bits);
    let before = waiter.futex_queued.replace(held, true);
    assert!(!before, "a waiter waits for two words");
    waiter.futex_next.set(held, None);
    waiter.futex_previous.set(held, bucket.last);
    match bucket.last {
        Some(last) => {
            let next = last.futex_next.replace(held, Some(waiter));
            assert!(next.is_none(), "a bucket goes on after its end");
        }
        None => {
            let first = bucket.first.replace(waiter);
            assert!(first.is_none(), "a bucket has a beginning and no end");
        }
    }
    bucket.last = Some(waiter);
    check!(bucket.is_whole(held), "a bucket is broken after a waiter came");
}

impl Bucket {
    /// The list leads back as it leads on, and each waiter in it says so.
    fn is_whole(&self, held: Held<'_>) -> bool {
        let (mut previous, mut at) = (None::<WaiterRef>, self.first);
        for _ in 0..LONGEST_WALK {
            let Some(waiter) = at else {
                return self.last.map(ptr::from_ref) == previous.map(ptr::from_ref);
            };
            let back = waiter.futex_previous.get(held);
            let leads_back = back.map(ptr::from_ref) == previous.map(ptr::from_ref);
            if !leads_back || !waiter.futex_queued.get(held) {
                return false;
            }
            (previous, at) = (at, waiter.futex_next.get(held));
        }
        true
    }
}

/// Takes a waiter out of its bucket, if it is in one.
pub(crate) fn remove(locked: &mut Locked, waiter: WaiterRef) {
    let held = locked.held();
    if !waiter.futex_queued.replace(held, false) {
        return;
    }
    let key = waiter.futex_key.get(held);
    let (bucket, held) = bucket_of(locked, key);
    let (previous, next) = (waiter.futex_previous.get(held), waiter.futex_next.get(held));
    let forward = match previous {
        Some(previous) => previous.futex_next.replace(held, next),
        None => mem::replace(&mut bucket.first, next),
    };
    let backward = match next {
        Some(next) => next.futex_previous.replace(held, previous),
        None => mem::replace(&mut bucket.last, previous),
    };
    for neighbour in [forward, backward] {
        assert!(neighbour.is_some_and(|it| it.is(waiter)), "a waiter is not in its bucket");
    }
    check!(bucket.is_whole(held), "a bucket is broken after a waiter went");
}

/// The first waiter at `key`.
pub(crate) fn first_at(locked: &mut Locked, key: usize) -> Option<WaiterRef> {
    let (bucket, held) = bucket_of(locked, key);
    from(held, bucket.first, key)
}

/// The next waiter at `key`, after `waiter`.
pub(crate) fn next_at(held: Held<'_>, waiter: WaiterRef, key: usize) -> Option<WaiterRef> {
    from(held, waiter.futex_next.get(held), key)
}

/// The first waiter at `key`, from `waiter` on.
fn from(held: Held<'_>, mut waiter: Option<WaiterRef>, key: usize) -> Option<WaiterRef> {
    while let Some(candidate) = waiter {
        if candidate.futex_key.get(held) == key {
            return waiter;
        }
        waiter = candidate.futex_next.get(held);
    }
    None
}

/// Called in the child of a fork: no task waits.
pub(crate) fn forget_tasks(locked: &mut Locked) {
    for index in 0..BUCKETS {
        let mut next = TABLE.of(locked)[index].first;
        while let Some(waiter) = next {
            next = waiter.futex_next.get(locked.held());
            if waiter.home().is_some() {
                remove(locked, waiter);
            }
        }
    }
}
