//! How each way to run a program compares with the program as it is: one finding for each way at
//! each number of connections.
//!
//! The verdict names the best of all. Someone who asks "should I run it so?" asks about one way,
//! which may be neither the best nor the worst. The intervals are those of the verdict: they hold
//! for all pairs together.

use serde::Serialize;

/// A way to run a program, beside the program as it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Way {
    /// The subject.
    pub subject: String,
    /// What follows.
    pub change: Change,
    /// By how much it is worse than the native program, as a share: 0.06 is 6 %; negative when it
    /// is better.
    pub difference: f64,
    /// The simultaneous interval of that.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// What a way changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It is better for sure.
    Better,
    /// It is worse for sure.
    Worse,
    /// Neither can be told.
    Level,
}

/// Two subjects at a number of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// By how much the first is behind the second, as a logarithm.
    pub(crate) behind: f64,
    /// How much it takes to tell them apart, as a logarithm.
    pub(crate) critical: f64,
    /// Whether the first is not worse for sure.
    pub(crate) level: bool,
    /// Whether it is level only since work has moved to the load generator.
    pub(crate) work_moved: bool,
}

impl Way {
    /// The way `subject`, which is `beside` the native program as the native program is `against`
    /// it.
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
}
