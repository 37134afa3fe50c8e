//! The tasks of one loop: a table of control blocks, and the queue of those that are ready.
//!
//! ```text
//!   ready:   ◀─ next │ … ahead: its stack is fetched │ … further: its control block │ … ◀─ wake
//!
//!   table:   ┌ 64 bytes ┬──────────┬──      one line for each task, which never moves,
//!            │ task 0   │ task 1   │ …      so a task runs in place while others come and go
//! ```
//!
//! With a million tasks, nothing of the next one is in a cache; but the queue tells who comes, and what
//! is asked for some tasks ahead has come when its turn has. That is most of what a wake costs then.

use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::io;
use std::ops::Deref;
use std::pin::Pin;
use std::ptr::NonNull;

use duality_fiber::Fiber;

use super::fetch::STACK_AHEAD;
use super::ready::Ready;
use super::reservation::Reservation;
use super::waker::TaskName;
use crate::recycled::LocalMachine;
use crate::visibility::{Label, Sign, Wait};

/// What a task is made of: the one difference between the two worlds of a loop.
pub(crate) enum Body {
    Future(LocalMachine),
    Fiber(Fiber),
}

/// A control block. It is reached by shared references only: a wake may come while the body runs.
#[repr(C, align(64))]
pub(crate) struct Task {
    /// None where no task is.
    name: Cell<Option<TaskName>>,
    /// With the stage that it reached last.
    sign: Cell<Sign>,
    turn: Turn,
    /// In use by nobody but the round that runs it, if one does.
    pub(super) body: UnsafeCell<Option<Body>>,
}

/// What changes with each turn of a task. All of it is written by one store when a turn begins: the processor brings about one
/// store to its cache at a time, and there are some twenty from one turn to the next, which is what a turn takes.
///
/// A word is read as it was written, or a part of what was: the processor does not forward stores to longer loads.
#[repr(align(16))]
pub(crate) struct Turn(Cell<[u32; 4]>);

impl Turn {
    /// What the task waits for, packed.
    const WAIT: usize = 0;
    /// Since when, by the clock of `Sight`; both as of its last turn. Of a slot that is free, the next one that is.
    const SINCE: usize = 1;
    /// Whether it is to run; if so, it is in the queue.
    const QUEUED: usize = 2;

    pub(crate) const fn new(wait: Wait, since: u32, is_queued: bool) -> Self {
        Self(Cell::new([wait.pack(), since, is_queued as u32, 0]))
    }

    #[inline]
    fn word(&self, index: usize) -> &Cell<u32> {
        let words: &Cell<[u32]> = &self.0;
        &words.as_slice_of_cells()[index]
    }

    #[inline]
    pub(crate) fn since(&self) -> u32 {
        self.word(Self::SINCE).get()
    }

    pub(crate) fn set_since(&self, since: u32) {
        self.word(Self::SINCE).set(since);
    }
}

impl Task {
    fn new(name: Option<TaskName>, body: Option<Body>, now: u32) -> Self {
        Self {
            name: Cell::new(name),
            sign: Cell::new(Sign::new(name.map_or(0, TaskName::serial))),
            turn: Turn::new(Wait::Begin, now, true),
            body: UnsafeCell::new(body),
        }
    }

    /// None when there is no such task, any more or at all.
    #[inline]
    pub(crate) fn name(&self) -> Option<TaskName> {
        self.name.get()
    }

    /// Begins a turn. The task is not queued then, and what it waits for is as `fresh` has it, for the case that it does not
    /// say.
    #[inline]
    pub(crate) fn begin_turn(&self, fresh: &Turn) {
        self.turn.0.set(fresh.0.get());
    }

    #[inline]
    pub(crate) fn set_wait(&self, wait: Wait) {
        self.turn.word(Turn::WAIT).set(wait.pack());
    }

    /// What it waits for; of one that is queued, what it waited for last.
    pub(crate) fn wait(&self) -> Wait {
        match Wait::unpack(self.turn.word(Turn::WAIT).get()) {
            // It has waited for nothing.
            None | Some(Wait::Foreign) if self.is_queued() => Wait::Turn,
            wait => wait.unwrap_or(Wait::Foreign),
        }
    }

    pub(crate) fn since(&self) -> u32 {
        self.turn.since()
    }

    pub(crate) fn set_stage(&self, stage: Label) {
        self.sign.set(self.sign.get().at(stage));
    }

    /// What is to be shown of it.
    #[inline]
    pub(crate) fn sign(&self) -> Sign {
        self.sign.get()
    }

    #[inline]
    pub(crate) fn is_queued(&self) -> bool {
        self.turn.word(Turn::QUEUED).get() != 0
    }

