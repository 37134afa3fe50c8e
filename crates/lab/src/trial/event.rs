//! What happens in a trial, as data: `--json` prints these, and `--out` keeps them.
//!
//! Each line is an object with `at_s`, the seconds since the trial began, and `event`. A new field
//! or event is no new version of the format, another meaning is.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{By, Candidate, Then};
use crate::record::Machine;
use crate::statistics::Interval;

/// The version of the format.
pub const VERSION: u32 = 1;

/// An event and its time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    /// Seconds since the trial began.
    pub at_s: f64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happens in a trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// All candidates listen.
    Began(Box<Heading>),
    /// A block has ended.
    Block(Block),
    /// A candidate takes no more connections, and drains.
    Out {
        /// Which.
        candidate: String,
        /// Why.
        reason: Reason,
    },
    /// The last candidate is beyond a limit. It stays, because no other candidate is left to serve.
    Kept {
        /// Which.
        candidate: String,
        /// What takes others out.
        reason: Reason,
    },
    /// A candidate has died, and was started again.
    Restarted {
        /// Which.
        candidate: String,
        /// How it ended.
        how: String,
    },
    /// A candidate has drained and ended.
    Drained {
        /// Which.
        candidate: String,
    },
    /// A server answers what has been left in the queue of a candidate that has ended.
    Heir {
        /// The candidate.
        candidate: String,
        /// How the server carries connections.
        architecture: String,
    },
    /// A candidate has written a line to its standard error.
    Said {
        /// Which.
        candidate: String,
        /// The line.
        line: String,
    },
    /// The comparison has ended.
    Decided(Box<Verdict>),
    /// All servers have drained.
    Ended,
}

/// What a trial is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Heading {
    /// The version of the format.
    pub version: u32,
    /// The version of Duality.
    pub duality: String,
    /// When the trial began (RFC 3339, UTC).
    pub started_at: String,
    /// The service.
    pub service: String,
    /// Where clients find it.
    pub address: String,
    /// The candidates.
    pub candidates: Vec<Candidate>,
    /// Flags of each server.
    pub server_arguments: Vec<String>,
    /// How connections are handed out.
    pub by: By,
    /// How long a turn is, in seconds.
    pub slot_s: f64,
    /// How long the trial may take, in seconds.
    pub budget_s: f64,
    /// What happens at the end.
    pub then: Then,
    /// The probability of a false statement.
    pub promise: f64,
    /// Candidates that differ less are level.
    pub margin: f64,
    /// The seed of the order of turns.
    pub seed: u64,
    /// The machine.
    pub machine: Machine,
}

/// One mirrored pair of turns of each candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Block {
    /// Which block, from 0.
    pub number: usize,
    /// Why it does not count, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Dropped>,
    /// The duration, in seconds.
    pub seconds: f64,
    /// The candidates in the order of their turns; empty where each connection was drawn.
    pub order: Vec<String>,
    /// What each candidate that is in the trial did meanwhile.
    pub measured: BTreeMap<String, Measured>,
    /// How the candidates stand now.
    pub standings: Vec<Standing>,
}

/// Why a block does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dropped {
    /// The first block has servers with cold caches.
    WarmUp,
    /// A candidate died or was started in it.
    Disturbed,
}

/// What a candidate did in a block, or in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Requests that were answered.
    pub requests: u64,
    /// Processor time of all its processes, in microseconds.
    pub cpu_us: u64,
    /// Connections that failed.
    pub failed: u64,
    /// Connections that were refused because the server was full.
    pub refused: u64,
    /// Requests that took longer than the limit; none without one.
    pub late: u64,
    /// Connections that are open at the end.
    pub connections_open: u64,
    /// Half of the requests took no longer, in microseconds: the end of a bucket.
    pub p50_us: Option<f64>,
    /// 99 % of the requests took no longer, in microseconds: the end of a bucket.
    pub p99_us: Option<f64>,
    /// The most memory until now, in bytes; 0 where it was not looked at.
    pub memory_bytes: u64,
}

impl Measured {
    /// Microseconds of processor time for each request; none without requests.
    pub fn cost(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.cpu_us as f64 / self.requests as f64)
    }
}

/// How a candidate stands against the best one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Which.
    pub candidate: String,
    /// The processor time for a request over that of the best, less 1.
    pub excess: f64,
    /// Where the true value lies, at all looks together.
    pub interval: Option<Interval>,
}

/// Why a candidate is out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Reason {
    /// Too large a share of its requests failed.
    Errors {
        /// The share until now.
        share: f64,
        /// The limit.
        limit: f64,
    },
    /// Too large a share of its requests took too long.
    Slow {
        /// The share until now.
        share: f64,
        /// The percentile, such as `p99`.
        percentile: String,
        /// The limit in microseconds.
        limit_us: f64,
    },
    /// It takes too much memory.
    Memory {
        /// Bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// It died a second time, or could not be started again.
    Died {
        /// How.
        how: String,
    },
    /// It takes more processor time than the best, for sure.
    Behind {
        /// The best one.
        best: String,
        /// By how much it is above the best: a share.
        interval: Interval,
    },
    /// The trial has ended, and another candidate goes on.
    NotChosen,
}

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What ended the comparison.
    pub finding: Finding,
    /// The candidate that goes on serving, if one does.
    pub serving: Option<String>,
    /// How many blocks counted.
    pub blocks: usize,
    /// What each candidate did in all.
    pub measured: BTreeMap<String, Measured>,
    /// How the candidates stand that were left, the best first.
    pub standings: Vec<Standing>,
    /// The candidates that took no more connections when the comparison ended.
    pub out: Vec<String>,
}

impl Verdict {
    /// Whether no connection reached any candidate.
    pub(super) fn nothing_came(&self) -> bool {
        self.measured.values().all(|one| one.requests + one.failed + one.refused == 0)
    }
}

/// What ended the comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum Finding {
    /// One candidate takes least processor time, for sure.
    Winner {
        /// Which.
        candidate: String,
    },
    /// These differ by less than the margin, for sure.
    Level {
        /// Which, the best first.
        candidates: Vec<String>,
    },
    /// All others were beyond a limit, or died.
    LastOne {
        /// Which.
        candidate: String,
    },
    /// The budget was spent, and nothing is sure.
    OutOfTime,
    /// The trial was asked to end.
    Interrupted,
}
