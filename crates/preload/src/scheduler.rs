//! Which thread runs: run queues, parked threads with and without deadlines, and the wait for events.
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
//!
//! Each worker has a run queue, to which it adds the threads that it wakes. Threads whose turn is over go to
//! the common queue, where the one that has waited longest is next, whichever worker it ran on. A worker
//! takes from its own queue, then from the common one, then from another worker's. What worker sleeps
//! while threads are ready is decided when the lock is released (`distribute`).

use crate::clock::{self, NEVER, Nanoseconds};
use crate::frame::duality_switch;
use crate::lock::{self, Guarded, Locked, Setting};
use crate::settings;
use crate::stats;
use crate::sys::{failed, sys};
use crate::thread::{Reason, State, ThreadRef};
use crate::timers::Timers;
use crate::worker::{MOST_WORKERS, Worker, current, worker};

/// Threads in the order in which they run.
#[derive(Clone, Copy)]
struct Queue {
    head: Option<ThreadRef>,
    tail: Option<ThreadRef>,
}

impl Queue {
    const EMPTY: Self = Self { head: None, tail: None };

    fn push(&mut self, thread: ThreadRef) {
        thread.next_ready.set(None);
        match self.tail {
            Some(tail) => tail.next_ready.set(Some(thread)),
            None => self.head = Some(thread),
        }
        self.tail = Some(thread);
    }

    fn pop(&mut self) -> Option<ThreadRef> {
        let thread = self.head?;
        self.head = thread.next_ready.get();
        if self.head.is_none() {
            self.tail = None;
        }
        Some(thread)
    }
}

struct Scheduler {
    /// One for each worker.
    own: [Queue; MOST_WORKERS],
    common: Queue,
    /// The threads in all queues.
    ready: usize,
    /// Threads taken from queues so far.
    taken: u32,
    timers: Timers<ThreadRef>,
    /// The deadline that the kernel's timer is set to, while several workers may sleep.
    armed: Nanoseconds,
    /// Workers that sleep, or are about to.
    asleep: usize,
    /// The bell has been rung for a worker that has not come yet.
    summoned: bool,
    /// Single ready threads for which no worker is summoned.
    skipped: u32,
    /// So many will be skipped after the next worker that came for nothing.
    patience: u32,
}

static SCHEDULER: Guarded<Scheduler> = Guarded::new(Scheduler {
    own: [Queue::EMPTY; MOST_WORKERS],
    common: Queue::EMPTY,
    ready: 0,
    taken: 0,
    timers: Timers::new(),
    armed: NEVER,
    asleep: 0,
    summoned: false,
    skipped: 0,
    patience: 0,
});

/// The descriptor that tells of all others.
pub(crate) static EPOLL: Setting<i32> = Setting::new(-1);
/// The descriptor that ends a worker's sleep.
pub(crate) static BELL: Setting<i32> = Setting::new(-1);
/// The descriptor that tells when the next deadline has come, where several workers may sleep.
pub(crate) static ALARM: Setting<i32> = Setting::new(-1);

/// What the alarm's events carry.
pub(crate) const ALARM_DATA: u64 = u64::MAX - 1;
/// So often, a worker takes from the common queue although its own is not empty.
const COMMON_EVERY: u32 = 32;

/// What the bell's events carry.
pub(crate) const BELL_DATA: u64 = u64::MAX;
/// Descriptors at and above this number are left to the kernel.
pub(crate) const MOST_DESCRIPTORS: usize = 1 << 20;
/// Makes the threads ready whose deadlines have passed.
pub(crate) fn expire(locked: &mut Locked) {
    if SCHEDULER.of(locked).timers.next().is_none() {
        return;
    }
    let now = clock::now();
    while let Some(thread) = SCHEDULER.of(locked).timers.expired(now) {
        thread.reason.set(Reason::TimedOut);
        enqueue(locked, thread);
    }
    if SCHEDULER.of(locked).asleep > 0 {
        arm(locked);
    }
}

/// Puts a thread at the end of this worker's run queue.
pub(crate) fn enqueue(locked: &mut Locked, thread: ThreadRef) {
    thread.state.set(State::Ready);
    let scheduler = SCHEDULER.of(locked);
    scheduler.own[worker().index.get()].push(thread);
    scheduler.ready += 1;
    lock::attend(locked, true);
}

/// Puts a thread whose turn is over behind all that wait for theirs.
pub(crate) fn enqueue_behind(locked: &mut Locked, thread: ThreadRef) {
    if !lock::is_shared() {
        return enqueue(locked, thread);
    }
    thread.state.set(State::Ready);
    let scheduler = SCHEDULER.of(locked);
    scheduler.common.push(thread);
    scheduler.ready += 1;
    lock::attend(locked, true);
}

/// The thread that this worker runs next.
pub(crate) fn dequeue(locked: &mut Locked) -> Option<ThreadRef> {
    let scheduler = SCHEDULER.of(locked);
    if scheduler.ready == 0 {
        return None;
    }
    let own = worker().index.get();
    scheduler.taken = scheduler.taken.wrapping_add(1);
    let common_first = scheduler.taken.is_multiple_of(COMMON_EVERY);
    let common = if common_first { scheduler.common.pop() } else { None };
    let next = common.or_else(|| scheduler.own[own].pop()).or_else(|| scheduler.common.pop());
    // The other queues, beginning with the next worker's: so thieves spread.
    let next = next.or_else(|| {
        (1..MOST_WORKERS).find_map(|step| scheduler.own[(own + step) % MOST_WORKERS].pop())
    });
    scheduler.ready -= usize::from(next.is_some());
    next
}

