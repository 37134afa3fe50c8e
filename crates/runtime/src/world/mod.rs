//! Worlds: the meaning of "wait" on this kernel thread.
//!
//! Every blocking operation of this crate has the same shape in every world. *Attempt* it. If it
//! would block, *register* for the event, *wait*, and attempt it again. The worlds differ in the
//! wait, and only there:
//!
//! ```text
//!            attempt ──ok──▶ Ready
//!               ▲ │ would block
//!               │ ▼
//!               │ register (a poller, a queue of wakers)
//!               │ │
//!               │ ▼ wait
//!   block:  ◀── the kernel thread sleeps
//!   park:   ◀── another fiber runs on this kernel thread     (both: go round)
//!   suspend:    return Pending; the loop polls us again      (go round from the caller)
//!   reactor:    return Pending; the reactor has us queued    (the same)
//! ```
//!
//! [`World`] names the four worlds, and `Here::find` alone chooses between them. The block world's
//! wait is in [`block`]. The waits of park and suspend, which share the event loop, are in
//! `event_loop/park.rs`. The reactor's wait is in `blocks/mod.rs`.
//!
//! A kernel thread is in the block world unless it runs an
//! [`EventLoop`](crate::event_loop::EventLoop), or a block with waits that suspend
//! ([`Waits`](crate::blocks::Waits)). Block and park therefore never return `Pending`, with one
//! exception, for [`time::timeout`]. A wait that ends because the *ambient deadline* has passed
//! returns `Pending`, in every world. The `timeout` that set the deadline notices this and drops
//! the future. So straight-line code that blocks a kernel thread can be cancelled like any other
//! future.
//!
//! [`time::timeout`]: crate::time::timeout

pub mod block;
pub(crate) mod budget;
pub(crate) mod drained;
pub(crate) mod foreign;
pub(crate) mod gather;

use std::fmt;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::blocks::{self, Reactor, TaskState};
use crate::event_loop::core::Core;
use crate::event_loop::{LoopWorld, current};
use crate::gather::leave_turn;
use crate::thread_waker::running_waker;
use crate::threads;
use crate::visibility::{Wait, thread_slots};
use crate::wait::Waited;

/// The nature of a wait. The only list of worlds: tables, unit costs, results and tests go through
/// [`World::ALL`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum World {
    /// The kernel thread sleeps.
    Block,
    /// Another fiber runs on this kernel thread, which runs a loop.
    Park,
    /// The task returns `Pending` to its loop.
    Suspend,
    /// The task returns `Pending` and leaves its kernel thread. A [reactor](crate::blocks::Reactor)
    /// has its next block queued.
    Reactor,
}

impl World {
    /// All worlds.
    pub const ALL: [Self; 4] = [Self::Block, Self::Park, Self::Suspend, Self::Reactor];

    /// The name on the command line, in tables and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Park => "park",
            Self::Suspend => "suspend",
            Self::Reactor => "reactor",
        }
    }

    /// The kind of the world's tasks, in words.
    #[must_use]
    pub const fn tasks(self) -> &'static str {
        match self {
            Self::Block => "kernel threads",
            Self::Park => "user-level threads",
            Self::Suspend => "state machines",
            Self::Reactor => "state machines in blocks, handed from thread to thread",
        }
    }

    /// Whether another kernel thread of the server may run while a task of this one waits.
    #[must_use]
    pub const fn has_threads_beside(self) -> bool {
        matches!(self, Self::Block | Self::Reactor)
    }
}

impl FromStr for World {
    type Err = UnknownWorld;

    fn from_str(name: &str) -> Result<Self, UnknownWorld> {
        Self::ALL.into_iter().find(|world| world.name() == name).ok_or(UnknownWorld)
    }
}

/// A name that is no world's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnknownWorld;

