//! The worlds of the tests. One body is a test in each world.

use std::future::Future;
use std::sync::mpsc;

use duality_poller::Kind;
use duality_runtime::block_on;
use duality_runtime::blocks::{Reactor, Tasks, Waits};
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::task::thread::{self, ThreadStack};
use duality_runtime::world::{self, World};

/// A world, and the poller of its loop where it has one.
#[derive(Clone, Copy)]
pub(crate) enum Case {
    Block,
    Park(Kind),
    Suspend(Kind),
    Reactor,
}

impl Case {
    pub(crate) fn unavailable(self) -> Option<String> {
        match self {
            Self::Park(kind) | Self::Suspend(kind) => kind.unavailable(),
            Self::Block | Self::Reactor => None,
        }
    }

    pub(crate) fn run<F>(self, body: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (kind, loop_world, expected) = match self {
            Self::Block => return block_on(beginning_in(World::Block, body)),
            Self::Reactor => return run_as_blocks(beginning_in(World::Reactor, body)),
            Self::Park(kind) => (kind, LoopWorld::Park { stack_size: 256 * 1024 }, World::Park),
            Self::Suspend(kind) => (kind, LoopWorld::Suspend, World::Suspend),
        };
        let mut event_loop = EventLoop::new(kind.open().unwrap(), loop_world).unwrap();
        event_loop.run(beginning_in(expected, body))
    }
}

async fn beginning_in<F: Future>(expected: World, body: F) -> F::Output {
    assert_eq!(world::here(), expected);
    body.await
}

/// This kernel thread runs the blocks of all tasks, and another one the reactor.
fn run_as_blocks<F>(body: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let reactor = Reactor::new().unwrap();
    let (queue, blocks) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let dispatch = move |block| {
        // No block is taken any more once the body has ended.
        let _ = queue.send(block);
    };
    let tasks = Tasks::new(Waits::Suspend(reactor.clone()), dispatch);
    let running = reactor.clone();
    // In the scope of this kernel thread, as the thread of a staged server is.
    const STACK: ThreadStack = ThreadStack::fixed(256 * 1024, "the reactor's thread");
    thread::start(STACK, Box::new(move || running.run())).map_err(|refused| refused.error).unwrap();
    tasks.start(Box::pin(async move { tell.send(body.await).unwrap() }));
    let outcome = loop {
        blocks.recv().unwrap().run();
        match told.try_recv() {
            Err(mpsc::TryRecvError::Empty) => {}
            outcome => break outcome,
        }
    };
    reactor.stop();
    outcome.expect("the body has panicked")
}

/// Makes each `async fn` that is named a test in every world: block, park, suspend and reactor.
/// Loops of state machines are tried on every poller; the name of a test tells which broke it.
macro_rules! in_every_world {
    ($($body:ident)*) => {
        in_every_world!(@ block Case::Block, $($body)*);
        in_every_world!(@ park Case::Park(duality_poller::Kind::Epoll), $($body)*);
        in_every_world!(@ suspend_select Case::Suspend(duality_poller::Kind::Select), $($body)*);
        in_every_world!(@ suspend_poll Case::Suspend(duality_poller::Kind::Poll), $($body)*);
        in_every_world!(@ suspend_epoll Case::Suspend(duality_poller::Kind::Epoll), $($body)*);
        in_every_world!(@ suspend_uring Case::Suspend(duality_poller::Kind::Uring), $($body)*);
        in_every_world!(@ reactor Case::Reactor, $($body)*);
    };
    (@ $name:ident $case:expr, $($body:ident)*) => {
        mod $name {
            use $crate::common::Case;

            $(#[test] fn $body() {
                match $case.unavailable() {
                    Some(reason) => {
                        use std::io::Write;
                        let _ = writeln!(std::io::stderr(), "skipped: {reason}");
                    }
                    None => $case.run(super::$body()),
                }
            })*
        }
    };
}
