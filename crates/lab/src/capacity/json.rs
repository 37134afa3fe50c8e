//! Capacity as JSON, documented in docs/capacity.md.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::check::{Accuracy, Check, Checked};
use super::forms::Prediction;
use super::hosts::Need;
use super::limits::Limit;
use super::{Capacity, Memory, Point, Subject, notes, title};
use crate::failure::Failure;
use crate::statistics::Estimate;

/// The version of the form. The version changes when a field changes its meaning, and not for a new
/// field.
pub const VERSION: u32 = 1;

/// The predictions of each experiment.
#[derive(Serialize, JsonSchema)]
pub struct Predictions<'a> {
    /// The version of this form.
    #[schemars(extend("const" = VERSION))]
    version: u32,
    /// The experiments.
    experiments: Vec<Experiment<'a>>,
}

/// The predictions from the results of an experiment.
#[derive(Serialize, JsonSchema)]
struct Experiment<'a> {
    /// The heading of the experiment on pages.
    title: String,
    /// The service.
    service: &'a str,
    /// The experiment's name in its plan.
    experiment: Option<&'a str>,
    /// The number of connections in question.
    connections: usize,
    /// Requests a second that must be answered.
    requests_per_second: Option<f64>,
    /// Processors of a host.
    processors_per_host: usize,
    /// The share of its processors that a host may use.
    utilisation: f64,
    /// The number of hosts in question.
    hosts: Option<usize>,
    /// Architectures and peers.
    architectures: Vec<Architecture<'a>>,
    /// Limits of a host that makes the load.
    load_limits: Vec<Resource>,
    /// Remarks, in sentences.
    notes: Vec<String>,
    /// The command that measures what cannot be predicted, in words of a shell.
    to_measure: Vec<String>,
}

/// The predictions for an architecture or a peer.
#[derive(Serialize, JsonSchema)]
struct Architecture<'a> {
    /// The name.
    architecture: &'a str,
    /// The measurements, at rising numbers of connections.
    measured: &'a [Point],
    /// Numbers of connections at which the figures cannot be trusted.
    not_sound_at_connections: &'a [usize],
    /// The server's processor time for a request, in microseconds.
    server_cpu_us_per_request: Option<Predicted<'a>>,
    /// The reason why the processor time is not predicted.
    not_predicted: Option<String>,
    /// The server's memory in bytes.
    server_bytes: Option<&'a Memory>,
    /// The reason why memory is not predicted.
    memory_not_predicted: Option<String>,
    /// The limits on the number of connections, the lowest first.
    limits: Option<Vec<Resource>>,
    /// The reason why the limits are not known.
    limits_not_known: Option<String>,
    /// Processors and hosts, if a rate is asked for.
    need: Option<Needed>,
}

/// A predicted processor time.
#[derive(Serialize, JsonSchema)]
struct Predicted<'a> {
    #[serde(flatten)]
    of: &'a Prediction,
    /// Whether the forms differ so much that a measurement is needed.
    forms_differ: bool,
}

/// A limit on the number of connections.
#[derive(Serialize, JsonSchema)]
struct Resource {
    /// The resource that runs out.
    what: &'static str,
    /// The connections that fit.
    connections: u64,
    /// The setting that raises the limit.
    raise: &'static str,
}

/// What a rate takes.
#[derive(Serialize, JsonSchema)]
struct Needed {
    /// Processors, at the requested utilisation.
    processors: Estimate,
    /// Whole hosts.
    hosts: Ends,
    /// Requests a second that the hosts in question answer.
    requests_per_second_of_hosts: Option<Ends>,
}

/// A prediction and its ends.
#[derive(Serialize, JsonSchema)]
struct Ends {
    /// The least.
    low: f64,
    /// The prediction.
    value: f64,
    /// The most.
    high: f64,
}

impl<'a> Predictions<'a> {
    fn of(all: &'a [Capacity]) -> Self {
        Self { version: VERSION, experiments: all.iter().map(Experiment::of).collect() }
    }
}

impl<'a> Experiment<'a> {
    fn of(capacity: &'a Capacity) -> Self {
        let Capacity { heading, question, subjects, load } = capacity;
        Self {
            title: title(heading),
            service: &heading.design.service,
            experiment: heading.plan.as_ref().map(|plan| plan.experiment.as_str()),
            connections: question.connections,
            requests_per_second: question.rate,
            processors_per_host: question.processors.unwrap_or(heading.machine.cpus),
            utilisation: question.utilisation,
            hosts: question.hosts,
            architectures: subjects.iter().map(Architecture::of).collect(),
            load_limits: load.iter().map(Resource::of).collect(),
            notes: notes::notes(capacity),
            to_measure: notes::measuring_words(capacity),
        }
    }
}

