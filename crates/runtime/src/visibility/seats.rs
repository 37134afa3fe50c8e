//! The hall: a seat for each kernel thread that runs tasks, in this process and in its children.
//!
//! It is one shared mapping, made before the first child is: a child's seat is given to it by its parent,
//! and taken back when the child has been reaped, whatever it died of. A seat is never given
//! back to the kernel, and keeps its counts for the next who sits there: so the sum over all seats is
//! what has been counted since the process began.

use std::cell::Cell;
use std::cmp::Reverse;
use std::fmt;
use std::net::SocketAddr;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, getpid};
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

use super::counters::{Counters, Totals};
use super::label::{Label, Names};
use super::places::Places;
use super::sign::Sign;
use super::{Wait, waits};
use crate::pages;

/// More kernel threads than this at a time are not seen. What is not used is not touched, and costs nothing.
const SEATS: usize = if cfg!(miri) { 1 << 6 } else { 1 << 16 };

thread_local! {
    /// This kernel thread's seat, null without one.
    static SEAT: Cell<*const Seat> = const { Cell::new(ptr::null()) };
}

/// Two pairs of cache lines, so that neighbours do not disturb each other, nor the prefetcher them.
#[derive(Default)]
#[repr(C, align(128))]
pub(crate) struct Seat {
    role: AtomicU32,
    process: AtomicU32,
    thread: AtomicU32,
    /// In the block world: what the thread waits for, since when (milliseconds of the coarse clock), and the stage that the
    /// task reached last.
    wait: AtomicU32,
    since: AtomicU64,
    stage: AtomicU16,
    /// Of a loop: the [`Sign`] of the running task; 0 between turns.
    turn: AtomicU64,
    pub(super) counters: Counters,
}

const _: () = assert!(size_of::<Seat>() == 256, "a seat is meant to fill two pairs of cache lines");
/// What the kernel thread of a seat does.
const IDLE: u32 = 0;
const TASK: u32 = 1;
const LOOP: u32 = 2;

#[repr(C)]
struct Hall {
    free: Places<SEATS>,
    turned_away: AtomicU32,
    names: Names,
    seats: [Seat; SEATS],
}

/// The hall; `None` when there is no memory for it, and then nothing is counted.
fn hall() -> Option<&'static Hall> {
    static HALL: OnceLock<Option<&'static Hall>> = OnceLock::new();
    *HALL.get_or_init(|| {
        let hall = pages::share(size_of::<Hall>()).ok()?.cast::<Hall>();
        // SAFETY: the mapping is never unmapped, is aligned to a page and long enough, and all zeroes is
        // a valid hall: it consists of atomic integers.
        Some(unsafe { hall.as_ref() })
    })
}

impl Hall {
    fn take(&self) -> Option<&Seat> {
        let index = self.free.take();
        if index.is_none() {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
        }
        index.map(|index| &self.seats[index])
    }

    fn give_back(&self, seat: &Seat) {
        let index = (ptr::from_ref(seat).addr() - self.seats.as_ptr().addr()) / size_of::<Seat>();
        seat.role.store(IDLE, Ordering::Relaxed);
        self.free.give_back(index);
    }

    fn opened(&self) -> &[Seat] {
        &self.seats[..self.free.opened()]
    }
}

/// The names of stages; `None` when there is no memory for them.
pub(super) fn names() -> Option<&'static Names> {
    hall().map(|hall| &hall.names)
}

/// Calls `use_seat` with the seat of this kernel thread, if it has one.
#[inline]
pub(crate) fn with(use_seat: impl FnOnce(&Seat)) {
    let seat = SEAT.get();
    // SAFETY: seats are never unmapped.
    if let Some(seat) = unsafe { seat.as_ref() } {
        use_seat(seat);
    }
}

/// The seat of this kernel thread; without one a place of its own that nobody sees, and nobody takes back.
pub(crate) fn here() -> &'static Seat {
    // SAFETY: seats are never unmapped.
    unsafe { SEAT.get().as_ref() }.unwrap_or_else(|| Box::leak(Box::default()))
}

/// A seat for whoever has not asked for one yet. Nobody sits there.
pub(crate) fn nobodys() -> &'static Seat {
    static NOBODYS: OnceLock<Seat> = OnceLock::new();
    NOBODYS.get_or_init(Seat::default)
}

/// This kernel thread's stay on a seat.
pub(crate) struct Sitting(&'static Seat);

/// Takes a seat for this kernel thread, unless it has one.
pub(crate) fn sit() -> Option<Sitting> {
    if !SEAT.get().is_null() {
        return None;
    }
    let seat = hall()?.take()?;
    seat.occupy();
    Some(Sitting(seat))
}

impl Drop for Sitting {
    fn drop(&mut self) {
        SEAT.set(ptr::null());
        if let Some(hall) = hall() {
            hall.give_back(self.0);
        }
    }
}

/// A seat for a child process, taken by its parent; given back when it is dropped, which is when the
/// child has been reaped.
pub struct ChildSeat(Option<&'static Seat>);

impl fmt::Debug for ChildSeat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ChildSeat").finish_non_exhaustive()
    }
}

