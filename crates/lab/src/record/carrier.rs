//! How an architecture carries connections, as the architecture declared when it was measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use duality_runtime::world::World;

/// The properties of an architecture with its options that the model and the recommendation need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Carrier {
    /// The kind of wait. `None` for an architecture without straight-line services: it counts
    /// nothing, and as a yardstick it cannot be chosen.
    #[serde(default, with = "world_by_name")]
    #[schemars(with = "Option<String>")]
    pub world: Option<World>,
    /// The poller of its loops. `None` without loops.
    pub poller: Option<String>,
    /// Whether its loops examine every open connection in each round, as select and poll do, so
    /// that idle connections cost time.
    pub looks_at_all: bool,
    /// Whether a connection has its own process, and so its own address space.
    pub processes: bool,
    /// Whether kernel threads of the server wait side by side, so that another thread may run while
    /// one waits.
    pub beside_others: bool,
    /// The most connections that the architecture holds at a time: its workers, or a limit. `None`
    /// in older results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<usize>,
    /// The foreign runtime that takes part, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Foreign>,
}

/// A foreign runtime, and its part in a subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Foreign {
    /// The name, such as `tokio`.
    pub runtime: String,
    /// The part.
    pub part: Part,
}

/// The part of a foreign runtime in a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The runtime carries connections, and each connection stays on its kernel thread.
    Carries,
    /// The runtime carries connections, and an idle kernel thread takes tasks from busy ones.
    Steals,
    /// An architecture of ours carries connections. The foreign runtime's reactor runs beside the
    /// architecture, for the operations of the service that need it.
    Beside,
}

/// A family of architectures, by what a waiting connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// A kernel thread for each connection.
    KernelThreads,
    /// A process for each connection, or one process for all, in turn.
    Processes,
    /// Work that waits in queues for a few kernel threads.
    Pools,
    /// A stack that a loop switches to.
    UserThreads,
    /// A state that a loop resumes.
    EventLoops,
}

impl Family {
    /// All families. Those that most people run come first.
    pub const ALL: [Self; 5] =
        [Self::KernelThreads, Self::Processes, Self::Pools, Self::UserThreads, Self::EventLoops];

    /// A member of the family, in words.
    pub fn one(self) -> &'static str {
        match self {
            Self::KernelThreads => "kernel threads",
            Self::Processes => "processes",
            Self::Pools => "a pool or stages",
            Self::UserThreads => "user-level threads",
            Self::EventLoops => "an event loop",
        }
    }

    /// All members of the family, in words.
    pub fn all(self) -> &'static str {
        match self {
            Self::Pools => "pools and stages",
            Self::EventLoops => "event loops",
            one => one.one(),
        }
    }

    /// The family of an architecture that carries connections so. `None` for a yardstick.
    pub(super) fn of(architecture: &str, carrier: &Carrier) -> Option<Self> {
        let is_pool =
            matches!(architecture, "pool" | "gcd") || architecture.starts_with("workpool");
        match carrier.world? {
            World::Park => Some(Self::UserThreads),
            World::Suspend => Some(Self::EventLoops),
            World::Reactor => Some(Self::Pools),
            World::Block if is_pool => Some(Self::Pools),
            World::Block if carrier.processes || !carrier.beside_others => Some(Self::Processes),
            World::Block => Some(Self::KernelThreads),
        }
    }
}

/// A world in results: its name, or null.
mod world_by_name {
    use super::{Deserialize, World};
    use serde::de::Error;
    use serde::{Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(super) fn serialize<S: Serializer>(
        world: &Option<World>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        world.map(World::name).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<World>, D::Error> {
        let name = Option::<String>::deserialize(deserializer)?;
        name.map(|name| name.parse().map_err(D::Error::custom)).transpose()
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
            holds: None,
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
