//! The events of a trial, as data: `--json` prints them, and `--out` keeps them.
//!
//! Each line is an object with `at_s`, the seconds since the trial began, and `event`. A new field
//! or event is no new version of the format, but a new meaning is.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{By, Candidate, Then};
use crate::record::Machine;
use crate::statistics::Interval;

/// The version of the format.
pub const VERSION: u32 = 1;

/// An event and its time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Told {
    /// Seconds since the trial began.
    pub at_s: f64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// An event of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
    /// The last candidate exceeds a limit. The candidate stays, because no other candidate is left
    /// to serve.
    Kept {
        /// Which.
        candidate: String,
        /// The reason that would take another candidate out.
        reason: Reason,
    },
    /// A candidate has died, and was restarted.
    Restarted {
        /// Which.
        candidate: String,
        /// The way in which the candidate ended.
        how: String,
    },
    /// A candidate has drained and ended.
    Drained {
        /// Which.
        candidate: String,
    },
    /// A server takes the connections left in the queue of a candidate that has ended.
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

/// The set-up of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Heading {
    /// The version of the format.
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// The version of Duality.
    pub duality: String,
    /// When the trial began (RFC 3339, UTC).
    pub started_at: String,
    /// The service.
    pub service: String,
    /// The address for clients.
    pub address: String,
    /// The candidates.
    pub candidates: Vec<Candidate>,
    /// Flags of each server.
    pub server_arguments: Vec<String>,
    /// How connections are assigned.
    pub by: By,
    /// The length of a turn, in seconds.
    pub slot_s: f64,
    /// The longest time that the trial may take, in seconds.
    pub budget_s: f64,
    /// The action at the end.
    pub then: Then,
    /// The probability of a false statement.
    pub promise: f64,
    /// Candidates with a smaller difference are level.
    pub margin: f64,
    /// The seed of the order of turns.
    pub seed: u64,
    /// The machine.
    pub machine: Machine,
}

/// One mirrored pair of turns of each candidate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Block {
    /// The index of the block, from 0.
    pub number: usize,
    /// The reason why the block does not count, if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Dropped>,
    /// The duration, in seconds.
    pub seconds: f64,
    /// The candidates in the order of their turns. Empty if each connection was drawn.
    pub order: Vec<String>,
    /// The measurements of each candidate that is in the trial.
    pub measured: BTreeMap<String, Measured>,
    /// The present standings of the candidates.
    pub standings: Vec<Standing>,
}

/// The reason why a block does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dropped {
    /// In the first block, servers have cold caches.
    WarmUp,
    /// In this block, a candidate died or was started.
    Disturbed,
}

/// The measurements of a candidate in a block, or in the whole trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Measured {
    /// Requests that were answered.
    pub requests: u64,
    /// Processor time of all processes of the candidate, in microseconds.
    pub cpu_us: u64,
    /// Connections that failed.
    pub failed: u64,
    /// Connections that were refused because the server was full.
    pub refused: u64,
    /// Requests that took longer than the limit. `None` without a limit.
    pub late: u64,
    /// Connections that are open at the end of the period.
    pub connections_open: u64,
    /// The time that half of the requests did not exceed, in microseconds: the end of a bucket.
    pub p50_us: Option<f64>,
    /// The time that 99 % of the requests did not exceed, in microseconds: the end of a bucket.
    pub p99_us: Option<f64>,
    /// The most memory so far, in bytes. 0 if memory was not read.
    pub memory_bytes: u64,
}

impl Measured {
    /// Microseconds of processor time for each request. `None` without requests.
    pub fn cost(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.cpu_us as f64 / self.requests as f64)
    }
}

/// The standing of a candidate against the best one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Standing {
    /// Which.
    pub candidate: String,
    /// The ratio of the candidate's processor time for a request to the best one's, less 1.
    pub excess: f64,
    /// The interval of the true value, which holds at all looks together.
    pub interval: Option<Interval>,
}

/// The reason why a candidate is out.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Reason {
    /// Too large a share of its requests failed.
    Errors {
        /// The share so far.
        share: f64,
        /// The limit.
        limit: f64,
    },
    /// Too large a share of its requests took too long.
    Slow {
        /// The share so far.
        share: f64,
        /// The percentile, such as `p99`.
        percentile: String,
        /// The limit in microseconds.
        limit_us: f64,
    },
    /// Connections waited, and the candidate accepted none.
    Stuck {
        /// For how long, in seconds.
        seconds: f64,
    },
    /// The candidate read requests and answered none of them, while another one answered.
    Silent {
        /// How many requests.
        requests: u64,
        /// For how long, in seconds.
        seconds: f64,
    },
    /// The candidate takes too much memory.
    Memory {
        /// Bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The candidate died a second time, or could not be restarted.
    Died {
        /// How.
        how: String,
    },
    /// The candidate is certain to take more processor time than the best.
    Behind {
        /// The best candidate.
        best: String,
        /// The excess over the best, as a share.
        interval: Interval,
    },
    /// The trial has ended, and another candidate goes on.
    NotChosen,
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    /// The finding that ended the comparison.
    pub finding: Finding,
    /// The candidate that goes on serving, if one does.
    pub serving: Option<String>,
    /// The number of blocks that counted.
    pub blocks: usize,
    /// The measurements of each candidate in the whole trial.
    pub measured: BTreeMap<String, Measured>,
    /// The standings of the remaining candidates, the best first.
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

/// The end of the comparison.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum Finding {
    /// One candidate is certain to take least processor time.
    Winner {
        /// Which.
        candidate: String,
    },
    /// These candidates are certain to differ by less than the margin.
    Level {
        /// The level candidates, the best first.
        candidates: Vec<String>,
    },
    /// All other candidates exceeded a limit, or died.
    LastOne {
        /// Which.
        candidate: String,
    },
    /// The budget was spent, and no finding is certain.
    OutOfTime,
    /// The user asked the trial to end.
    Interrupted,
}
