//! A table of slots: one for each kernel thread that runs tasks, in this process and in its
//! children.
//!
//! The table is one shared mapping, made before the first child. A parent gives its child a slot,
//! and takes the slot back when the child has been reaped, whatever the cause of its death. A
//! slot's memory is never given back to the kernel. The slot keeps its counts for the next thread.
//! So the sum over all slots has all counts since the process began.

use std::cell::Cell;
use std::cmp::Reverse;
use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, getpid};
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};

use super::counters::{Counters, Totals};
use super::free_list::FreeList;
use super::label::{Label, Names};
use super::shown_task::ShownTask;
use super::{Wait, waits};
use crate::pages;

/// The most kernel threads that are visible at a time. An unused slot is not touched, and costs
/// nothing.
const SLOTS: usize = if cfg!(miri) { 1 << 6 } else { 1 << 16 };

thread_local! {
    /// This kernel thread's slot, null without one.
    static SLOT: Cell<*const ThreadSlot> = const { Cell::new(ptr::null()) };
}

/// Two pairs of cache lines, so that neither neighbours nor the prefetcher cause false sharing.
#[derive(Default)]
#[repr(C, align(128))]
pub(crate) struct ThreadSlot {
    role: AtomicU16,
    /// In the block world: the last stage of the task, the thread's wait, and when the wait began
    /// (milliseconds of the coarse clock).
    stage: AtomicU16,
    wait: AtomicU32,
    since: AtomicU64,
    process: AtomicU32,
    thread: AtomicU32,
    /// For a loop: the [`ShownTask`] of the running task, or 0 between turns.
    turn: AtomicU64,
    pub(super) counters: Counters,
}

const _: () =
    assert!(size_of::<ThreadSlot>() == 256, "a slot is meant to fill two pairs of cache lines");
/// The activity of a slot's kernel thread.
const IDLE: u16 = 0;
const TASK: u16 = 1;
const LOOP: u16 = 2;
/// A part of a task that continues on other kernel threads.
const BLOCK: u16 = 3;

#[repr(C)]
struct SlotTable {
    free: FreeList<SLOTS>,
    threads_without_slot: AtomicU32,
    names: Names,
    slots: [ThreadSlot; SLOTS],
}

/// The table. `None` if there is no memory for it, and then nothing is counted.
fn table() -> Option<&'static SlotTable> {
    static TABLE: OnceLock<Option<&'static SlotTable>> = OnceLock::new();
    *TABLE.get_or_init(|| {
        let table = pages::share(size_of::<SlotTable>()).ok()?.cast::<SlotTable>();
        // SAFETY: the mapping is never unmapped, is aligned to a page and long enough. All zeroes
        // are a valid table, which consists of atomic integers.
        Some(unsafe { table.as_ref() })
    })
}

impl SlotTable {
    fn take(&self) -> Option<&ThreadSlot> {
        let index = self.free.take();
        if index.is_none() {
            self.threads_without_slot.fetch_add(1, Ordering::Relaxed);
        }
        index.map(|index| &self.slots[index])
    }

    fn give_back(&self, slot: &ThreadSlot) {
        let index =
            (ptr::from_ref(slot).addr() - self.slots.as_ptr().addr()) / size_of::<ThreadSlot>();
        slot.role.store(IDLE, Ordering::Relaxed);
        self.free.give_back(index);
    }

    fn opened(&self) -> &[ThreadSlot] {
        &self.slots[..self.free.opened()]
    }
}

/// The names of stages. `None` if there is no memory for them.
pub(super) fn names() -> Option<&'static Names> {
    table().map(|table| &table.names)
}

/// Calls `use_slot` with the slot of this kernel thread, if it has one.
#[inline]
pub(crate) fn with(use_slot: impl FnOnce(&ThreadSlot)) {
    let slot = SLOT.get();
    // SAFETY: slots are never unmapped.
    if let Some(slot) = unsafe { slot.as_ref() } {
        use_slot(slot);
    }
}

/// The number of this kernel thread's slot. 0 without a slot.
pub(super) fn number_here() -> usize {
    let first = table().map_or(0, |table| table.slots.as_ptr().addr());
    SLOT.get().addr().saturating_sub(first) / size_of::<ThreadSlot>()
}

/// The slot of this kernel thread. Without one, a leaked slot outside of the table.
pub(crate) fn here() -> &'static ThreadSlot {
    // SAFETY: slots are never unmapped.
    unsafe { SLOT.get().as_ref() }.unwrap_or_else(|| Box::leak(Box::default()))
}

/// A slot without a kernel thread, for a loop that does not run.
pub(crate) fn unused() -> &'static ThreadSlot {
    static UNUSED: OnceLock<ThreadSlot> = OnceLock::new();
    UNUSED.get_or_init(ThreadSlot::default)
}

