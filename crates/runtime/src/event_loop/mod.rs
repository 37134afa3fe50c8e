//! The event loop that the park and the suspend world share.
//!
//! ```text
//!        ┌──────────────────────── one round ────────────────────────┐
//!        ▼                                                           │
//!   run what was ready ──▶ poller.wait ──▶ events ──▶ timers ────────┘
//!   (resume a fiber,       (until an event,  wake the tasks that
//!    or poll a future)      a timer, or a     wait for a descriptor
//!                           wake from          or a time
//!                           another thread)
//! ```
//!
//! The loop belongs to one kernel thread, with its slab of tasks, queue of ready tasks, watched
//! descriptors, and timers. No part is shared or atomic, except the loop's inbox (`remote`).
//! Through the inbox other kernel threads wake tasks of this loop.
//!
//! A task waits for one direction of one descriptor, or for a wake, with at most one deadline. So a
//! task needs one timer, and the timers are indexed by the task's slot.

pub(crate) mod clock;
pub(crate) mod core;
pub(crate) mod current;
mod host;
mod park;
mod prefetch;
mod ready;
mod ready_tasks;
pub(crate) mod report;
mod reservation;
mod reserved_task;
mod scoped;
pub(crate) mod sources;
pub(crate) mod spare;
pub(crate) mod tasks;
pub(crate) mod waker;

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use duality_poller::Poller;

use self::core::Core;
use crate::visibility::thread_slots;

#[doc(hidden)]
pub use self::host::Host;
pub use self::park::wait_on_stack;
pub use self::ready_tasks::ReadyTasks;
pub use self::reserved_task::ReservedTask;

/// How the tasks of a loop wait: the park or the suspend world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopWorld {
    /// Each task is a user-level thread with a stack of this many bytes.
    Park {
        /// Usable bytes of each stack.
        stack_size: usize,
    },
    /// Each task is the state machine that the compiler made of its future.
    Suspend,
}

/// The settings of a loop beyond running its tasks.
#[derive(Clone, Copy, Default)]
pub(crate) struct LoopOptions {
    /// The time that an idle loop goes on polling before it sleeps.
    pub(crate) busy_poll: Duration,
    /// Whether files are read on the loop, and not by helper threads.
    pub(crate) disk_in_place: bool,
}

/// An event loop: runs any number of tasks on one kernel thread.
pub struct EventLoop {
    core: Box<Core>,
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EventLoop")
            .field("world", &self.core.world())
            .finish_non_exhaustive()
    }
}

impl EventLoop {
    /// A loop that learns readiness from `poller`. The loop's tasks wait as in `world`.
    ///
    /// # Errors
    ///
    /// If no descriptor is left for the loop's wake-up, or too many loops are alive (1,023). Also
    /// if no address space is left for its table of tasks (4 GiB; under `RLIMIT_AS` a sixty-fourth
    /// of the limit).
    pub fn new(poller: Box<dyn Poller>, world: LoopWorld) -> io::Result<Self> {
        Ok(Self { core: Box::new(Core::new(poller, world)?) })
    }

    /// Sets how long an idle loop goes on looking before it sleeps in its poller. With zero, the
    /// default, the loop sleeps at once.
    ///
    /// A request that arrives within the budget needs no wake-up of a processor and of a kernel
    /// thread. The price is a processor that is never idle for less than the budget.
    #[must_use]
    pub fn busy_polling(mut self, budget: Duration) -> Self {
        self.core.options_mut().busy_poll = budget;
        self
    }

    /// Has [`fs`](crate::fs) open and read files on the loop itself, instead of on the helper
    /// threads of [`task::offload`](crate::task::offload). Then all tasks wait for the disk, and no
    /// task waits for a helper.
    #[must_use]
    pub fn disk_in_place(mut self) -> Self {
        self.core.options_mut().disk_in_place = true;
        self
    }

    /// Runs `root`, and all tasks that it spawns, on this kernel thread until `root` is done.
    ///
    /// Remaining tasks are then dropped.
    ///
    /// # Panics
    ///
    /// Panics if `root` panics, with a message of its own. Also panics if the poller itself fails,
    /// which is a bug.
    pub fn run<F: Future + 'static>(&mut self, root: F) -> F::Output {
        let output = Rc::new(RefCell::new(None));
        let result = output.clone();
        let root = async move {
            let value = root.await;
            *result.borrow_mut() = Some(value);
        };
        self.run_root(root).expect("a loop without tasks has room for its first one");
        self.drop_tasks();
        let output = output.borrow_mut().take();
        output.expect("the root task panicked; its message is above")
    }

    /// Like [`run`](Self::run), for a root that borrows. The remaining tasks go on in the next
    /// run, and are dropped with the loop. The result is an error if `root` panics.
    ///
    /// # Errors
    ///
    /// If there is no stack or memory for the root.
    pub fn run_until<F: Future>(&mut self, root: F) -> io::Result<std::thread::Result<F::Output>> {
        scoped::run(root, |root| self.run_root(root))
    }

    fn run_root(&self, root: impl Future<Output = ()> + 'static) -> io::Result<()> {
        // Without memory for a signal stack, an overflow still ends the process, but without the
        // task's name.
        let _watch = match self.core.world() {
            LoopWorld::Park { .. } => core::watch_overflows().ok(),
            LoopWorld::Suspend => None,
        };
        current::enter(Some(&self.core), || {
            let _seen = thread_slots::run_loop();
            let root = self.core.spawn_local(root)?;
            self.core.run_until_done(root);
            self.core.pause();
            Ok(())
        })
    }

    fn drop_tasks(&self) {
        current::enter(Some(&self.core), || self.core.drop_tasks());
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        self.drop_tasks();
    }
}

/// Makes room for one task on this kernel thread's loop, *before* its connection is accepted.
///
/// # Errors
///
/// `ENOMEM` if no stack is available: accept nothing until a task ends.
///
/// # Panics
///
/// In the block world, which has no loop.
pub fn reserve() -> io::Result<ReservedTask> {
    current::with_loop(|core| {
        core.expect("reserve is for tasks of an event loop").reserve_for_another()
    })
}

/// The number of resting connections of this kernel thread's loop. An accepted connection rests
/// when a task waits to read from it or write to it, so that the client has to act. A connection
/// with both waits counts twice.
///
/// # Panics
///
/// In the block world, which has no loop.
#[must_use]
pub fn resting() -> usize {
    current::with_loop(|core| core.expect("resting is for tasks of an event loop").resting())
}

/// The total idle time of this kernel thread's loop.
///
/// # Panics
///
/// In the block world, which has no loop.
#[must_use]
pub fn idle() -> Duration {
    current::with_loop(|core| core.expect("idle is for tasks of an event loop").idle())
}
