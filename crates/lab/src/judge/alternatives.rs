//! Compares each alternative with the subject that runs today. There is one finding for each
//! alternative and number of connections.
//!
//! The verdict names the best of all. "Does a change pay?" compares one subject with each other
//! subject. This takes fewer comparisons than all pairs, so smaller differences are certain at the
//! same error. Dunnett's intervals hold for all alternatives together.

use schemars::JsonSchema;
use serde::Serialize;

use crate::judge::pairs::Pair;
use crate::judge::verdict::{Metric, Told};

/// An alternative, compared with the subject that runs today.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Alternative {
    /// The subject.
    pub subject: String,
    /// What follows.
    pub change: Told,
    /// The share by which the alternative is worse than the subject that runs today: 0.06 is 6 %.
    /// The share of a better alternative is negative.
    pub difference: f64,
    /// The simultaneous interval of this share.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Alternative {
    /// The finding on the alternative `subject`, from comparisons in both directions.
    pub(crate) fn of(subject: &str, beside: Pair, against: Pair, margin: f64) -> Self {
        let Pair { behind, critical, .. } = beside;
        let [low, high] = [(behind - critical).exp_m1(), (behind + critical).exp_m1()];
        let change = match (beside.level, against.level) {
            (false, _) => Told::Worse,
            (true, false) => Told::Better,
            (true, true) if beside.work_moved || against.work_moved => Told::WorkMoved,
            (true, true) => Told::within([low, high], margin),
        };
        let subject = subject.to_owned();
        Self { subject, change, difference: behind.exp_m1(), low, high }
    }

    /// The largest gain that the alternative may have, as a share of the figure of the subject that
    /// runs today: the time that it saves, or the requests/s that it serves more.
    pub fn most_gain(&self, metric: Metric) -> f64 {
        match (self.change, metric) {
            (Told::Worse, _) => 0.0,
            (_, Metric::Rate) => (1.0 / (1.0 + self.low) - 1.0).max(0.0),
            _ => (-self.low).max(0.0),
        }
    }
}