impl ChildSeat {
    /// Takes a seat, before fork(2).
    #[must_use]
    pub fn reserve() -> Self {
        Self(hall().and_then(Hall::take))
    }

    /// Makes it the seat of this kernel thread, the only one of a new child.
    pub fn sit(&self) {
        SEAT.set(ptr::null());
        if let Some(seat) = self.0 {
            seat.occupy();
            seat.counters.processes_created.add(1);
        }
    }
}

impl Drop for ChildSeat {
    fn drop(&mut self) {
        if let (Some(seat), Some(hall)) = (self.0, hall()) {
            seat.counters.settle();
            hall.give_back(seat);
        }
    }
}

impl Seat {
    fn occupy(&'static self) {
        self.process.store(getpid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
        self.thread.store(gettid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
        self.turn.store(0, Ordering::Relaxed);
        self.set_stage(Label::NONE);
        SEAT.set(self);
    }

    #[inline]
    pub(super) fn set_stage(&self, stage: Label) {
        self.stage.store(stage.bits(), Ordering::Relaxed);
    }

    pub(super) fn stage(&self) -> Label {
        Label::from_bits(self.stage.load(Ordering::Relaxed))
    }

    pub(crate) fn thread(&self) -> u32 {
        self.thread.load(Ordering::Relaxed)
    }

    /// What is shown of the task that has its turn is this now.
    #[inline]
    pub(crate) fn set_turn(&self, task: Sign) {
        self.turn.store(task.bits(), Ordering::Relaxed);
    }

    /// No task has its turn; the loop on this kernel thread has given so many.
    #[inline]
    pub(crate) fn end_turns(&self, given: u64) {
        self.turn.store(0, Ordering::Relaxed);
        self.counters.switches.add(given);
    }
}

/// Marks this kernel thread as one that runs a loop, for as long as the result lives.
pub(crate) fn run_loop() -> Stretch {
    Stretch::begin(LOOP)
}

/// Counts a task of the block world, and has it seen, for as long as the result lives.
pub(crate) fn run_task() -> Stretch {
    Stretch::begin(TASK)
}

/// What a kernel thread did before; tasks of the block world nest where one serves a connection.
pub(crate) struct Stretch {
    /// What it does now.
    own: u32,
    role: u32,
    stage: Label,
    wait: u32,
    since: u64,
}

impl Stretch {
    fn begin(role: u32) -> Self {
        let mut outer = Self { own: role, role: IDLE, stage: Label::NONE, wait: 0, since: 0 };
        with(|seat| {
            outer.role = seat.role.load(Ordering::Relaxed);
            outer.stage = seat.stage();
            outer.wait = seat.wait.load(Ordering::Relaxed);
            outer.since = seat.since.load(Ordering::Relaxed);
            seat.set_stage(Label::NONE);
            seat.wait.store(Wait::Nothing.pack(), Ordering::Relaxed);
            seat.since.store(coarse_milliseconds(), Ordering::Relaxed);
            seat.role.store(role, Ordering::Relaxed);
            if role == TASK {
                seat.counters.tasks_created.add(1);
            }
        });
        outer
    }
}

impl Drop for Stretch {
    fn drop(&mut self) {
        with(|seat| {
            seat.role.store(self.role, Ordering::Relaxed);
            seat.set_stage(self.stage);
            seat.wait.store(self.wait, Ordering::Relaxed);
            seat.since.store(self.since, Ordering::Relaxed);
            if self.own == TASK {
                seat.counters.tasks_ended.add(1);
            }
        });
    }
}

/// Has this kernel thread, of the block world, seen to wait for as long as the result lives.
///
/// The clock is the coarse one, of some milliseconds: reading it costs a few nanoseconds.
#[inline]
pub(crate) fn waiting(wait: Wait) -> Waiting {
    with(|seat| {
        seat.since.store(coarse_milliseconds(), Ordering::Relaxed);
        seat.wait.store(wait.pack(), Ordering::Relaxed);
    });
    Waiting
}

/// See [`waiting`].
pub(crate) struct Waiting;

impl Drop for Waiting {
    #[inline]
    fn drop(&mut self) {
        with(|seat| seat.wait.store(Wait::Nothing.pack(), Ordering::Relaxed));
    }
}

#[inline]
fn coarse_milliseconds() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

// For readers.

/// The counters of all kernel threads of this process and of its children.
#[must_use]
pub fn totals() -> Totals {
    let mut totals = Totals::default();
    for seat in hall().into_iter().flat_map(Hall::opened) {
        totals.include(&seat.counters);
    }
    totals
}

/// How many kernel threads found no seat, and so are in no counter.
#[must_use]
pub fn uncounted_threads() -> u32 {
    hall().map_or(0, |hall| hall.turned_away.load(Ordering::Relaxed))
}

/// The tasks of the block world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// How many there are.
    pub count: usize,
    /// Some of them: those that have waited longest, in that order.
    pub longest: Vec<ThreadReport>,
}

/// A task of the block world: a kernel thread, or a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadReport {
    /// Its process, this one or a child.
    pub process: u32,
    /// The number of the kernel thread, as the kernel has it (gettid(2)).
    pub thread: u32,
    /// The stage that it reached last.
    pub stage: Option<String>,
    /// What it waits for.
    pub wait: Wait,
    /// How long it has waited; where it runs, how long ago it began its last wait.
    pub waited: Duration,
    /// The other end of what it reads from or writes to.
    pub peer: Option<SocketAddr>,
}

