//! The options of an architecture.

use std::num::NonZeroUsize;
use std::time::Duration;

use duality_poller::Kind;
use duality_runtime::task;

/// How a pool's threads get their connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandOver {
    /// One thread accepts, and hands connections over by a shared list (Demsky's thread pool).
    #[default]
    List,
    /// Each thread accepts for itself (ZeroHTTPd's prethreaded server).
    Accept,
}

/// Whether a loop that is busy with many connections serves or accepts first. In each round of a
/// loop all ready tasks have one turn, in the order of their events. One of them is the acceptor,
/// which accepts at most 64 connections in a turn. The preference decides when the accepted
/// connections start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefer {
    /// Serve first: while 1,024 connections are under way on a busy loop, further ones wait
    /// (Knot-C).
    #[default]
    Serve,
    /// Start all accepted connections in the next round (Knot-A).
    Accept,
}

/// The treatment of a further connection by a full server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Lets it wait up to a second for a slot, then refuses it. A staged server leaves it in the
    /// kernel's accept queue while a queue is too long.
    #[default]
    Delay,
    /// Refuses it after 100 ms, in the words of the service.
    Shed,
}

/// Which queues of libdispatch `gcd` puts blocks into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GcdQueues {
    /// One queue for all connections, with blocks that run side by side.
    #[default]
    Concurrent,
    /// A queue for each connection, with blocks that run one after the other.
    Serial,
}

/// Which threads read files for services on a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disk {
    /// Helper threads, while the loop serves others (Flash's AMPED).
    #[default]
    Helpers,
    /// The loop itself, while all its connections wait (Flash's SPED).
    Inline,
}

/// The options of an architecture. Each architecture uses the options that concern it. Begin with
/// the default, and set the options that should differ: `Options::default().workers(8).cores(2)`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The number of processes of `prefork`, and of threads of `pool` and the work pools.
    pub workers: usize,
    /// The number of kernel threads of architectures that
    /// [replicate](crate::About::replicates). Each has its own listener and loop.
    pub cores: usize,
    /// Connections that may wait to be accepted.
    pub backlog: i32,
    /// The most connections served at a time, divided among the cores. Further ones wait for a
    /// slot, and are refused if none becomes free. In `pool` and `prefork`, `workers` also bounds
    /// them.
    pub max_connections: usize,
    /// The most connections of one client address. Further ones are refused at once. `None`, the
    /// default, is no limit. The first 64 bits of an IPv6 address count as the client.
    pub max_per_address: Option<usize>,
    /// The most new connections of one client address in a second, from 1 to 10,000. Further ones
    /// are refused at once. `None`, the default, is no limit.
    pub rate_per_address: Option<usize>,
    /// Bytes of stack for each kernel or user-level thread. Only touched pages cost memory.
    pub stack_size: usize,
    /// How `pool` hands over connections.
    pub hand_over: HandOver,
    /// The poller of the loop beneath `uthreads`. Event loops have the poller of their name.
    /// `None`, the default, is [the best](Kind::best) that this machine can run.
    pub poller: Option<Kind>,
    /// The preference of a full loop.
    pub prefer: Prefer,
    /// The number of accepted connections that may wait for their turn in user space. They wait in
    /// the list of a pool, or in the accept queues of loops, which share the number. Further
    /// connections stay in the kernel's accept queue. With 0, no connection is accepted before its
    /// turn. `None`, the default, is as many as there are descriptors for.
    pub accept_queue: Option<usize>,
    /// The most connections that a work pool or a staged server has under way. Further ones wait to
    /// be accepted. `None`, the default, is as many as there are descriptors for.
    pub admit: Option<usize>,
    /// The most threads of each stage of a staged server.
    pub stage_threads: NonZeroUsize,
    /// The number of events that may wait at each stage before a staged server admits no further
    /// connection.
    pub stage_queue: NonZeroUsize,
    /// The treatment of further connections by a full server.
    pub when_full: WhenFull,
    /// Which queues of libdispatch `gcd` uses.
    pub gcd_queues: GcdQueues,
    /// How long an idle loop goes on polling before it sleeps.
    pub busy_poll: Duration,
    /// Which threads read files for services on a loop.
    pub disk: Disk,
    /// The most helper threads of a process.
    pub disk_helpers: NonZeroUsize,
}

/// A method for each field, which sets it.
macro_rules! setters {
    ($($field:ident: $type:ty,)*) => {
        impl Options {
            $(
                /// Sets the field of this name.
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}

setters! {
    workers: usize,
    cores: usize,
    backlog: i32,
    max_connections: usize,
    max_per_address: Option<usize>,
    rate_per_address: Option<usize>,
    stack_size: usize,
    hand_over: HandOver,
    poller: Option<Kind>,
    prefer: Prefer,
    accept_queue: Option<usize>,
    admit: Option<usize>,
    stage_threads: NonZeroUsize,
    stage_queue: NonZeroUsize,
    when_full: WhenFull,
    gcd_queues: GcdQueues,
    busy_poll: Duration,
    disk: Disk,
    disk_helpers: NonZeroUsize,
}

impl Default for Options {
    /// 100 workers (as ZeroHTTPd has them), one core, a backlog of 4,096, any number of
    /// connections, stacks of 128 KiB. `uthreads` has the best poller. Loops serve first, accept
    /// eagerly, sleep when they are idle, and have four helper threads read files. Each stage has
    /// ten threads (as in SEDA). Connections wait while a stage has more than 1,024 events.
    fn default() -> Self {
        Self {
            workers: 100,
            cores: 1,
            backlog: 4096,
            max_connections: usize::MAX,
            max_per_address: None,
            rate_per_address: None,
            stack_size: 128 * 1024,
            hand_over: HandOver::default(),
            poller: None,
            prefer: Prefer::default(),
            accept_queue: None,
            admit: None,
            stage_threads: NonZeroUsize::new(10).expect("it is not zero"),
            stage_queue: NonZeroUsize::new(1024).expect("it is not zero"),
            when_full: WhenFull::default(),
            gcd_queues: GcdQueues::default(),
            busy_poll: Duration::ZERO,
            disk: Disk::default(),
            disk_helpers: task::HELPERS,
        }
    }
}
