//! What an architecture must keep to be recommended: latencies and memory.
//!
//! A limit is kept when the median of the repeats keeps it. When the interval of that median holds the limit,
//! the next experiment might find the opposite, and the recommendation says that it is not sure.

use std::fmt;
use std::time::Duration;

use duality_load::{Latency, Percentile, Slo};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::format::{bytes, duration};
use crate::plan::settings::{parse_bytes, parse_slo};
use crate::statistics::{Estimate, estimate};
use crate::summary::Medians;

/// The shortest limit to a latency; results are in microseconds.
const SHORTEST: Duration = Duration::from_micros(1);

/// What must be kept; by default nothing.
///
/// In a plan and in results it is a table: `slo = ["p99=5ms"]`, `memory = "200MB"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Constraints {
    /// Limits to latencies, of one percentile each.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "write_slos",
        deserialize_with = "read_slos"
    )]
    pub slo: Vec<Slo>,
    /// The most memory that the server may have had, in bytes.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "write_bytes",
        deserialize_with = "read_bytes"
    )]
    pub memory: Option<u64>,
}

/// A limit and what was measured of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// In words: `p99 ≤ 5.0 ms`, `memory ≤ 200.0 MiB`.
    pub limit: String,
    /// The median as people read it.
    pub measured: String,
    /// Whether the median keeps it.
    pub kept: bool,
    /// Whether the interval of the median lies on one side of the limit.
    pub sure: bool,
    /// By how many times the median exceeds it; at most 1 when it is kept.
    pub excess: f64,
}

impl Constraints {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slo.is_empty() && self.memory.is_none()
    }

    /// All limits and what `medians` are beside them.
    pub fn check(&self, medians: &Medians, seed: u64) -> Vec<Check> {
        let latencies = self.slo.iter().filter_map(|slo| {
            let of = percentile(slo.percentile)?;
            let samples: Vec<f64> = medians.latency_samples.iter().map(of).collect();
            let limit = 1e6 * slo.limit.as_secs_f64();
            Some(Check::new(&limit_of(slo), limit, estimate(&samples, seed)?, duration))
        });
        let memory = self.memory.and_then(|limit| {
            let measured = estimate(&medians.memory_samples, seed)?;
            Some(Check::new(&memory_limit(limit), limit as f64, measured, bytes))
        });
        latencies.chain(memory).collect()
    }
}

impl Check {
    fn new(words: &str, limit: f64, measured: Estimate, show: fn(f64) -> String) -> Self {
        let straddles = measured
            .interval
            .is_some_and(|interval| interval.low <= limit && interval.high > limit);
        Self {
            limit: words.to_owned(),
            measured: show(measured.value),
            kept: measured.value <= limit,
            sure: !straddles,
            excess: measured.value / limit,
        }
    }
}

/// `p99 ≤ 5.0 ms and memory ≤ 200.0 MiB`.
impl fmt::Display for Constraints {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits: Vec<String> =
            self.slo.iter().map(limit_of).chain(self.memory.map(memory_limit)).collect();
        formatter.write_str(&crate::format::listed(&limits))
    }
}

/// Where the results keep a percentile; none for p99.99, which they do not.
pub(crate) fn percentile(percentile: Percentile) -> Option<fn(&Latency) -> f64> {
    Some(match percentile {
        Percentile::P50 => |latency| latency.p50,
        Percentile::P90 => |latency| latency.p90,
        Percentile::P99 => |latency| latency.p99,
        Percentile::P99_9 => |latency| latency.p99_9,
        Percentile::P99_99 => return None,
        Percentile::Max => |latency| latency.max,
    })
}

fn limit_of(slo: &Slo) -> String {
    format!("{} ≤ {}", slo.percentile.name(), duration(1e6 * slo.limit.as_secs_f64()))
}

fn memory_limit(limit: u64) -> String {
    format!("memory ≤ {}", bytes(limit as f64))
}

fn write_slos<S: Serializer>(slos: &[Slo], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(slos.iter().map(Slo::to_string))
}

fn read_slos<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Slo>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| kept_slo(text)).collect::<Result<_, _>>().map_err(de::Error::custom)
}

/// A limit to a percentile that the results keep.
///
/// # Errors
///
/// What to write instead.
pub fn kept_slo(text: &str) -> Result<Slo, String> {
    let slo = parse_slo(text)?;
    if percentile(slo.percentile).is_none() {
        return Err(format!(
            "results do not keep {}: give one of p50, p90, p99, p99.9 and max",
            slo.percentile.name()
        ));
    }
    if slo.limit < SHORTEST {
        return Err("nothing is answered in no time: give a limit from 1us on".to_owned());
    }
    Ok(slo)
}

#[expect(clippy::ref_option, reason = "serde's signature")]
fn write_bytes<S: Serializer>(bytes: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match bytes {
        Some(bytes) => serializer.collect_str(bytes),
        None => serializer.serialize_none(),
    }
}

fn read_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_bytes(&text).map(Some).map_err(de::Error::custom)
}
