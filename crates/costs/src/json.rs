//! The measurements as JSON, format version 1, documented in docs/model.md.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::Unit;
use crate::run::{Cell, Row};
use crate::table::typical;

/// The version of the form. The version changes when a field changes its meaning, and not for a new
/// field.
const VERSION: u32 = 1;

/// Unit costs.
#[derive(Serialize, JsonSchema)]
pub struct Told<'a> {
    /// The version of this form.
    #[schemars(extend("const" = VERSION))]
    version: u32,
    /// The costs.
    costs: Vec<OfCost<'a>>,
}

/// One cost, for all its subjects.
#[derive(Serialize, JsonSchema)]
struct OfCost<'a> {
    /// The name.
    cost: &'a str,
    /// What is measured.
    about: &'a str,
    /// The unit: `ns` or `bytes`.
    unit: &'static str,
    /// The subjects.
    subjects: Vec<Subject<'a>>,
}

/// One cost of one subject.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Subject<'a> {
    /// There is no figure.
    Unavailable {
        /// The subject.
        subject: &'a str,
        /// The reason.
        unavailable: &'a str,
    },
    /// A time.
    Time {
        /// The cost of an operation.
        ns: Option<f64>,
        #[serde(flatten)]
        batches: Batches<'a>,
    },
    /// Memory.
    Memory {
        /// The cost of a task.
        bytes: Option<f64>,
        #[serde(flatten)]
        batches: Batches<'a>,
    },
}

/// What a figure is from.
#[derive(Serialize, JsonSchema)]
struct Batches<'a> {
    /// The subject.
    subject: &'a str,
    /// The number of operations in a batch.
    count: u64,
    /// The lower end of the 95 % interval.
    low: Option<f64>,
    /// The upper end.
    high: Option<f64>,
    /// The cost of an operation in each batch.
    batches: &'a [f64],
}

/// The measurements.
pub fn json(rows: &[Row]) -> Value {
    let document = Told { version: VERSION, costs: rows.iter().map(OfCost::of).collect() };
    serde_json::to_value(document).expect("it is plain data")
}

impl<'a> OfCost<'a> {
    fn of(Row { cost, cells }: &'a Row) -> Self {
        Self {
            cost: cost.name,
            about: cost.about,
            unit: cost.unit.symbol(),
            subjects: cells.iter().map(|cell| Subject::of(cost.unit, cell)).collect(),
        }
    }
}

impl<'a> Subject<'a> {
    fn of(unit: Unit, cell: &'a Cell) -> Self {
        let Cell { subject, outcome, count } = cell;
        let all = match outcome {
            Err(why) => return Self::Unavailable { subject, unavailable: why },
            Ok(batches) => batches,
        };
        let estimate = typical(unit, all);
        let value = estimate.map(|estimate| estimate.value);
        let interval = estimate.and_then(|estimate| estimate.interval);
        let batches = Batches {
            subject,
            count: *count,
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
            batches: all,
        };
        match unit {
            Unit::Nanoseconds => Self::Time { ns: value, batches },
            Unit::Bytes => Self::Memory { bytes: value, batches },
        }
    }
}
