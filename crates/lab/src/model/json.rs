//! The model as JSON, format version 1, documented in docs/model.md.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::variation::coefficients;
use super::{Check, Deviation, Model, Modelled, Operation, TERMS, UnitCosts, Workload, fit};

/// The version of the form. The version changes when a field changes its meaning, and not for a new
/// field.
const VERSION: u32 = 1;

/// A figure for each term of the model, by the name of the term.
type Terms<T> = BTreeMap<&'static str, T>;

/// A model, in µs of server CPU for a request. Unit costs are in ns.
#[derive(Serialize, JsonSchema)]
pub struct Told<'a> {
    /// The version of this form.
    #[schemars(extend("const" = VERSION))]
    version: u32,
    /// The unit costs, by cost and subject.
    unit_costs_ns: &'a UnitCosts,
    /// The workloads.
    workloads: Vec<OfWorkload<'a>>,
    /// The reason why there are no fitted factors.
    fitted_withheld: Option<String>,
    /// The factor that each price would have to be multiplied by, to explain most.
    fitted_factors: Option<Terms<Option<f64>>>,
    /// Predictions for other loads.
    predictions: Vec<Prediction<'a>>,
}

/// A service under one load.
#[derive(Serialize, JsonSchema)]
struct OfWorkload<'a> {
    /// The name in tables.
    name: &'a str,
    /// The number of connections that were open at once.
    connections: usize,
    /// The architectures that are modelled.
    architectures: Vec<OfArchitecture<'a>>,
    /// The architectures that are not, each with the reason.
    missing: BTreeMap<&'a str, &'a str>,
    /// Coefficients of variation of t_independent over the architectures.
    coefficients: Coefficients,
    /// The architectures that the model does not explain.
    deviations: Vec<Unexplained>,
}

/// Coefficients of variation.
#[derive(Serialize, JsonSchema)]
struct Coefficients {
    /// With no term taken off.
    #[serde(rename = "no model")]
    no_model: Option<f64>,
    /// With this term and all before it taken off.
    with: Terms<Option<f64>>,
    /// With prices that fit best.
    fitted: Option<f64>,
    /// Of the repeats of one cell.
    repeats: Option<f64>,
}

/// An architecture that the model does not explain.
#[derive(Serialize, JsonSchema)]
struct Unexplained {
    /// Which.
    architecture: String,
    /// The difference of its t_independent from the median.
    us: f64,
    /// The difference as a share of the median.
    share: f64,
}

/// The processor time of a request under an architecture.
#[derive(Serialize, JsonSchema)]
struct OfArchitecture<'a> {
    /// Which.
    architecture: &'a str,
    /// As measured.
    total_us: f64,
    /// What the terms leave.
    independent_us: f64,
    /// The time of each term.
    terms_us: Terms<f64>,
    /// How often a request takes each operation.
    counts_per_request: BTreeMap<&'static str, f64>,
}

/// A prediction for a load that the model was not made from.
#[derive(Serialize, JsonSchema)]
struct Prediction<'a> {
    /// The workload.
    workload: &'a str,
    /// The architecture.
    architecture: &'a str,
    /// The number of connections.
    connections: usize,
    /// The predicted time.
    predicted_us: Option<f64>,
    /// The measured time.
    measured_us: Option<f64>,
    /// The share by which the prediction is too high.
    error: Option<f64>,
    /// The most requests a second on a processor.
    most_requests_per_second: Option<f64>,
}

/// The whole model.
pub fn json(model: &Model) -> Value {
    let factors = fit::factors(&model.workloads);
    let workload = |of| OfWorkload::of(of, factors.as_ref().ok());
    let document = Told {
        version: VERSION,
        unit_costs_ns: &model.costs,
        workloads: model.workloads.iter().map(workload).collect(),
        fitted_withheld: factors.as_ref().err().map(ToString::to_string),
        fitted_factors: factors.as_ref().ok().map(|factors| by_name(*factors)),
        predictions: model.checks.iter().map(Prediction::of).collect(),
    };
    serde_json::to_value(document).expect("it is plain data")
}

fn by_name<T>(figures: impl IntoIterator<Item = T>) -> Terms<T> {
    TERMS.iter().map(|term| term.name).zip(figures).collect()
}

impl<'a> OfWorkload<'a> {
    fn of(workload: &'a Workload, factors: Option<&fit::Factors>) -> Self {
        let row = coefficients(workload, factors);
        let unexplained = |Deviation { architecture, microseconds: us, share }| Unexplained {
            architecture,
            us,
            share,
        };
        Self {
            name: &workload.name,
            connections: workload.connections,
            architectures: workload.subjects.iter().map(OfArchitecture::of).collect(),
            missing: workload.missing.iter().map(|(name, why)| (&**name, &**why)).collect(),
            coefficients: Coefficients {
                no_model: row.steps[0],
                with: by_name(row.steps[1..].iter().copied()),
                fitted: row.fitted,
                repeats: workload.noise,
            },
            deviations: row.deviations.into_iter().map(unexplained).collect(),
        }
    }
}

impl<'a> OfArchitecture<'a> {
    fn of(subject: &'a Modelled) -> Self {
        let counts = Operation::ALL.into_iter().map(|one| (one.name(), subject.counts[one]));
        Self {
            architecture: &subject.architecture,
            total_us: subject.total,
            independent_us: subject.independent(),
            terms_us: by_name(subject.terms),
            counts_per_request: counts.collect(),
        }
    }
}

impl<'a> Prediction<'a> {
    fn of(check: &'a Check) -> Self {
        Self {
            workload: &check.workload,
            architecture: &check.architecture,
            connections: check.connections,
            predicted_us: check.predicted,
            measured_us: check.measured,
            error: check.error(),
            most_requests_per_second: check.most_per_second(),
        }
    }
}