impl fmt::Display for UnknownWorld {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("there is no such world; choose from")?;
        for (index, world) in World::ALL.into_iter().enumerate() {
            write!(formatter, "{} {}", if index == 0 { "" } else { "," }, world.name())?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownWorld {}

/// The world of this kernel thread.
///
/// ```
/// use duality_runtime::block_on;
/// use duality_runtime::world::{self, World};
///
/// assert_eq!(block_on(async { world::here() }), World::Block);
/// ```
#[must_use]
#[inline]
pub fn here() -> World {
    // SAFETY: the references end with this call.
    match unsafe { Here::find() } {
        Here::Block => World::Block,
        Here::Loop(core) => match core.world() {
            LoopWorld::Park { .. } => World::Park,
            LoopWorld::Suspend => World::Suspend,
        },
        Here::Reactor(..) => World::Reactor,
    }
}

/// The world of this kernel thread, with the objects that its waits need. Park and suspend differ
/// only when a task leaves its loop (`event_loop/park.rs`).
#[derive(Clone, Copy)]
pub(crate) enum Here<'a> {
    Block,
    Loop(&'a Core),
    /// The task of the running block, and the reactor that keeps its waits.
    Reactor(&'a TaskState, &'a Reactor),
}

impl<'a> Here<'a> {
    /// # Safety
    ///
    /// The references must not outlive the call within which they were made.
    #[inline(always)]
    pub(crate) unsafe fn find() -> Self {
        // SAFETY: as the caller promises. `enter`, which lends the loop, is on the stack below the
        // task until then.
        if let Some(core) = unsafe { current::this_loop() } {
            return Self::Loop(core);
        }
        // SAFETY: as above; the code that polls the task's block lends the task.
        let task = unsafe { blocks::this_task() };
        match task.and_then(|task| Some((task, task.reactor()?))) {
            None => Self::Block,
            Some((task, reactor)) => Self::Reactor(task, reactor),
        }
    }

    /// Waits until the running task is woken or `deadline` passes. May return early. `wait` is the
    /// wait's name in a dump.
    ///
    /// Inlined into its callers, like [`Core::wait`]. The two functions below are inlined too.
    #[inline(always)]
    fn wait(self, context: &Context<'_>, wait: Wait, deadline: Option<Instant>) -> Waited {
        match self {
            Self::Block => {
                foreign::check(context, running_waker());
                let _seen = thread_slots::show_wait(wait);
                block::wait(deadline)
            }
            Self::Loop(core) => {
                foreign::check(context, core.running_waker());
                core.set_wait(wait);
                core.wait(deadline)
            }
            Self::Reactor(task, reactor) => task.wait(context, reactor, wait, deadline),
        }
    }

    /// Waits until the running task is woken, without a name in dumps.
    #[inline(always)]
    pub(crate) fn wait_for_waker(self) -> Waited {
        match self {
            Self::Block => block::wait(None),
            Self::Loop(core) => core.wait(None),
            Self::Reactor(..) => Waited::Pending,
        }
    }

    /// Waits until other tasks have had a turn.
    #[inline(always)]
    pub(crate) fn wait_for_turn(self, context: &Context<'_>) -> Waited {
        match self {
            Self::Block => Self::yield_in_place(context),
            Self::Loop(core) => core.wait_for_turn(context),
            Self::Reactor(task, _) => {
                task.leave();
                leave_turn(context)
            }
        }
    }
}

/// The present time in this world: a loop reads the clock once in each round.
#[inline]
pub(crate) fn now() -> Instant {
    current::with_loop(|core| core.map_or_else(threads::now, Core::now))
}

/// Waits until `condition` is ready. The code that makes the condition ready wakes the waker that
/// the condition received. The operation counts in the task's [budget].
///
/// `deadline` ends the wait with `Ready(None)`. `wait` is the wait's name in a dump.
pub(crate) fn wait_until<T>(
    context: &mut Context<'_>,
    wait: Wait,
    deadline: Option<Instant>,
    mut condition: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<Option<T>> {
    loop {
        // SAFETY: the references end with this call.
        let here = unsafe { Here::find() };
        let waited = match here.spend(context) {
            Some(given_way) => given_way,
            None => {
                if let Poll::Ready(value) = condition(context) {
                    return Poll::Ready(Some(value));
                }
                if deadline.is_some_and(|deadline| now() >= deadline) {
                    return Poll::Ready(None);
                }
                here.refund();
                here.wait(context, wait, deadline)
            }
        };
        match waited {
            Waited::Again => {}
            Waited::Pending => return Poll::Pending,
        }
    }
}
