//! Server architectures: how connections become processes, threads and events.
//!
//! Each file is one architecture and reads as its definition. All of them run the same [`Served`],
//! compiled once. The architectures differ in how connections wait:
//!
//! | file | a connection is | waits in |
//! | --- | --- | --- |
//! | [`iterative`] | the only one | the process |
//! | [`fork`] | a child process | its process |
//! | [`prefork`] | the guest of one of N processes | that process |
//! | [`threads`] | a kernel thread | its thread |
//! | [`pool`] | the guest of one of N kernel threads | that thread |
//! | [`workpool`] | a task in blocks, which N kernel threads run | the worker that runs its block |
//! | [`gcd`] | the same on libdispatch's queues and threads | the thread that runs its block |
//! | [`staged`] | a task that goes from stage to stage, each with a pool of threads | the reactor |
//! | [`uthreads`] | a user-level thread | the loop, its stack put aside |
//! | [`event_loop`] | a state machine (select, poll, epoll, uring) | the loop |
//! | [`handwritten`] | a state machine written by hand | the loop |
//!
//! A new architecture is a file with a type that implements [`Architecture`], and a line in the
//! registry, [`ALL`]. Help, comparison, tests and report read the registry. Another crate can add
//! architectures to a program's [`Registry`].

#![warn(missing_debug_implementations)]

pub mod common;
pub mod event_loop;
pub mod fork;
pub mod gcd;
pub mod handwritten;
pub mod iterative;
pub mod pool;
pub mod prefork;
mod registry;
pub mod staged;
pub mod threads;
pub mod uthreads;
pub mod workpool;

use std::io;

use duality_poller::Kind;
pub use duality_runtime::handler::{ErrorHook, Handler};
pub use duality_runtime::world::World;

pub use common::footprint::{Footprint, Mappings};
pub use common::options::{Disk, GcdQueues, HandOver, Options, Prefer, WhenFull};
pub use common::served::{ByHand, Needs, OpenedByHand, Served};
pub use common::server::Server;
pub use common::{signals, usage};
pub use registry::{Registry, UnknownArchitecture};

/// Makes [`ALL`], and macros that give tests a case for each member.
macro_rules! registry {
    ($dollar:tt; straight-line { $($name:ident $text:literal: $architecture:expr,)* } by-hand { $($hand:ident $by_hand:literal: $other:expr,)* }) => {
        /// Every architecture, in the order in which they are taught and shown.
        pub static ALL: &[&dyn Architecture] = &[$(&$architecture,)* $(&$other,)*];

        /// Calls a macro for each architecture that runs straight-line code. Its arguments are the
        /// architecture's name as an identifier, and the words of `serve --architecture`.
        #[doc(hidden)]
        #[macro_export]
        macro_rules! for_each_of_straight_line_code {
            ($dollar body:ident) => { $($dollar body! { $name [$text] })* };
        }

        /// Calls a macro for each architecture that runs code written by hand.
        #[doc(hidden)]
        #[macro_export]
        macro_rules! for_each_by_hand {
            ($dollar body:ident) => { $($dollar body! { $hand [$by_hand] })* };
        }
    };
}

registry! { $;
    straight-line {
        iterative "iterative": iterative::Iterative,
        fork "fork": fork::Fork,
        prefork "prefork": prefork::Prefork,
        threads "threads": threads::Threads,
        pool "pool": pool::Pool,
        uthreads "uthreads": uthreads::Uthreads,
        select "select": event_loop::SELECT,
        poll "poll": event_loop::POLL,
        epoll "epoll": event_loop::EPOLL,
        uring "uring": event_loop::URING,
        workpool_fifo "workpool-fifo": workpool::FIFO,
        workpool_priority "workpool-priority": workpool::PRIORITY,
        workpool_serial "workpool-serial": workpool::SERIAL,
        gcd "gcd": gcd::Gcd,
        staged "staged": staged::Staged,
    }
    by-hand {
        handwritten "handwritten": handwritten::Handwritten,
    }
}

/// A way to map tasks onto processes, kernel threads, user-level threads or events.
pub trait Architecture: Sync {
    /// What it is.
    fn about(&self) -> &About;

    /// The name on the command line.
    fn name(&self) -> &'static str {
        self.about().name
    }

    /// The poller of its loops with these options. `None` if it has no loops.
    fn poller(&self, options: &Options) -> Option<Kind> {
        let _ = options;
        None
    }

    /// The most connections that it serves at a time, if the number is fixed from the start.
    /// Further connections wait until one ends.
    fn places(&self, options: &Options) -> Option<usize> {
        let _ = options;
        None
    }

    /// The limited kernel resources that a connection takes, beside its descriptors.
    fn footprint(&self, options: &Options) -> Footprint;

    /// Why this machine cannot run it with these options, if it cannot.
    fn unavailable(&self, options: &Options) -> Option<String> {
        let _ = options;
        None
    }

    /// What this machine lacks for it, and what it uses instead. `None` if nothing is lacking.
    fn degraded(&self, options: &Options) -> Option<String> {
        let _ = options;
        None
    }

    /// Serves until the process drains.
    ///
    /// # Errors
    ///
    /// If it cannot begin. Later, it waits when descriptors, memory, threads or processes run out.
    fn serve(&self, server: Server) -> io::Result<()>;
}

/// What an architecture is, whatever the options and the machine are.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// The sources that describe it.
    pub source: &'static str,
    /// The needs of services that it meets.
    pub gives: Needs,
    /// How its service waits. `None` if it runs no straight-line services.
    pub world: Option<World>,
    /// The foreign runtime that runs its tasks, if there is one. Duality counts connections and
    /// requests there, but does not see tasks and their waits.
    pub foreign_runtime: Option<ForeignRuntime>,
    /// Whether `--cores` can multiply it, because it uses one kernel thread and shares nothing.
    pub replicates: bool,
    /// Whether it makes child processes, which a program with threads of its own cannot do
    /// ([`common::children::may_fork`]).
    pub forks: bool,
}

impl About {
    /// What most architectures are: they carry every service, and have no world yet. The name, the
    /// summary and the source are empty.
    pub const BASE: Self = Self {
        name: "",
        summary: "",
        source: "",
        gives: Needs::ALL,
        world: None,
        foreign_runtime: None,
        replicates: false,
        forks: false,
    };
}

/// A runtime of another project that runs the tasks of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignRuntime {
    /// The name, such as `tokio`.
    pub name: &'static str,
    /// Whether an idle kernel thread takes tasks from busy ones.
    pub steals: bool,
}

/// The architecture of that name.
pub fn find(name: &str) -> Option<&'static dyn Architecture> {
    ALL.iter().copied().find(|architecture| architecture.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_calls_an_architecture_what_it_calls_itself() {
        let mut names = Vec::new();
        macro_rules! collect {
            ($name:ident [$argument:expr]) => {
                names.push(($argument, stringify!($name).replace('_', "-")));
            };
        }
        for_each_of_straight_line_code!(collect);
        for_each_by_hand!(collect);
        let all: Vec<_> = ALL.iter().map(|one| (one.name(), one.name().to_owned())).collect();
        assert_eq!(names, all);
    }

    #[test]
    fn straight_line_code_runs_where_the_registry_says() {
        let mut count = 0;
        macro_rules! check {
            ($name:ident [$argument:expr]) => {
                count += 1;
                assert!(find($argument).unwrap().about().gives.straight_line, "{}", $argument);
            };
        }
        for_each_of_straight_line_code!(check);
        assert_eq!(count, ALL.iter().filter(|one| one.about().gives.straight_line).count());
    }
}
