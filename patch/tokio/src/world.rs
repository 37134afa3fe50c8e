//! The world that a program runs on: the environment variable `DUALITY_WORLD`.

use std::env;
use std::io;
use std::num::NonZeroUsize;
use std::process;
use std::thread;

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::log;
use duality_runtime::net::SimulatedSockets;

const VARIABLE: &str = "DUALITY_WORLD";
const LOOPS: &str = "DUALITY_LOOPS";
pub(crate) const MOST_LOOPS: usize = 512;

/// The worlds, by their names.
const WORLDS: [(&str, World); 6] = [
    ("threads", World::Threads),
    ("uthreads", World::Uthreads),
    ("epoll", World::Loop(Kind::Epoll)),
    ("uring", World::Loop(Kind::Uring)),
    ("poll", World::Loop(Kind::Poll)),
    ("select", World::Loop(Kind::Select)),
];

/// How the tasks of a runtime wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum World {
    /// Each task is a kernel thread.
    Threads,
    /// Each task is a user-level thread of a loop.
    Uthreads,
    /// Each task is a state machine of a loop with this poller.
    Loop(Kind),
    /// Each task is one of the simulated host that the program runs on.
    Simulated,
}

impl World {
    /// The world that the environment names, `epoll` by default. A wrong name ends the process. On
    /// a simulated host, its world.
    pub(crate) fn chosen() -> Self {
        if SimulatedSockets::here().is_some() {
            return Self::Simulated;
        }
        let Some(name) = env::var_os(VARIABLE) else { return Self::Loop(Kind::Epoll) };
        match WORLDS.iter().find(|(known, _)| name == *known) {
            Some((_, world)) => *world,
            None => {
                let names = WORLDS.map(|(name, _)| name).join(", ");
                let name = name.to_string_lossy();
                misuse(&format!("{VARIABLE}={name} is no world; choose from {names}"))
            }
        }
    }

    /// A loop of this world, for the calling kernel thread. `stack_size` is that of its tasks.
    pub(crate) fn open_loop(self, stack_size: usize) -> io::Result<EventLoop> {
        let (kind, world) = match self {
            Self::Threads | Self::Simulated => {
                return Err(io::Error::other("tasks of this world have a loop already"));
            }
            Self::Uthreads => (Kind::best(), LoopWorld::Park { stack_size }),
            Self::Loop(kind) => (kind, LoopWorld::Suspend),
        };
        let poller = kind.open().map_err(|error| {
            let line = format!(
                "the poller {kind} is not available here: {error}; set {VARIABLE} to another world"
            );
            io::Error::new(error.kind(), line)
        })?;
        EventLoop::new(poller, world)
    }
}

/// The number of loops of a multi-threaded runtime: `DUALITY_LOOPS`, otherwise as many as the
/// program wants, and by default one for each processor. A wrong number ends the process.
pub(crate) fn loops(wanted: Option<usize>) -> usize {
    let Some(text) = env::var_os(LOOPS) else {
        let processors = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        return wanted.unwrap_or_else(processors).min(MOST_LOOPS);
    };
    let number = text.to_str().and_then(|text| text.parse().ok());
    match number.filter(|number| (1..=MOST_LOOPS).contains(number)) {
        Some(number) => number,
        None => misuse(&format!("{LOOPS}={} is no number from 1 to 512", text.to_string_lossy())),
    }
}

pub(crate) fn misuse(line: &str) -> ! {
    log::tell(line);
    process::exit(2)
}
