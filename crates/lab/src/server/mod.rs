//! The server of a cell: started for it, asked for what it has used, ended with it.
//!
//! It is one of our architectures ([`ours`]) or a peer ([`peer`]); whoever measures cannot tell which.

mod ours;
mod peer;
mod tree;

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::counters::Counters;
use crate::no_server::NoServer;
use crate::plan::{CellKey, Plan};
use crate::record::QueueState;
use crate::store::OpenStore;

/// How long a server may take to drain.
const DRAIN: Duration = Duration::from_secs(3);

/// A running server; it ends when it is dropped.
pub(crate) trait Server {
    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// The processor time of all its processes and threads until now, to the nanosecond where they rest: of those that live, and of
    /// threads that have ended. Quick.
    fn cpu(&mut self) -> io::Result<Duration>;

    /// What [`cpu`](Server::cpu) has just found, and the time of processes that have ended.
    fn cpu_with_ended_children(&mut self, living: Duration) -> io::Result<Duration>;

    /// What all its processes have used until now; with their memory if asked.
    fn counters(&mut self, with_memory: bool) -> io::Result<Counters>;

    /// The queues that it is made of; none of an architecture without queues.
    fn queues(&mut self) -> io::Result<Vec<QueueState>> {
        Ok(Vec::new())
    }

    /// Ends it at once; returns what it complained of last, in one line, or else `error`, which is what
    /// became of it.
    fn last_words(&mut self, error: &io::Error) -> String;
}

/// Starts the server of a cell, which keeps what it is told in `store`, and waits until it listens.
pub(crate) fn start(
    plan: &Plan,
    key: &CellKey,
    store: Option<&OpenStore>,
) -> Result<Box<dyn Server>, NoServer> {
    Ok(match plan.design.peers.iter().find(|peer| peer.name == key.subject) {
        Some(peer) => Box::new(peer::Process::start(plan, key, peer)?),
        None => Box::new(ours::Process::start(plan, key, store)?),
    })
}

/// A file without a name, to read and to write: what a server says cannot fill it up and block.
fn log_file() -> io::Result<(File, File)> {
    use rustix::fs::{MemfdFlags, memfd_create};
    let file = File::from(memfd_create("log", MemfdFlags::CLOEXEC)?);
    Ok((file.try_clone()?, file))
}

/// The end of what is in such a file. Its two handles share one position, which is the writer's.
fn read_log(log: &File) -> String {
    /// More than anybody says before it listens.
    const MOST: u64 = 64 * 1024;
    let length = log.metadata().map_or(0, |about| about.len());
    let mut bytes = vec![0; length.min(MOST) as usize];
    // What cannot be read has not been said.
    let read = log.read_at(&mut bytes, length.saturating_sub(MOST)).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

/// The last line that has something in it.
fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}
