//! The counts of the lock for `--stats`: how often it is taken, and how long workers hold it and
//! wait for it.
//!
//! Without `--stats`, the engine counts nothing, because a reading of the processor's clock costs
//! some 20 ns. The numbers change under the lock, so they are loaded and stored without atomic
//! operations.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::kernel::clock;

static IS_ON: AtomicBool = AtomicBool::new(false);
/// The time at which counting began, in ticks of the processor's clock and in nanoseconds.
static BEGAN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// When the lock was last taken, in ticks.
static SINCE: AtomicU64 = AtomicU64::new(0);
static TAKEN: AtomicU64 = AtomicU64::new(0);
static CONTENDED: AtomicU64 = AtomicU64::new(0);
static SLEPT: AtomicU64 = AtomicU64::new(0);
/// Sums, in ticks.
static HELD: AtomicU64 = AtomicU64::new(0);
static WAITED: AtomicU64 = AtomicU64::new(0);

/// The counts. Times are sums in nanoseconds.
pub(crate) struct Counts {
    pub(crate) taken: u64,
    /// How often another worker held the lock.
    pub(crate) contended: u64,
    /// How often a worker slept until the lock was free.
    pub(crate) slept: u64,
    pub(crate) held: u64,
    pub(crate) waited: u64,
}

/// Turns on the counts, which begin with the second worker.
pub(crate) fn switch_on() {
    IS_ON.store(true, Ordering::Relaxed);
}

#[inline(always)]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

pub(crate) fn ticks() -> u64 {
    // SAFETY: every processor of x86-64 has the instruction.
    unsafe { _rdtsc() }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

/// Begins the counts: the lock becomes real, and is held.
pub(crate) fn begin() {
    BEGAN[0].store(ticks(), Ordering::Relaxed);
    BEGAN[1].store(clock::now(), Ordering::Relaxed);
    SINCE.store(ticks(), Ordering::Relaxed);
}

/// Notes that the lock has been taken. If another worker held it, `contended_since` is the time at
/// which the wait began.
pub(crate) fn taken(contended_since: Option<u64>, slept: bool) {
    let now = ticks();
    SINCE.store(now, Ordering::Relaxed);
    add(&TAKEN, 1);
    add(&SLEPT, u64::from(slept));
    if let Some(since) = contended_since {
        add(&CONTENDED, 1);
        add(&WAITED, now.wrapping_sub(since));
    }
}

/// Notes that the lock is about to be released.
pub(crate) fn released() {
    add(&HELD, ticks().wrapping_sub(SINCE.load(Ordering::Relaxed)));
}

/// The counts so far. `None` if the lock was never activated, or is not counted.
pub(crate) fn counts() -> Option<Counts> {
    let [ticks_then, then] = [0, 1].map(|place| BEGAN[place].load(Ordering::Relaxed));
    if ticks_then == 0 {
        return None;
    }
    let passed = ticks().wrapping_sub(ticks_then).max(1);
    let nanoseconds = u128::from(clock::now().saturating_sub(then));
    let time = |sum: &AtomicU64| {
        (u128::from(sum.load(Ordering::Relaxed)) * nanoseconds / u128::from(passed)) as u64
    };
    Some(Counts {
        taken: TAKEN.load(Ordering::Relaxed),
        contended: CONTENDED.load(Ordering::Relaxed),
        slept: SLEPT.load(Ordering::Relaxed),
        held: time(&HELD),
        waited: time(&WAITED),
    })
}
