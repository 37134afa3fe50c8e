//! The outcome of a cell, with its figures.

use std::collections::BTreeMap;

use duality_load::{Fate, Latency, OpenLoop, Replayed, Warning};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CellKey, Disturbance, ListenQueue, Operations, QueueSample};

/// One measurement, or the reason why it is missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The name of the measured architecture or peer.
    #[serde(rename = "architecture")]
    pub subject: String,
    /// The number of connections that were open at once.
    pub concurrency: usize,
    /// The repeat, from 0.
    pub repeat: usize,
    /// The time at which the cell began (RFC 3339, UTC).
    pub started_at: String,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Cell {
    /// The name in the design.
    pub(crate) fn key(&self) -> CellKey {
        CellKey {
            repeat: self.repeat,
            subject: self.subject.clone(),
            concurrency: self.concurrency,
        }
    }
}

/// The outcome of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// The cell was measured.
    Measured(Box<Measured>),
    /// The cell has no figures, and the subject did not fail.
    Unavailable {
        /// Why.
        reason: String,
        /// The kind of reason. In results of earlier versions, always a lack.
        #[serde(default, skip_serializing_if = "Obstacle::is_lack")]
        obstacle: Obstacle,
    },
    /// The cell was tried and failed, with the error.
    Failed {
        /// How.
        reason: String,
    },
}

impl Outcome {
    /// The outcome of a cell that this subject or this machine cannot carry.
    pub fn lacking(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), obstacle: Obstacle::Lack }
    }

    /// The outcome of a window without a reply that says nothing of its subject.
    pub(crate) fn silent(reason: &str) -> Self {
        Self::Unavailable { reason: reason.to_owned(), obstacle: Obstacle::Silence }
    }
}

/// The kind of reason why a cell has no figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Obstacle {
    /// The subject cannot carry the cell, or the machine lacks something that the subject needs.
    #[default]
    Lack,
    /// No reply came within the window, because other programs had the processors or because the
    /// server stopped for a moment. The same cell may have figures in the next run.
    Silence,
}

impl Obstacle {
    /// Whether another run meets it, too.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_lack(&self) -> bool {
        *self == Self::Lack
    }
}

/// The figures of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Correct replies per second of the window.
    pub requests_per_second: f64,
    /// Correct replies within the window.
    pub requests: u64,
    /// The length of the window in seconds.
    pub window_seconds: f64,
    /// Latencies in microseconds.
    pub latency_us: Latency,
    /// Mean number of requests in service: n·t_r/t (Kerneis & Chroboczek 2009).
    pub measured_load: f64,
    /// The length of a round trip from the load generator to the server in microseconds, if they
    /// are on different hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_us: Option<f64>,
    /// The server's processor time for each request, in microseconds.
    pub server_cpu_us_per_request: f64,
    /// The server's processor time within the window, as a share of one processor.
    pub server_cpu_share: f64,
    /// The most memory that the server had up to the end of its session, in bytes. For several
    /// processes, the lab measures at the end of the window and of the session. The figure is the
    /// sum of the processes' shares of their own memory (PSS), plus the mapped files once.
    pub server_peak_bytes: u64,
    /// The figures of the server's whole session, where it has slices. In a file, they have a line
    /// of their own ([`Session`]). `None` in results of earlier versions.
    #[serde(skip)]
    pub session: Option<Throughout>,
    /// Context switches of the server within the window because it waited.
    pub voluntary_switches: u64,
    /// Context switches of the server within the window because it was interrupted.
    pub involuntary_switches: u64,
    /// The server's counts of its own operations within the window. `None` for a peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<Operations>,
    /// The load generator's processor time, as a share of one processor.
    pub client_cpu_share: f64,
    /// Whether the load generator, and not the server, was the limit.
    pub client_was_limit: bool,
    /// The number of connections that got a reply within the window.
    pub connections_served: u64,
    /// The number of connections that were opened.
    pub connections_opened: u64,
    /// The number of open connections at the server: the larger of the counts at the window's
    /// beginning and end. `None` for a peer, and in results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_connections_open: Option<u64>,
    /// How often the server's accept queue overflowed. In results of earlier versions, the count is
    /// of the whole machine.
    pub listen_overflows: u64,
    /// Connections dropped at the server's accept queue. In results of earlier versions, the count
    /// is of the whole machine.
    pub listen_drops: u64,
    /// Facts about the server's own queue. `None` if the kernel does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen_queue: Option<ListenQueue>,
    /// Failed requests by kind.
    pub errors: BTreeMap<String, u64>,
    /// The fate of the connections beside the measured ones, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub crowd: BTreeMap<String, Fate>,
    /// The figures that only an open loop has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
    /// The figures that only a replay has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Replayed>,
    /// The server's queues, about ten times a second. Empty for an architecture without queues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueSample>,
    /// Warnings for readers of the figures.
    pub warnings: Vec<Warning>,
    /// The disturbance on the processors within the window. `None` if the lab did not watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// The reasons why the figures cannot be trusted, by kind, one sentence each, as in
    /// [`duality_load::Report::invalid`]. The load generator could not do its work. Empty in a
    /// sound cell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub invalid: BTreeMap<String, String>,
    /// The share of the window in which the load generator's thread was ready to run but had no
    /// processor, from 0 to 1.
    #[serde(default)]
    pub client_wait_share: f64,
    /// Correct replies per second in each twentieth of the window, about. Empty if the rates were
    /// not observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices_requests_per_second: Vec<f64>,
    /// All latencies: HDR V2 + deflate in base64, in nanoseconds.
    pub histogram: String,
}

/// What is known of a cell only at the end of its server's session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// The name of the measured architecture or peer.
    #[serde(rename = "architecture")]
    pub subject: String,
    /// The number of connections that were open at once.
    pub concurrency: usize,
    /// The repeat, from 0.
    pub repeat: usize,
    /// The most memory that the server has had, in bytes.
    pub server_peak_bytes: u64,
    /// What the server did.
    #[serde(flatten)]
    pub throughout: Throughout,
}

/// What a server did in all slices of its session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughout {
    /// Correct replies in the slices.
    pub requests: u64,
    /// The number of slices.
    pub slices: u64,
    /// Latencies in microseconds.
    pub latency_us: Latency,
    /// The slices in which no connection got a reply for 50 ms or more.
    pub stops: u64,
    /// The longest time in a slice without a reply on any connection, in microseconds.
    pub longest_stop_us: f64,
    /// By how many bytes of memory the server grew for each request. The figure is of the half of
    /// the session with less growth. 0 if the server stopped growing.
    pub growth_bytes_per_request: f64,
}
