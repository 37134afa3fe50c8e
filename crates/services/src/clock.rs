//! The time of day in whole seconds, cheaply, for the `Date` of a reply and the line of the time
//! service.

use rustix::time::{ClockId, clock_gettime};

/// Seconds since 1 January 1970, UTC.
///
/// The coarse clock is the kernel's last tick. The vDSO reads the clock in a few nanoseconds,
/// without a system call. The clock lags behind the exact clock by at most one tick (10 ms), which
/// does not matter for whole seconds.
pub fn seconds() -> u64 {
    u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or(0)
}
