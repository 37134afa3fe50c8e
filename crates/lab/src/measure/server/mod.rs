//! The server of a cell. The server starts for the cell, reports its resources, and ends with the
//! cell.
//!
//! The server is one of our architectures ([`ours`]) or a peer ([`peer`]). The caller cannot tell
//! which.

pub(crate) mod ours;
mod peer;
mod tree;

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::failure::{Failure, Party};
use crate::measure::experiment::Experiment;
use crate::measure::no_server::NoServer;
use crate::measure::observe::counters::Counters;
use crate::measure::observe::listen_queue;
use crate::measure::store::OpenStore;
use crate::record::CellKey;
use crate::record::QueueState;

/// How long a server may take to drain.
const DRAIN: Duration = Duration::from_secs(3);
/// How long a server may take to come to rest after its last answer.
const SETTLING: Duration = Duration::from_millis(20);
/// The time between two checks whether the server rests.
const GLANCE: Duration = Duration::from_micros(100);

/// A running server. The server ends when this value is dropped.
pub(crate) trait Server: Send {
    /// The address at which the server listens.
    fn address(&self) -> SocketAddr;

    /// The processor time of the server's living processes so far, ended threads included. Ended
    /// processes are missing. The time of threads that rest is exact to the nanosecond. The call is
    /// quick.
    fn cpu(&mut self) -> io::Result<Duration>;

    /// The time that [`cpu`](Server::cpu) has just returned, plus the time of ended processes.
    fn cpu_with_ended_children(&mut self, living: Duration) -> io::Result<Duration>;

    /// The processor time of a server that has answered everything, and of its processes that have
    /// ended. The time is read once the server rests, because work may follow an answer. The kernel
    /// counts the time of a running thread at ticks, and the time of a resting thread exactly.
    fn settled(&mut self) -> io::Result<Duration> {
        let mut used = self.cpu()?;
        let mut left = SETTLING;
        while !left.is_zero() {
            thread::sleep(GLANCE);
            left = left.saturating_sub(GLANCE);
            let now = self.cpu()?;
            if now == used {
                break;
            }
            used = now;
        }
        self.cpu_with_ended_children(used)
    }

    /// The number of connections in the server's listen queue. `None` if the kernel does not report
    /// it.
    fn listen_queue(&mut self) -> Option<u64> {
        listen_queue::length(self.address())
    }

    /// The resources that all processes of the server have used so far, with their memory if asked.
    fn counters(&mut self, with_memory: bool) -> io::Result<Counters>;

    /// The memory that the server has now, in bytes. Quick, and good enough to see growth.
    fn memory(&mut self) -> io::Result<u64> {
        self.counters(true).map(|counters| counters.peak_bytes)
    }

    /// The queues inside the server. Empty for an architecture without queues.
    fn queues(&mut self) -> io::Result<Vec<QueueState>> {
        Ok(Vec::new())
    }

    /// Ends the server at once. Returns its last complaint in one line, or else `error`, which says
    /// how it ended. Empty if there is neither.
    fn last_words(&mut self, error: Option<&io::Error>) -> String;
}

/// Starts the server of a cell on `store`, and before `upstreams` if it is a relay. Waits until it
/// listens.
pub(crate) fn start(
    experiment: &Experiment,
    key: &CellKey,
    store: Option<&OpenStore>,
    upstreams: &[SocketAddr],
) -> Result<Box<dyn Server>, NoServer> {
    Ok(match experiment.design.peers.iter().find(|peer| peer.name == key.subject) {
        Some(peer) => Box::new(peer::Process::start(experiment, key, peer, upstreams)?),
        None => Box::new(ours::Process::start(experiment, key, store, upstreams)?),
    })
}

/// Starts a balancer over `servers`, if the experiment has one.
pub(crate) fn start_balancer(
    experiment: &Experiment,
    key: &CellKey,
    servers: &[SocketAddr],
) -> Result<Box<dyn Server>, NoServer> {
    let topology = experiment.design.topology.as_ref();
    let balancer = topology.and_then(|topology| topology.balancer.as_ref());
    let balancer = balancer.ok_or_else(|| Failure::new(Party::Machine, "there is no balancer"))?;
    Ok(Box::new(peer::Process::start(experiment, key, balancer, servers)?))
}
