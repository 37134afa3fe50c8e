//! The tasks of one loop: a table of control blocks, and the queue of ready tasks.
//!
//! ```text
//!   ready:   ◀─ next │ … ahead: its stack is fetched │ … further: its control block │ … ◀─ wake
//!
//!   table:   ┌ 64 bytes ┬──────────┬──      one line for each task, which never moves,
//!            │ task 0   │ task 1   │ …      so a task runs in place while others come and go
//! ```
//!
//! With a million tasks, no memory of the next task is in a cache. But the queue has the order of
//! the next tasks, so the loop asks for their memory some turns ahead (`prefetch.rs`). Without the
//! prefetch, cache misses are most of the cost of a wake.

use std::cell::{Cell, UnsafeCell};
use std::io;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

use duality_fiber::Fiber;

use super::ready::Ready;
use super::reservation::Reservation;
use crate::remote::TaskName;
use crate::visibility::{Label, ShownTask, Wait};

/// The body of a task, which is the only difference between the two worlds of a loop.
pub(crate) enum TaskBody {
    Future(Pin<Box<dyn Future<Output = ()>>>),
    Fiber(Fiber),
}

/// A control block. The table gives only shared references to it, because a wake may come while the
/// body runs.
#[repr(C, align(64))]
pub(crate) struct Task {
    /// `None` in a slot without a task.
    name: Cell<Option<TaskName>>,
    /// The task with its last stage, as shown to watching threads.
    shown: Cell<ShownTask>,
    /// The wait of the task, as of its last turn.
    wait: Cell<Option<Wait>>,
    /// The time at which the wait began, by the loop's clock. In a free slot: the next free slot.
    since: Cell<u32>,
    /// Whether the task is ready. A ready task is in the queue.
    queued: Cell<bool>,
    /// Only the round that runs the task uses the body.
    pub(super) body: UnsafeCell<Option<TaskBody>>,
}

impl Task {
    fn new(name: Option<TaskName>, body: Option<TaskBody>, now: u32) -> Self {
        Self {
            name: Cell::new(name),
            shown: Cell::new(ShownTask::new(name.map_or(0, TaskName::serial))),
            wait: Cell::new(Some(Wait::Begin)),
            since: Cell::new(now),
            queued: Cell::new(true),
            body: UnsafeCell::new(body),
        }
    }

    /// `None` if the slot has no task.
    #[inline]
    pub(crate) fn name(&self) -> Option<TaskName> {
        self.name.get()
    }

    /// Begins a turn at `now`. After the call, the task is not queued. Its wait counts as a wait
    /// for a foreign future, unless the task notes another one.
    #[inline]
    pub(crate) fn begin_turn(&self, now: u32) {
        self.wait.set(Some(Wait::Foreign));
        self.since.set(now);
        self.queued.set(false);
    }

    #[inline]
    pub(crate) fn set_wait(&self, wait: Wait) {
        self.wait.set(Some(wait));
    }

    /// The wait of the task. If the task is queued, its last wait.
    pub(crate) fn wait(&self) -> Wait {
        match self.wait.get() {
            // The task has waited for nothing so far.
            None | Some(Wait::Foreign) if self.is_queued() => Wait::Turn,
            wait => wait.unwrap_or(Wait::Foreign),
        }
    }

    pub(crate) fn since(&self) -> u32 {
        self.since.get()
    }

    pub(crate) fn set_stage(&self, stage: Label) {
        self.shown.set(self.shown.get().at(stage));
    }

    /// The visible state of the task during its turn.
    #[inline]
    pub(crate) fn shown(&self) -> ShownTask {
        self.shown.get()
    }

    #[inline]
    pub(crate) fn is_queued(&self) -> bool {
        self.queued.get()
    }

    #[inline]
    fn set_queued(&self, is_queued: bool) {
        self.queued.set(is_queued);
    }
}

impl Task {
    /// The task's fiber, if its body is one.
    ///
    /// # Safety
    ///
    /// The task must not [end](Tasks::end) while the reference is used.
    #[inline]
    pub(crate) unsafe fn fiber(&self) -> Option<&Fiber> {
        // SAFETY: only `end` changes a body, and the caller promises that `end` is not called now.
        // The other exclusive reference is `poll`'s, to bodies that are not fibers. `poll` drops it
        // before the future runs.
        match unsafe { &*self.body.get() } {
            Some(TaskBody::Fiber(fiber)) => Some(fiber),
            _ => None,
        }
    }

