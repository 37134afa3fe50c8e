//! Compares each alternative with the subject that runs today. There is one finding for each
//! alternative and number of connections.
//!
//! The verdict names the best of all. "Does a change pay?" compares one subject with each other
//! subject. This takes fewer comparisons than all pairs, so smaller differences are certain at the
//! same error. Dunnett's intervals hold for all alternatives together.

use schemars::JsonSchema;
use serde::Serialize;

use crate::judge::pairs::Pair;

/// An alternative, compared with the subject that runs today.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Alternative {
    /// The subject.
    pub subject: String,
    /// What follows.
    pub change: Change,
    /// The share by which the alternative is worse than the subject that runs today: 0.06 is 6 %.
    /// The share of a better alternative is negative.
    pub difference: f64,
    /// The simultaneous interval of this share.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The effect of a change to the alternative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// The alternative is certain to be better.
    Better,
    /// The alternative is certain to be worse.
    Worse,
    /// Neither subject is certain to be better.
    Level,
}

impl Alternative {
    /// The finding on the alternative `subject`, from comparisons in both directions.
    pub(crate) fn of(subject: &str, beside: Pair, against: Pair) -> Self {
        let change = match (beside.level, against.level) {
            (false, _) => Change::Worse,
            (true, false) => Change::Better,
            (true, true) => Change::Level,
        };
        let Pair { behind, critical, .. } = beside;
        Self {
            subject: subject.to_owned(),
            change,
            difference: behind.exp_m1(),
            low: (behind - critical).exp_m1(),
            high: (behind + critical).exp_m1(),
        }
    }

    /// The smallest difference that can be seen, as a share.
    pub fn critical(&self) -> f64 {
        (1.0 + self.high) / (1.0 + self.difference) - 1.0
    }
}
