//! Chooses the thread or task that runs: run queues, parked threads and deadlines, and the wait for
//! events.
//!
//! ```text
//!      wake                 its turn
//!   parked ──────▶ ready (run queue) ──────▶ running ──┐
//!     ▲                     ▲                   │  │   │ switch_away
//!     └──────── park ───────┼───────────────────┘  │   ▼
//!                           └─────── yield ────────┘  the next ready thread, or else
//!                                                     the worker's own stack: epoll_pwait2
//! ```
//!
//! A thread switches directly to the next ready one. If none is ready, it switches to the worker's
//! own stack. There the worker waits for an event: a descriptor, the next deadline, a helper that
//! is done.
//!
//! Each worker has a run queue for the threads that it wakes. A thread goes to the common queue at
//! the end of its turn, or if it yields. In the common queue, the thread that has waited longest is
//! next, whichever worker ran it last. A worker takes from its own queue, then from the common
//! queue, then from another worker's queue. A thread that computes comes after all woken threads,
//! within a credit (`schedule/ticks.rs`), and after a look at the descriptors. The release of the
//! lock decides whether a sleeping worker is woken for ready threads (`schedule/idle.rs`).

use crate::kernel::assertions::check;
use crate::kernel::clock::{self, NEVER, Nanoseconds};
use crate::kernel::frame::{duality_switch, is_left_by_switch};
use crate::kernel::lock::{self, Guarded, Held, Locked};
use crate::kernel::stats;
use crate::schedule::idle;
use crate::schedule::loops;
use crate::schedule::processor_time;
use crate::schedule::task::TaskRef;
use crate::schedule::thread::{self, ThreadRef};
use crate::schedule::ticks;
use crate::schedule::timers::Timers;
use crate::schedule::waiter::{Reason, State, WaitQueue, WaiterRef};
use crate::schedule::worker::{self, MOST_WORKERS, Worker, current, worker};

struct Scheduler {
    /// A queue for each worker.
    own: [WaitQueue; MOST_WORKERS],
    common: WaitQueue,
    /// The threads in all queues.
    ready: usize,
    /// Threads taken from queues so far.
    taken: u32,
    timers: Timers<WaiterRef>,
}

static SCHEDULER: Guarded<Scheduler> = Guarded::new(Scheduler {
    own: [WaitQueue::EMPTY; MOST_WORKERS],
    common: WaitQueue::EMPTY,
    ready: 0,
    taken: 0,
    timers: Timers::new(),
});

/// After so many threads, a worker takes from the common queue although its own is not empty.
const COMMON_EVERY: u32 = 32;

impl Scheduler {
    /// The number of ready threads is that of all queues. Not checked for very many threads.
    fn counts_ready(&self, held: Held<'_>) -> bool {
        let queues = self.own.iter().chain([&self.common]);
        let mut lengths = queues.map(|queue| queue.length(held));
        let count = lengths.try_fold(0, |sum, length| Some(sum + length?));
        count.is_none_or(|count| count == self.ready)
    }
}

/// Makes the waiters with a deadline in the past ready.
pub(crate) fn expire(locked: &mut Locked) {
    if next_deadline(locked).is_none() {
        return;
    }
    let now = clock::now();
    loop {
        let (scheduler, held) = SCHEDULER.with_cells(locked);
        let Some(waiter) = scheduler.timers.expired(held, now) else { return };
        waiter.reason.set(held, Reason::TimedOut);
        make_ready(locked, waiter);
    }
}

/// The next deadline of a parked thread.
pub(crate) fn next_deadline(locked: &mut Locked) -> Option<Nanoseconds> {
    let (scheduler, held) = SCHEDULER.with_cells(locked);
    scheduler.timers.next(held)
}

