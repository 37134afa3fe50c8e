//! A block: the servers of a session driven in turn, each twice, so that a drift of the machine
//! affects all alike.
//!
//! ```text
//!   block        epoll   anna  threads  epoll…  ┊  …epoll  threads   anna   epoll
//!               ├──────┼──────┼──────┼────────  ┊ ────────┼───────┼──────┼──────┤
//!               a slice of some 30 ms             the same order, mirrored
//! ```

use std::collections::BTreeMap;

use duality_load::Exhausted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One round through the servers that are alive side by side, in random order, and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// The number of connections that were open at once, to each server.
    pub concurrency: usize,
    /// The session, from 0. Each session has fresh servers. The number is also the repeat of the
    /// cells that were measured at the session's start.
    pub session: usize,
    /// The group of the session, from 0. There are several groups if not all servers can be alive
    /// at once.
    #[serde(default)]
    pub group: usize,
    /// The block's number within the session and group, from 0.
    pub number: usize,
    /// The time at which the block began (RFC 3339, UTC).
    pub started_at: String,
    /// The slices in the order of measurement.
    pub slices: Vec<Slice>,
    /// The disturbance on the processors meanwhile.
    pub disturbance: Disturbance,
    /// The reason why the block does not count, if it does not. In a replay, the load generator may
    /// have departed from the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// A server driven for some 30 ms, while the others rest. In a replay, all are driven at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// The name of the measured architecture or peer.
    #[serde(rename = "architecture")]
    pub subject: String,
    /// Correct replies from the first request to the last reply. The processor times are for these
    /// replies.
    pub requests: u64,
    /// The processor time of all processes of the server in the slice, in microseconds.
    pub server_cpu_us: f64,
    /// The load generator's processor time, in microseconds.
    pub client_cpu_us: f64,
    /// Correct replies a second once the server was under way, from 5 ms after the slice began to
    /// its end.
    pub requests_per_second: f64,
    /// The share of the slice in which the server used its processors, from 0 to their number.
    pub server_cpu_share: f64,
    /// The share of the slice in which the load generator used its processor, from 0 to 1.
    pub client_cpu_share: f64,
    /// The share of the slice in which the load generator was ready to run but had no processor.
    pub client_wait_share: f64,
    /// The number of connections that have got a reply since the session began, up to the end of
    /// the slice.
    #[serde(default)]
    pub connections_served: u64,
    /// Requests that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u64,
    /// Failed requests by kind, as in [`Measured::errors`](super::Measured::errors). Empty in older
    /// results.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
}

/// The disturbance on the pinned processors. Empty if the kernel does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// How long the processors were observed, in seconds.
    pub seconds: f64,
    /// Each processor of the servers and of the load generator.
    pub processors: Vec<Processor>,
    /// The CPU quota of a control group, if one ran out. Servers and load generator then stood
    /// still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Exhausted>,
}

/// The disturbance on one processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Processor {
    /// The host of the processor. `None` for this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The number.
    pub cpu: usize,
    /// Whether the processor is the servers'. Otherwise it is the load generator's.
    pub is_of_servers: bool,
    /// The share of the time that the hypervisor gave to others though a process here wanted to run
    /// (steal, `/proc/stat`).
    pub stolen: f64,
    /// The share of the time that strangers used: processes other than servers and load generator.
    pub strangers: f64,
    /// The share of the time that the kernel thread of soft interrupts (`ksoftirqd`) waited to run.
    /// Replies are late by such waits.
    pub soft_interrupts_waited: f64,
}

impl Disturbance {
    /// The largest share that was stolen from any processor.
    pub fn stolen(&self) -> f64 {
        self.most(|processor| processor.stolen)
    }

    /// The largest share that strangers used of any processor.
    pub fn strangers(&self) -> f64 {
        self.most(|processor| processor.strangers)
    }

    fn most(&self, share: fn(&Processor) -> f64) -> f64 {
        self.processors.iter().map(share).fold(0.0, f64::max)
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
