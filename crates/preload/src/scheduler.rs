//! Which thread runs: a run queue, parked threads with and without deadlines, and the wait for events.
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
//! A thread switches directly to the next ready one. Only where there is none is the worker's own stack
//! switched to, on which it waits for an event: a descriptor, the next deadline, a helper that is done.

use crate::clock::{self, NEVER, Nanoseconds};
use crate::frame::{duality_switch, duality_worker_start, initial_context};
use crate::lock::{Guarded, Locked, Setting};
use crate::stats;
use crate::sys::{self, error, failed, sys};
use crate::thread::{Reason, State, ThreadRef};
use crate::timers::Timers;
use crate::worker::{FIRST, Worker, current, worker};

struct Scheduler {
    head: Option<ThreadRef>,
    tail: Option<ThreadRef>,
    timers: Timers<ThreadRef>,
}

static SCHEDULER: Guarded<Scheduler> =
    Guarded::new(Scheduler { head: None, tail: None, timers: Timers::new() });

/// The descriptor that tells of all others.
pub(crate) static EPOLL: Setting<i32> = Setting::new(-1);
/// The descriptor that ends a worker's sleep.
pub(crate) static BELL: Setting<i32> = Setting::new(-1);

/// What the bell's events carry.
pub(crate) const BELL_DATA: u64 = u64::MAX;
/// Descriptors at and above this number are left to the kernel.
pub(crate) const MOST_DESCRIPTORS: usize = 1 << 20;
/// A worker's own stack: the patcher's work is done on it too.
const WORKER_STACK: usize = 256 << 10;

/// The next deadline of a parked thread.
pub(crate) fn next_deadline(locked: &mut Locked) -> Option<Nanoseconds> {
    SCHEDULER.of(locked).timers.next()
}

/// Makes the threads ready whose deadlines have passed.
pub(crate) fn expire(locked: &mut Locked) {
    if next_deadline(locked).is_none() {
        return;
    }
    let now = clock::now();
    while let Some(thread) = SCHEDULER.of(locked).timers.expired(now) {
        thread.reason.set(Reason::TimedOut);
        enqueue(locked, thread);
    }
}

/// Puts a thread at the end of the run queue.
pub(crate) fn enqueue(locked: &mut Locked, thread: ThreadRef) {
    let scheduler = SCHEDULER.of(locked);
    thread.state.set(State::Ready);
    thread.next_ready.set(None);
    match scheduler.tail {
        Some(tail) => tail.next_ready.set(Some(thread)),
        None => scheduler.head = Some(thread),
    }
    scheduler.tail = Some(thread);
}

pub(crate) fn dequeue(locked: &mut Locked) -> Option<ThreadRef> {
    let scheduler = SCHEDULER.of(locked);
    let thread = scheduler.head?;
    scheduler.head = thread.next_ready.get();
    if scheduler.head.is_none() {
        scheduler.tail = None;
    }
    Some(thread)
}

pub(crate) fn others_are_ready(locked: &mut Locked) -> bool {
    SCHEDULER.of(locked).head.is_some()
}

/// Makes a parked thread ready; does nothing to another one.
pub(crate) fn wake(locked: &mut Locked, thread: ThreadRef, reason: Reason) {
    if thread.state.get() == State::Parked {
        SCHEDULER.of(locked).timers.remove(thread);
        thread.reason.set(reason);
        enqueue(locked, thread);
    }
}

/// Parks the current thread until it is woken, its deadline passes or a signal comes for it.
pub(crate) fn park(locked: &mut Locked, deadline: Nanoseconds) -> Reason {
    if current().deliverable() != 0 {
        return Reason::Interrupted;
    }
    current().interruptible.set(true);
    let reason = park_through_signals(locked, deadline);
    current().interruptible.set(false);
    reason
}

/// Parks the current thread; signals wait until it goes on.
pub(crate) fn park_through_signals(locked: &mut Locked, deadline: Nanoseconds) -> Reason {
    let thread = current();
    thread.state.set(State::Parked);
    if deadline != NEVER {
        thread.deadline.set(deadline);
        SCHEDULER.of(locked).timers.add(thread);
    }
    stats::PARKS.add(1);
    switch_away(locked);
    thread.reason.get()
}