/// Puts a thread at the end of this worker's run queue.
pub(crate) fn enqueue(locked: &mut Locked, thread: ThreadRef) {
    let (scheduler, held) = SCHEDULER.with_cells(locked);
    let before = thread.state.replace(held, State::Ready);
    assert!(before != State::Running, "a thread that runs becomes ready again");
    thread.computes.set(held, false);
    scheduler.own[worker().index.get()].push(held, thread);
    scheduler.ready += 1;
    check!(scheduler.counts_ready(held), "ready threads are miscounted after one came");
    lock::attend(locked, true);
}

/// Puts a thread behind all that wait for their turn. The thread `computes` if the end of its turn
/// was forced.
fn enqueue_behind(locked: &mut Locked, thread: ThreadRef, computes: bool) {
    let (scheduler, held) = SCHEDULER.with_cells(locked);
    let before = thread.state.replace(held, State::Ready);
    assert!(before == State::Running, "a thread whose turn ends was {before:?}");
    if thread.computes.replace(held, computes) {
        ticks::renew_credit(worker());
    }
    scheduler.common.push(held, thread);
    scheduler.ready += 1;
    lock::attend(locked, true);
}

/// The thread that this worker runs next. A thread that computes is skipped, unless its turn has
/// come or the descriptors have been `looked` at.
pub(crate) fn dequeue(locked: &mut Locked, looked: bool) -> Option<ThreadRef> {
    let workers = worker::count(locked);
    let (scheduler, held) = SCHEDULER.with_cells(locked);
    if scheduler.ready == 0 {
        return None;
    }
    let worker = worker();
    let own = worker.index.get();
    scheduler.taken = scheduler.taken.wrapping_add(1);
    let computes =
        scheduler.common.first().is_some_and(|first| thread::of(first).computes.get(held));
    let common_first = if computes {
        ticks::credit_is_used(worker)
    } else {
        scheduler.taken.is_multiple_of(COMMON_EVERY)
    };
    let mut next = if common_first { scheduler.common.pop(held) } else { None };
    next = next.or_else(|| scheduler.own[own].pop(held));
    if !computes {
        next = next.or_else(|| scheduler.common.pop(held));
    }
    // Try the other queues, beginning with the next worker's, so that stealing workers spread.
    next = next
        .or_else(|| (1..workers).find_map(|step| scheduler.own[(own + step) % workers].pop(held)));
    if looked {
        next = next.or_else(|| scheduler.common.pop(held));
    }
    scheduler.ready -= usize::from(next.is_some());
    check!(scheduler.counts_ready(held), "ready threads are miscounted after one went");
    let next = thread::of(next?);
    let state = next.state.get(held);
    assert!(state == State::Ready, "a thread in a run queue is {state:?}");
    Some(next)
}

/// Whether woken threads wait for their turn on this worker.
pub(crate) fn woken_are_ready(locked: &mut Locked) -> bool {
    !SCHEDULER.of(locked).own[worker().index.get()].is_empty()
}

/// The threads that wait for their turn.
pub(crate) fn ready(locked: &mut Locked) -> usize {
    SCHEDULER.of(locked).ready
}

pub(crate) fn others_are_ready(locked: &mut Locked) -> bool {
    SCHEDULER.of(locked).ready > 0
}

/// From now on, several workers share the engine's state.
pub(crate) fn share(locked: &mut Locked) {
    if !lock::is_shared() {
        let distribute = |locked: &mut Locked| {
            let ready = SCHEDULER.of(locked).ready;
            idle::distribute(locked, ready);
        };
        lock::share(locked, distribute, idle::make_calls);
    }
}

/// Ends the wait of a thread or a task, if there is a wait.
pub(crate) fn wake(locked: &mut Locked, waiter: WaiterRef, reason: Reason) {
    let (scheduler, held) = SCHEDULER.with_cells(locked);
    if waiter.state.get(held) == State::Parked {
        scheduler.timers.remove(held, waiter);
        waiter.reason.set(held, reason);
        make_ready(locked, waiter);
    }
}

