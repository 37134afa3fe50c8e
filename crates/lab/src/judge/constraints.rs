//! Checks whether an architecture keeps the constraints.
//!
//! An architecture keeps a limit if the median of the repeats keeps the limit. If the median's
//! interval contains the limit, the next experiment might find the opposite. Then the
//! recommendation says so.

use duality_load::Latency;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::{bytes, duration};
use crate::record::Constraints;
use crate::record::constraints::{limit_of, memory_limit, percentile};
use crate::statistics::{Estimate, estimate};

/// A limit and the measured figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// The limited figure: `p99`, `memory`.
    #[serde(skip)]
    pub of: String,
    /// In words: `p99 ≤ 5.0 ms`, `memory ≤ 200.0 MiB`.
    pub limit: String,
    /// The median, formatted for readers.
    pub measured: String,
    /// Whether the median keeps the limit.
    pub kept: bool,
    /// Whether the interval of the median lies on one side of the limit.
    pub sure: bool,
    /// The median as a multiple of the limit. The multiple is at most 1 if the median keeps the
    /// limit.
    pub excess: f64,
}

/// All limits on measured figures. `latencies` and `memory` hold the latencies and the bytes of
/// each repeat.
pub fn check(
    constraints: &Constraints,
    latencies: &[Latency],
    memory: &[f64],
    seed: u64,
) -> Vec<Check> {
    let of_latencies = constraints.slo.iter().filter_map(|slo| {
        let of = percentile(slo.percentile)?;
        let samples: Vec<f64> = latencies.iter().map(of).collect();
        let limit = 1e6 * slo.limit.as_secs_f64();
        // A latency of zero was not measured.
        let measured = estimate(&samples, seed).filter(|measured| measured.value > 0.0)?;
        Some(Check::new(slo.percentile.name(), limit_of(slo), limit, measured, duration))
    });
    let of_memory = constraints.memory.and_then(|limit| {
        let measured = estimate(memory, seed)?;
        Some(Check::new("memory", memory_limit(limit), limit as f64, measured, bytes))
    });
    of_latencies.chain(of_memory).collect()
}

impl Check {
    fn new(
        of: &str,
        words: String,
        limit: f64,
        measured: Estimate,
        show: fn(f64) -> String,
    ) -> Self {
        let straddles = measured
            .interval
            .is_some_and(|interval| interval.low <= limit && interval.high > limit);
        Self {
            of: of.to_owned(),
            limit: words,
            measured: show(measured.value),
            kept: measured.value <= limit,
            sure: !straddles,
            excess: measured.value / limit,
        }
    }
}
