//! The time of day in whole seconds, cheaply, for the `Date` of a reply and the line of the time
//! service.

use rustix::time::{ClockId, clock_gettime};

/// Seconds since 1 January 1970, UTC.
///
/// The coarse clock is the kernel's last tick, read from the vDSO without a system call in a few
/// nanoseconds. It lags behind the exact clock by one tick (at most 10 ms), which a value in whole
/// seconds can afford.
pub fn seconds() -> u64 {
    u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or(0)
}
