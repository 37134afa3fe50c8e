//! The histograms of a load: latencies in nanoseconds, up to an hour, to three digits.

use std::time::Duration;

use hdrhistogram::Histogram;

const LONGEST_LATENCY: Duration = Duration::from_secs(3600);
const SIGNIFICANT_DIGITS: u8 = 3;

/// A histogram of a slice is small, so that it stays in the cache: two digits tell a percentile.
const DIGITS_OF_A_SLICE: u8 = 2;

/// An empty histogram.
pub(crate) fn histogram() -> Histogram<u64> {
    with_digits(SIGNIFICANT_DIGITS)
}

/// An empty histogram of a slice.
pub(crate) fn coarse() -> Histogram<u64> {
    with_digits(DIGITS_OF_A_SLICE)
}

fn with_digits(digits: u8) -> Histogram<u64> {
    let longest = LONGEST_LATENCY.as_nanos() as u64;
    Histogram::new_with_bounds(1, longest, digits)
        .expect("the bounds and the digits are ones that a histogram can have")
}

/// Adds a latency. A latency above the range counts as the longest.
pub(crate) fn record(histogram: &mut Histogram<u64>, duration: Duration) {
    histogram.saturating_record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
}
