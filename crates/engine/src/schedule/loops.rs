//! Loops of a converted program: threads that run its tasks, one at a time.
//!
//! ```text
//!   a task's wait is over ──▶ ready (the loop's queue) ──▶ next() ──▶ the loop's runner runs it
//!                                  │                         ▲
//!                                  └── the first calls a spare thread, if the loop has no runner
//!
//!   the runner blocks in a library ──▶ a spare thread runs the loop
//!   its call is over ──▶ it returns, and goes on when the runner asks for the next task
//! ```
//!
//! Of a loop's threads, one at a time is the runner. So the tasks can share data without locks. An
//! unexpected blocking call in a loop's thread stops one task, not all tasks.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::kernel::clock::{self, Nanoseconds};
use crate::kernel::lock::{Guarded, Held, Locked};
use crate::schedule::thread::{MAIN, ThreadRef};
use crate::schedule::waiter::{Queue, State, WaiterRef};
use crate::schedule::worker::current;

/// The most loops that a program can have.
pub(crate) const MOST_LOOPS: usize = 64;
/// After so many tasks, a task that has had its turn goes before the woken tasks.
const BEHIND_EVERY: u32 = 8;

/// The turn of a task.
struct Turn {
    /// `None` if another task of the loop has run since, while the runner's call in a library
    /// blocked.
    task: Option<WaiterRef>,
    /// The time at which the turn was found to be over. Zero before.
    over_since: Nanoseconds,
    /// Whether the stall has been reported.
    told: bool,
}

impl Turn {
    const NONE: Self = Self { task: None, over_since: 0, told: false };
}

/// A task that has held its loop for too long.
pub(crate) struct LongTurn {
    pub(crate) number: usize,
    pub(crate) task: WaiterRef,
    pub(crate) nanoseconds: Nanoseconds,
}

struct Loop {
    exists: bool,
    /// Tasks that were woken, or have not begun.
    ready: Queue,
    /// Tasks that have had their turn. A woken task goes first, because it will wait again soon.
    behind: Queue,
    /// The tasks that have been run so far.
    turns: u32,
    /// The turn of the task that the loop runs, since the last call of `next`.
    turn: Turn,
    /// The thread that runs the loop's tasks.
    runner: Option<ThreadRef>,
    /// Threads that wait in `next`.
    spares: Vec<ThreadRef>,
    /// Threads that come back from blocking calls.
    returning: VecDeque<ThreadRef>,
    /// The engine has asked the program to make a spare thread, which has not come yet.
    promised: bool,
}

impl Loop {
    const NONE: Self = Self {
        exists: false,
        ready: Queue::EMPTY,
        behind: Queue::EMPTY,
        turns: 0,
        turn: Turn::NONE,
        runner: None,
        spares: Vec::new(),
        returning: VecDeque::new(),
        promised: false,
    };

    fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.behind.is_empty()
    }

    /// The task that runs next.
    fn take(&mut self, held: Held<'_>) -> Option<WaiterRef> {
        self.turns = self.turns.wrapping_add(1);
        let first =
            if self.turns.is_multiple_of(BEHIND_EVERY) { self.behind.pop(held) } else { None };
        let next = first.or_else(|| self.ready.pop(held)).or_else(|| self.behind.pop(held));
        self.turn = Turn { task: next, ..Turn::NONE };
        next
    }

    /// Chooses the next runner for a loop that has none.
    fn choose_runner(&mut self) -> Option<ThreadRef> {
        if self.runner.is_some() {
            return None;
        }
        self.turn = Turn::NONE;
        self.runner = match self.returning.pop_front() {
            Some(thread) => Some(thread),
            None if !self.has_ready() => None,
            None => self.spares.pop(),
        };
        self.runner
    }
}

static LOOPS: Guarded<[Loop; MOST_LOOPS]> = Guarded::new([Loop::NONE; MOST_LOOPS]);

/// The next step of a thread of a loop.
pub(crate) enum Next {
    Run(WaiterRef),
    /// The loop would need another thread if this thread blocked.
    MakeSpare,
    /// Wait, since another thread may go on.
    Wait(Option<ThreadRef>),
}

/// The number of the loop that the current thread belongs to.
pub(crate) fn number() -> Option<usize> {
    number_of(current())
}