/// Makes a thread or a task ready. A thread goes to the run queue. A task goes to its loop, and the
/// loop's thread goes to the run queue if it waits for a task.
pub(crate) fn make_ready(locked: &mut Locked, waiter: WaiterRef) {
    assert!(!waiter.has_timer(locked.held()), "a wait is over, and its deadline is not");
    match waiter.home() {
        None => {
            let thread = thread::of(waiter);
            if loops::may_go_on(locked, thread) {
                enqueue(locked, thread);
            } else {
                // The thread is no longer parked, and is in no queue. The thread's loop decides
                // when the thread goes on.
                thread.state.set(locked.held(), State::Ready);
            }
        }
        Some(home) => {
            let runner = loops::add(locked, home, waiter, false);
            go_on(locked, runner);
        }
    }
}

/// Has a loop's thread go on, whether the thread waits for a task or for permission to go on.
pub(crate) fn go_on(locked: &mut Locked, thread: Option<ThreadRef>) {
    let Some(thread) = thread else { return };
    if thread.state.get(locked.held()) == State::Parked {
        wake(locked, thread, Reason::Woken);
    } else {
        enqueue(locked, thread);
    }
}

/// Parks the current thread until a wake, its deadline, or a signal for the thread. If the thread
/// acts for a task, suspends the task instead.
pub(crate) fn park(locked: &mut Locked, deadline: Nanoseconds) -> Reason {
    if let Some(task) = current().task.get() {
        return suspend(locked, task, deadline);
    }
    if current().is_called() {
        return Reason::Interrupted;
    }
    current().interruptible.set(locked.held(), true);
    let reason = park_through_signals(locked, deadline);
    current().interruptible.set(locked.held(), false);
    reason
}

/// Parks the current thread. Signals wait until the thread goes on.
pub(crate) fn park_through_signals(locked: &mut Locked, deadline: Nanoseconds) -> Reason {
    let thread = current();
    if thread.loop_number.get() != 0 {
        let other = loops::blocks(locked);
        go_on(locked, other);
    }
    set_parked(locked, thread, deadline);
    stats::parked_in(thread.call.get());
    switch_away(locked, false);
    thread.reason.get(locked.held())
}

/// Has a task wait, unless its wait is over for a reason other than a wake. The call must be left
/// with `SUSPENDED`.
pub(crate) fn suspend(locked: &mut Locked, task: TaskRef, deadline: Nanoseconds) -> Reason {
    if let Some(reason) = task.take_end() {
        return reason;
    }
    let deadline = task.first_deadline(deadline);
    task.keep_deadline(deadline);
    set_parked(locked, &task.waiter, deadline);
    stats::parked_in(task.number.get() as u32);
    Reason::Suspended
}

fn set_parked(locked: &mut Locked, waiter: WaiterRef, deadline: Nanoseconds) {
    let (scheduler, held) = SCHEDULER.with_cells(locked);
    assert!(!waiter.is_in_queue(held), "a waiter that parks is in a queue");
    let before = waiter.state.replace(held, State::Parked);
    assert!(before == State::Running, "a waiter that parks was {before:?}");
    if deadline != NEVER {
        waiter.deadline.set(held, deadline);
        scheduler.timers.add(held, waiter);
        idle::expect(locked, deadline);
    }
}

/// Runs other threads until the current thread, which is ready or parked, has its turn.
fn switch_away(locked: &mut Locked, looked: bool) {
    let worker = worker();
    let from = worker.current.get();
    check!(from.state.get(locked.held()) != State::Running, "a thread that leaves is running");
    worker.switches_left.set(worker.switches_left.get() - 1);
    // After many switches, the worker itself has a look at the descriptors.
    let next = if worker.switches_left.get() > 0 { dequeue(locked, looked) } else { None };
    match next {
        Some(to) if to.is(from) => to.state.set(locked.held(), State::Running),
        Some(to) => {
            become_current(locked, worker, to);
            // SAFETY: `to` is ready, so its stack was left by a switch.
            unsafe {
                assert_left(to.stack_pointer.get());
                duality_switch(from.stack_pointer.as_ptr(), to.stack_pointer.get(), to.fs.get());
            }
        }
        None => {
            // SAFETY: the worker's own stack was left by a switch, or has not begun.
            unsafe {
                duality_switch(from.stack_pointer.as_ptr(), worker.stack_pointer.get(), 0);
            }
        }
    }
    // The other side: the thread goes on, perhaps on another worker, which has its turn begun.
    check!(lock::is_held_here(), "a thread goes on without the lock");
    check!(current().is(from), "a thread goes on as another one");
    check!(from.state.get(locked.held()) == State::Running, "a thread goes on before its turn");
}