/// This kernel thread's hold on its slot. Dropping it gives the slot back. The hold stays on its
/// thread.
pub struct Occupancy(&'static ThreadSlot, PhantomData<*const ()>);

impl fmt::Debug for Occupancy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Occupancy").finish_non_exhaustive()
    }
}

/// Takes a slot for this kernel thread, unless it has one. A thread without a slot counts nothing.
///
/// Threads that the runtime or an architecture makes have a slot. A foreign runtime's threads take
/// a slot as they start, and drop it before they end.
#[must_use]
pub fn occupy() -> Option<Occupancy> {
    if !SLOT.get().is_null() {
        return None;
    }
    let slot = table()?.take()?;
    slot.occupy();
    Some(Occupancy(slot, PhantomData))
}

impl Drop for Occupancy {
    fn drop(&mut self) {
        SLOT.set(ptr::null());
        if let Some(table) = table() {
            table.give_back(self.0);
        }
    }
}

/// A slot for a child process, taken by its parent. The parent drops it after reaping the child,
/// which gives the slot back.
pub struct ChildSlot(Option<&'static ThreadSlot>);

impl fmt::Debug for ChildSlot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ChildSlot").finish_non_exhaustive()
    }
}

impl ChildSlot {
    /// Takes a slot, before fork(2).
    #[must_use]
    pub fn reserve() -> Self {
        Self(table().and_then(SlotTable::take))
    }

    /// Makes it the slot of this kernel thread, the only thread of a new child.
    pub fn occupy(&self) {
        SLOT.set(ptr::null());
        if let Some(slot) = self.0 {
            slot.occupy();
            slot.counters.processes_created.add(1);
        }
    }
}

impl Drop for ChildSlot {
    fn drop(&mut self) {
        if let (Some(slot), Some(table)) = (self.0, table()) {
            slot.counters.settle();
            table.give_back(slot);
        }
    }
}

impl ThreadSlot {
    fn occupy(&'static self) {
        self.process.store(getpid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
        self.thread.store(gettid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
        self.turn.store(0, Ordering::Relaxed);
        self.set_stage(Label::NONE);
        SLOT.set(self);
    }

    #[inline]
    pub(crate) fn set_stage(&self, stage: Label) {
        self.stage.store(stage.bits(), Ordering::Relaxed);
    }

    pub(crate) fn stage(&self) -> Label {
        Label::from_bits(self.stage.load(Ordering::Relaxed))
    }

    pub(crate) fn thread(&self) -> u32 {
        self.thread.load(Ordering::Relaxed)
    }

    /// Shows the running task as `task`.
    #[inline]
    pub(crate) fn set_turn(&self, task: ShownTask) {
        self.turn.store(task.bits(), Ordering::Relaxed);
    }

    /// Shows that no task has its turn, and counts the turns of this kernel thread's loop.
    #[inline]
    pub(crate) fn end_turns(&self, given: u64) {
        self.turn.store(0, Ordering::Relaxed);
        self.counters.switches.add(given);
    }
}

/// Marks this kernel thread as a loop's, for as long as the result lives.
pub(crate) fn run_loop() -> RoleGuard {
    RoleGuard::begin(LOOP)
}

/// Counts a task of the block world, and shows it for as long as the result lives.
pub(crate) fn run_task() -> RoleGuard {
    RoleGuard::begin(TASK)
}

/// Shows a block of a task that is at `stage`, for as long as the result lives. The start of the
/// task counts it.
pub(crate) fn run_block(stage: Label) -> RoleGuard {
    let outer = RoleGuard::begin(BLOCK);
    with(|slot| slot.set_stage(stage));
    outer
}

/// The former state of a kernel thread, restored on drop. Tasks of the block world nest if one
/// serves a connection.
pub(crate) struct RoleGuard {
    /// The present activity of the kernel thread.
    own: u16,
    role: u16,
    stage: Label,
    wait: u32,
    since: u64,
}

impl RoleGuard {
    fn begin(role: u16) -> Self {
        let mut outer = Self { own: role, role: IDLE, stage: Label::NONE, wait: 0, since: 0 };
        with(|slot| {
            outer.role = slot.role.load(Ordering::Relaxed);
            outer.stage = slot.stage();
            outer.wait = slot.wait.load(Ordering::Relaxed);
            outer.since = slot.since.load(Ordering::Relaxed);
            slot.set_stage(Label::NONE);
            slot.wait.store(Wait::Nothing.pack(), Ordering::Relaxed);
            slot.since.store(coarse_milliseconds(), Ordering::Relaxed);
            slot.role.store(role, Ordering::Relaxed);
            if role == TASK {
                slot.counters.tasks_created.add(1);
            }
        });
        outer
    }
}

impl Drop for RoleGuard {
    fn drop(&mut self) {
        with(|slot| {
            slot.role.store(self.role, Ordering::Relaxed);
            slot.set_stage(self.stage);
            slot.wait.store(self.wait, Ordering::Relaxed);
            slot.since.store(self.since, Ordering::Relaxed);
            if self.own == TASK {
                slot.counters.tasks_ended.add(1);
            }
        });
    }
}

/// Shows that this kernel thread of the block world waits, for as long as the result lives.
///
/// The coarse clock has a resolution of some milliseconds, and a reading costs a few nanoseconds.
#[inline]
pub(crate) fn show_wait(wait: Wait) -> ShownWait {
    with(|slot| {
        slot.since.store(coarse_milliseconds(), Ordering::Relaxed);
        slot.wait.store(wait.pack(), Ordering::Relaxed);
    });
    ShownWait
}

/// See [`show_wait`].
pub(crate) struct ShownWait;

impl Drop for ShownWait {
    #[inline]
    fn drop(&mut self) {
        with(|slot| slot.wait.store(Wait::Nothing.pack(), Ordering::Relaxed));
    }
}

/// The coarse clock, with a resolution of some milliseconds.
#[inline]
pub(crate) fn coarse_milliseconds() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

// For readers.

/// The counters of all kernel threads of this process and of its children.
#[must_use]
pub fn totals() -> Totals {
    let mut totals = Totals::default();
    for slot in table().into_iter().flat_map(SlotTable::opened) {
        totals.include(&slot.counters);
    }
    totals
}

/// The number of kernel threads without a slot, which no counter includes.
#[must_use]
pub fn uncounted_threads() -> u32 {
    table().map_or(0, |table| table.threads_without_slot.load(Ordering::Relaxed))
}

/// The tasks of the block world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// The number of tasks.
    pub count: usize,
    /// The tasks that have waited longest, the longest first.
    pub longest: Vec<ThreadReport>,
}

/// A task of the block world: a kernel thread, or a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadReport {
    /// The process, this one or a child.
    pub process: u32,
    /// The kernel's number of the thread (gettid(2)).
    pub thread: u32,
    /// The stage that the task reached last.
    pub stage: Option<String>,
    /// The wait of the task.
    pub wait: Wait,
    /// The peer of the task's socket.
    pub waited: Duration,
    /// The peer of the task's socket.
    pub peer: Option<SocketAddr>,
}

