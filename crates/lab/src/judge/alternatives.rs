//! How each alternative compares with what runs today: one finding for each alternative at each
//! number of connections.
//!
//! The verdict names the best of all. "Does a change pay?" compares one subject with each other
//! subject. That takes fewer comparisons than all pairs, so smaller differences are sure at the
//! same error. Dunnett's intervals hold for all alternatives together.

use serde::Serialize;

use crate::judge::pairs::Pair;

/// An alternative, beside what runs today.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// The subject.
    pub subject: String,
    /// What follows.
    pub change: Change,
    /// By how much it is worse than what runs today, as a share: 0.06 is 6 %; negative when it is
    /// better.
    pub difference: f64,
    /// The simultaneous interval of that.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// What an alternative changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// The alternative is better for sure.
    Better,
    /// The alternative is worse for sure.
    Worse,
    /// Neither can be told.
    Level,
}

impl Alternative {
    /// The alternative `subject`, which is `beside` what runs today as that is `against` it.
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

    /// How large a difference must be to be seen, as a share.
    pub fn critical(&self) -> f64 {
        (1.0 + self.high) / (1.0 + self.difference) - 1.0
    }
}
