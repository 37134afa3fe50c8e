//! The results of an experiment as data: `summary.json` beside the report, and
//! `duality report RUN --json`.
//!
//! Scripts may rely on this format: names contain units, and [`VERSION`] changes when a field
//! changes its meaning.

use duality_load::Warning;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::judge::faults::{self, Fault};
use crate::judge::rows::{Figures, Medians, Row};
use crate::judge::summary::{Again, Summary};
use crate::record::{Constraints, Design, Machine, Origin};
use crate::statistics::{Estimate, median};
use crate::tell::answer::Answer;
use crate::tell::recommendation::Recommendation;

/// The version of the format.
pub const VERSION: u32 = 4;

/// The results of an experiment.
#[derive(Serialize, JsonSchema)]
pub struct Data<'a> {
    /// The version of this format.
    #[schemars(extend("const" = VERSION))]
    version: u32,
    /// The version of Duality that measured.
    duality: &'a str,
    /// The plan of the experiment.
    plan: Option<&'a Origin>,
    /// The time at which the experiment began (RFC 3339, UTC).
    started_at: &'a str,
    /// The design of the experiment.
    design: &'a Design,
    /// The machine of the measurement.
    machine: &'a Machine,
    /// The constraints on a recommended subject.
    constraints: &'a Constraints,
    /// The subject that runs today.
    current: Option<&'a str>,
    /// The number of cells of the design.
    cells_planned: usize,
    /// The number of cells with a measurement or a reason.
    cells_done: usize,
    /// The medians of every cell with their quality.
    cells: Vec<CellData<'a>>,
    /// The control.
    control: Option<ControlData<'a>>,
    /// The choice, sentences, the leaders at each load, the changes of the lead, and the broken
    /// constraints.
    recommendation: &'a Recommendation,
}

/// The control, and the ratios of its second measurement to the first.
#[derive(Serialize, JsonSchema)]
struct ControlData<'a> {
    /// The architecture that was measured twice.
    architecture: &'a str,
    /// The second measurements.
    cells: Vec<CellData<'a>>,
    /// The comparison at each number of connections.
    checks: Vec<ControlCheck>,
}

/// The control at a number of connections.
#[derive(Serialize, JsonSchema)]
struct ControlCheck {
    /// The number of connections that were open at once.
    concurrency: usize,
    /// The share by which the second server is worse than the first.
    difference: f64,
    /// The largest difference that chance makes.
    critical: f64,
    /// Whether the two servers are level, as they must be.
    is_tie: bool,
}

/// A subject at a number of connections.
#[derive(Serialize, JsonSchema)]
struct CellData<'a> {
    /// The architecture or peer.
    architecture: &'a str,
    /// The number of connections that were open at once.
    concurrency: usize,
    /// Warnings for readers of the figures.
    warnings: &'a [Warning],
    /// The reasons why the subject cannot be chosen here.
    faults: Vec<Fault>,
    /// `measured`, or what came of it instead.
    outcome: &'a str,
    #[serde(flatten)]
    figures: Told<'a>,
}

/// Figures, or the reason why there are none.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Told<'a> {
    Measured(Box<Measured>),
    Missing {
        /// The reason why the cell has no figures.
        reason: &'a str,
    },
}

/// The medians of a cell. A figure that was not measured is null.
#[derive(Serialize, JsonSchema)]
struct Measured {
    /// The number of repeats with figures.
    repeats: usize,
    /// Correct replies a second.
    requests_per_second: Estimate,
    /// Latencies in microseconds.
    latency_us: Latencies,
    /// The mean number of requests in service.
    measured_load: Option<f64>,
    /// The server's processor time for a request, in microseconds.
    server_cpu_us_per_request: Option<f64>,
    /// The load generator's processor time for a request, in microseconds.
    client_cpu_us_per_request: Option<f64>,
    /// The most memory that the server had, in bytes.
    server_peak_bytes: Option<f64>,
    /// The load generator's processor time, as a share of one processor.
    client_cpu_share: f64,
    /// Whether the load generator, and not the server, was the limit.
    client_was_limit: bool,
    /// Whether connections got no reply.
    starved: bool,
    /// Whether the figures cannot be trusted.
    invalid: bool,
    /// Whether the listen queue, and not the server, was the limit.
    listen_queue_was_limit: bool,
    /// The coefficient of variation of the rate over the repeats.
    variation: Option<f64>,
    /// Replies that were not the expected ones.
    wrong_replies: u64,
    /// Requests that failed.
    errors: u64,
    /// The longest time in a slice without a reply on any connection, in microseconds.
    longest_stop_us: Option<f64>,
    /// Slices in which no connection got a reply for 50 ms or more.
    stops: Option<u64>,
    /// By how many bytes of memory the server grew for each request.
    growth_bytes_per_request: Option<f64>,
}