    /// Polls the task's future.
    ///
    /// # Safety
    ///
    /// As for [`fiber`](Task::fiber), and no other code may poll the task.
    ///
    /// # Panics
    ///
    /// If the body is not a future. Also with the future's own panic.
    #[inline]
    pub(crate) unsafe fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the caller promises that no other code uses the future, and none uses the body.
        // Code that looks at bodies (`fiber`, `prefetch_body`) does so only until it returns.
        // Fibers are the exception, and this body is not a fiber.
        match unsafe { &mut *self.body.get() } {
            Some(TaskBody::Future(future)) => future.as_mut().poll(context),
            _ => panic!("a task that is no fiber is a future until it ends"),
        }
    }
}

const _: () = assert!(size_of::<Task>() == 64, "a control block is one cache line");

/// No slot.
const NO_SLOT: u32 = u32::MAX;

/// The table. Like its tasks, the table is used by shared references only.
#[repr(C, align(64))]
pub(crate) struct Tasks {
    /// The run queue. An entry is void if its task is not marked as queued: that task has ended.
    pub(super) ready: Ready<Task>,
    /// The [idle task](Tasks::idle_task) between turns. It is in the queue's cache line, because
    /// both are written when a turn begins.
    running: Cell<NonNull<Task>>,
    /// The name of the loop's first task in its first slot.
    first: TaskName,
    /// The first block is the [idle task](Tasks::idle_task)'s, the second block is that of slot 0,
    /// and so on.
    blocks: Reservation<Task>,
    /// The control blocks of slots before this one have been written.
    pub(super) used: Cell<usize>,
    /// The first free slot among the written ones. Each free slot knows the next. [`NO_SLOT`] if no
    /// slot is free.
    free: Cell<u32>,
    spawned: Cell<u32>,
    /// The number of void entries of the queue.
    void: Cell<usize>,
}

impl Tasks {
    /// An empty table of a loop. `first` is the name of its first task.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no address space for the table.
    pub(crate) fn new(first: TaskName) -> io::Result<Self> {
        let blocks = Reservation::new(TaskName::SLOTS)?;
        blocks.make_usable(0);
        // SAFETY: the place is usable. The block has no body, so it need not be dropped.
        unsafe { blocks.place(0).write(Task::new(None, None, 0)) };
        Ok(Self {
            ready: Ready::default(),
            // SAFETY: there is room for one block.
            running: Cell::new(unsafe { blocks.place(0) }),
            first,
            blocks,
            used: Cell::default(),
            free: Cell::new(NO_SLOT),
            spawned: Cell::default(),
            void: Cell::default(),
        })
    }

    /// The name that the next [`insert`](Tasks::insert) will give.
    pub(crate) fn next_name(&self) -> TaskName {
        let free = self.free.get();
        let slot = if free == NO_SLOT { self.used.get() } else { free as usize };
        let most = self.blocks.length() - 1;
        assert!(slot < most, "a loop has room for {most} tasks, 2^26 or a part of RLIMIT_AS");
        self.first.of(self.spawned.get(), slot as u32)
    }

    /// Adds a task, ready to run. `make` makes the task's body, and must not add a task.
    ///
    /// The function is inlined into its callers, and no possible panic comes between making the
    /// body and writing it. So the body is made in its place. Otherwise the body would be written
    /// to memory in words and read in pairs of words, which stalls the processor.
    #[inline(always)]
    pub(crate) fn insert(&self, make: impl FnOnce() -> TaskBody, now: u32) -> TaskName {
        let name = self.next_name();
        let slot = name.slot() as usize;
        let is_new = slot == self.used.get();
        if is_new {
            self.make_usable(slot);
        }
        let body = make();
        debug_assert_eq!(name, self.next_name(), "the body of a task adds none");
        // SAFETY: there is room for the used blocks, and now for this one.
        let place = unsafe { self.place(slot) };
        if is_new {
            self.used.set(slot + 1);
        } else {
            // SAFETY: the slot has been used, so its control block is written. Its body is gone, so
            // there is no reference to it.
            self.free.set(unsafe { place.as_ref() }.since());
        }
        // SAFETY: the place is usable. No task is there, so there is no reference to one.
        unsafe { place.write(Task::new(Some(name), Some(body), now)) };
        self.spawned.set(self.spawned.get().wrapping_add(1));
        self.ready.push(place);
        name
    }

    #[cold]
    fn make_usable(&self, slot: usize) {
        self.blocks.make_usable(slot + 1);
    }

    /// Queues the task, unless it is queued. Returns false if this table has no task with this
    /// name.
    #[inline]
    pub(crate) fn wake(&self, name: TaskName) -> bool {
        self.named(name).inspect(|task| self.queue(task)).is_some()
    }

    /// Queues the running task for another turn, unless it is queued.
    #[inline]
    pub(crate) fn requeue_running(&self) {
        self.queue(self.running());
    }

    /// Queues a task of this table, unless it is queued. The idle task always counts as queued.
    #[inline]
    fn queue(&self, task: &Task) {
        if !task.is_queued() {
            task.set_queued(true);
            self.ready.push(NonNull::from(task));
        }
    }