pub(crate) fn others_are_ready(locked: &mut Locked) -> bool {
    SCHEDULER.of(locked).ready > 0
}

/// Before the lock is released: threads are ready, and perhaps a worker sleeps, or has not been started.
///
/// A single ready thread often runs here in a moment, when the current one waits: waking a worker for it
/// would be wasted. So after a worker that came for nothing, some are skipped. A thread that is skipped is
/// looked at again when the lock is released next, and at the latest when the current turn is over.
fn distribute(locked: &mut Locked) {
    let scheduler = SCHEDULER.of(locked);
    if scheduler.ready == 0 {
        return lock::attend(locked, false);
    }
    if scheduler.summoned {
        return;
    }
    if scheduler.ready == 1 && scheduler.skipped > 0 {
        scheduler.skipped -= 1;
        return;
    }
    if scheduler.asleep > 0 {
        scheduler.summoned = true;
        ring();
    } else if let Some(start) = START_WORKER.get() {
        start(locked);
    }
}

/// A turn is over: a ready thread has waited long enough.
pub(crate) fn lose_patience(locked: &mut Locked) {
    SCHEDULER.of(locked).skipped = 0;
}

/// What starts one more worker, while there may be more.
pub(crate) static START_WORKER: Setting<Option<fn(&mut Locked)>> = Setting::new(None);

/// Has the engine's state shared by several workers from now on.
pub(crate) fn share(locked: &mut Locked) {
    if !lock::is_shared() {
        lock::share(locked, distribute);
    }
}

/// This worker is about to sleep; returns how long at most, or nothing for ever.
pub(crate) fn begin_sleep(locked: &mut Locked) -> Option<libc::timespec> {
    let scheduler = SCHEDULER.of(locked);
    scheduler.asleep += 1;
    if scheduler.ready > 0 {
        return Some(clock::timespec(0));
    }
    let deadline = scheduler.timers.next();
    if lock::is_shared() {
        arm(locked);
        return None;
    }
    deadline.map(clock::left)
}

/// The end of the sleep.
pub(crate) fn end_sleep(locked: &mut Locked) {
    SCHEDULER.of(locked).asleep -= 1;
}

/// The bell has been heard.
pub(crate) fn heard(locked: &mut Locked) {
    SCHEDULER.of(locked).summoned = false;
    lock::attend(locked, true);
}

/// A worker that was summoned has looked for work.
pub(crate) fn account_for_summons(locked: &mut Locked) {
    const MOST_PATIENCE: u32 = 1024;
    let scheduler = SCHEDULER.of(locked);
    if scheduler.ready == 0 {
        scheduler.patience = (scheduler.patience * 2 + 1).min(MOST_PATIENCE);
        scheduler.skipped = scheduler.patience;
    } else {
        scheduler.patience /= 2;
        scheduler.skipped = 0;
    }
}

/// The alarm went off.
pub(crate) fn alarm(locked: &mut Locked) {
    SCHEDULER.of(locked).armed = NEVER;
}

/// Sets the alarm to the next deadline, unless it goes off before.
fn arm(locked: &mut Locked) {
    let scheduler = SCHEDULER.of(locked);
    let Some(next) = scheduler.timers.next() else { return };
    if scheduler.armed != NEVER && scheduler.armed <= next {
        return;
    }
    scheduler.armed = next;
    let setting = [clock::timespec(0), clock::timespec(next)];
    let absolute = libc::TFD_TIMER_ABSTIME;
    sys!(SYS_timerfd_settime, ALARM.get(), absolute, setting.as_ptr(), 0);
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
        let scheduler = SCHEDULER.of(locked);
        scheduler.timers.add(thread);
        if scheduler.asleep > 0 {
            arm(locked);
        }
    }
    stats::parked_in(thread.call.get());
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
    EPOLL.set(epoll as i32);
    let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
    BELL.set(attach(sys!(SYS_eventfd2, 0, flags), BELL_DATA)?);
    ALARM.set(-1);
    if settings::CORES.get() > 1 {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        let made = sys!(SYS_timerfd_create, libc::CLOCK_MONOTONIC, flags);
        ALARM.set(attach(made, ALARM_DATA)?);
    }
    Ok(())
}

/// Has epoll tell of a descriptor of the engine, each time to one worker. So it need not be read.
fn attach(descriptor: isize, data: u64) -> Result<i32, isize> {
    let descriptor = out_of_the_way(descriptor)?;
    let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
    let event = libc::epoll_event { events, u64: data };
    let operation = libc::EPOLL_CTL_ADD;
    let added = sys!(SYS_epoll_ctl, EPOLL.get(), operation, descriptor, &raw const event);
    if failed(added) { Err(added) } else { Ok(descriptor as i32) }
}

/// The engine's own descriptors.
pub(crate) fn descriptors() -> [i32; 3] {
    [EPOLL.get(), BELL.get(), ALARM.get()]
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

/// In the child of a fork: nothing is left but the current thread.
pub(crate) fn reset_after_fork(locked: &mut Locked) {
    let scheduler = SCHEDULER.of(locked);
    scheduler.timers.clear();
    scheduler.own = [Queue::EMPTY; MOST_WORKERS];
    scheduler.common = Queue::EMPTY;
    scheduler.ready = 0;
    scheduler.armed = NEVER;
    scheduler.asleep = 0;
    scheduler.summoned = false;
}
