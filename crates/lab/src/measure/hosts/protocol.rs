//! What a link and an agent say to each other: a line of JSON for each order and each answer.
//!
//! Each line is a pair of a number and an order or an answer. An answer has the number of its
//! order. Loads answer an order several times: when the window is about to open, when it has
//! closed, and with their report.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::measure::counters::Counters;
use crate::measure::experiment::Experiment;
use crate::record::{CellKey, Disturbance, Machine, QueueState, Role};

/// The version of these lines.
pub(super) const VERSION: u32 = 1;
/// How often each side says that it is alive.
pub(super) const BEAT: Duration = Duration::from_secs(2);
/// After so long without a line the other side is gone.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
/// The longest line, in bytes: an experiment with the files of a site.
pub(super) const LONGEST_LINE: u64 = 64 << 20;
/// The number of what answers no order.
pub(super) const UNASKED: u64 = 0;

/// An order to an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// The link is alive.
    Beat,
    /// What will be measured, and the roles of this host. Comes first.
    Begin { experiment: Box<Experiment>, roles: Vec<Role> },
    /// Start the server of a cell, which keeps what it is told in `store`.
    Server { number: u64, key: CellKey, listen: IpAddr, store: Option<String> },
    /// Start what balances over `servers`.
    Balancer { number: u64, key: CellKey, listen: IpAddr, servers: Vec<SocketAddr> },
    /// Start a store.
    Store { number: u64, listen: IpAddr },
    /// The processor time of a server.
    Cpu { number: u64 },
    /// The same, once the server rests.
    Settled { number: u64 },
    /// What a server has used.
    Counters { number: u64, with_memory: bool },
    /// The queues of a server.
    Queues { number: u64 },
    /// How many connections the listen queue of a server holds.
    ListenQueue { number: u64 },
    /// What is wrong with a store.
    Problem { number: u64 },
    /// End a server at once, and tell what it said last.
    LastWords { number: u64, error: String },
    /// End a server or a store in order.
    End { number: u64 },
    /// What else happened on the processors since the last look.
    Look,
    /// How long a round trip to an address takes.
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
    /// Which part this is, from 0, and of how many.
    pub(super) part: usize,
    pub(super) parts: usize,
    /// Whether its connections stay, for slices.
    pub(super) stays: bool,
}

/// An answer of an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// Said first: the versions of the protocol and of the program, and the machine.
    Hello { version: u32, duality: String, machine: Box<Machine> },
    /// The agent is alive.
    Beat,
    /// The order has been carried out.
    Done,
    /// What was started listens.
    Listens { port: u16, password: Option<String> },
    /// It cannot be had on this host, and why.
    Unavailable(String),
    /// The order failed, and why.
    Failed(String),
    /// A length of time.
    Time(Duration),
    /// What a server has used.
    Counters(Counters),
    /// Its queues.
    Queues(Vec<QueueState>),
    /// A number, if there is one.
    Length(Option<u64>),
    /// What was said, if anything.
    Text(Option<String>),
    /// What happened on the processors.
    Disturbance(Disturbance),
    /// The window is about to open: the load waits.
    Opened,
    /// The window has closed: the load waits.
    Closed,
    /// What a load measured.
    Report(Box<duality_load::Report>),
    /// What a slice came to.
    Slice(duality_load::Slice),
}
