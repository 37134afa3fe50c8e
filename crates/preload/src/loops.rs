//! Loops of a converted program: threads that run its tasks, one at a time.
//!
//! ```text
//!   a task's wait is over ──▶ ready (the loop's queue) ──▶ next() ──▶ the loop runs it
//!                                  │                         ▲
//!                                  └── the first wakes the loop, if it waits in next()
//! ```

use crate::lock::{Guarded, Locked};
use crate::thread::{MAIN, ThreadRef};
use crate::waiter::{Queue, State, WaiterRef};
use crate::worker::current;

/// So many loops, and no more.
pub(crate) const MOST_LOOPS: usize = 64;

#[derive(Clone, Copy)]
struct Loop {
    thread: Option<ThreadRef>,
    ready: Queue,
    /// The thread is parked until a task is ready.
    waits: bool,
    /// Where the loop looks whether its turn is over.
    turn_over: usize,
}

const NONE: Loop = Loop { thread: None, ready: Queue::EMPTY, waits: false, turn_over: 0 };

static LOOPS: Guarded<[Loop; MOST_LOOPS]> = Guarded::new([NONE; MOST_LOOPS]);

/// The number of the loop that the current thread is.
pub(crate) fn number() -> Option<usize> {
    (current().loop_number.get() as usize).checked_sub(1)
}

/// The current thread is the loop with this number from now on.
pub(crate) fn become_loop(locked: &mut Locked, number: usize, turn_over: usize) {
    let thread = current();
    thread.loop_number.set(number as u32 + 1);
    let own = &mut LOOPS.of(locked)[number];
    own.thread = Some(thread);
    own.turn_over = turn_over;
}

/// Where the current thread looks whether its turn is over, if it is a loop.
pub(crate) fn turn_over(locked: &mut Locked) -> Option<usize> {
    Some(LOOPS.of(locked)[number()?].turn_over)
}

/// Adds a task to those that are ready. Returns the loop's thread if it waited for one, and waits no longer.
pub(crate) fn add(locked: &mut Locked, number: usize, task: WaiterRef) -> Option<ThreadRef> {
    task.state.set(State::Ready);
    let home = &mut LOOPS.of(locked)[number];
    home.ready.push(task);
    if core::mem::take(&mut home.waits) { home.thread } else { None }
}

/// Takes the next task that is ready.
pub(crate) fn take(locked: &mut Locked, number: usize) -> Option<WaiterRef> {
    LOOPS.of(locked)[number].ready.pop()
}

/// Whether the loop's thread is parked until a task is ready.
pub(crate) fn set_waits(locked: &mut Locked, number: usize, waits: bool) {
    LOOPS.of(locked)[number].waits = waits;
}

/// In the child of a fork: the current thread, the main one from now on, may be a loop. Only the task that it runs is left.
pub(crate) fn reset_after_fork(locked: &mut Locked) {
    let own = number();
    for (index, home) in LOOPS.of(locked).iter_mut().enumerate() {
        let turn_over = home.turn_over;
        *home = NONE;
        if own == Some(index) {
            *home = Loop { thread: Some(&MAIN), turn_over, ..NONE };
        }
    }
}

/// Whether the process has a loop.
pub(crate) fn exist(locked: &mut Locked) -> bool {
    LOOPS.of(locked).iter().any(|home| home.thread.is_some())
}
