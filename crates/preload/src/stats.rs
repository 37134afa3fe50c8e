//! Counters for `--stats`.

use core::sync::atomic::{AtomicU64, Ordering};

/// A counter. Kernel threads may lose a count to each other; no scheduling depends on it.
pub(crate) struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

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
pub(crate) static LOOKS: Counter = Counter::new();
pub(crate) static OFFLOADS: Counter = Counter::new();
pub(crate) static PREEMPTIONS: Counter = Counter::new();
pub(crate) static SITES: Counter = Counter::new();
