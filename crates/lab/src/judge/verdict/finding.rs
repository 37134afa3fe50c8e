//! The findings of a verdict, as data.

use schemars::JsonSchema;
use serde::Serialize;

use crate::format::Counted;
use crate::judge::alternatives::{Alternative, Told};
use crate::judge::network::Network;
use crate::judge::race::Out;
use crate::judge::rounds::Metric;

/// The verdict at a number of connections.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    /// The number of connections that were open at once, or the multiple of the users.
    pub concurrency: usize,
    /// Which of the two.
    #[serde(skip)]
    pub counted: Counted,
    /// The metric that decides here. All subjects have the same metric.
    pub metric: Metric,
    /// The network, if it sets the rate of all subjects. Then processor time decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// What follows.
    pub finding: Finding,
    /// All candidates that were measured, the best first.
    pub standings: Vec<Standing>,
    /// All other measured subjects, compared with the best candidate: peers, yardsticks, and
    /// disqualified subjects.
    pub others: Vec<Standing>,
    /// The comparison of each candidate with the subject that runs today, the best first. Empty if
    /// that subject is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// The critical difference as a share (0.06 is 6 %): a subject that is worse by less cannot be
    /// told from the best. If it differs between subjects, the largest among the level subjects.
    /// `None` if there were too few blocks.
    pub critical: Option<f64>,
    /// The reason why level subjects may differ by more than a reader would expect. Then the
    /// verdict recommends no single subject, although all others are certain to be worse. `None` if
    /// the comparison is precise.
    pub imprecise: Option<Cause>,
    /// The evidence.
    pub evidence: Evidence,
    /// The result of the A/A control, which runs one server under two names. `None` without a
    /// control.
    pub control: Option<Control>,
}

impl Verdict {
    /// Whether the verdict is withheld.
    pub fn is_withheld(&self) -> bool {
        matches!(self.finding, Finding::Withheld { .. })
    }

    /// Whether some candidates are certain to be worse than others.
    pub fn tells_apart(&self) -> bool {
        matches!(self.finding, Finding::Best { .. } | Finding::Level { .. })
    }

    /// Whether the verdict says something of an alternative. A verdict may be withheld because
    /// small differences would not be seen. A large difference that was seen still counts.
    pub fn can_tell(&self, one: &Alternative) -> bool {
        match (&self.finding, &self.imprecise) {
            (Finding::Withheld { cause: Cause::Coarse }, _) => one.change.is_sure(),
            (Finding::Withheld { .. }, _) => false,
            (_, imprecise) => imprecise.is_none() || one.change.is_sure(),
        }
    }

    /// Whether the verdict can recommend a member of the best set.
    pub fn can_recommend(&self) -> bool {
        match self.finding {
            Finding::Best { .. } => true,
            Finding::Level { .. } => self.imprecise.is_none(),
            Finding::NoDifference | Finding::Withheld { .. } => false,
        }
    }

    /// Whether only a best set of several subjects is certain, and the verdict can recommend none
    /// of them.
    pub fn is_mere_set(&self) -> bool {
        self.tells_apart() && !self.can_recommend()
    }

    /// The subjects that cannot be told from the best. Empty if the verdict is withheld.
    pub fn leaders(&self) -> impl Iterator<Item = &Standing> {
        self.standings.iter().filter(|standing| standing.level && !self.is_withheld())
    }

    /// The most by which a subject that is not told apart from the best may be worse, as a share.
    /// `None` without such a subject.
    pub fn most_behind(&self) -> Option<f64> {
        let others = self.leaders().filter(|one| one.behind > 0.0 && one.told != Told::WorkMoved);
        others.map(|one| one.high).reduce(f64::max)
    }

    /// The subjects that are certain to be worse. Empty if the verdict is withheld.
    pub fn excluded(&self) -> impl Iterator<Item = &Standing> {
        self.standings.iter().filter(|standing| !standing.level && !self.is_withheld())
    }
}

/// The kinds of verdict at a number of connections.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum Finding {
    /// This subject is better than all others.
    Best {
        /// The name.
        subject: String,
    },
    /// These subjects cannot be told from the best, and all others are worse.
    Level {
        /// The names of the subjects, the best first. There are at least two.
        subjects: Vec<String>,
    },
    /// No difference exceeds the critical difference, so no candidate can be told from the best.
    NoDifference,
    /// The verdict is withheld.
    Withheld {
        /// Why.
        cause: Cause,
    },
}