    #[inline]
    fn set_queued(&self, is_queued: bool) {
        self.turn.word(Turn::QUEUED).set(is_queued.into());
    }
}

/// A control block of a table that is alive: it does not leave the loop that the table belongs to, and is freed with
/// the table.
#[derive(Clone, Copy)]
pub(crate) struct TaskRef(pub(super) NonNull<Task>);

impl Deref for TaskRef {
    type Target = Task;

    #[inline]
    fn deref(&self) -> &Task {
        // SAFETY: as said above; only `Tasks` makes them, of blocks that have been written.
        unsafe { self.0.as_ref() }
    }
}

impl TaskRef {
    /// The fiber of a task that is one.
    ///
    /// # Safety
    ///
    /// The task is alive, for as long as the reference is used.
    #[inline]
    pub(crate) unsafe fn fiber<'a>(self) -> Option<&'a Fiber> {
        // SAFETY: the control block stays where it is. Nobody has a reference to the body by which it could be changed,
        // unless it is a future, and then one to what it points to.
        match unsafe { &*self.0.as_ref().body.get() } {
            Some(Body::Fiber(fiber)) => Some(fiber),
            _ => None,
        }
    }

    /// The future of a task that is one.
    ///
    /// # Safety
    ///
    /// As for [`fiber`](TaskRef::fiber); and nobody else polls it.
    #[inline]
    pub(crate) unsafe fn future<'a>(self) -> Option<Pin<&'a mut dyn Future<Output = ()>>> {
        // SAFETY: the control block stays where it is, and one task runs at a time.
        match unsafe { &mut *self.0.as_ref().body.get() } {
            Some(Body::Future(future)) => Some(future.as_mut()),
            _ => None,
        }
    }
}

const _: () = assert!(size_of::<Task>() == 64, "a control block is one cache line");

/// A slot that there is not.
const NO_SLOT: u32 = u32::MAX;

/// The table. Like its tasks, it is reached by shared references only.
#[repr(C, align(64))]
pub(crate) struct Tasks {
    /// Those to run, in turn. An entry whose task is not queued is void: its task ended otherwise.
    pub(super) ready: Ready,
    /// [Nobody](Tasks::nobody) between turns. In the queue's cache line, for both are written when a turn begins.
    running: Cell<TaskRef>,
    /// The name of its first task in its first slot.
    first: TaskName,
    /// The first is [nobody](Tasks::nobody)'s, that of slot 0 comes after it, ….
    blocks: Reservation<Task>,
    /// The control blocks of slots before this one have been written.
    pub(super) used: Cell<usize>,
    /// The first of those among them that are free, each of which knows the next; [`NO_SLOT`] when none is.
    free: Cell<u32>,
    spawned: Cell<u32>,
    /// How many entries of the queue were void.
    void: Cell<usize>,
}

