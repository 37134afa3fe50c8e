//! A histogram of the times that requests took, shared with child processes.
//!
//! ```text
//!   kernel threads and children ──▶ a stripe of counters each ──▶ sum ──▶ latencies()
//! ```
//!
//! A request adds to three counters by atomic additions. Kernel threads use different stripes as
//! far as there are enough, so these cache lines seldom move between processors. Without
//! [`prepare_latencies`], no times are kept, and no request reads a clock.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::thread_slots;
use crate::pages;

/// Buckets with a bound: 1 µs, 2 µs, 4 µs … 16.8 s. One more bucket has all longer times.
const BOUNDED: usize = 25;

/// The number of kernel threads with their own counters.
const STRIPES: usize = 64;

/// The counters of some kernel threads. Two pairs of cache lines, against false sharing.
#[repr(C, align(128))]
struct Stripe {
    buckets: [AtomicU64; BOUNDED + 1],
    /// Nanoseconds of all requests together.
    sum: AtomicU64,
    /// Requests that took longer than [`LIMIT`].
    late: AtomicU64,
    /// Requests that have begun.
    begun: AtomicU64,
}

/// Nanoseconds after which a request is late.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

static STRIPES_OF_ALL: OnceLock<&'static [Stripe; STRIPES]> = OnceLock::new();

/// The times of all requests that have been answered so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// The buckets: the longest time of each in seconds, and the number of its requests. The last
    /// bound is infinite.
    pub buckets: Vec<(f64, u64)>,
    /// Seconds of all requests together.
    pub sum: f64,
    /// Requests that took longer than the time of [`count_late_requests`]. `None` without such a
    /// time.
    pub late: u64,
    /// Requests of which the first bytes were read. Some of them have no answer yet, or get none.
    pub begun: u64,
}

impl Latencies {
    /// The number of answered requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

/// Begins the histogram, for this process and the children that it forks later. Call this before a
/// connection is accepted.
///
/// # Errors
///
/// If there is no memory for the histogram.
pub fn prepare_latencies() -> io::Result<()> {
    if STRIPES_OF_ALL.get().is_none() {
        let memory = pages::share(size_of::<[Stripe; STRIPES]>())?;
        // SAFETY: the mapping is aligned to a page, long enough, never unmapped, and all zeroes,
        // which is a valid value of atomic integers.
        let stripes = unsafe { memory.cast::<[Stripe; STRIPES]>().as_ref() };
        // Another thread may have been faster. Then its table serves as well.
        let _ = STRIPES_OF_ALL.set(stripes);
    }
    Ok(())
}

/// Begins an exact count of requests that take longer than `limit`. The buckets are too wide for an
/// exact count. Call this before a connection is accepted and processes are forked.
pub fn count_late_requests(limit: Duration) {
    LIMIT.store(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// The current histogram. Empty if none is kept.
#[must_use]
pub fn latencies() -> Latencies {
    let Some(stripes) = STRIPES_OF_ALL.get() else { return Latencies::default() };
    let sum_of = |counter: &dyn Fn(&Stripe) -> &AtomicU64| -> u64 {
        stripes.iter().map(|stripe| counter(stripe).load(Ordering::Relaxed)).sum()
    };
    let bucket = |index: usize| (bound(index), sum_of(&|stripe| &stripe.buckets[index]));
    let sum = sum_of(&|stripe| &stripe.sum) as f64 / 1e9;
    let late = sum_of(&|stripe| &stripe.late);
    let begun = sum_of(&|stripe| &stripe.begun);
    Latencies { buckets: (0..=BOUNDED).map(bucket).collect(), sum, late, begun }
}

#[inline]
pub(super) fn are_kept() -> bool {
    STRIPES_OF_ALL.get().is_some()
}

/// Counts a request that begins.
pub(super) fn begin() {
    if let Some(stripe) = stripe_here() {
        stripe.begun.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counters of this kernel thread.
fn stripe_here() -> Option<&'static Stripe> {
    Some(&STRIPES_OF_ALL.get()?[thread_slots::number_here() % STRIPES])
}

/// Adds a request that took this many nanoseconds.
pub(super) fn add(nanoseconds: u64) {
    let Some(stripe) = stripe_here() else { return };
    stripe.buckets[bucket_of(nanoseconds)].fetch_add(1, Ordering::Relaxed);
    stripe.sum.fetch_add(nanoseconds, Ordering::Relaxed);
    if nanoseconds > LIMIT.load(Ordering::Relaxed) {
        stripe.late.fetch_add(1, Ordering::Relaxed);
    }
}

/// The bucket of a time: the first bucket with a bound that is not shorter.
fn bucket_of(nanoseconds: u64) -> usize {
    let microseconds = nanoseconds.div_ceil(1000).max(1);
    let power = u64::BITS - (microseconds - 1).leading_zeros();
    (power as usize).min(BOUNDED)
}

/// The bound of a bucket, in seconds.
fn bound(index: usize) -> f64 {
    if index < BOUNDED { (1u64 << index) as f64 / 1e6 } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_that_has_room_for_it() {
        for (nanoseconds, seconds) in [
            (0, 1e-6),
            (1, 1e-6),
            (1000, 1e-6),
            (1001, 2e-6),
            (2000, 2e-6),
            (2001, 4e-6),
            (1_000_000, 0.001_024),
            (16_777_216_000, 16.777_216),
            (16_777_216_001, f64::INFINITY),
            (u64::MAX, f64::INFINITY),
        ] {
            assert_eq!(bound(bucket_of(nanoseconds)), seconds, "{nanoseconds}");
        }
    }

    #[test]
    fn what_threads_add_is_summed() {
        prepare_latencies().unwrap();
        count_late_requests(Duration::from_millis(2));
        let before = latencies();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..100).for_each(|_| {
                        begin();
                        add(3_000_000);
                    });
                });
            }
        });
        let after = latencies();
        assert!(after.count() >= before.count() + 400);
        assert!(after.begun >= before.begun + 400);
        assert!(after.sum >= before.sum + 1.1);
        assert!(after.late >= before.late + 400);
    }
}
