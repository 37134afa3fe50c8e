//! Asks the loops of this process for the waits of their tasks.
//!
//! A loop answers between two of its rounds: the watcher interrupts their waits, and waits for the
//! answers. A loop that a task holds does not answer in time. The missing answer identifies the
//! loop.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::thread_slots::{LoopTurn, loops};
use super::{Trace, Wait};
use crate::remote;

/// The number of the last survey. A loop owes an answer if its last one has another number.
static ASKED: AtomicU32 = AtomicU32::new(0);
static ANSWERS: Mutex<Answers> = Mutex::new(Answers { survey: 0, reports: Vec::new() });
static ARRIVED: Condvar = Condvar::new();

struct Answers {
    survey: u32,
    reports: Vec<LoopReport>,
}

/// The answers of the loops of this process.
#[derive(Debug)]
pub struct Survey {
    /// The loops that answered in time.
    pub answered: Vec<LoopReport>,
    /// The loops that did not answer.
    pub silent: Vec<LoopTurn>,
}

/// The tasks of one loop.
#[derive(Debug)]
pub struct LoopReport {
    /// The number of the loop's kernel thread.
    pub thread: u32,
    /// The number of tasks of the loop.
    pub tasks: usize,
    /// The number of ready tasks.
    pub ready: usize,
    /// The tasks that have waited longest, the longest first, up to the requested number.
    pub longest: Vec<TaskReport>,
}

/// A task of a loop.
#[derive(Debug)]
pub struct TaskReport {
    /// The number of earlier tasks of the loop.
    pub number: u32,
    /// The stage that the task reached last.
    pub stage: Option<String>,
    /// The wait of the task, or its last wait if it is ready.
    pub wait: Wait,
    /// Whether the task has been woken, and only waits for its turn.
    pub is_ready: bool,
    /// The time since the task last ran, in milliseconds of the loop's clock, as of its last round.
    pub waited: Duration,
    /// The time until the task's deadline, if it has one.
    pub due: Option<Duration>,
    /// The peer of the task's socket.
    pub peer: Option<SocketAddr>,
    /// The call stack of the task, if the task has a stack with enough room and has begun.
    pub trace: Option<Trace>,
}

/// Asks all loops of this process for at most `most` tasks each, and waits no longer than
/// `patience`. One caller at a time.
pub fn survey(most: u32, patience: Duration) -> Survey {
    let expected = loops();
    if expected.is_empty() {
        return Survey { answered: Vec::new(), silent: Vec::new() };
    }
    let mut answers = lock();
    MOST.store(most, Ordering::Relaxed);
    answers.survey = ASKED.fetch_add(1, Ordering::Release).wrapping_add(1);
    answers.reports.clear();
    remote::interrupt_all();
    let (mut answers, _) = ARRIVED
        .wait_timeout_while(answers, patience, |answers| answers.reports.len() < expected.len())
        .unwrap_or_else(PoisonError::into_inner);
    let answered = std::mem::take(&mut answers.reports);
    let has_answered = |turn: &LoopTurn| answered.iter().any(|loop_| loop_.thread == turn.thread);
    let silent = loops().into_iter().filter(|turn| !has_answered(turn)).collect();
    Survey { answered, silent }
}

/// The number of tasks that each loop should report.
static MOST: AtomicU32 = AtomicU32::new(0);

/// The number of the last requested survey. A loop compares it with the number of its last answer.
#[inline]
pub(crate) fn asked() -> u32 {
    ASKED.load(Ordering::Acquire)
}

pub(crate) fn most() -> usize {
    MOST.load(Ordering::Relaxed) as usize
}

/// A loop's answer to the survey with this number. A late answer is dropped.
pub(crate) fn answer(survey: u32, report: LoopReport) {
    let mut answers = lock();
    if answers.survey == survey {
        answers.reports.push(report);
        ARRIVED.notify_all();
    }
}

fn lock() -> MutexGuard<'static, Answers> {
    ANSWERS.lock().unwrap_or_else(PoisonError::into_inner)
}
