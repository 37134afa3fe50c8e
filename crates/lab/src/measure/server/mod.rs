//! The server of a cell. It starts for the cell, reports its resources, and ends with the cell.
//!
//! It is one of our architectures ([`ours`]) or a peer ([`peer`]); the caller cannot tell which.

mod ours;
mod peer;
mod tree;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::measure::counters::Counters;
use crate::measure::experiment::Experiment;
use crate::measure::no_server::NoServer;
use crate::measure::store::OpenStore;
use crate::record::CellKey;
use crate::record::QueueState;

/// How long a server may take to drain.
const DRAIN: Duration = Duration::from_secs(3);

/// A running server; it ends when it is dropped.
pub(crate) trait Server {
    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// The processor time of all its processes and threads until now, living and ended. It is exact
    /// to the nanosecond for threads that rest. Quick.
    fn cpu(&mut self) -> io::Result<Duration>;

    /// What [`cpu`](Server::cpu) has just found, and the time of processes that have ended.
    fn cpu_with_ended_children(&mut self, living: Duration) -> io::Result<Duration>;

    /// The resources that all its processes have used until now, with their memory if asked.
    fn counters(&mut self, with_memory: bool) -> io::Result<Counters>;

    /// The queues that it is made of; none of an architecture without queues.
    fn queues(&mut self) -> io::Result<Vec<QueueState>> {
        Ok(Vec::new())
    }

    /// Ends the server at once. Returns its last complaint in one line, or else `error`, which says
    /// how it ended.
    fn last_words(&mut self, error: &io::Error) -> String;
}

/// Starts the server of a cell on `store`, and waits until it listens.
pub(crate) fn start(
    experiment: &Experiment,
    key: &CellKey,
    store: Option<&OpenStore>,
) -> Result<Box<dyn Server>, NoServer> {
    Ok(match experiment.design.peers.iter().find(|peer| peer.name == key.subject) {
        Some(peer) => Box::new(peer::Process::start(experiment, key, peer)?),
        None => Box::new(ours::Process::start(experiment, key, store)?),
    })
}
