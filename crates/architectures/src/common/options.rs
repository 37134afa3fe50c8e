//! What can be chosen about an architecture.

use duality_poller::Kind;

/// How a pool's threads come by their connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandOver {
    /// One thread accepts and hands over by a shared list (Demsky's thread pool).
    #[default]
    List,
    /// Each thread accepts for itself (ZeroHTTPd's prethreaded server).
    Accept,
}

/// What can be chosen about an architecture; each uses what concerns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Processes of `prefork`, threads of `pool`.
    pub workers: usize,
    /// Kernel threads, each with a listener and a loop of its own, of the architectures that
    /// [replicate](crate::Architecture::replicates).
    pub cores: usize,
    /// Connections that may wait to be accepted.
    pub backlog: i32,
    /// Connections served at a time; the next are refused in order. Divided among the cores. Where it is
    /// more than `workers`, a pool's and `prefork`'s own number is the bound, and the next wait.
    pub max_connections: usize,
    /// Bytes of stack for each kernel or user-level thread. Only the pages that are touched cost memory.
    pub stack_size: usize,
    /// How `pool` hands over connections.
    pub hand_over: HandOver,
    /// How the loop beneath `uthreads` learns what is ready; the event loops are named after theirs.
    pub poller: Kind,
}

impl Default for Options {
    /// 100 workers (as ZeroHTTPd has them), one core, a backlog of 4,096, any number of connections,
    /// stacks of 128 KiB, epoll.
    fn default() -> Self {
        Self {
            workers: 100,
            cores: 1,
            backlog: 4096,
            max_connections: usize::MAX,
            stack_size: 128 * 1024,
            hand_over: HandOver::default(),
            poller: Kind::Epoll,
        }
    }
}