/// The tasks of the block world as they are now, of which `most` are reported.
#[must_use]
pub fn threads(most: usize) -> Threads {
    let now = coarse_milliseconds();
    let seats = hall().into_iter().flat_map(Hall::opened);
    let mut longest: Vec<ThreadReport> = seats
        .filter(|seat| seat.role.load(Ordering::Relaxed) == TASK)
        .map(|seat| ThreadReport {
            process: seat.process.load(Ordering::Relaxed),
            thread: seat.thread(),
            stage: seat.stage().name(),
            wait: Wait::unpack(seat.wait.load(Ordering::Relaxed)).unwrap_or(Wait::Nothing),
            waited: Duration::from_millis(now.saturating_sub(seat.since.load(Ordering::Relaxed))),
            peer: None,
        })
        .collect();
    let count = longest.len();
    longest.sort_by_key(|thread| Reverse(thread.waited));
    longest.truncate(most);
    for thread in &mut longest {
        let process = i32::try_from(thread.process).ok().and_then(Pid::from_raw);
        thread.peer = process.and_then(|process| waits::peer(thread.wait, process));
    }
    Threads { count, longest }
}

/// What a loop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopTurn {
    /// The number of its kernel thread.
    pub thread: u32,
    /// The turn that a task has; `None` between turns.
    pub turn: Option<TaskTurn>,
}

/// A turn of a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskTurn(Sign);

/// Whether they are the same turn, if there were less than four million between them. The stages may differ.
impl PartialEq for TaskTurn {
    fn eq(&self, other: &Self) -> bool {
        self.0.without_stage() == other.0.without_stage()
    }
}

impl Eq for TaskTurn {}

impl TaskTurn {
    /// The task's number in its loop.
    #[must_use]
    pub fn task(self) -> u32 {
        self.0.number()
    }

    /// The stage that it reached last.
    #[must_use]
    pub fn stage(self) -> Option<String> {
        self.0.stage().name()
    }
}

/// The loops of this process, each with what it does now.
#[must_use]
pub fn loops() -> Vec<LoopTurn> {
    let seats = hall().into_iter().flat_map(Hall::opened);
    seats
        .filter(|seat| seat.role.load(Ordering::Relaxed) == LOOP)
        .map(|seat| LoopTurn {
            thread: seat.thread.load(Ordering::Relaxed),
            turn: Sign::from_bits(seat.turn.load(Ordering::Relaxed)).map(TaskTurn),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn counts_of_threads_that_have_ended_remain() {
        let before = totals();
        for _ in 0..3 {
            std::thread::spawn(|| {
                let _sitting = sit().expect("a new thread has no seat");
                assert!(sit().is_none(), "one is enough");
                with(|seat| seat.counters.lock_waits.add(5));
            })
            .join()
            .unwrap();
        }
        assert!(totals().lock_waits >= before.lock_waits + 15);
    }

    #[test]
    fn a_thread_is_seen_with_its_stage_and_its_wait() {
        let (ready, is_ready) = channel();
        let (go, gone) = channel::<()>();
        let waiter = std::thread::spawn(move || {
            let _sitting = sit();
            let _task = run_task();
            with(|seat| seat.set_stage(Label::new("outer stage of a test")));
            let inner = run_task();
            drop(inner);
            let _waiting = waiting(Wait::Read(123_456));
            ready.send(()).unwrap();
            let _ = gone.recv();
        });
        is_ready.recv().unwrap();
        let seen = threads(usize::MAX)
            .longest
            .into_iter()
            .find(|thread| thread.wait == Wait::Read(123_456));
        let seen = seen.expect("the thread is listed");
        assert_eq!(seen.process, std::process::id());
        // An inner task has come and gone.
        assert_eq!(seen.stage.as_deref(), Some("outer stage of a test"));
        drop(go);
        waiter.join().unwrap();
        assert!(
            !threads(usize::MAX).longest.iter().any(|thread| thread.wait == Wait::Read(123_456))
        );
    }

    #[test]
    fn a_seat_is_taken_by_one_at_a_time() {
        let hall = hall().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let seat = hall.take().unwrap();
                        assert_eq!(seat.turn.swap(1, Ordering::Relaxed), 0, "nobody else has it");
                        seat.turn.store(0, Ordering::Relaxed);
                        hall.give_back(seat);
                    }
                });
            }
        });
    }

    #[test]
    fn what_a_dead_child_had_begun_has_ended() {
        let seat = ChildSeat::reserve();
        let counters = &seat.0.unwrap().counters;
        counters.connections_begun.add(1);
        let begun = counters.connections_begun.value();
        drop(seat);
        assert!(counters.connections_ended.value() >= begun);
    }
}