/// Runs something else until the current thread, which is ready or parked, has its turn.
pub(crate) fn switch_away(locked: &mut Locked) {
    let worker = worker();
    let from = worker.current.get();
    worker.switches_left.set(worker.switches_left.get() - 1);
    // After many switches, the worker itself has a look at the descriptors.
    let next = if worker.switches_left.get() > 0 { dequeue(locked) } else { None };
    match next {
        Some(to) if to.is(from) => to.state.set(State::Running),
        Some(to) => {
            become_current(worker, to);
            // SAFETY: `to` is ready, so its stack was left by a switch.
            unsafe {
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
}

pub(crate) fn become_current(worker: &Worker, thread: ThreadRef) {
    thread.state.set(State::Running);
    worker.current.set(thread);
    worker.calls_in_a_row.set(0);
    stats::SWITCHES.add(1);
}

/// Leaves the current thread for ever. Its stack belongs to the program as soon as it has been left.
pub(crate) fn leave_for_good(locked: Locked) -> ! {
    let worker = worker();
    let thread = worker.current.get();
    worker.ended.set(Some(thread));
    locked.hand_over();
    // SAFETY: as in `switch_away`; nothing returns here.
    unsafe { duality_switch(thread.stack_pointer.as_ptr(), worker.stack_pointer.get(), 0) };
    unreachable!("a thread that ended was run")
}

/// Ends a worker's sleep, from a handler of signals or a helper.
pub(crate) fn ring() {
    let once = 1u64;
    sys!(SYS_write, BELL.get(), &raw const once, 8);
}

/// Opens the engine's own descriptors, out of the program's way.
///
/// # Errors
///
/// The error number of the call that failed.
pub(crate) fn open() -> Result<(), isize> {
    let epoll = out_of_the_way(sys!(SYS_epoll_create1, libc::EPOLL_CLOEXEC))?;
    let bell = out_of_the_way(sys!(SYS_eventfd2, 0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?;
    let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: BELL_DATA };
    let added = sys!(SYS_epoll_ctl, epoll, libc::EPOLL_CTL_ADD, bell, &raw const event);
    if failed(added) {
        return Err(added);
    }
    EPOLL.set(epoll as i32);
    BELL.set(bell as i32);
    Ok(())
}

/// Closes the engine's own descriptors.
pub(crate) fn close() {
    sys!(SYS_close, EPOLL.get());
    sys!(SYS_close, BELL.get());
}

/// Moves a descriptor above those that the program may have, or at least to the end of them.
pub(crate) fn out_of_the_way(descriptor: isize) -> Result<isize, isize> {
    if failed(descriptor) {
        return Err(descriptor);
    }
    let mut limits = [0u64; 2];
    sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, 0, &raw mut limits);
    let [soft, hard] = limits;
    let most = MOST_DESCRIPTORS as u64;
    // Room beyond the soft limit is invisible to the program.
    // Where the hard limit is as low, a privileged process may have more than that for a moment.
    let raised = hard.max(soft + 16).min(most);
    let beyond = [raised, raised.max(hard)];
    let widened = soft < raised
        && !failed(sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &raw const beyond, 0));
    let from = if widened { soft } else { soft.min(most).saturating_sub(16) };
    let moved = sys!(SYS_fcntl, descriptor, libc::F_DUPFD_CLOEXEC, from);
    if widened {
        sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &raw const limits, 0);
    }
    if failed(moved) {
        return Ok(descriptor);
    }
    sys!(SYS_close, descriptor);
    Ok(moved)
}

/// Gives the first worker a stack of its own.
pub(crate) fn prepare_first_worker() -> Result<(), isize> {
    let stack = sys::map(
        WORKER_STACK,
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_NORESERVE | libc::MAP_STACK,
    );
    let stack = stack.ok_or(error(libc::ENOMEM))?;
    // SAFETY: mapped just now.
    let context = unsafe { initial_context(stack + WORKER_STACK - 64, duality_worker_start) };
    FIRST.stack_pointer.set(context);
    Ok(())
}

/// In the child of a fork: nothing is left but the current thread.
pub(crate) fn reset_after_fork(locked: &mut Locked) {
    let scheduler = SCHEDULER.of(locked);
    scheduler.timers.clear();
    scheduler.head = None;
    scheduler.tail = None;
}