/// Medians of latencies. A latency that was not measured is null.
#[derive(Serialize, JsonSchema)]
struct Latencies {
    /// The arithmetic mean.
    mean: Option<f64>,
    /// Half of the latencies are no longer.
    p50: Option<f64>,
    /// 99 % of the latencies are no longer.
    p99: Option<f64>,
    /// 99.9 % of the latencies are no longer.
    #[serde(rename = "p99.9")]
    p99_9: Option<f64>,
}

/// The results as JSON.
pub fn summary(answer: &Answer<'_>) -> Value {
    serde_json::to_value(Data::of(answer)).expect("it is plain data")
}

impl<'a> Data<'a> {
    fn of(answer: &'a Answer<'_>) -> Self {
        let Answer { heading, summary, recommendation, .. } = answer;
        Self {
            version: VERSION,
            duality: &heading.duality,
            plan: heading.plan.as_ref(),
            started_at: &heading.started_at,
            design: &heading.design,
            machine: &heading.machine,
            constraints: &summary.constraints,
            current: summary.current.as_deref(),
            cells_planned: summary.planned,
            cells_done: summary.done,
            cells: summary.rows.iter().map(CellData::of).collect(),
            control: summary.control.as_ref().map(|control| ControlData::of(control, summary)),
            recommendation,
        }
    }
}

impl<'a> ControlData<'a> {
    fn of(control: &'a Again, summary: &Summary) -> Self {
        let checks = summary.verdicts.iter().filter_map(|verdict| {
            let check = verdict.control.as_ref()?;
            Some(ControlCheck {
                concurrency: verdict.concurrency,
                difference: check.difference,
                critical: check.critical,
                is_tie: check.holds(),
            })
        });
        Self {
            architecture: &control.architecture,
            cells: control.rows.iter().map(CellData::of).collect(),
            checks: checks.collect(),
        }
    }
}

impl<'a> CellData<'a> {
    fn of(row: &'a Row) -> Self {
        let (outcome, figures) = match &row.figures {
            Figures::Missing { state, reason } => (state.name(), Told::Missing { reason }),
            Figures::Measured(medians) => {
                ("measured", Told::Measured(Box::new(Measured::of(medians))))
            }
        };
        Self {
            architecture: &row.subject,
            concurrency: row.concurrency,
            warnings: &row.warnings,
            faults: faults::of(row),
            outcome,
            figures,
        }
    }
}

impl Measured {
    fn of(medians: &Medians) -> Self {
        let sessions = || medians.sessions.iter();
        let longest = sessions().map(|one| one.longest_stop_us).reduce(f64::max);
        let growth: Vec<f64> = sessions().map(|one| one.growth_bytes_per_request).collect();
        Self {
            repeats: medians.requests_per_second_samples.len(),
            requests_per_second: medians.requests_per_second,
            latency_us: Latencies {
                mean: known(medians.mean_us),
                p50: known(medians.p50_us),
                p99: known(medians.p99_us),
                p99_9: known(medians.p99_9_us),
            },
            measured_load: known(medians.measured_load),
            server_cpu_us_per_request: known(medians.cpu_us),
            client_cpu_us_per_request: known(medians.client_cpu_us),
            server_peak_bytes: known(medians.memory_bytes),
            client_cpu_share: medians.client_cpu_share,
            client_was_limit: medians.client_was_limit,
            starved: medians.starved,
            invalid: medians.invalid,
            listen_queue_was_limit: medians.queue_was_limit,
            variation: medians.variation,
            wrong_replies: medians.fates.wrong,
            errors: medians.fates.failed,
            longest_stop_us: longest,
            stops: longest.map(|_| sessions().map(|one| one.stops).sum()),
            growth_bytes_per_request: median(&growth),
        }
    }
}

/// A figure of which a zero means that it was not measured.
pub(super) fn known(figure: f64) -> Option<f64> {
    (figure > 0.0).then_some(figure)
}