/// The reason why a verdict is withheld, or is too imprecise to recommend one of several subjects.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "cause", rename_all = "kebab-case")]
pub enum Cause {
    /// No candidate was measured: each is unavailable, failed, invalid, or broke a constraint.
    Nobody,
    /// Only one candidate is left, so there is no comparison.
    Alone {
        /// The name.
        subject: String,
    },
    /// The experiment is not complete.
    Partial,
    /// There are too few blocks.
    FewBlocks {
        /// The number of blocks that a verdict needs.
        needed: usize,
    },
    /// More than half of the blocks were dropped, or most of them count less than half and small
    /// differences would not have been seen.
    Disturbed,
    /// The A/A control differs from itself.
    Control,
    /// Only large differences would have been seen.
    Coarse,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Standing {
    /// The name.
    pub subject: String,
    /// The subject's geometric mean over the blocks, in the metric's unit.
    pub value: f64,
    /// The share by which the subject is worse than the best: 0.06 is 6 %. The best has 0.
    pub behind: f64,
    /// The simultaneous interval of that share. The interval contains 0 for subjects that cannot be
    /// told from the best.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Whether the subject is not certain to be worse than the best.
    pub level: bool,
    /// The meaning of the comparison with the best.
    pub told: Told,
    /// The server's processor time for each request, in microseconds.
    pub server_cpu_us: f64,
    /// The load generator's processor time for each request, in microseconds.
    pub client_cpu_us: f64,
    /// Correct replies a second, with 95 % confidence in `rate_low` to `rate_high`.
    pub rate: f64,
    /// The lower end.
    pub rate_low: f64,
    /// The upper end.
    pub rate_high: f64,
    /// Whether the load generator was the limit. Then the true rate is at least the measured rate.
    pub at_least: bool,
    /// Whether the subject is not put out only because work has moved between the server and the
    /// load generator. A large difference of the load generator's own time shows such a move.
    pub work_moved: bool,
    /// When the subject left the race, and how much worse it was then. `None` if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<Out>,
}

/// What makes the intervals of an experiment narrower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Remedy {
    /// More time (`--budget`). A race divides it among sessions and blocks itself.
    #[default]
    Time,
    /// More sessions (`--repeats`), where their number is given. The sessions that there are would
    /// get longer with more time, and a process keeps its bias for the whole session.
    Repeats,
}

/// The evidence of a verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Evidence {
    /// Blocks that count, and compare subjects.
    pub blocks: usize,
    /// All blocks, whether they count or not.
    pub measured: usize,
    /// Blocks, or rounds of windows, that were dropped. The reason is an invalid load, a load
    /// generator without a processor when the rate decides, or steal from windows in turn.
    pub dropped: usize,
    /// The dropped blocks in which the load generator waited.
    pub waited: usize,
    /// Blocks that count with less than half of a weight, because the hypervisor took more than a
    /// tenth of a processor.
    pub lighter: usize,
    /// Blocks beyond the planned number, measured because others are lighter or were dropped.
    pub again: usize,
    /// Sessions, each with fresh servers.
    pub sessions: usize,
    /// Groups of servers that were measured apart. One server is in all groups. The number is 1 if
    /// all servers were alive side by side.
    pub groups: usize,
    /// Whether a block is a round of windows, one server after the other, instead of slices side by
    /// side.
    pub in_turn: bool,
    /// What makes the intervals narrower.
    pub remedy: Remedy,
    /// The largest share of a processor that the hypervisor took in any block that was dropped or
    /// counted.
    pub stolen: f64,
    /// The processor with this largest share.
    pub stolen_cpu: Option<usize>,
    /// The number of blocks in which the CPU quota of a control group ran out.
    pub throttled: usize,
    /// The number of blocks in which strangers used more than a tenth of a processor.
    pub with_strangers: usize,
    /// The most that strangers used, as a share of a processor.
    pub strangers: f64,
    /// The host of the most disturbed processor. `None` for this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// The A/A control.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Control {
    /// The architecture that was measured twice.
    pub subject: String,
    /// The share by which the second server is worse than the first. The share is negative if the
    /// second server is better.
    pub difference: f64,
    /// The largest difference that chance makes.
    pub critical: f64,
}

impl Control {
    /// Whether the two servers are level, as they must be.
    pub fn holds(&self) -> bool {
        self.difference.abs() <= self.critical
    }
}
