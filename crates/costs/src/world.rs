//! The worlds, as subjects of measurements.

use std::future::Future;
use std::io;
use std::time::Duration;

use duality_architectures::{Options, staged};
use duality_poller::Kind;
use duality_runtime::block_on;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::world::World;

use crate::{Reading, Unit};

/// The stack of a user-level thread, in bytes: enough for the measurements, and as large as the
/// peers' default.
const STACK: usize = 64 * 1024;

/// Runs `root` and the tasks that it spawns in a world. In the reactor's world, one stage of the
/// architecture `staged` has them all.
pub(crate) fn run<F>(world: World, root: F) -> io::Result<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let loop_world = match world {
        World::Block => return Ok(block_on(root)),
        World::Reactor => return staged::run(&Options::default(), root),
        World::Park => LoopWorld::Park { stack_size: STACK },
        World::Suspend => LoopWorld::Suspend,
    };
    Ok(EventLoop::new(Kind::Epoll.open()?, loop_world)?.run(root))
}

/// Runs `body`, which returns how long `count` operations took.
pub(crate) fn time(
    world: World,
    count: u64,
    body: impl Future<Output = io::Result<Duration>> + Send + 'static,
) -> io::Result<Reading> {
    let elapsed = run(world, body)??;
    Ok(Reading::new(count, elapsed.as_nanos(), Unit::Nanoseconds))
}
