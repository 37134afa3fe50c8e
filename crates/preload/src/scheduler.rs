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
use crate::descriptors;
use crate::frame::{duality_switch, duality_worker_start, initial_context};
use crate::helpers;
use crate::lock::{Guarded, Locked, Setting};
use crate::process;
use crate::signals;
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
const BELL_DATA: u64 = u64::MAX;
/// Switches between two looks at the descriptors.
const SWITCHES: i32 = 64;
/// Calls that did not wait, until others have their turn.
const CALLS: u32 = 128;
/// Events taken at a time.
const EVENTS: usize = 256;
/// A worker's own stack: the patcher's work is done on it too.
const WORKER_STACK: usize = 256 << 10;

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

fn dequeue(locked: &mut Locked) -> Option<ThreadRef> {
    let scheduler = SCHEDULER.of(locked);
    let thread = scheduler.head?;
    scheduler.head = thread.next_ready.get();
    if scheduler.head.is_none() {
        scheduler.tail = None;
    }
    Some(thread)
}

fn others_are_ready(locked: &mut Locked) -> bool {
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

/// Lets the other ready threads run first.
pub(crate) fn yield_now(locked: &mut Locked) {
    if !others_are_ready(locked) {
        look(locked);
    }
    if others_are_ready(locked) {
        enqueue(locked, current());
        switch_away(locked);
    }
}

/// Counts a call that did not wait: after many in a row, the others have their turn.
#[inline(always)]
pub(crate) fn count_call() {
    let worker = worker();
    let calls = worker.calls_in_a_row.get() + 1;
    worker.calls_in_a_row.set(calls);
    if calls >= CALLS {
        give_turn();
    }
}

/// Has a look at the descriptors, and lets others run.
#[cold]
pub(crate) fn give_turn() {
    worker().calls_in_a_row.set(0);
    let mut locked = crate::lock::lock();
    look(&mut locked);
    yield_now(&mut locked);
}

/// Runs something else until the current thread, which is ready or parked, has its turn.
fn switch_away(locked: &mut Locked) {
    let worker = worker();
    let from = worker.current.get();
    worker.switches_left.set(worker.switches_left.get() - 1);
    if worker.switches_left.get() <= 0 {
        look(locked);
    }
    match dequeue(locked) {
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

fn become_current(worker: &Worker, thread: ThreadRef) {
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

/// A worker's own stack: runs what is ready, and waits where nothing is.
pub(crate) extern "C" fn worker_loop() -> ! {
    let mut locked = Locked::taken_over();
    loop {
        let worker = worker();
        if let Some(thread) = worker.ended.take() {
            process::finish_thread(&mut locked, thread);
        }
        if worker.switches_left.get() <= 0 {
            look(&mut locked);
        }
        match dequeue(&mut locked) {
            Some(thread) => {
                become_current(worker, thread);
                // SAFETY: as in `switch_away`.
                unsafe {
                    duality_switch(
                        worker.stack_pointer.as_ptr(),
                        thread.stack_pointer.get(),
                        thread.fs.get(),
                    );
                }
            }
            None => wait(&mut locked),
        }
    }
}

/// Takes what has come, without waiting.
pub(crate) fn look(locked: &mut Locked) {
    expire(locked);
    take_events(locked, Some(libc::timespec { tv_sec: 0, tv_nsec: 0 }));
    settle(locked);
}

/// Waits until something comes.
fn wait(locked: &mut Locked) {
    let worker = worker();
    expire(locked);
    // From here on, a signal rings the bell.
    worker.set_idle(true);
    let nothing = if worker.has_held() || others_are_ready(locked) {
        Some(libc::timespec { tv_sec: 0, tv_nsec: 0 })
    } else {
        SCHEDULER.of(locked).timers.next().map(clock::left)
    };
    take_events(locked, nothing);
    worker.set_idle(false);
    expire(locked);
    settle(locked);
}

fn settle(locked: &mut Locked) {
    let worker = worker();
    if worker.has_held() {
        signals::assign_held(locked);
    }
    worker.switches_left.set(SWITCHES);
}

fn expire(locked: &mut Locked) {
    if SCHEDULER.of(locked).timers.next().is_none() {
        return;
    }
    let now = clock::now();
    while let Some(thread) = SCHEDULER.of(locked).timers.expired(now) {
        thread.reason.set(Reason::TimedOut);
        enqueue(locked, thread);
    }
}

fn take_events(locked: &mut Locked, timeout: Option<libc::timespec>) {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
    let timeout = timeout.as_ref().map_or(core::ptr::null(), |timeout| &raw const *timeout);
    let count =
        sys!(SYS_epoll_pwait2, EPOLL.get(), events.as_mut_ptr(), EVENTS, timeout, 0, 8);
    stats::LOOKS.add(1);
    for event in events.iter().take(count.max(0) as usize) {
        match event.u64 {
            BELL_DATA => {
                let mut rings = 0u64;
                sys!(SYS_read, BELL.get(), &raw mut rings, 8);
                helpers::collect(locked);
            }
            data => descriptors::event(locked, data, event.events),
        }
    }
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

/// Moves a descriptor above those that the program may have, or at least to the end of them.
pub(crate) fn out_of_the_way(descriptor: isize) -> Result<isize, isize> {
    if failed(descriptor) {
        return Err(descriptor);
    }
    let mut limits = [0u64; 2];
    sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, 0, &raw mut limits);
    let [soft, hard] = limits;
    let most = descriptors::MAX as u64;
    // Room beyond the soft limit is invisible to the program.
    let beyond = [hard.min(most), hard];
    let widened = soft < hard.min(most)
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
