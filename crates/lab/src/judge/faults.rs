//! The faults that exclude a subject, whatever its figures are.
//!
//! This rule is one for all verdicts. A recommendation leaves out a subject with a fault, and the
//! comparison of two runs fails where the second run has one. A trial takes out a candidate that
//! fails more than [`MOST_FAILED`] of its requests.

use schemars::JsonSchema;
use serde::Serialize;

use super::rows::{Figures, Medians, Row};

/// The largest share of requests that a server may fail.
pub const MOST_FAILED: f64 = 0.005;

/// The reason why a subject cannot be chosen at a number of connections, whatever its figures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Replies were not the expected ones.
    WrongReplies,
    /// The server ended, or gave no answer any more, in at least one session.
    Ended,
    /// More requests failed than [`MOST_FAILED`].
    Failing,
    /// More than 1 in 10 connections got no reply.
    Unserved,
    /// The listen queue was the limit, and not the server.
    ListenQueue,
    /// The load generator could not do its work.
    Invalid,
    /// A constraint is broken.
    Constraint,
    /// Whether the subject keeps a constraint is unknown. The figure was not measured, or the load
    /// generator could not do its work.
    Unchecked,
}

impl Fault {
    /// Whether the server did not do its work, whatever disturbed the measurement.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::WrongReplies | Self::Ended | Self::Failing)
    }

    /// Whether a run with this fault fails a build even if the run before had the fault too: a
    /// wrong reply is never good enough.
    pub fn is_always_fatal(self) -> bool {
        self == Self::WrongReplies
    }

    /// Whether the measurement, and not the server, is at fault. Then nothing can be told.
    pub fn is_of_measurement(self) -> bool {
        matches!(self, Self::Invalid | Self::Unchecked)
    }
}

/// The faults of a row, other than broken constraints. A sound row has none.
pub fn of(row: &Row) -> Vec<Fault> {
    let ended = row.ended.is_some().then_some(Fault::Ended);
    let of_figures = match &row.figures {
        Figures::Measured(medians) => of_medians(medians),
        Figures::Missing { .. } => Vec::new(),
    };
    let mut faults: Vec<Fault> = ended.into_iter().chain(of_figures).collect();
    faults.sort_unstable();
    faults
}

fn of_medians(medians: &Medians) -> Vec<Fault> {
    let Medians { fates, .. } = medians;
    let failing = fates.of_server as f64 > MOST_FAILED * fates.all() as f64;
    [
        (fates.wrong > 0, Fault::WrongReplies),
        (failing, Fault::Failing),
        (medians.starved, Fault::Unserved),
        (medians.queue_was_limit, Fault::ListenQueue),
        (!medians.is_comparable(), Fault::Invalid),
    ]
    .into_iter()
    .filter_map(|(is_so, fault)| is_so.then_some(fault))
    .collect()
}
