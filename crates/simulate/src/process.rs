//! A host that is a program of kernel threads: the driver gives one of them a turn at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use duality_runtime::drain::Scope;
use duality_runtime::machine::{self, Machine};
use duality_runtime::threads::{Body, Threads};

use crate::machine::HostMachine;
use crate::outside;
use crate::threads::{HostThreads, Reports, Thread};

/// How often all threads of a host that ends have a turn, at most.
const ROUNDS: usize = 10_000;

/// See the [module](self).
pub(crate) struct Process {
    threads: Arc<HostThreads>,
    scope: Scope,
    /// Those that have not ended, in the order in which they were started. The first is the main
    /// thread's, until it ends.
    living: Vec<Thread>,
    /// Those that can go on, as the last look has found them.
    able: AbleThreads,
}

/// The threads that can go on, for the choice of one: the least recent first.
#[derive(Default)]
pub(crate) struct AbleThreads(pub(crate) Vec<(u64, u32)>);

impl Process {
    /// A program with a main thread that runs `main`.
    ///
    /// # Errors
    ///
    /// If this machine has no room for a thread.
    pub(crate) fn start(machine: HostMachine, base: Instant, main: Body) -> std::io::Result<Self> {
        let threads = HostThreads::new(machine, base);
        let scope = Scope::new();
        let within = scope.clone();
        threads.start(Box::new(move || within.enter(main)))?;
        let living = threads.take_started();
        Ok(Self { threads, scope, living, able: AbleThreads::default() })
    }

    /// Looks which threads can go on at `now`. Returns whether there is one.
    pub(crate) fn look(&mut self, now: Instant) -> bool {
        let able = self.living.iter().filter(|thread| thread.is_able(now));
        let AbleThreads(found) = &mut self.able;
        found.clear();
        found.extend(able.map(|thread| (thread.last_turn, thread.number)));
        found.sort_unstable();
        !found.is_empty()
    }

    /// The time at which the first wait is over.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.living.iter().filter_map(Thread::deadline).min()
    }

    /// One turn, of the thread that `choose` chooses of those that the last [`look`](Self::look)
    /// has found. `turn` is its number.
    ///
    /// # Errors
    ///
    /// If the thread sleeps in the kernel.
    pub(crate) fn step(
        &mut self,
        turn: u64,
        choose: impl FnOnce(&AbleThreads) -> usize,
    ) -> Result<Reports, String> {
        let able = &self.able;
        let place = if able.0.len() > 1 { choose(able) } else { 0 };
        let Some((_, number)) = able.0.get(place) else { return Ok(Reports::default()) };
        let chosen = self.living.iter_mut().position(|thread| thread.number == *number);
        let Some(chosen) = chosen else { return Ok(Reports::default()) };
        self.living[chosen].last_turn = turn;
        let reports = self.give_turn(chosen, false);
        self.living.extend(self.threads.take_started());
        reports
    }

    fn give_turn(&mut self, index: usize, ends: bool) -> Result<Reports, String> {
        let thread = &mut self.living[index];
        let outcome = thread.give_turn(ends);
        // One that sleeps in the kernel is left alone.
        if outcome.is_err() || thread.has_ended() {
            self.living.remove(index);
        }
        outcome
    }

    /// Asks the program to drain, as a signal would.
    pub(crate) fn drain(&mut self) {
        let machine: Arc<dyn Machine> = Arc::new(self.threads.machine().clone());
        machine::enter(&machine, || self.scope.request());
        self.threads.drains.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the main thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.living.first().is_none_or(|thread| thread.number > 0)
    }

    /// How many threads have not ended.
    pub(crate) fn count(&self) -> usize {
        self.living.len()
    }

    /// What its threads wait for, in words.
    pub(crate) fn waits(&self) -> String {
        let each = |thread: &Thread| format!("thread {}: {}", thread.number, thread.waits_for());
        self.living.iter().map(each).collect::<Vec<_>>().join(", ")
    }

    /// Ends all threads: each unwinds from its wait.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS {
            let mut index = 0;
            while index < self.living.len() {
                let count = self.living.len();
                self.give_turn(index, true)?;
                index += usize::from(self.living.len() == count);
                self.living.extend(self.threads.take_started());
            }
            if self.living.is_empty() {
                return Ok(());
            }
        }
        Err(format!("the threads of a host that ends go on: {}", self.waits()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(why) = self.end() {
            outside::refuse(why);
        }
    }
}
