//! The time of day in whole seconds, cheaply, for the `Date` of a reply and the line of the time
//! service.

use duality_runtime::time::time_of_day;

/// Seconds since 1 January 1970, UTC.
pub fn seconds() -> u64 {
    time_of_day().as_secs()
}
