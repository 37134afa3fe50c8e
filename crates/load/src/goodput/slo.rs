//! A limit that a percentile of the latencies must keep.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::measurement::{Measurement, OpenCounts};
use duality_trace::Mistake;

/// A latency that a share of the requests must not exceed, such as `p99=10ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    /// The share.
    pub percentile: Percentile,
    /// The limit on the latency, counted from a request's due time.
    pub limit: Duration,
}

/// A share of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Percentile {
    /// Half of the requests.
    P50,
    /// 90 %.
    P90,
    /// 99 %.
    P99,
    /// 99.9 %.
    P99_9,
    /// 99.99 %.
    P99_99,
    /// All.
    Max,
}

impl Percentile {
    /// All percentiles, from the smallest share to the largest.
    pub const ALL: [Self; 6] =
        [Self::P50, Self::P90, Self::P99, Self::P99_9, Self::P99_99, Self::Max];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
            Self::P99_99 => "p99.99",
            Self::Max => "max",
        }
    }

    /// The number of requests that the percentile needs. At least ten requests lie beyond it, so a
    /// request that is slow by chance does not decide. The maximum has no such number, so it uses
    /// that of p99.
    pub(super) fn requests(self) -> u64 {
        match self {
            Self::P50 | Self::P90 => 100,
            Self::P99 | Self::Max => 1_000,
            Self::P99_9 => 10_000,
            Self::P99_99 => 100_000,
        }
    }

    /// The share, from 0 to 1.
    pub fn share(self) -> f64 {
        self.percent() / 100.0
    }

    fn percent(self) -> f64 {
        match self {
            Self::P50 => 50.0,
            Self::P90 => 90.0,
            Self::P99 => 99.0,
            Self::P99_9 => 99.9,
            Self::P99_99 => 99.99,
            Self::Max => 100.0,
        }
    }
}

impl FromStr for Percentile {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        Self::ALL.into_iter().find(|percentile| percentile.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|percentile| percentile.name()).collect();
            format!("no percentile {text:?}: give one of {}", names.join(", ")).into()
        })
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={:?}", self.percentile.name(), self.limit)
    }
}

impl Slo {
    /// A lower bound of this percentile of all requests of an open loop. A request that was
    /// unanswered when the window closed counts with its wait so far, if the wait already exceeds
    /// the limit. `None` if there is nothing to count.
    pub(super) fn latency(&self, measurement: &Measurement) -> Option<Duration> {
        let mut latencies = measurement.latencies.clone();
        if let Some(OpenCounts { unanswered, .. }) = &measurement.open_loop {
            let waits = unanswered.iter_recorded();
            for wait in waits.filter(|wait| self.exceeded_by(wait.value_iterated_to())) {
                latencies.saturating_record_n(wait.value_iterated_to(), wait.count_at_value());
            }
        }
        if latencies.is_empty() {
            return None;
        }
        let value = latencies.value_at_percentile(self.percentile.percent());
        // The lowest value of the histogram's step, so that no latency is overstated.
        Some(Duration::from_nanos(latencies.lowest_equivalent(value)))
    }

    fn exceeded_by(&self, nanoseconds: u64) -> bool {
        Duration::from_nanos(nanoseconds) > self.limit
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;

    fn milliseconds(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        values.into_iter().for_each(|value| histogram.record(1_000_000 * value).unwrap());
        histogram
    }

    fn latency(slo: Slo, answered: Histogram<u64>, unanswered: Histogram<u64>) -> Option<u128> {
        let open_loop = Some(OpenCounts { unanswered, ..OpenCounts::new() });
        let measurement = Measurement { latencies: answered, open_loop, ..Measurement::default() };
        slo.latency(&measurement).map(|latency| latency.as_micros().div_ceil(1000))
    }

    #[test]
    fn percentiles_are_read_and_written_alike() {
        for percentile in Percentile::ALL {
            assert_eq!(percentile.name().parse(), Ok(percentile));
        }
        assert!("p98".parse::<Percentile>().unwrap_err().to_string().contains("p99.9"));
        let slo = Slo { percentile: Percentile::P99_9, limit: Duration::from_micros(1500) };
        assert_eq!(slo.to_string(), "p99.9=1.5ms");
    }

    #[test]
    fn what_is_not_answered_counts_once_it_is_late() {
        let slo = Slo { percentile: Percentile::P90, limit: Duration::from_millis(10) };
        assert_eq!(latency(slo, milliseconds([]), milliseconds([])), None);
        assert_eq!(latency(slo, milliseconds(1..=10), milliseconds([])), Some(9));
        // Within the limit so far; the final latency is unknown.
        assert_eq!(latency(slo, milliseconds(1..=10), milliseconds([1, 5, 9])), Some(9));
        assert_eq!(latency(slo, milliseconds(1..=10), milliseconds([50, 60])), Some(50));
        assert_eq!(latency(slo, milliseconds([]), milliseconds([50])), Some(50));
        let all = Slo { percentile: Percentile::Max, ..slo };
        assert_eq!(latency(all, milliseconds(1..=10), milliseconds([])), Some(10));
    }
}
