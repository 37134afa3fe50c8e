//! Compares each alternative with the subject that runs today. There is one finding for each
//! alternative and number of connections.
//!
//! The verdict names the best of all. "Does a change pay?" compares one subject with each other
//! subject. This takes fewer comparisons than all pairs, so smaller differences are certain at the
//! same error. Dunnett's intervals hold for all alternatives together.

use schemars::JsonSchema;
use serde::Serialize;

use crate::judge::pairs::Pair;
use crate::judge::rounds::Metric;

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

    /// The largest gain that the alternative may have, as a share of the other's figure. A gain is
    /// time that it saves, or requests/s that it serves more.
    pub fn most_gain(&self, metric: Metric) -> f64 {
        match (self.change, metric) {
            (Told::Worse, _) => 0.0,
            (_, Metric::Rate) => (1.0 / (1.0 + self.low) - 1.0).max(0.0),
            _ => (-self.low).max(0.0),
        }
    }
}

/// What the interval of a difference says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// The subject is better for sure.
    Better,
    /// The subject is worse for sure.
    Worse,
    /// The server's figure differs for sure, but work has moved between server and load generator.
    /// The time of both together does not differ for sure.
    WorkMoved,
    /// The two are level: the whole interval is within the margin.
    Level,
    /// The two are not told apart. They may differ by more than the margin.
    #[serde(rename = "not-told")]
    Unknown,
}

impl Told {
    /// What the interval says, in shares, if neither subject is put out by it. To be level takes
    /// two one-sided tests, of more and of less than the margin. An interval within the margin
    /// passes both.
    pub(crate) fn within([low, high]: [f64; 2], margin: f64) -> Self {
        match low >= 1.0 / (1.0 + margin) - 1.0 && high <= margin {
            true => Self::Level,
            false => Self::Unknown,
        }
    }

    /// Whether one of the two is better for sure.
    pub fn is_sure(self) -> bool {
        matches!(self, Self::Better | Self::Worse)
    }
}
