//! The server of a cell. It starts for the cell, reports its resources, and ends with the cell.
//!
//! It is one of our architectures ([`ours`]) or a peer ([`peer`]); the caller cannot tell which.

pub(crate) mod ours;
mod peer;
mod tree;

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::measure::counters::Counters;
use crate::measure::experiment::Experiment;
use crate::measure::listen_queue;
use crate::measure::no_server::NoServer;
use crate::measure::store::OpenStore;
use crate::record::CellKey;
use crate::record::QueueState;

/// How long a server may take to drain.
const DRAIN: Duration = Duration::from_secs(3);
/// How long a server that has answered everything may take to come to rest.
const SETTLING: Duration = Duration::from_millis(20);
/// How often it is looked whether it has.
const GLANCE: Duration = Duration::from_micros(100);

/// A running server; it ends when it is dropped.
pub(crate) trait Server: Send {
    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// The processor time of its living processes until now, with that of their ended threads. It
    /// lacks ended processes. It is exact to the nanosecond for threads that rest. Quick.
    fn cpu(&mut self) -> io::Result<Duration>;

    /// What [`cpu`](Server::cpu) has just found, and the time of processes that have ended.
    fn cpu_with_ended_children(&mut self, living: Duration) -> io::Result<Duration>;

    /// The processor time of a server that has answered everything, and of its processes that have
    /// ended. It is read once the server rests, for work may follow an answer. The kernel counts
    /// the time of a running thread at ticks, and that of a resting one exactly.
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

    /// How many connections its listen queue holds; none where the kernel does not tell.
    fn listen_queue(&mut self) -> Option<u64> {
        listen_queue::length(self.address())
    }

    /// What all its processes have used until now; with their memory if asked.
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
        Some(peer) => Box::new(peer::Process::start(experiment, key, peer, &[])?),
        None => Box::new(ours::Process::start(experiment, key, store)?),
    })
}

/// Starts what balances over `servers`, where the experiment has a balancer.
pub(crate) fn start_balancer(
    experiment: &Experiment,
    key: &CellKey,
    servers: &[SocketAddr],
) -> Result<Box<dyn Server>, NoServer> {
    let topology = experiment.design.topology.as_ref();
    let balancer = topology.and_then(|topology| topology.balancer.as_ref());
    let balancer = balancer.ok_or_else(|| NoServer::Failed("there is no balancer".to_owned()))?;
    Ok(Box::new(peer::Process::start(experiment, key, balancer, servers)?))
}
