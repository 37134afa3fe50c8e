//! A loop that a simulation drives: the loop of a host.
//!
//! A driver gives one turn at a time, decides which ready task has it, and puts the clock where the
//! time is. A host has a [`Scope`], so that it drains alone. The drop of a host drops its tasks.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use duality_poller::Poller;

use super::core::Round;
use super::ready_tasks::ReadyTasks;
use super::{EventLoop, LoopWorld, current};
use crate::drain::Scope;
use crate::machine::{Machine, note_simulation};
use crate::remote::TaskName;
use crate::visibility::thread_slots;

/// A loop to which a driver gives turns, one at a time: a host of a simulation.
pub struct Host {
    event_loop: EventLoop,
    scope: Scope,
    root: TaskName,
    round: Round,
    /// Whether the loop has something to look at that no task or event shows.
    is_poked: bool,
}

impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Host").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Host {
    /// A host with a first task that runs `main`, which is called on the host. `poller` reports
    /// readiness by the machine, and never sleeps. `now` is the time of the simulation.
    ///
    /// # Errors
    ///
    /// Those of [`EventLoop::new`].
    pub fn start<F: Future<Output = ()> + 'static>(
        machine: Arc<dyn Machine>,
        poller: Box<dyn Poller>,
        world: LoopWorld,
        now: Instant,
        main: impl FnOnce() -> F + 'static,
    ) -> io::Result<Self> {
        note_simulation();
        let mut event_loop = EventLoop::new(poller, world)?;
        event_loop.core.simulate(machine, now);
        let scope = Scope::new();
        let (root, round) = scope.enter(|| {
            current::enter(Some(&event_loop.core), || {
                let _seen = thread_slots::run_loop();
                let root = event_loop.core.spawn_local(async move { main().await })?;
                io::Result::Ok((root, event_loop.core.begin_rounds()))
            })
        })?;
        Ok(Self { event_loop, scope, root, round, is_poked: false })
    }

    /// Gives one turn, to the ready task at the place that `draw` chooses. Then passes on the
    /// poller's events, and what is due at `now`. Never waits.
    pub fn step(&mut self, now: Instant, draw: impl FnOnce(ReadyTasks<'_>) -> usize) {
        self.is_poked = false;
        let (core, round) = (&self.event_loop.core, &mut self.round);
        self.scope.enter(|| {
            current::enter(Some(core), || {
                let _seen = thread_slots::run_loop();
                core.step(round, now, draw);
            });
        });
    }

    /// Whether a step would do anything at `now`, events of the poller aside.
    #[must_use]
    pub fn is_able(&self, now: Instant) -> bool {
        let core = &self.event_loop.core;
        self.is_poked
            || core.tasks.ready() > 0
            || core.has_messages()
            || core.next_expiry().is_some_and(|expiry| expiry <= now)
    }

    /// The number of tasks that are ready.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.event_loop.core.tasks.ready()
    }

    /// The time of the next timer.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Instant> {
        self.event_loop.core.next_expiry()
    }

    /// Asks the host to drain, as a signal would.
    pub fn drain(&mut self) {
        let core = &self.event_loop.core;
        let machine = core.machine().expect("the loop of a host has a machine");
        current::enter_machine(machine, || self.scope.request());
        self.is_poked = true;
    }

    /// Whether the first task has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !self.event_loop.core.tasks.contains(self.root)
    }

    /// The number of tasks that have not ended.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.event_loop.core.tasks.iter().count()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.scope.enter(|| self.event_loop.drop_tasks());
    }
}
