//! A loop's report on its tasks: their waits, when each began, and the places of their stacks.
//!
//! A task notes its next wait in its control block. The clock is that of the loop's round. The loop
//! is asked by [`visibility::survey`](crate::visibility::survey()), and answers between two rounds.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rustix::process::getpid;

use super::core::Core;
use super::tasks::Task;
use crate::visibility::survey::{self, LoopReport, TaskReport};
use crate::visibility::{self, Trace, Wait, thread_slots, waits};

/// The data that a loop keeps for its reports, and its clock.
pub(crate) struct ReportState {
    start: Instant,
    /// The time of the round, in milliseconds since the start. The number overflows after 49 days.
    clock: Cell<u32>,
    answered: Cell<u32>,
}

impl ReportState {
    pub(crate) fn new(now: Instant) -> Self {
        Self { start: now, clock: Cell::new(0), answered: Cell::new(survey::asked()) }
    }

    /// A new round begins.
    #[inline]
    pub(crate) fn tick(&self, now: Instant) {
        self.clock.set((now - self.start).as_millis() as u32);
    }

    #[inline]
    pub(crate) fn clock(&self) -> u32 {
        self.clock.get()
    }

    /// Whether the loop owes a report.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.answered.get() != survey::asked()
    }
}

/// Answers the survey.
#[cold]
pub(crate) fn answer(core: &Core) {
    let asked = survey::asked();
    core.report_state.answered.set(asked);
    thread_slots::with(|slot| survey::answer(asked, report(core, slot.thread())));
}

fn report(core: &Core, thread: u32) -> LoopReport {
    let clock = core.report_state.clock();
    let tasks = &core.tasks;
    let ready = tasks.ready();
    let age = |task: &Task| Some((clock.wrapping_sub(task.since()), task.name()?.slot()));
    let mut ages: Vec<(u32, u32)> = tasks.iter().filter_map(age).collect();
    let count = ages.len();
    let most = survey::most();
    // The oldest first. Tasks of the same age are in the order of their slots.
    let order = |&(age, slot): &(u32, u32)| (u32::MAX - age, slot);
    if count > most && most > 0 {
        ages.select_nth_unstable_by_key(most - 1, order);
    }
    ages.truncate(most);
    ages.sort_unstable_by_key(order);
    let longest = ages.into_iter().filter_map(|(age, slot)| {
        let task = tasks.at(slot)?;
        let due = core.timers.borrow().deadline(slot).filter(|_| task.wait() == Wait::Time);
        Some(TaskReport {
            number: task.name()?.serial(),
            stage: task.shown().stage().name(),
            wait: task.wait(),
            is_ready: task.is_queued(),
            waited: Duration::from_millis(age.into()),
            due: due.map(|due| due.saturating_duration_since(core.now())),
            peer: waits::peer(task.wait(), getpid()),
            trace: walk(task),
        })
    });
    let longest = longest.collect();
    LoopReport { thread, tasks: count, ready, longest }
}

/// The trace of a fiber that has begun: it walks its own stack.
fn walk(task: &Task) -> Option<Trace> {
    if task.wait() == Wait::Begin {
        return None;
    }
    let mut trace = None;
    // SAFETY: a loop reports between two rounds, when no task ends.
    unsafe { task.fiber() }?.run_on_top(|| trace = visibility::capture());
    trace
}