impl Tasks {
    /// An empty table of the loop whose first task has this name.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when there is no address space for it.
    pub(crate) fn new(first: TaskName) -> io::Result<Self> {
        let blocks = Reservation::new(TaskName::SLOTS)?;
        blocks.make_usable(0);
        // SAFETY: the place is usable. The block is without a body, so that nobody needs to drop it.
        unsafe { blocks.place(0).write(Task::new(None, None, 0)) };
        // SAFETY: it has been written.
        let nobody = TaskRef(unsafe { blocks.place(0) });
        Ok(Self {
            ready: Ready::default(),
            running: Cell::new(nobody),
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

    /// Adds a task, ready to run, whose body `make` makes; it may add none meanwhile. Part of its callers, and nothing that
    /// could panic comes between the making and the writing, so that the body is made where it will be; to pass it by way of
    /// memory, in words, and to read it in pairs of words, as is done with what is so long, stalls the processor.
    #[inline(always)]
    pub(crate) fn insert(&self, make: impl FnOnce() -> Body, now: u32) -> TaskName {
        let name = self.next_name();
        let slot = name.slot() as usize;
        let is_new = slot == self.used.get();
        if is_new {
            self.make_usable(slot);
        }
        let body = make();
        debug_assert_eq!(name, self.next_name(), "the body of a task adds none");
        // SAFETY: there is room for what has been used, and now for this one.
        let place = unsafe { self.place(slot) };
        if is_new {
            self.used.set(slot + 1);
        } else {
            // SAFETY: the slot has been used, so its control block is written; nobody has its body, which is gone.
            self.free.set(unsafe { place.as_ref() }.since());
        }
        // SAFETY: the place is usable, and no task is there that anyone could refer to.
        unsafe { place.write(Task::new(Some(name), Some(body), now)) };
        self.spawned.set(self.spawned.get().wrapping_add(1));
        // For what is queued, for this task, and for each that is not queued yet.
        self.ready.make_room(1 + self.used.get());
        // SAFETY: there is room.
        unsafe { self.ready.push(TaskRef(place)) };
        name
    }

    #[cold]
    fn make_usable(&self, slot: usize) {
        self.blocks.make_usable(slot + 1);
    }

    /// Queues the task, unless it is queued; false if there is none of that name here, any more or at all.
    #[inline]
    pub(crate) fn wake(&self, name: TaskName) -> bool {
        let task = self.at(name.slot()).filter(|task| task.name() == Some(name));
        task.inspect(|&task| self.queue(task)).is_some()
    }

    /// Queues the task, unless it is queued, as nobody always is.
    #[inline]
    pub(crate) fn queue(&self, task: TaskRef) {
        if !task.is_queued() {
            task.set_queued(true);
            // SAFETY: `insert` has left room for one more entry of each slot; and its task is queued here only when the
            // entry from there or here before is out of the queue again.
            unsafe { self.ready.push(task) };
        }
    }

    /// A task that is none: always queued, never in the queue.
    fn nobody(&self) -> TaskRef {
        // SAFETY: there is room for one, and it has been written.
        TaskRef(unsafe { self.blocks.place(0) })
    }

    /// Queues whichever task lives in a slot: timers know no more than that.
    pub(crate) fn wake_slot(&self, slot: u32) {
        if let Some(task) = self.at(slot)
            && task.name().is_some()
        {
            self.queue(task);
        }
    }

    /// How many tasks are ready now, at most.
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The task that has its turn.
    #[inline]
    pub(crate) fn running(&self) -> TaskRef {
        self.running.get()
    }

    /// No task has its turn.
    pub(crate) fn rest(&self) {
        self.running.set(self.nobody());
    }

    /// How many entries have ever been taken from the queue: the number of the turn, while one lasts.
    #[inline]
    pub(crate) fn taken(&self) -> usize {
        self.ready.taken()
    }

    /// How many turns have ever begun.
    pub(crate) fn turns(&self) -> usize {
        self.taken().wrapping_sub(self.void.get())
    }

    /// The next ready task, whose [turn](Task::begin_turn) is to begin: until that of another one does, it is the one that runs.
    #[inline]
    pub(crate) fn next(&self) -> Option<TaskRef> {
        loop {
            let (task, len) = self.ready.pop()?;
            if len > STACK_AHEAD + 1 {
                // SAFETY: so many are left in the queue.
                unsafe { self.fetch_ahead(len - 1) };
            }
            if task.is_queued() {
                self.running.set(task);
                return Some(task);
            }
            self.void.set(self.void.get().wrapping_add(1));
        }
    }

    /// The tasks by their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = TaskRef> {
        let slots = 0..self.used.get() as u32;
        slots.filter_map(|slot| self.at(slot)).filter(|task| task.name().is_some())
    }

    /// Ends a task, whose body `drop_body` drops or takes: it cannot be woken any more then, and its slot is free
    /// after that. Should `drop_body` panic, the slot is lost; a task that has ended so is not ended again.
    #[inline]
    pub(crate) fn end(&self, task: TaskRef, drop_body: impl FnOnce(&mut Option<Body>)) {
        let Some(name) = task.name.take() else { return };
        task.set_queued(false);
        // SAFETY: the caller does not run it any more, and nobody finds it in the table.
        drop_body(unsafe { &mut *task.body.get() });
        task.turn.set_since(self.free.replace(name.slot()));
    }

    pub(crate) fn contains(&self, name: TaskName) -> bool {
        self.at(name.slot()).is_some_and(|task| task.name() == Some(name))
    }

    /// The first task at or after a slot, and its own.
    pub(crate) fn first_from(&self, slot: u32) -> Option<(u32, TaskRef)> {
        let mut slots = slot..self.used.get() as u32;
        slots
            .find_map(|slot| Some((slot, self.at(slot)?)).filter(|(_, task)| task.name().is_some()))
    }

    /// The control block of a slot that has been used.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Option<TaskRef> {
        let slot = slot as usize;
        // SAFETY: it has been written, and references to it are shared ones only.
        (slot < self.used.get()).then(|| TaskRef(unsafe { self.place(slot) }))
    }

    /// Where the control block of a slot is.
    ///
    /// # Safety
    ///
    /// There is room for it.
    #[inline]
    unsafe fn place(&self, slot: usize) -> NonNull<Task> {
        // SAFETY: by what is asked of the caller.
        unsafe { self.blocks.place(slot + 1) }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for slot in 0..self.used.get() {
            // SAFETY: it has been written once, and is not looked at again.
            unsafe { self.place(slot).drop_in_place() };
        }
    }
}
