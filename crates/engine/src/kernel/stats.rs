//! Counters for `--stats`.

use core::sync::atomic::{AtomicU64, Ordering};

/// Numbers of calls that are counted.
pub(crate) const NUMBERS: usize = 512;

/// A counter.
pub(crate) struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Counts an event without the lock.
    pub(crate) fn add_unlocked(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts an event under the lock.
    #[inline(always)]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) static THREADS_CREATED: Counter = Counter::new();
pub(crate) static SWITCHES: Counter = Counter::new();
pub(crate) static PARKS: Counter = Counter::new();
/// The parks in each call.
pub(crate) static PARKS_IN: [Counter; NUMBERS] = [const { Counter::new() }; NUMBERS];
pub(crate) static LOOKS: Counter = Counter::new();
pub(crate) static OFFLOADS: Counter = Counter::new();
pub(crate) static PREEMPTIONS: Counter = Counter::new();
/// The number of the program's signals with which the kernel has interrupted a worker.
pub(crate) static SIGNALS: Counter = Counter::new();
pub(crate) static SITES: Counter = Counter::new();

/// Counts a thread that parks in a call.
#[inline(always)]
pub(crate) fn parked_in(call: u32) {
    PARKS.add(1);
    if let Some(counter) = PARKS_IN.get(call as usize) {
        counter.add(1);
    }
}
