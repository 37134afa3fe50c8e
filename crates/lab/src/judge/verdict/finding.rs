//! What a verdict says, as data.

use serde::Serialize;

use crate::judge::alternatives::Alternative;
use crate::judge::network::Network;
use crate::judge::rounds::Metric;

/// The verdict at a number of connections.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// How many connections were open at once.
    pub concurrency: usize,
    /// The metric that decides here. It is the same for all subjects.
    pub metric: Metric,
    /// The network, where it sets the rate of all: then processor time decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// What follows.
    pub finding: Finding,
    /// All candidates that were measured, the best first.
    pub standings: Vec<Standing>,
    /// All other measured subjects, compared with the best candidate: peers, yardsticks, and
    /// disqualified subjects.
    pub others: Vec<Standing>,
    /// How each candidate compares with what runs today, where that is known, the best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// The critical difference: how much worse than the best one must be to be told from it, as a
    /// share (0.06 is 6 %). The largest among those that are level, where it differs. None where
    /// there were too few blocks for any.
    pub critical: Option<f64>,
    /// Why those that are level may differ by more than a reader would expect. None of several is
    /// recommended then, although all others are worse for sure. No cause where all is precise.
    pub imprecise: Option<Cause>,
    /// Its evidence.
    pub evidence: Evidence,
    /// What the A/A control shows: one server under two names; none without a control.
    pub control: Option<Control>,
}

impl Verdict {
    /// Whether nothing can be said.
    pub fn is_withheld(&self) -> bool {
        matches!(self.finding, Finding::Withheld { .. })
    }

    /// Whether some candidates are worse than others for sure.
    pub fn tells_apart(&self) -> bool {
        matches!(self.finding, Finding::Best { .. } | Finding::Level { .. })
    }

    /// Whether one of the best set can be recommended.
    pub fn can_recommend(&self) -> bool {
        match self.finding {
            Finding::Best { .. } => true,
            Finding::Level { .. } => self.imprecise.is_none(),
            Finding::NoDifference | Finding::Withheld { .. } => false,
        }
    }

    /// Whether only a best set of several is sure, and none of the set can be recommended.
    pub fn is_mere_set(&self) -> bool {
        self.tells_apart() && !self.can_recommend()
    }

    /// The subjects that cannot be told from the best. None if the verdict is withheld.
    pub fn leaders(&self) -> impl Iterator<Item = &Standing> {
        self.standings.iter().filter(|standing| standing.level && !self.is_withheld())
    }

    /// The subjects that are worse for sure. None if the verdict is withheld.
    pub fn excluded(&self) -> impl Iterator<Item = &Standing> {
        self.standings.iter().filter(|standing| !standing.level && !self.is_withheld())
    }
}

/// The kinds of verdict at a number of connections.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum Finding {
    /// This one is better than all others.
    Best {
        /// Its name.
        subject: String,
    },
    /// These subjects cannot be told from the best. All others can.
    Level {
        /// Their names, the best first; at least two.
        subjects: Vec<String>,
    },
    /// No two candidates can be told apart from the best: no difference above the critical one.
    NoDifference,
    /// Nothing can be said.
    Withheld {
        /// Why.
        cause: Cause,
    },
}

/// Why a verdict is withheld, or is too imprecise to recommend one of several.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "cause", rename_all = "kebab-case")]
pub enum Cause {
    /// No candidate was measured: each is unavailable, failed, invalid, or broke a constraint.
    Nobody,
    /// One candidate is left, with none to compare it with.
    Alone {
        /// Its name.
        subject: String,
    },
    /// The experiment is not complete.
    Partial,
    /// Fewer blocks than it takes.
    FewBlocks {
        /// How many it takes.
        needed: usize,
    },
    /// More than half of the blocks were dropped.
    Disturbed,
    /// The A/A control differs from itself.
    Control,
    /// Only large differences would have been seen.
    Coarse,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Its name.
    pub subject: String,
    /// Its geometric mean over the blocks, in the metric's unit.
    pub value: f64,
    /// How much worse than the best the subject is, as a share: 0.06 is 6 %. The best has 0.
    pub behind: f64,
    /// The simultaneous interval of that share. It contains 0 for subjects that cannot be told from
    /// the best.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Whether it cannot be told from the best.
    pub level: bool,
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
    /// Whether the load generator was the limit, so that the rate is at least that.
    pub at_least: bool,
    /// Whether it is level only since the load generator's own time differs so much that work must
    /// have moved between the two.
    pub work_moved: bool,
}

/// What a verdict rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evidence {
    /// Blocks that count, and compare something.
    pub blocks: usize,
    /// All blocks, whether they count or not.
    pub measured: usize,
    /// Blocks that were dropped: for steal, or since the load generator had no processor and the
    /// rate decides.
    pub dropped: usize,
    /// The dropped blocks in which the load generator waited.
    pub waited: usize,
    /// Blocks that were measured beyond those that were planned, in place of dropped ones.
    pub again: usize,
    /// Sessions, each with fresh servers.
    pub sessions: usize,
    /// Groups of servers that were measured apart, each with one that is in all; 1 where all were
    /// alive side by side.
    pub groups: usize,
    /// Whether a block is a round of windows, one server after the other, instead of slices side by
    /// side.
    pub in_turn: bool,
    /// The largest share of a processor that the hypervisor took in any block that was dropped or
    /// counted.
    pub stolen: f64,
    /// The processor that it took it from.
    pub stolen_cpu: Option<usize>,
    /// In how many blocks the CPU quota of a control group ran out.
    pub throttled: usize,
    /// In how many blocks strangers used more than a tenth of a processor, and how much at most.
    pub with_strangers: usize,
    /// The most that they used, as a share of a processor.
    pub strangers: f64,
    /// The host of the processor that was disturbed most; none of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// The A/A control.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Control {
    /// The architecture that was measured twice.
    pub subject: String,
    /// How much worse the second is than the first, as a share. It is negative if the second is
    /// better.
    pub difference: f64,
    /// How large a difference chance makes at most.
    pub critical: f64,
}

impl Control {
    /// Whether the two are level, as they must be.
    pub fn holds(&self) -> bool {
        self.difference.abs() <= self.critical
    }
}
