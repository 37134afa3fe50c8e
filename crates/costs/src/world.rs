//! The three worlds, as subjects of measurements.

use std::future::Future;
use std::io;
use std::time::Duration;

use duality_poller::Kind;
use duality_runtime::block_on;
use duality_runtime::event_loop::{EventLoop, LoopWorld};

use crate::{Reading, Unit};

/// The stack of a user-level thread, in bytes: enough for the measurements, and as large as the
/// peers' default.
const STACK: usize = 64 * 1024;

/// The way in which a task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// Tasks are kernel threads.
    Block,
    /// Tasks are user-level threads.
    Park,
    /// Tasks are the compiler's state machines.
    Suspend,
}

impl World {
    /// All worlds.
    pub const ALL: [World; 3] = [World::Block, World::Park, World::Suspend];

    /// The name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            World::Block => "block",
            World::Park => "park",
            World::Suspend => "suspend",
        }
    }

    /// The kind of the world's tasks.
    pub const fn tasks(self) -> &'static str {
        match self {
            World::Block => "kernel threads",
            World::Park => "user-level threads",
            World::Suspend => "state machines",
        }
    }

    /// Runs `root` and the tasks that it spawns in this world.
    pub(crate) fn run<F: Future + 'static>(self, root: F) -> io::Result<F::Output> {
        let world = match self {
            World::Block => return Ok(block_on(root)),
            World::Park => LoopWorld::Park { stack_size: STACK },
            World::Suspend => LoopWorld::Suspend,
        };
        Ok(EventLoop::new(Kind::Epoll.open()?, world)?.run(root))
    }

    /// Runs `body`, which returns how long `count` operations took.
    pub(crate) fn time(
        self,
        count: u64,
        body: impl Future<Output = io::Result<Duration>> + 'static,
    ) -> io::Result<Reading> {
        let elapsed = self.run(body)??;
        Ok(Reading::new(count, elapsed.as_nanos(), Unit::Nanoseconds))
    }
}