pub(crate) fn become_current(locked: &mut Locked, worker: &Worker, thread: ThreadRef) {
    check!(worker::runner(locked, thread).is_none(), "two workers run a thread");
    let held = locked.held();
    assert!(!thread.is_in_queue(held), "a thread that runs is in a queue");
    let before = thread.state.replace(held, State::Running);
    assert!(before == State::Ready, "a thread whose turn begins was {before:?}");
    processor_time::leave_thread(worker);
    worker.current.set(thread);
    worker.calls_in_a_row.set(0);
    ticks::begin_turn(worker, thread.computes.get(held));
    stats::SWITCHES.add(1);
}

/// Puts the current thread behind the ready threads. Returns whether there were any. The thread
/// either yields or `computes`. If it computes, the descriptors have been looked at.
pub(crate) fn let_others_run(locked: &mut Locked, computes: bool) -> bool {
    let others = others_are_ready(locked);
    if others {
        enqueue_behind(locked, current(), computes);
        switch_away(locked, computes);
    }
    others
}

/// Leaves the current thread to another worker, which goes on with it.
pub(crate) fn go_on_elsewhere(locked: &mut Locked, other: &Worker) {
    let (worker, thread) = (worker(), current());
    assert!(worker.index.get() != other.index.get(), "a thread is left to its own worker");
    let (scheduler, held) = SCHEDULER.with_cells(locked);
    thread.state.set(held, State::Ready);
    scheduler.own[other.index.get()].push(held, thread);
    scheduler.ready += 1;
    lock::attend(locked, true);
    // SAFETY: the worker's own stack was left by a switch, as in `switch_away`.
    unsafe { duality_switch(thread.stack_pointer.as_ptr(), worker.stack_pointer.get(), 0) };
    check!(crate::schedule::worker::worker().index.get() == other.index.get(), "another worker");
}

/// Leaves the current thread for ever. The thread's stack belongs to the program from then on.
pub(crate) fn leave_for_good(locked: Locked) -> ! {
    let worker = worker();
    let thread = worker.current.get();
    let before = worker.ended.replace(Some(thread));
    assert!(before.is_none(), "a worker has not finished the last thread that ended on it");
    locked.hand_over();
    // SAFETY: as in `switch_away`; nothing returns here.
    unsafe { duality_switch(thread.stack_pointer.as_ptr(), worker.stack_pointer.get(), 0) };
    unreachable!("a thread that ended was run")
}

/// Called in the child of a fork, where only the current thread is left.
pub(crate) fn reset_after_fork(locked: &mut Locked) {
    let (scheduler, held) = SCHEDULER.with_cells(locked);
    scheduler.timers.clear(held);
    // The threads of the parent leave the queues before their places are free.
    scheduler.own.iter_mut().for_each(|own| own.clear(held));
    scheduler.common.clear(held);
    scheduler.ready = 0;
}

/// A stack that is switched to was left by a switch, or has not begun.
///
/// # Safety
///
/// As for [`is_left_by_switch`], unless `stack_pointer` is 0.
pub(crate) unsafe fn assert_left(stack_pointer: usize) {
    assert!(stack_pointer != 0, "a stack that was never left is switched to");
    check!(
        // SAFETY: the caller's promise.
        unsafe { is_left_by_switch(stack_pointer) },
        "a stack that was not left by a switch goes on"
    );
}
