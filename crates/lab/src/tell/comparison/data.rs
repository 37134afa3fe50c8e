//! A comparison as data, documented in docs/choosing.md. Names contain units.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Alone, Change, Comparison, Difference, Faulty, Metric, Pair};

/// The version of the form. The version changes when a field changes its meaning, and not for a new
/// field.
pub const VERSION: u32 = 2;

/// Two runs, experiment by experiment.
#[derive(Serialize, JsonSchema)]
pub struct Runs<'a> {
    /// The version of this form.
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// The first run.
    pub before: PathBuf,
    /// The second run.
    pub after: PathBuf,
    /// The experiments that both runs have.
    pub experiments: Vec<Data<'a>>,
    /// The experiments that one run has.
    pub unmatched_experiments: Vec<String>,
    /// What is worse in the second run, with `--fail-on-regression`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regressions: Option<Vec<String>>,
}

/// Two experiments laid over each other.
#[derive(Serialize, JsonSchema)]
pub struct Data<'a> {
    /// The experiment's name in its plan.
    experiment: Option<&'a str>,
    /// The service.
    service: &'a str,
    /// The differences of machine, design and version.
    differences: &'a [Difference],
    /// What excludes subjects from a choice, in either experiment.
    faults: &'a [Faulty],
    /// The cells that both have measured.
    cells: Vec<Cell<'a>>,
    /// The cells that only the first has measured.
    only_before: &'a [Alone],
    /// The cells that only the second has measured.
    only_after: &'a [Alone],
}

/// A cell that both experiments have measured.
#[derive(Serialize, JsonSchema)]
struct Cell<'a> {
    /// The architecture or peer.
    architecture: &'a str,
    /// The number of connections that were open at once.
    concurrency: usize,
    /// Whether connections got no reply in the first.
    starved_before: bool,
    /// Whether connections got no reply in the second.
    starved_after: bool,
    #[serde(flatten)]
    changes: Changes,
}

/// The changes of a cell's figures. A figure that was not measured is left out.
#[derive(Serialize, JsonSchema)]
struct Changes {
    /// Correct replies a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_second: Option<Ratio>,
    /// The server's processor time for a request, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cpu_us_per_request: Option<Ratio>,
    /// The median latency in microseconds.
    #[serde(rename = "latency_us.p50", skip_serializing_if = "Option::is_none")]
    p50: Option<Ratio>,
    /// The latency that 99 % of requests do not exceed, in microseconds.
    #[serde(rename = "latency_us.p99", skip_serializing_if = "Option::is_none")]
    p99: Option<Ratio>,
    /// The most memory that the server had, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_peak_bytes: Option<Ratio>,
}

/// The change of a figure.
#[derive(Serialize, JsonSchema)]
struct Ratio {
    /// The median of the first experiment.
    before: f64,
    /// The median of the second.
    after: f64,
    /// The second over the first.
    ratio: f64,
    /// The lower end of its 99 % interval.
    ratio_low: Option<f64>,
    /// The upper end.
    ratio_high: Option<f64>,
    /// `better`, `worse`, `level` within the margin, `not-told`, or `unsure`.
    verdict: String,
}

impl Comparison {
    /// The comparison as data.
    pub fn data(&self) -> Data<'_> {
        Data {
            experiment: self.experiment.as_deref(),
            service: &self.before.service,
            differences: &self.differences,
            faults: &self.faults,
            cells: self.pairs.iter().map(Cell::of).collect(),
            only_before: &self.only_before,
            only_after: &self.only_after,
        }
    }
}

impl<'a> Cell<'a> {
    fn of(pair: &'a Pair) -> Self {
        let change = |metric| pair.change(metric).map(Ratio::of);
        Self {
            architecture: &pair.subject,
            concurrency: pair.concurrency,
            starved_before: pair.starved.0,
            starved_after: pair.starved.1,
            changes: Changes {
                requests_per_second: change(Metric::Rate),
                server_cpu_us_per_request: change(Metric::Cpu),
                p50: change(Metric::P50),
                p99: change(Metric::P99),
                server_peak_bytes: change(Metric::Memory),
            },
        }
    }
}

impl Ratio {
    fn of(change: &Change) -> Self {
        let interval = change.ratio.interval;
        Self {
            before: change.before,
            after: change.after,
            ratio: change.ratio.value,
            ratio_low: interval.map(|interval| interval.low),
            ratio_high: interval.map(|interval| interval.high),
            verdict: change.verdict.to_string(),
        }
    }
}
