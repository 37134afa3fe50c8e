//! How an architecture carries connections, by its own word when it was measured.

use serde::{Deserialize, Serialize};

/// What the model and the recommendation need to know of an architecture with its options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carrier {
    /// What a wait is. None where no straight-line service runs: nothing is counted there, and it
    /// is a yardstick that cannot be chosen.
    pub world: Option<World>,
    /// The poller of its loops. None without loops.
    pub poller: Option<String>,
    /// Whether its loops look at every open connection in each round, as select and poll do, so
    /// that idle ones cost something.
    pub looks_at_all: bool,
    /// Whether a connection has a process, and so an address space, of its own.
    pub processes: bool,
    /// Whether kernel threads of the server wait side by side, so that another may run when one
    /// waits.
    pub beside_others: bool,
    /// The runtime that takes part, where one does that is none of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Foreign>,
}

/// A runtime that is none of ours, and its part in a subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foreign {
    /// The name, such as `tokio`.
    pub runtime: String,
    /// The part.
    pub part: Part,
}

/// What a foreign runtime does in a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// It carries connections, and each stays on its kernel thread.
    Carries,
    /// It carries connections, and an idle kernel thread takes tasks from busy ones.
    Steals,
    /// An architecture of ours carries connections. The runtime's reactor runs beside, for what
    /// the service uses of it.
    Beside,
}

/// What a wait is underneath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// The kernel thread sleeps in the system call.
    Block,
    /// Another user-level thread runs on the same kernel thread.
    Park,
    /// The compiler's state machine returns to its loop.
    Suspend,
}

impl World {
    /// What tables of unit costs call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Park => "park",
            Self::Suspend => "suspend",
        }
    }
}

impl Carrier {
    /// The carriers in results that do not name them: the architectures of that time.
    pub fn in_older_results(architecture: &str, server_arguments: &[String]) -> Option<Self> {
        let block = Self {
            world: Some(World::Block),
            poller: None,
            looks_at_all: false,
            processes: false,
            beside_others: true,
            foreign: None,
        };
        let on = |world: World, poller: &str| Self {
            world: Some(world),
            poller: Some(poller.to_owned()),
            looks_at_all: matches!(poller, "select" | "poll"),
            beside_others: false,
            ..block.clone()
        };
        match architecture {
            "iterative" => Some(Self { beside_others: false, ..block }),
            "threads" | "pool" => Some(block),
            "fork" | "prefork" => Some(Self { processes: true, ..block }),
            "uthreads" => {
                let mut chosen =
                    server_arguments.iter().filter_map(|it| it.strip_prefix("--poller="));
                Some(on(World::Park, chosen.next_back().unwrap_or("epoll")))
            }
            "handwritten" => Some(Self { world: None, ..on(World::Suspend, "epoll") }),
            "select" | "poll" | "epoll" | "uring" => Some(on(World::Suspend, architecture)),
            _ => None,
        }
    }
}