impl<'a> Architecture<'a> {
    fn of(subject: &'a Subject) -> Self {
        let Subject { name, points, left_out, processor_time, memory, limits, need } = subject;
        Self {
            architecture: name,
            measured: points,
            not_sound_at_connections: left_out,
            server_cpu_us_per_request: processor_time.as_ref().ok().map(Predicted::of),
            not_predicted: processor_time.as_ref().err().map(Failure::to_string),
            server_bytes: memory.as_ref().ok(),
            memory_not_predicted: memory.as_ref().err().map(Failure::to_string),
            limits: limits.as_ref().ok().map(|all| all.iter().map(Resource::of).collect()),
            limits_not_known: limits.as_ref().err().map(Failure::to_string),
            need: need.as_ref().map(Needed::of),
        }
    }
}

impl<'a> Predicted<'a> {
    fn of(time: &'a Prediction) -> Self {
        Self { of: time, forms_differ: time.is_wide() }
    }
}

impl Resource {
    fn of(limit: &Limit) -> Self {
        let Limit { kind, connections } = *limit;
        Self { what: kind.name(), connections, raise: kind.remedy() }
    }
}

impl Needed {
    fn of(need: &Need) -> Self {
        let ends = |[low, value, high]: [f64; 3]| Ends { low, value, high };
        Self {
            processors: Estimate { value: need.processors, interval: Some(need.interval) },
            hosts: ends(need.hosts),
            requests_per_second_of_hosts: need.rate_of_hosts.map(ends),
        }
    }
}

/// The errors of the predictions of each experiment.
#[derive(Serialize, JsonSchema)]
pub struct Checks<'a> {
    /// The version of this form.
    #[schemars(extend("const" = VERSION))]
    version: u32,
    /// The experiments.
    checks: Vec<OfExperiment<'a>>,
}

/// The errors of the predictions from few connections of an experiment.
#[derive(Serialize, JsonSchema)]
struct OfExperiment<'a> {
    /// The heading of the experiment on pages.
    title: String,
    /// The service.
    service: &'a str,
    /// The experiment's name in its plan.
    experiment: Option<&'a str>,
    /// The most connections that predictions use.
    from_connections: usize,
    /// The predictions.
    checked: Vec<Error<'a>>,
    /// The quality of all predictions together.
    accuracy: Option<Quality>,
}

/// A prediction, and the measurement.
#[derive(Serialize, JsonSchema)]
struct Error<'a> {
    /// The architecture or peer.
    architecture: &'a str,
    /// The number of connections.
    connections: usize,
    /// The prediction.
    predicted: Predicted<'a>,
    /// The measured processor time of a request, in microseconds.
    measured_us: f64,
    /// The share by which the predicted time is too high.
    off: f64,
    /// Whether the measurement is within the interval.
    within_interval: bool,
    /// The share by which the predicted memory is too high.
    memory_off: Option<f64>,
}

/// The quality of predictions. Errors are shares.
#[derive(Serialize, JsonSchema)]
struct Quality {
    /// The number of predictions.
    count: usize,
    /// The median error.
    median: f64,
    /// The largest error.
    worst: f64,
    /// Its architecture or peer.
    worst_architecture: String,
    /// Its number of connections.
    worst_connections: usize,
    /// The number of predictions with an error of at most 10 %.
    within_tenth: usize,
    /// The number of predictions with the measurement in their interval.
    within_interval: usize,
}

impl<'a> OfExperiment<'a> {
    fn of(check: &'a Check) -> Self {
        let Check { heading, from, checked, .. } = check;
        let quality = |accuracy: Accuracy| {
            let Accuracy { count, median, worst, worst_at, within_tenth, within_interval } =
                accuracy;
            let (worst_architecture, worst_connections) = worst_at;
            Quality {
                count,
                median,
                worst,
                worst_architecture,
                worst_connections,
                within_tenth,
                within_interval,
            }
        };
        Self {
            title: title(heading),
            service: &heading.design.service,
            experiment: heading.plan.as_ref().map(|plan| plan.experiment.as_str()),
            from_connections: *from,
            checked: checked.iter().map(Error::of).collect(),
            accuracy: Accuracy::of(checked).map(quality),
        }
    }
}

impl<'a> Error<'a> {
    fn of(checked: &'a Checked) -> Self {
        Self {
            architecture: &checked.subject,
            connections: checked.connections,
            predicted: Predicted::of(&checked.predicted),
            measured_us: checked.measured,
            off: checked.off(),
            within_interval: checked.is_within(),
            memory_off: checked.memory_off,
        }
    }
}

/// The predictions of each experiment.
pub fn json(all: &[Capacity]) -> Value {
    serde_json::to_value(Predictions::of(all)).expect("it is plain data")
}

/// The errors of the predictions of each experiment.
pub fn json_of_check(all: &[Check]) -> Value {
    let checks = all.iter().map(OfExperiment::of).collect();
    serde_json::to_value(Checks { version: VERSION, checks }).expect("it is plain data")
}
