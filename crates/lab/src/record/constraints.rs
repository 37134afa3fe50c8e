//! The limits that a recommended architecture must keep: latencies and memory, as plans and results
//! have them.

use std::fmt;

use duality_load::{Latency, Percentile, Slo};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Mistake;
use crate::format::{bytes, duration};
use crate::units::{parse_bytes, parse_slo};

/// The limits. By default there are none.
///
/// In a plan and in results, the constraints are a table: `slo = ["p99=5ms"]`, `memory = "200MB"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Constraints {
    /// Limits to latencies, of one percentile each.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "write_slos",
        deserialize_with = "read_slos"
    )]
    #[schemars(with = "Vec<String>")]
    pub slo: Vec<Slo>,
    /// The largest memory that the server may have used, in bytes.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "write_bytes",
        deserialize_with = "read_bytes"
    )]
    #[schemars(with = "Option<String>")]
    pub memory: Option<u64>,
}

impl Constraints {
    /// Whether there are no constraints.
    pub fn is_empty(&self) -> bool {
        self.slo.is_empty() && self.memory.is_none()
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

/// The field of the results that has a percentile. The results have no p99.99.
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

/// A limit in words: `p99 ≤ 5.0 ms`.
pub(crate) fn limit_of(slo: &Slo) -> String {
    format!("{} ≤ {}", slo.percentile.name(), duration(1e6 * slo.limit.as_secs_f64()))
}

/// A limit to memory in words.
pub(crate) fn memory_limit(limit: u64) -> String {
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
/// The error names the valid forms.
pub fn kept_slo(text: &str) -> Result<Slo, Mistake> {
    let slo = parse_slo(text)?;
    if percentile(slo.percentile).is_none() {
        return Err(format!(
            "results do not keep {}: give one of p50, p90, p99, p99.9 and max",
            slo.percentile.name()
        )
        .into());
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

/// Results have bare numbers of bytes. In a plan, a small one is a unit that was forgotten.
fn read_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    const LEAST: u64 = 1 << 16;
    let text = String::deserialize(deserializer)?;
    let bytes = parse_bytes(&text).map_err(de::Error::custom)?;
    if bytes < LEAST {
        with_unit(&text).map_err(de::Error::custom)?;
    }
    Ok(Some(bytes))
}

/// Reads a limit to memory, with its unit.
///
/// # Errors
///
/// The error names a valid form.
pub fn kept_memory(text: &str) -> Result<u64, Mistake> {
    let bytes = parse_bytes(text)?;
    with_unit(text).map(|()| bytes)
}

fn with_unit(text: &str) -> Result<(), Mistake> {
    match text.ends_with(char::is_alphabetic) {
        true => Ok(()),
        false => Err(format!("{text} has no unit: write {text}MB, or {text}B for bytes").into()),
    }
}