/// The tasks of the block world as they are now, at most `most`.
#[must_use]
pub fn threads(most: usize) -> Threads {
    let now = coarse_milliseconds();
    let slots = table().into_iter().flat_map(SlotTable::opened);
    let mut longest: Vec<ThreadReport> = slots
        .filter(|slot| matches!(slot.role.load(Ordering::Relaxed), TASK | BLOCK))
        .map(|slot| ThreadReport {
            process: slot.process.load(Ordering::Relaxed),
            thread: slot.thread(),
            stage: slot.stage().name(),
            wait: Wait::unpack(slot.wait.load(Ordering::Relaxed)).unwrap_or(Wait::Nothing),
            waited: Duration::from_millis(now.saturating_sub(slot.since.load(Ordering::Relaxed))),
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

/// The activity of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopTurn {
    /// The number of the loop's kernel thread.
    pub thread: u32,
    /// The turn of a task. `None` between turns.
    pub turn: Option<TaskTurn>,
}

/// A turn of a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskTurn(ShownTask);

/// Whether both are the same turn, if fewer than four million turns lie between them. The stages
/// may differ.
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

    /// The stage that the task reached last.
    #[must_use]
    pub fn stage(self) -> Option<String> {
        self.0.stage().name()
    }
}

/// The loops of this process, each with its present activity.
#[must_use]
pub fn loops() -> Vec<LoopTurn> {
    let slots = table().into_iter().flat_map(SlotTable::opened);
    slots
        .filter(|slot| slot.role.load(Ordering::Relaxed) == LOOP)
        .map(|slot| LoopTurn {
            thread: slot.thread.load(Ordering::Relaxed),
            turn: ShownTask::from_bits(slot.turn.load(Ordering::Relaxed)).map(TaskTurn),
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
                let _occupancy = occupy().expect("a new thread has no slot");
                assert!(occupy().is_none(), "one is enough");
                with(|slot| slot.counters.lock_waits.add(5));
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
            let _occupancy = occupy();
            let _task = run_task();
            with(|slot| slot.set_stage(Label::new("outer stage of a test")));
            let inner = run_task();
            drop(inner);
            let _waiting = show_wait(Wait::Read(123_456));
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
    fn a_slot_is_taken_by_one_at_a_time() {
        let table = table().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let slot = table.take().unwrap();
                        assert_eq!(slot.turn.swap(1, Ordering::Relaxed), 0, "it has one holder");
                        slot.turn.store(0, Ordering::Relaxed);
                        table.give_back(slot);
                    }
                });
            }
        });
    }

    #[test]
    fn what_a_dead_child_had_begun_has_ended() {
        let slot = ChildSlot::reserve();
        let counters = &slot.0.unwrap().counters;
        counters.connections_begun.add(1);
        let begun = counters.connections_begun.value();
        drop(slot);
        assert!(counters.connections_ended.value() >= begun);
    }
}
