//! The protocol between a link and an agent: a line of JSON for each order and each answer.
//!
//! Each line is a pair of a number and an order or an answer. An answer has the number of its
//! order. Loads answer an order several times: when the window is about to open, when it has
//! closed, and with their report.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::measure::experiment::Experiment;
use crate::measure::observe::counters::Counters;
use crate::record::{CellKey, Disturbance, Machine, QueueState, Role};

/// The version of these lines.
pub(super) const VERSION: u32 = 2;
/// The interval at which each side says that it is alive.
pub(super) const BEAT: Duration = Duration::from_secs(2);
/// After this time without a line, the other side counts as gone.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
/// The longest line, in bytes: an experiment with the files of a site.
pub(super) const LONGEST_LINE: u64 = 64 << 20;
/// The number of lines that answer no order.
pub(super) const UNASKED: u64 = 0;

/// An order to an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// The link is alive.
    Beat,
    /// The experiment, and the roles of this host. This order comes first.
    Begin { experiment: Box<Experiment>, roles: Vec<Role> },
    /// Start the server of a cell, which keeps its data in `store`.
    Server { number: u64, key: CellKey, listen: IpAddr, store: Option<String> },
    /// Start the balancer of `servers`.
    Balancer { number: u64, key: CellKey, listen: IpAddr, servers: Vec<SocketAddr> },
    /// Start a store.
    Store { number: u64, listen: IpAddr },
    /// Ask for the processor time of a server.
    Cpu { number: u64 },
    /// Ask for the processor time of a server, once the server rests.
    Settled { number: u64 },
    /// Ask for the resources that a server has used.
    Counters { number: u64, with_memory: bool },
    /// The queues of a server.
    Queues { number: u64 },
    /// Ask for the length of a server's listen queue.
    ListenQueue { number: u64 },
    /// Ask for the failure of a store.
    Problem { number: u64 },
    /// End a server at once, and return its last line.
    LastWords { number: u64, error: Option<String> },
    /// End a server or a store in order.
    End { number: u64 },
    /// Ask for the disturbances on the processors since the last look.
    Look,
    /// Measure a round trip to an address.
    RoundTrip { address: SocketAddr },
    /// Make the load of a cell on a server.
    Load(Box<Load>),
    /// The window of a load may open, or the load may go on after it.
    Go,
    /// Give up the load that is being made.
    Stop,
    /// Make requests for a slice.
    Slice { number: u64, length: Duration },
    /// Close the connections of all loads.
    Leave,
}

/// A part of a load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) number: u64,
    pub(super) key: CellKey,
    pub(super) address: SocketAddr,
    /// The index of the part, from 0, and the number of parts.
    pub(super) part: usize,
    pub(super) parts: usize,
    /// Whether the load's connections stay, for slices.
    pub(super) stays: bool,
}

/// An answer of an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// The first answer has the versions of the protocol and of the program, and the machine.
    Hello { version: u32, duality: String, machine: Box<Machine> },
    /// The agent is alive.
    Beat,
    /// The order has been carried out.
    Done,
    /// The started process listens.
    Listens { port: u16, password: Option<String> },
    /// The process is unavailable on this host, with the reason.
    Unavailable(String),
    /// The order failed, with the reason.
    Failed(Failure),
    /// A length of time.
    Time(Duration),
    /// The resources that a server has used.
    Counters(Counters),
    /// The queues.
    Queues(Vec<QueueState>),
    /// A number, if there is one.
    Length(Option<u64>),
    /// A text, if there is one.
    Text(Option<String>),
    /// The disturbances on the processors.
    Disturbance(Disturbance),
    /// The window is about to open: the load waits.
    Opened,
    /// The window has closed: the load waits.
    Closed,
    /// The report of a load.
    Report(Box<duality_load::Report>),
    /// The result of a slice.
    Slice(duality_load::Slice),
}
