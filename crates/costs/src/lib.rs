//! Unit costs: the time to start a task, to switch to another task, to lock, to notify, to ask a
//! poller.
//!
//! A *cost* ([`Cost`], listed in [`ALL`]) is measured for *subjects*. Subjects are our
//! worlds, our pollers, and the peers (State Threads, GNU Pth, pthreads, Go), which are separate
//! programs. All subjects are measured alike. Each batch runs in a fresh process, which gets a
//! count and answers with one line:
//!
//! ```text
//!   duality model --costs ┬▶ duality model --measure park switch 200000 ┐
//!     (calibrates,        ├▶ peers/st switch 200000 ────────────────────┼▶ "switch 200000 5100000
//!     alternates)         └▶ peers/go switch 200000 ────────────────────┘   ns" (line.rs)
//! ```
//!
//! So a measurement leaves nothing behind for the next measurement (heap, stacks, branch
//! predictors), and peers have no disadvantage. Our fresh process runs [`measure`], and tests call
//! [`measure`]. [`run::run`] is the driver, and [`table`] shows the results.

#![forbid(unsafe_code)]

mod calls;
pub mod json;
mod kernel;
mod line;
mod memory;
mod poller;
pub mod program;
pub mod run;
mod store;
pub mod table;
mod tasks;
mod world;

use std::fmt;
use std::io;

use duality_poller::Kind;

pub use duality_runtime::world::World;
pub use line::{Malformed, Reading, Unit};

/// A cost: its name, its operation, and the way to measure it.
pub struct Cost {
    /// The name on the command line, for the peers and in tables. The part before a `-` names its
    /// group.
    pub name: &'static str,
    /// The description of one operation, for the reader of the table.
    pub about: &'static str,
    /// The unit of the cost.
    pub unit: Unit,
    measure: Measure,
}

/// The way to measure a cost. It decides which subjects have the cost.
#[derive(Clone, Copy)]
enum Measure {
    /// In a world; the number is the count of operations.
    World(fn(World, u64) -> io::Result<Reading>),
    /// In a world, for an operation that only this runtime has, and no peer.
    OurWorld(fn(World, u64) -> io::Result<Reading>),
    /// With a poller: the number of registered descriptors, and the number of ready descriptors.
    Poller(usize, usize),
    /// An operation of the kernel, in any world; the number is the count of operations.
    Kernel(fn(u64) -> io::Result<Reading>),
}

/// The subject of costs that do not depend on a world.
const KERNEL: &str = "kernel";

/// All costs, in the order of the table.
pub const ALL: &[Cost] = &[
    time("spawn", "a task that does nothing: started, run and joined", |world, count| {
        world::time(world, count, tasks::spawn(count))
    }),
    time("switch", "a round trip: two tasks wake each other, and wait", |world, count| {
        world::time(world, count, tasks::switch(count))
    }),
    time("alternate", "a round trip: two tasks take turns in the cheapest way", tasks::alternate),
    time("yield-2", "one of 2 tasks lets the other run, through the run queue", |world, count| {
        tasks::yields(world, 2, count)
    }),
    time("yield-1000", "one of 1,000 tasks lets the others run", |world, count| {
        tasks::yields(world, 1000, count)
    }),
    time("lock", "an uncontended lock: taken and given back", |world, count| {
        world::time(world, count, tasks::lock(count))
    }),
    time(
        "contended",
        "a lock held across a wait, by two tasks in turn: waited for, taken, given back",
        |world, count| world::time(world, count, tasks::contended(count)),
    ),
    time("condition", "a round trip: two tasks tell each other by a condition", |world, count| {
        world::time(world, count, tasks::condition(count))
    }),
    call("call-plain", "a call of a plain function, for comparison", |world, count| {
        world::time(world, count, calls::plain(count))
    }),
    call("call-converted", "a call of an async function that need not wait", |world, count| {
        world::time(world, count, calls::converted(count))
    }),
    call(
        "offload",
        "work that does nothing, given to a helper thread and waited for",
        |world, count| world::time(world, count, tasks::offload(count)),
    ),
    kernel("kernel-call", "a system call that does nothing", kernel::call),
    kernel("kernel-poll", "poll(2) of a connection that is ready", kernel::ask),
    kernel("kernel-in-vain", "recv(2) of a connection on which nothing has come", kernel::in_vain),
    kernel("kernel-register", "a registration with epoll, and its end", kernel::register),
    kernel("kernel-switch", "a switch from one kernel thread to another", kernel::switch),
    kernel("kernel-switch-process", "a switch from one process to another", kernel::process_switch),
    kernel(
        "kernel-wake",
        "the extra time of an answer that wakes the asking thread on another processor",
        kernel::wake,
    ),
    kernel("kernel-woken", "a thread that waits, woken from another processor", kernel::woken),
    kernel(
        "kernel-rest",
        "the extra time of an answer after its processor has rested",
        kernel::rest,
    ),
    kernel("kernel-fault", "a page of memory that a child writes to, and so copies", kernel::fault),
    kernel(
        "kernel-process",
        "a process: made, run and reaped; without page faults",
        kernel::process,
    ),
    kernel(
        "kernel-store",
        "a store's file: opened by a process, before its first call; without page faults",
        store::open,
    ),
    poller("poller-50", "a round of a poller with 50 descriptors, one of them ready", 50, 1),
    poller("poller-1000", "a round of a poller with 1,000 descriptors, one of them ready", 1000, 1),
    poller(
        "poller-15000",
        "a round of a poller with 15,000 descriptors, one of them ready",
        15_000,
        1,
    ),
    poller("poller-full", "a round of a poller with 50 descriptors, all of them ready", 50, 50),
    Cost {
        name: "memory",
        about: "a parked task: memory of the process, without the kernel's memory for the task",
        unit: Unit::Bytes,
        measure: Measure::World(memory::parked),
    },
];

