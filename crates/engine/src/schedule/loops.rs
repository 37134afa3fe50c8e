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
//!
//! A task that computes past the end of its turn takes its thread along. The thread leaves the
//! loop, and a spare thread runs the others. The thread comes back at the task's next primitive.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::kernel::clock::{self, Nanoseconds};
use crate::kernel::lock::{Guarded, Held, Locked};
use crate::schedule::thread::{MAIN, ThreadRef};
use crate::schedule::waiter::{State, WaitQueue, WaiterRef};
use crate::schedule::worker::current;

/// The most loops that a program can have.
pub(crate) const MOST_LOOPS: usize = 64;
/// The most threads of a loop that wait for the next time that it needs one.
const MOST_SPARES: usize = 4;
/// After so many tasks, a task that has had its turn goes before the woken tasks.
const BEHIND_EVERY: u32 = 8;

/// The turn of a task.
#[derive(Clone, Copy)]
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

/// A task that computes for too long.
pub(crate) struct LongTurn {
    pub(crate) number: usize,
    pub(crate) task: WaiterRef,
    pub(crate) nanoseconds: Nanoseconds,
    /// The task's thread has left the loop, and holds up no other task.
    pub(crate) has_left: bool,
}

struct Loop {
    exists: bool,
    /// Tasks that were woken, or have not begun.
    ready: WaitQueue,
    /// Tasks that have had their turn. A woken task goes first, because it will wait again soon.
    behind: WaitQueue,
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
    /// Threads that have left the loop with a task that computes.
    left: Vec<(ThreadRef, Turn)>,
    /// The engine has asked the program to make a spare thread, which has not come yet.
    promised: bool,
}

impl Loop {
    const NONE: Self = Self {
        exists: false,
        ready: WaitQueue::EMPTY,
        behind: WaitQueue::EMPTY,
        turns: 0,
        turn: Turn::NONE,
        runner: None,
        spares: Vec::new(),
        returning: VecDeque::new(),
        left: Vec::new(),
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

    fn is_run_by(&self, thread: ThreadRef) -> bool {
        self.runner.is_some_and(|runner| runner.is(thread))
    }

    fn has_lost(&self, thread: ThreadRef) -> bool {
        self.left.iter().any(|(left, _)| left.is(thread))
    }
}

static LOOPS: Guarded<[Loop; MOST_LOOPS]> = Guarded::new([Loop::NONE; MOST_LOOPS]);

/// The signals that threads of loops block while they wait for a task. `None` until the program has
/// changed a mask.
static MASK: Guarded<Option<u64>> = Guarded::new(None);

/// Sets the mask of threads that wait for a task.
pub(crate) fn set_mask(locked: &mut Locked, mask: u64) {
    *MASK.of(locked) = Some(mask);
}

pub(crate) fn mask(locked: &mut Locked) -> Option<u64> {
    *MASK.of(locked)
}

/// The threads that wait for a task.
pub(crate) fn spares(locked: &mut Locked) -> Vec<ThreadRef> {
    LOOPS.of(locked).iter().flat_map(|own| own.spares.iter().copied()).collect()
}

/// The current thread does not wait for a task any more.
pub(crate) fn stop_waiting(locked: &mut Locked) {
    let Some(number) = number() else { return };
    LOOPS.of(locked)[number].spares.retain(|spare| !spare.is(current()));
}

/// The next step of a thread of a loop.
pub(crate) enum Next {
    Run(WaiterRef),
    /// The loop would need another thread if this thread blocked.
    MakeSpare,
    /// End, since enough threads wait. Another thread may go on.
    End(Option<ThreadRef>),
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
pub(crate) fn join_loop(locked: &mut Locked, number: usize, turn: usize, mask: usize) {
    let thread = current();
    thread.loop_number.set(number as u32 + 1);
    thread.turn.set(turn);
    thread.mask_word.set(mask);
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
pub(crate) fn next(locked: &mut Locked, number: usize, may_end: bool) -> Next {
    let thread = current();
    let (loops, held) = LOOPS.with_cells(locked);
    let own = &mut loops[number];
    loop {
        let runs = own.is_run_by(thread);
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
        if may_end && own.spares.len() >= MOST_SPARES {
            thread.loop_number.set(0);
            return Next::End(own.choose_runner());
        }
        own.spares.push(thread);
        match own.choose_runner() {
            Some(chosen) if chosen.is(thread) => {}
            other => return Next::Wait(other),
        }
    }
}

/// Notes that the turn of the current thread is over. Returns its task, once, if the task has
/// computed longer than `longest` since then. Other tasks must have waited meanwhile, or the thread
/// must have left.
pub(crate) fn has_held(locked: &mut Locked, longest: Nanoseconds) -> Option<LongTurn> {
    let number = number()?;
    let own = &mut LOOPS.of(locked)[number];
    let has_others = own.has_ready();
    let left = own.left.iter_mut().find(|(thread, _)| thread.is(current()));
    let has_left = left.is_some();
    let turn = match left {
        Some((_, turn)) => turn,
        None if own.runner.is_some_and(|runner| runner.is(current())) => &mut own.turn,
        None => return None,
    };
    let now = clock::now();
    if turn.over_since == 0 {
        turn.over_since = now;
    }
    let nanoseconds = now - turn.over_since;
    let task = turn.task?;
    if turn.told || longest == 0 || nanoseconds < longest || !(has_left || has_others) {
        return None;
    }
    turn.told = true;
    Some(LongTurn { number, task, nanoseconds, has_left })
}

/// Whether the current thread should leave its loop. The turn was over at an earlier tick already.
/// Others are ready, and a spare thread can run the loop.
pub(crate) fn should_leave(locked: &mut Locked) -> bool {
    let Some(number) = number() else { return false };
    let own = &LOOPS.of(locked)[number];
    let overdue = own.turn.over_since != 0;
    let has_next = !own.returning.is_empty() || (own.has_ready() && !own.spares.is_empty());
    own.is_run_by(current()) && overdue && has_next
}

/// Takes the loop from the current thread, which goes on with its task beside the loop. Returns the
/// thread that runs the loop from now on.
pub(crate) fn leave(locked: &mut Locked) -> Option<ThreadRef> {
    let own = &mut LOOPS.of(locked)[number()?];
    own.left.push((current(), own.turn));
    own.runner = None;
    own.choose_runner()
}

/// Gives a loop without a runner back to the current thread, which has left the loop. Otherwise the
/// thread is the next runner, and must wait. Returns whether it runs the loop.
pub(crate) fn come_back(locked: &mut Locked) -> bool {
    let thread = current();
    let Some(number) = number() else { return true };
    let own = &mut LOOPS.of(locked)[number];
    own.left.retain(|(left, _)| !left.is(thread));
    if own.runner.is_none() {
        own.runner = Some(thread);
        own.turn = Turn::NONE;
    }
    let runs = own.is_run_by(thread);
    if !runs {
        own.returning.push_back(thread);
    }
    runs
}

/// Called when the current thread is about to wait for an event other than a task. Returns the
/// thread that goes on instead.
pub(crate) fn blocks(locked: &mut Locked) -> Option<ThreadRef> {
    let own = &mut LOOPS.of(locked)[number()?];
    if own.is_run_by(current()) {
        own.runner = None;
    }
    own.choose_runner()
}

/// Ends the wait of a loop's thread. Returns whether the thread may go on now.
pub(crate) fn may_go_on(locked: &mut Locked, thread: ThreadRef) -> bool {
    let Some(number) = number_of(thread) else { return true };
    let own = &mut LOOPS.of(locked)[number];
    if own.has_lost(thread) {
        return true;
    }
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
