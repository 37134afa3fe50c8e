//! The test kit: one test body, run in every world.
//!
//! [`in_every_world!`] makes each named body a test for each [`Case`], and the name of a test tells
//! the world that broke it. Tests that loop over worlds use [`Case::EACH_WORLD`] and [`Case::run`].
//! A further world needs a variant of [`World`], a case here, and its way to run a body.

#![forbid(unsafe_code)]

use std::fmt;
use std::future::Future;
use std::io::{self, Write};

pub use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::world::{self, World};
use duality_runtime::{block_on, run_in};

/// The stack of a user-level thread, in bytes. Bodies without optimisation need more than services.
const STACK: usize = 256 * 1024;

/// A world, with the poller of its loop where it has one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Case {
    /// The world block.
    Block,
    /// The world park, on a loop with this poller.
    Park(Kind),
    /// The world suspend, on a loop with this poller.
    Suspend(Kind),
    /// The world reactor. One kernel thread runs the blocks of all tasks.
    Reactor,
}

impl Case {
    /// A case for each world. Loops use epoll.
    pub const EACH_WORLD: [Self; World::ALL.len()] =
        [Self::Block, Self::Park(Kind::Epoll), Self::Suspend(Kind::Epoll), Self::Reactor];

    /// The world.
    pub fn world(self) -> World {
        match self {
            Self::Block => World::Block,
            Self::Park(_) => World::Park,
            Self::Suspend(_) => World::Suspend,
            Self::Reactor => World::Reactor,
        }
    }

    /// The reason why this machine cannot run the case, if there is one.
    pub fn unavailable(self) -> Option<String> {
        match self {
            Self::Park(kind) | Self::Suspend(kind) => kind.unavailable(),
            Self::Block | Self::Reactor => None,
        }
    }

    /// Runs `body`, and the tasks that it spawns, on this kernel thread until `body` ends.
    ///
    /// # Panics
    ///
    /// If `body` panics, or the machine lacks what the case needs.
    pub fn run<F>(self, body: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let body = beginning_in(self.world(), body);
        let (kind, loop_world) = match self {
            Self::Block => return block_on(body),
            Self::Reactor => return run_in(World::Reactor, body),
            Self::Park(kind) => (kind, LoopWorld::Park { stack_size: STACK }),
            Self::Suspend(kind) => (kind, LoopWorld::Suspend),
        };
        EventLoop::new(kind.open().unwrap(), loop_world).unwrap().run(body)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.world().name())
    }
}

/// Runs a body in a case, or prints why this machine cannot.
#[doc(hidden)]
pub fn run_or_skip<F>(case: Case, body: impl FnOnce() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    match case.unavailable() {
        // `eprintln!` would go into the test's own output.
        Some(reason) => drop(writeln!(io::stderr(), "skipped: {reason}")),
        None => case.run(body()),
    }
}

async fn beginning_in<F: Future>(expected: World, body: F) -> F::Output {
    assert_eq!(world::here(), expected);
    body.await
}

/// Makes each `fn` that is named a test in every world: block, park, suspend and reactor. The
/// function returns the future to run. Loops of state machines are tried on every poller; the name
/// of a test tells which broke it.
///
/// `in_every_world! { given: … }` hands the [`Case`] to the function, which runs what it likes.
#[macro_export]
macro_rules! in_every_world {
    (given: $($body:ident)*) => {
        $crate::in_every_world!(@ block Case::Block, given $($body)*);
        $crate::in_every_world!(@ park Case::Park($crate::Kind::Epoll), given $($body)*);
        $crate::in_every_world!(@ suspend Case::Suspend($crate::Kind::Epoll), given $($body)*);
        $crate::in_every_world!(@ reactor Case::Reactor, given $($body)*);
    };
    (@ $name:ident $case:expr, given $($body:ident)*) => {
        mod $name {
            use $crate::Case;

            $(#[test] fn $body() { super::$body($case); })*
        }
    };
    (@ $name:ident $case:expr, $($body:ident)*) => {
        mod $name {
            use $crate::Case;

            $(#[test] fn $body() { $crate::run_or_skip($case, || super::$body()); })*
        }
    };
    ($($body:ident)*) => {
        $crate::in_every_world!(@ block Case::Block, $($body)*);
        $crate::in_every_world!(@ park Case::Park($crate::Kind::Epoll), $($body)*);
        $crate::in_every_world!(@ suspend_select Case::Suspend($crate::Kind::Select), $($body)*);
        $crate::in_every_world!(@ suspend_poll Case::Suspend($crate::Kind::Poll), $($body)*);
        $crate::in_every_world!(@ suspend_epoll Case::Suspend($crate::Kind::Epoll), $($body)*);
        $crate::in_every_world!(@ suspend_uring Case::Suspend($crate::Kind::Uring), $($body)*);
        $crate::in_every_world!(@ reactor Case::Reactor, $($body)*);
    };
}