    /// A control block that stands for no task. The block is marked as queued and never in the
    /// queue.
    fn idle_task(&self) -> NonNull<Task> {
        // SAFETY: there is room for one block.
        unsafe { self.blocks.place(0) }
    }

    /// Queues the task in a slot, whichever task it is: timers know only the slot.
    pub(crate) fn wake_slot(&self, slot: u32) {
        if let Some(task) = self.at(slot)
            && task.name().is_some()
        {
            self.queue(task);
        }
    }

    /// The number of entries in the run queue, which is at least the number of ready tasks.
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The name of the task in this place of the run queue, unless that task has ended.
    pub(crate) fn ready_name(&self, place: usize) -> Option<TaskName> {
        // SAFETY: only control blocks of this table that have been written are queued.
        unsafe { self.ready.ahead(place).as_ref() }.name()
    }

    /// The task that has its turn.
    #[inline]
    pub(crate) fn running(&self) -> &Task {
        // SAFETY: the pointer is the idle task's, or `next` has set it. Both are control blocks of
        // this table that have been written.
        unsafe { self.running.get().as_ref() }
    }

    /// No task has its turn.
    pub(crate) fn set_idle(&self) {
        self.running.set(self.idle_task());
    }

    /// The number of entries taken from the queue so far. During a turn, this is the turn's number.
    #[inline]
    pub(crate) fn taken(&self) -> usize {
        self.ready.taken()
    }

    /// The number of turns that have begun so far.
    pub(crate) fn turns(&self) -> usize {
        self.taken().wrapping_sub(self.void.get())
    }

    /// Makes the next ready task the running one. The caller begins its [turn](Task::begin_turn).
    #[inline]
    pub(crate) fn next(&self) -> Option<&Task> {
        loop {
            let (place, len) = self.ready.pop()?;
            // SAFETY: this many are left in the queue.
            unsafe { self.prefetch_ahead(len - 1) };
            // SAFETY: only control blocks of this table that have been written are queued.
            let task = unsafe { place.as_ref() };
            if task.is_queued() {
                self.running.set(place);
                return Some(task);
            }
            self.void.set(self.void.get().wrapping_add(1));
        }
    }

    /// The tasks by their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Task> {
        let slots = 0..self.used.get() as u32;
        slots.filter_map(|slot| self.at(slot)).filter(|task| task.name().is_some())
    }

    /// Ends a task, which cannot be woken from here on. `drop_body` drops or takes the task's body.
    /// Afterwards the slot is free. If `drop_body` panics, the slot is lost, and the task must not
    /// be ended again.
    ///
    /// # Safety
    ///
    /// The task does not run, and no reference to its body is used afterwards. While `drop_body`
    /// runs, no turn begins.
    #[inline]
    pub(crate) unsafe fn end(&self, name: TaskName, drop_body: impl FnOnce(&mut Option<TaskBody>)) {
        let Some(task) = self.named(name) else { return };
        task.name.set(None);
        task.set_queued(false);
        // SAFETY: the caller promises that there is no reference to the body. None is made later:
        // the name no longer leads here, and a queued task is checked as its turn begins.
        drop_body(unsafe { &mut *task.body.get() });
        task.since.set(self.free.replace(name.slot()));
    }

    pub(crate) fn contains(&self, name: TaskName) -> bool {
        self.named(name).is_some()
    }

    /// The task with this name, if this table has it.
    #[inline]
    fn named(&self, name: TaskName) -> Option<&Task> {
        self.at(name.slot()).filter(|task| task.name() == Some(name))
    }

    /// The first task at or after a slot, and the task's slot.
    pub(crate) fn first_from(&self, slot: u32) -> Option<(u32, &Task)> {
        let mut slots = slot..self.used.get() as u32;
        slots
            .find_map(|slot| Some((slot, self.at(slot)?)).filter(|(_, task)| task.name().is_some()))
    }

    /// The control block of a slot that has been used.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Option<&Task> {
        let slot = slot as usize;
        // SAFETY: the block has been written, and stays as long as the table. All references to it
        // are shared, and its fields are cells.
        (slot < self.used.get()).then(|| unsafe { self.place(slot).as_ref() })
    }

    /// The address of a slot's control block.
    ///
    /// # Safety
    ///
    /// There is room for the slot.
    #[inline]
    unsafe fn place(&self, slot: usize) -> NonNull<Task> {
        // SAFETY: the caller says that there is room for the slot, and the first control block is
        // the idle task's.
        unsafe { self.blocks.place(slot + 1) }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for slot in 0..self.used.get() {
            // SAFETY: the block has been written once, and is not used again.
            unsafe { self.place(slot).drop_in_place() };
        }
    }
}
