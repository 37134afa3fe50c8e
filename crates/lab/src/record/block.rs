//! A block: the servers of a session driven in turn, each twice, so that what drifts on the machine
//! hits all alike.
//!
//! ```text
//!   block        epoll   anna  threads  epoll…  ┊  …epoll  threads   anna   epoll
//!               ├──────┼──────┼──────┼────────  ┊ ────────┼───────┼──────┼──────┤
//!               a slice of some 30 ms             the same order, mirrored
//! ```

use std::collections::BTreeMap;

use duality_load::Exhausted;
use serde::{Deserialize, Serialize};

/// One round through the servers that are alive side by side, in random order, and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// How many connections were open at once, to each server.
    pub concurrency: usize,
    /// Which session, from 0: each has fresh servers. It is the repeat of the cells that were
    /// measured at its start.
    pub session: usize,
    /// Which group of the session, from 0: there is more than one where not all servers can be kept
    /// alive at once.
    #[serde(default)]
    pub group: usize,
    /// Which block of the session and group, from 0.
    pub number: usize,
    /// When it began (RFC 3339, UTC).
    pub started_at: String,
    /// What was measured, in order.
    pub slices: Vec<Slice>,
    /// The disturbance on the processors meanwhile.
    pub disturbance: Disturbance,
    /// Why the block does not count, if so: in a replay, since the load generator did not keep to
    /// the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// A server driven for some 30 ms, while the others rest. In a replay, all are driven at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// What was measured: the name of an architecture or a peer.
    #[serde(rename = "architecture")]
    pub subject: String,
    /// Correct replies from the first request to the last reply: those that the processor times are
    /// about.
    pub requests: u64,
    /// The processor time of all processes of the server for them, in microseconds.
    pub server_cpu_us: f64,
    /// The load generator's, in microseconds.
    pub client_cpu_us: f64,
    /// Correct replies a second once the server was under way, from 5 ms after the slice began to
    /// its end.
    pub requests_per_second: f64,
    /// The share of the slice in which the server used its processors, from 0 to their number.
    pub server_cpu_share: f64,
    /// The share of the slice in which the load generator used its processor, from 0 to 1.
    pub client_cpu_share: f64,
    /// The share of the slice in which the load generator could have run and had no processor.
    pub client_wait_share: f64,
    /// How many connections have got a reply by the end of the slice, since the session began.
    #[serde(default)]
    pub connections_served: u64,
    /// Requests that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u64,
    /// The same by kind, as [`Measured::errors`](super::Measured::errors) has them; empty in older
    /// results.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
}

/// The disturbance on the pinned processors. Empty if the kernel does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// How long the processors were observed, in seconds.
    pub seconds: f64,
    /// Each processor of the servers and of the load generator.
    pub processors: Vec<Processor>,
    /// The CPU quota of a control group, if one ran out: servers and load generator stood still
    /// then, whatever others did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Exhausted>,
}

/// What happened on a processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Processor {
    /// The host that it is of; none of this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The number.
    pub cpu: usize,
    /// Whether it is the servers'; the load generator's otherwise.
    pub is_of_servers: bool,
    /// The share of the time that the hypervisor gave to others though a process here wanted to run
    /// (steal, `/proc/stat`).
    pub stolen: f64,
    /// The share of the time that processes used which are neither servers nor load generator.
    pub strangers: f64,
    /// The share of the time that the kernel thread of its soft interrupts (`ksoftirqd`) waited to
    /// run: replies are late for it.
    pub soft_interrupts_waited: f64,
}

impl Disturbance {
    /// The largest share that was stolen of any processor.
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
