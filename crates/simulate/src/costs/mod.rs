//! A model of what a service takes on more processors than this machine has.
//!
//! ```text
//!   clients ─ latency ─▶ loops of hosts ─ turns, one at a time for each processor ─▶ clients
//!                             └─ a turn takes Σ operations × unit costs of virtual time
//! ```
//!
//! The service and its loop are the code that ships. The network is in memory and without faults,
//! and clients are no hosts, so that 100,000 connections fit. A turn ends when its operations have
//! been paid for, and its replies leave then. Turns wait for processors in the order in which they
//! became ready. What is no operation of a turn costs nothing: caches, contention in the kernel,
//! interrupts. So a figure is *on paper*. docs/scale.md says how far it was off where both could be
//! had.

mod clients;
mod exchange;
mod figures;
mod machine;
mod network;
mod processors;
#[cfg(test)]
mod tests;

use std::time::Duration;

use duality_architectures::Served;

pub use self::exchange::Exchange;
pub use self::figures::Figures;

/// How connections are carried by the processors of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A loop on each processor, with a listener of its own. A connection stays on its loop.
    Loops,
    /// A kernel thread for each connection, on any free processor of the host. So many connections
    /// are open at a time, and others wait to be accepted.
    Threads {
        /// The most open connections of a host.
        places: usize,
    },
}

/// What each operation takes of a processor, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prices {
    /// A turn of a task.
    pub turn: f64,
    /// The start of a connection's task.
    pub start: f64,
    /// An attempt that moves bytes or accepts.
    pub attempt: f64,
    /// An attempt that would block.
    pub in_vain: f64,
    /// The first wait for a socket.
    pub registration: f64,
    /// A round of a poller.
    pub round: f64,
    /// An event of a poller.
    pub event: f64,
    /// A wait after which the processor rests.
    pub rest: f64,
    /// The kernel's switch to another thread that is ready.
    pub switch: f64,
    /// A reply that wakes a client's processor.
    pub wake: f64,
    /// The service's own work for a request.
    pub work: f64,
}

/// What a model is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// How connections are carried.
    pub layout: Layout,
    /// What operations take.
    pub prices: Prices,
    /// The number of hosts. Connections are spread over them evenly, at no cost.
    pub hosts: usize,
    /// The number of processors of each host.
    pub processors: usize,
    /// The number of clients, each with a connection.
    pub connections: usize,
    /// Requests per second of all clients together, at random times. `None`: each client asks again
    /// as soon as it is answered.
    pub rate: Option<f64>,
    /// What a reply and the next request take of the one processor of clients, in nanoseconds. 0:
    /// clients have as many processors as they need.
    pub client: f64,
    /// The time between a host and a client, one way.
    pub latency: Duration,
    /// The virtual time that is observed, after all have been served once.
    pub window: Duration,
    /// Decides which loop of its host a connection is on, and when requests come.
    pub seed: u64,
}

/// The longest virtual time of a model.
const LONGEST: Duration = Duration::from_secs(600);

/// The most hosts times processors.
pub const MOST_LOOPS: usize = 1_000;

/// Runs a model.
///
/// # Errors
///
/// In one line: a reply that clients do not understand, no reply at all, or a machine that has no
/// room for the loops.
///
/// # Panics
///
/// If a count of the question is zero.
pub fn figures(
    question: &Question,
    served: &Served,
    exchange: &Exchange,
) -> Result<Figures, String> {
    assert!(question.hosts > 0 && question.processors > 0 && question.connections > 0);
    processors::Driver::start(question, served, exchange)?.run()
}
