//! Where a thread of a host and the driver meet. One of them has the turn, and the other sleeps.
//!
//! A hand-over wakes the other kernel thread, and then sleeps. A simulation with threads stays on
//! one processor (`keep_on_one_processor`). So each hand-over is a switch there, and not a message
//! to another processor, which takes several times as long. The state's lock is free before the
//! other side is woken, which may run at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use duality_runtime::threads::Lent;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Reports;
use super::sleep::Sleep;

/// How often the driver looks at a thread that has the turn and does not give it back, by the
/// machine's clock.
const LOOK: Duration = Duration::from_millis(500);
/// A thread that sleeps through so many looks is stuck.
const SLEEPS: u32 = 10;
/// A thread that has the turn for so long is stuck, whatever it does.
const LONGEST: Duration = Duration::from_secs(60);

/// See the [module](self).
pub(super) struct Seat {
    has_turn: AtomicBool,
    driver: thread::Thread,
    state: Mutex<State>,
}

/// What the driver knows of a thread.
#[derive(Default)]
pub(super) struct State {
    /// The kernel's number of the thread, once it has run.
    pub(super) thread: Option<u32>,
    pub(super) is_ended: bool,
    /// Whether the host has ended, so that the next wait ends the thread.
    ends: bool,
    pub(super) wait: Option<Wait>,
    pub(super) reports: Reports,
}

/// What a thread waits for.
pub(super) struct Wait {
    pub(super) what: &'static str,
    pub(super) condition: Arc<Lent>,
    pub(super) deadline: Option<Instant>,
    /// Whether it ends for no reason.
    pub(super) is_spurious: bool,
}

impl Seat {
    /// A seat at which the driver has the turn.
    pub(super) fn new(driver: thread::Thread) -> Arc<Self> {
        Arc::new(Self { has_turn: AtomicBool::new(false), driver, state: Mutex::default() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the thread: waits until it has the turn. True if the host has ended.
    pub(super) fn await_turn(&self) -> bool {
        while !self.has_turn.load(Ordering::Acquire) {
            thread::park();
        }
        self.lock().ends
    }

    /// For the thread: gives the turn back, after this change of the state.
    pub(super) fn hand_back(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.has_turn.store(false, Ordering::Release);
        self.driver.unpark();
    }

    /// For the driver: gives the turn to the thread, and waits until the thread hands it back.
    /// Returns the reports, and whether the thread has ended.
    ///
    /// # Errors
    ///
    /// What the thread does instead, in words.
    pub(super) fn take_turn(
        &self,
        thread: Option<&thread::Thread>,
        ends: bool,
    ) -> Result<(Reports, bool), String> {
        {
            let mut state = self.lock();
            (state.ends, state.wait) = (ends, None);
        }
        self.has_turn.store(true, Ordering::Release);
        thread.into_iter().for_each(thread::Thread::unpark);
        let mut watch = None;
        while self.has_turn.load(Ordering::Acquire) {
            thread::park_timeout(LOOK);
            if self.has_turn.load(Ordering::Acquire) {
                let kernels_number = self.lock().thread;
                watch.get_or_insert_with(Watch::new).look(kernels_number)?;
            }
        }
        let mut state = self.lock();
        Ok((std::mem::take(&mut state.reports), state.is_ended))
    }
}

/// The looks at a thread that does not give the turn back.
struct Watch {
    begin: Instant,
    last_look: Instant,
    sleep: Option<Sleep>,
    sleeps: u32,
}

impl Watch {
    fn new() -> Self {
        let now = Instant::now();
        Self { begin: now, last_look: now, sleep: None, sleeps: 0 }
    }

    /// Looks at the thread, if it is time. Fails if the thread is stuck.
    fn look(&mut self, thread: Option<u32>) -> Result<(), String> {
        let now = Instant::now();
        if now.saturating_duration_since(self.last_look) < LOOK {
            return Ok(());
        }
        self.last_look = now;
        let sleep = thread.and_then(Sleep::of);
        let goes_on = sleep.is_some() && sleep == self.sleep;
        self.sleeps = if goes_on { self.sleeps + 1 } else { 0 };
        self.sleep = sleep;
        match &self.sleep {
            Some(sleep) if self.sleeps >= SLEEPS => {
                Err(format!("sleeps in the kernel, where no simulation sees it, in {sleep}"))
            }
            _ if now.saturating_duration_since(self.begin) >= LONGEST => {
                Err("has run for a minute without a wait that the simulation sees".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Keeps this kernel thread, and those that it starts, on one of the processors that it has. Each
/// `worker` of those that simulate at a time has another one. If the kernel refuses, nothing
/// happens.
pub(crate) fn keep_on_one_processor(worker: usize) {
    let Ok(all) = sched_getaffinity(None) else { return };
    let able: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|one| all.is_set(*one)).collect();
    if able.is_empty() {
        return;
    }
    let mut one = CpuSet::new();
    one.set(able[worker % able.len()]);
    // Where the kernel refuses, hand-overs only take longer.
    let _ = sched_setaffinity(None, &one);
}
