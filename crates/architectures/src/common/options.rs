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

/// Makes [`Options`]: a field of each entry, a method that sets it, and its default.
macro_rules! options {
    ($($(#[$about:meta])* $field:ident: $type:ty = $default:expr;)*) => {
        /// The options of an architecture. Each architecture uses the options that concern it.
        /// Begin with the default, and set the options that should differ:
        /// `Options::default().workers(8).cores(2)`.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Options {
            $($(#[$about])* pub $field: $type,)*
        }

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

        impl Default for Options {
            /// 100 workers (as ZeroHTTPd has them), one core, a backlog of 4,096, any number of
            /// connections, stacks of 128 KiB. `uthreads` has the best poller. Loops serve first,
            /// accept eagerly, sleep when they are idle, and have four helper threads read files.
            /// Each stage has ten threads (as in SEDA). Connections wait while a stage has more
            /// than 1,024 events.
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

options! {
    /// The number of processes of `prefork`, and of threads of `pool` and the work pools.
    workers: usize = 100;
    /// The number of kernel threads of architectures that
    /// [replicate](crate::About::replicates). Each has its own listener and loop.
    cores: usize = 1;
    /// Connections that may wait to be accepted.
    backlog: i32 = 4096;
    /// The most connections served at a time, divided among the cores. Further ones wait for a
    /// slot, and are refused if none becomes free. In `pool` and `prefork`, `workers` also bounds
    /// them.
    max_connections: usize = usize::MAX;
    /// The most connections of one client address. Further ones are refused at once. `None`, the
    /// default, is no limit. The first 64 bits of an IPv6 address count as the client.
    max_per_address: Option<usize> = None;
    /// The most new connections of one client address in a second, from 1 to 10,000. Further ones
    /// are refused at once. `None`, the default, is no limit.
    rate_per_address: Option<usize> = None;
    /// Bytes of stack for each kernel or user-level thread. Only touched pages cost memory.
    stack_size: usize = 128 * 1024;
    /// How `pool` hands over connections.
    hand_over: HandOver = HandOver::default();
    /// The poller of the loop beneath `uthreads`. Event loops have the poller of their name.
    /// `None`, the default, is [the best](Kind::best) that this machine can run.
    poller: Option<Kind> = None;
    /// The preference of a full loop.
    prefer: Prefer = Prefer::default();
    /// The number of accepted connections that may wait for their turn in user space. They wait in
    /// the list of a pool, or in the accept queues of loops, which share the number. Further
    /// connections stay in the kernel's accept queue. With 0, no connection is accepted before its
    /// turn. `None`, the default, is as many as there are descriptors for.
    accept_queue: Option<usize> = None;
    /// The most connections that a work pool or a staged server has under way. Further ones wait to
    /// be accepted. `None`, the default, is as many as there are descriptors for.
    admit: Option<usize> = None;
    /// The most threads of each stage of a staged server.
    stage_threads: NonZeroUsize = NonZeroUsize::new(10).expect("it is not zero");
    /// The number of events that may wait at each stage before a staged server admits no further
    /// connection.
    stage_queue: NonZeroUsize = NonZeroUsize::new(1024).expect("it is not zero");
    /// The treatment of further connections by a full server.
    when_full: WhenFull = WhenFull::default();
    /// Which queues of libdispatch `gcd` uses.
    gcd_queues: GcdQueues = GcdQueues::default();
    /// How long an idle loop goes on polling before it sleeps.
    busy_poll: Duration = Duration::ZERO;
    /// Which threads read files for services on a loop.
    disk: Disk = Disk::default();
    /// The most helper threads of a process.
    disk_helpers: NonZeroUsize = task::HELPERS;
}
