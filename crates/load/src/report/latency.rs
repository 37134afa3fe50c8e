//! Percentiles of latency, and the histogram that they are from.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration;

/// Latencies in microseconds. All are zero if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// The arithmetic mean.
    pub mean: f64,
    /// The shortest.
    pub min: f64,
    /// Half of the latencies are no longer.
    pub p50: f64,
    /// 90 % of the latencies are no longer.
    pub p90: f64,
    /// 99 % of the latencies are no longer.
    pub p99: f64,
    /// 99.9 % of the latencies are no longer.
    #[serde(rename = "p99.9")]
    pub p99_9: f64,
    /// The longest.
    pub max: f64,
}

/// The `histogram` of a report is not a valid histogram.
#[derive(Debug, thiserror::Error)]
#[error("the histogram of the report on {target} cannot be read: {problem}")]
pub struct HistogramError {
    pub(super) target: String,
    pub(super) problem: String,
}

impl Latency {
    pub(super) fn of(nanoseconds: &Histogram<u64>) -> Self {
        if nanoseconds.is_empty() {
            return Self::default();
        }
        let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let percentile = |percent| microseconds(nanoseconds.value_at_percentile(percent));
        Self {
            mean: nanoseconds.mean() / 1e3,
            min: microseconds(nanoseconds.min()),
            p50: percentile(50.0),
            p90: percentile(90.0),
            p99: percentile(99.0),
            p99_9: percentile(99.9),
            max: microseconds(nanoseconds.max()),
        }
    }

    pub(super) fn lines(&self) -> [(&'static str, String); 2] {
        let mean = format!(
            "mean {}   min {}   max {}",
            duration(self.mean),
            duration(self.min),
            duration(self.max)
        );
        [("latency", mean), ("", self.percentiles())]
    }

    pub(super) fn percentiles(&self) -> String {
        format!(
            "50 % {}   90 % {}   99 % {}   99.9 % {}",
            duration(self.p50),
            duration(self.p90),
            duration(self.p99),
            duration(self.p99_9)
        )
    }
}

pub(crate) fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    written.expect("a histogram of these bounds can be serialised, and a vector takes all");
    BASE64.encode(bytes)
}