fn number_of(thread: ThreadRef) -> Option<usize> {
    (thread.loop_number.get() as usize).checked_sub(1)
}

/// Makes the current thread one of the loop with this number.
pub(crate) fn join_loop(locked: &mut Locked, number: usize, turn: usize) {
    let thread = current();
    thread.loop_number.set(number as u32 + 1);
    thread.turn.set(turn);
    let own = &mut LOOPS.of(locked)[number];
    own.exists = true;
    if own.runner.is_none() {
        own.runner = Some(thread);
        own.promised = false;
    }
}

/// Adds a task to those that are ready, or `behind` them. Returns the thread that is to go on, if
/// the loop had no runner.
pub(crate) fn add(
    locked: &mut Locked,
    number: usize,
    task: WaiterRef,
    behind: bool,
) -> Option<ThreadRef> {
    let (loops, held) = LOOPS.with_cells(locked);
    let home = &mut loops[number];
    task.state.set(held, State::Ready);
    if behind {
        home.behind.push(held, task);
    } else {
        home.ready.push(held, task);
    }
    home.choose_runner()
}

/// The next step of the current thread, which belongs to the loop with this number. Before the
/// thread waits, it is a spare thread.
pub(crate) fn next(locked: &mut Locked, number: usize) -> Next {
    let thread = current();
    let (loops, held) = LOOPS.with_cells(locked);
    let own = &mut loops[number];
    loop {
        let runs = own.runner.is_some_and(|runner| runner.is(thread));
        if runs && own.returning.is_empty() {
            if own.spares.is_empty() && !own.promised {
                own.promised = true;
                return Next::MakeSpare;
            }
            if let Some(task) = own.take(held) {
                return Next::Run(task);
            }
        }
        if runs {
            own.runner = None;
        } else {
            own.promised = false;
        }
        own.spares.push(thread);
        match own.choose_runner() {
            Some(chosen) if chosen.is(thread) => {}
            other => return Next::Wait(other),
        }
    }
}

/// Notes that the turn of the current thread is over. Returns its task, once, if other tasks have
/// waited for the end of the turn longer than `longest`.
pub(crate) fn has_held(locked: &mut Locked, longest: Nanoseconds) -> Option<LongTurn> {
    let number = number()?;
    let own = &mut LOOPS.of(locked)[number];
    let task = own.turn.task.filter(|_| own.runner.is_some_and(|runner| runner.is(current())))?;
    let now = clock::now();
    if own.turn.over_since == 0 {
        own.turn.over_since = now;
    }
    let nanoseconds = now - own.turn.over_since;
    if own.turn.told || nanoseconds < longest || !own.has_ready() {
        return None;
    }
    own.turn.told = true;
    Some(LongTurn { number, task, nanoseconds })
}

/// Called when the current thread is about to wait for an event other than a task. Returns the
/// thread that goes on instead.
pub(crate) fn blocks(locked: &mut Locked) -> Option<ThreadRef> {
    let own = &mut LOOPS.of(locked)[number()?];
    if own.runner.is_some_and(|runner| runner.is(current())) {
        own.runner = None;
    }
    own.choose_runner()
}

/// Ends the wait of a loop's thread. Returns whether the thread may go on now.
pub(crate) fn may_go_on(locked: &mut Locked, thread: ThreadRef) -> bool {
    let Some(number) = number_of(thread) else { return true };
    let own = &mut LOOPS.of(locked)[number];
    // A signal may have ended a wait for tasks.
    own.spares.retain(|spare| !spare.is(thread));
    match own.runner {
        None => {
            own.runner = Some(thread);
            own.turn = Turn::NONE;
        }
        Some(runner) if runner.is(thread) => {}
        Some(_) => {
            own.returning.push_back(thread);
            return false;
        }
    }
    true
}

/// Called in the child of a fork. The current thread is now the main thread, and may be a loop's.
/// Only the task that it runs is left.
pub(crate) fn reset_after_fork(locked: &mut Locked) {
    let own = number();
    for (index, home) in LOOPS.of(locked).iter_mut().enumerate() {
        *home = Loop::NONE;
        if own == Some(index) {
            home.exists = true;
            home.runner = Some(&MAIN);
        }
    }
}

/// Whether the process has a loop.
pub(crate) fn exist(locked: &mut Locked) -> bool {
    LOOPS.of(locked).iter().any(|home| home.exists)
}