const fn time(
    name: &'static str,
    about: &'static str,
    measure: fn(World, u64) -> io::Result<Reading>,
) -> Cost {
    Cost { name, about, unit: Unit::Nanoseconds, measure: Measure::World(measure) }
}

const fn call(
    name: &'static str,
    about: &'static str,
    measure: fn(World, u64) -> io::Result<Reading>,
) -> Cost {
    Cost { name, about, unit: Unit::Nanoseconds, measure: Measure::OurWorld(measure) }
}

const fn kernel(
    name: &'static str,
    about: &'static str,
    measure: fn(u64) -> io::Result<Reading>,
) -> Cost {
    Cost { name, about, unit: Unit::Nanoseconds, measure: Measure::Kernel(measure) }
}

const fn poller(name: &'static str, about: &'static str, watched: usize, ready: usize) -> Cost {
    Cost { name, about, unit: Unit::Nanoseconds, measure: Measure::Poller(watched, ready) }
}

impl Cost {
    /// Whether `name` is the name of this cost or of its group.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.group() == name
    }

    /// The part of the name before the `-`, such as `yield` of `yield-1000`.
    pub fn group(&self) -> &'static str {
        self.name.split('-').next().unwrap_or(self.name)
    }

    /// The owner of the cost. The costs of one owner make one table.
    pub const fn owner(&self) -> Owner {
        match self.measure {
            Measure::World(_) | Measure::OurWorld(_) => Owner::Worlds,
            Measure::Poller(..) => Owner::Pollers,
            Measure::Kernel(_) => Owner::Kernel,
        }
    }

    /// Whether peers have this cost too.
    pub const fn has_peers(&self) -> bool {
        matches!(self.measure, Measure::World(_))
    }
}

/// The owner of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The worlds own the cost.
    Worlds,
    /// The kernel owns the cost, in any world.
    Kernel,
    /// The pollers own the cost.
    Pollers,
}

/// Our subjects for which `cost` is measured: worlds, pollers, or the kernel.
pub fn subjects(cost: &Cost) -> Vec<&'static str> {
    match cost.measure {
        Measure::World(_) | Measure::OurWorld(_) => {
            World::ALL.iter().map(|world| world.name()).collect()
        }
        Measure::Poller(..) => Kind::ALL.iter().map(|kind| kind.name()).collect(),
        Measure::Kernel(_) => vec![KERNEL],
    }
}

/// Measures `cost` of `subject` (a world, a poller or the kernel) in this process, over `count`
/// operations.
///
/// # Errors
///
/// Returns [`Trouble::Unknown`] for an unknown name. Returns [`Trouble::Unavailable`] if this
/// machine lacks something.
pub fn measure(subject: &str, cost: &str, count: u64) -> Result<Reading, Trouble> {
    let found = ALL.iter().find(|known| known.name == cost);
    let Some(cost) = found else { return Err(Trouble::Unknown(format!("cost `{cost}`"))) };
    let unknown = || Trouble::Unknown(format!("subject `{subject}` of {}", cost.name));
    let count = count.max(1);
    match cost.measure {
        Measure::World(measure) | Measure::OurWorld(measure) => {
            let world = World::ALL.iter().find(|world| world.name() == subject);
            let reading = measure(*world.ok_or_else(unknown)?, count);
            reading.map_err(|error| Trouble::Unavailable(error.to_string()))
        }
        Measure::Kernel(measure) if subject == KERNEL => {
            measure(count).map_err(|error| Trouble::Unavailable(error.to_string()))
        }
        Measure::Kernel(_) => Err(unknown()),
        Measure::Poller(watched, ready) => {
            let kind: Kind = subject.parse().map_err(|_| unknown())?;
            match kind.unavailable() {
                Some(why) => Err(Trouble::Unavailable(why)),
                None => poller::round(kind, watched, ready, count)
                    .map_err(|error| Trouble::Unavailable(error.to_string())),
            }
        }
    }
}

/// The reason for a missing reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The cost or the subject is unknown.
    Unknown(String),
    /// The cost cannot be measured here, for this reason.
    Unavailable(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(what) => write!(formatter, "there is no {what}"),
            Self::Unavailable(why) => formatter.write_str(why),
        }
    }
}

impl std::error::Error for Trouble {}
