//! Runs each test body in every world.

use std::future::Future;
use std::time::{Duration, Instant};

use duality_poller::Kind;
use duality_runtime::block_on;
use duality_runtime::event_loop::{EventLoop, LoopWorld};

/// A working test never reaches this limit.
pub(crate) const EVER: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(crate) enum World {
    Block,
    Park,
    Suspend,
}

impl World {
    /// Runs a future to its end. What the future opens on a loop must not outlive the loop. So the
    /// future must drop a store that keeps connections.
    pub(crate) fn run<F: Future + 'static>(self, future: F) -> F::Output {
        let world = match self {
            Self::Block => return block_on(future),
            // The default stack size of the architectures.
            Self::Park => LoopWorld::Park { stack_size: 128 * 1024 },
            Self::Suspend => LoopWorld::Suspend,
        };
        EventLoop::new(Kind::Epoll.open().unwrap(), world).unwrap().run(future)
    }
}

/// Each named body becomes a test in each world.
macro_rules! in_every_world {
    ($($body:ident)*) => {
        crate::worlds::in_every_world!(@ block Block, $($body)*);
        crate::worlds::in_every_world!(@ park Park, $($body)*);
        crate::worlds::in_every_world!(@ suspend Suspend, $($body)*);
    };
    (@ $name:ident $world:ident, $($body:ident)*) => {
        mod $name {
            $(#[test] fn $body() { super::$body(crate::worlds::World::$world); })*
        }
    };
}
pub(crate) use in_every_world;

/// Repeats a question until there is an answer. The test fails if none comes.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < EVER, "{what} did not come to pass");
        std::thread::yield_now();
    }
}
