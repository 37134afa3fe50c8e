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
use super::report::FreshTurn;
use super::reservation::Reservation;
use crate::cold_path;
use crate::recycled::LocalMachine;
use crate::visibility::{ShortLabel, Wait};

/// Names a task of one loop in a word: the slot that it lives in, and which of the slot's tenants it is.
///
/// ```text
///   63        54 53                          26 25                     0
///   │ 0         │ serial of the task (28)      │ slot of the task (26) │
/// ```
///
/// The serial is the low bits of the loop's count of tasks. A stale identity is recognised by it, and should
/// it not be (a slot's tenant 2^28 tasks later), the wake is spurious, which every wait allows for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId(u64);

impl TaskId {
    pub(crate) const BITS: u32 = Self::SLOT_BITS + Self::SERIAL_BITS;
    const SLOT_BITS: u32 = 26;
    const SERIAL_BITS: u32 = 28;

    /// Of a serial the low bits are taken.
    const fn new(slot: u32, serial: u32) -> Self {
        let serial = serial as u64 & ((1 << Self::SERIAL_BITS) - 1);
        Self((serial << Self::SLOT_BITS) | slot as u64)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The identity that has these bits, of which the upper ones are left out.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    pub(crate) const fn slot(self) -> u32 {
        (self.0 & ((1 << Self::SLOT_BITS) - 1)) as u32
    }

    pub(crate) const fn serial(self) -> u32 {
        (self.0 >> Self::SLOT_BITS) as u32
    }
}

/// What a task is made of: the one difference between the two worlds of a loop.
pub(crate) enum Body {
    Future(LocalMachine),
    Fiber(Fiber),
}

/// The first word of a control block: the task's identity in the low bits ([`Task::VACANT`] where no task is), above it
/// the stage that it reached last, and in the highest bit whether it is to run; if so, it is in the queue.
///
/// ```text
///    63       62        54 53             0
///   │ queued │ stage (9)  │ identity (54) │
/// ```
#[derive(Clone, Copy)]
pub(crate) struct Word(u64);

impl Word {
    const QUEUED: u64 = 1 << 63;
    const STAGE: u64 = !Self::QUEUED & !Task::VACANT.0;

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// That of a task: `bits` of another word, or none.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn id(self) -> TaskId {
        TaskId::from_bits(self.0)
    }

    #[inline]
    pub(crate) const fn stage(self) -> ShortLabel {
        ShortLabel::from_bits(((self.0 & Self::STAGE) >> TaskId::BITS) as u16)
    }

    #[inline]
    const fn is_queued(self) -> bool {
        self.0 & Self::QUEUED != 0
    }

    /// Whether it is that of a task which is not queued.
    #[inline]
    const fn is_idle(self, id: TaskId) -> bool {
        self.0 & !Self::STAGE == id.0
    }

    #[inline]
    pub(crate) const fn queued(self) -> Self {
        Self(self.0 | Self::QUEUED)
    }

    #[inline]
    const fn taken(self) -> Self {
        Self(self.0 & !Self::QUEUED)
    }

    #[inline]
    const fn at(self, stage: ShortLabel) -> Self {
        Self(self.0 & !Self::STAGE | (stage.bits() as u64) << TaskId::BITS)
    }
}

/// A control block. It is reached by shared references only: a wake may come while the body runs.
#[repr(align(64))]
pub(crate) struct Task {
    word: Cell<Word>,
    /// What it waits for, packed, and since when by the clock of `Sight`; both as of its last turn. Of a slot that is
    /// free, the next one that is.
    wait: Cell<u32>,
    since: Cell<u32>,
    /// In use by nobody but the round that runs it, if one does.
    pub(super) body: UnsafeCell<Option<Body>>,
}

impl Task {
    /// The last slot is never used.
    const VACANT: TaskId = TaskId::from_bits(u64::MAX);

    fn new(id: TaskId, body: Option<Body>, now: u32) -> Self {
        Self {
            word: Cell::new(Word(id.0).queued()),
            wait: Cell::new(Wait::Begin.pack()),
            since: Cell::new(now),
            body: UnsafeCell::new(body),
        }
    }

    pub(crate) fn id(&self) -> TaskId {
        self.word.get().id()
    }

    /// Begins a turn of the task at the time `now`; should it not say what it waits for, that is a future of
    /// somebody else's.
    #[inline]
    pub(crate) fn begin_turn(&self, now: &FreshTurn) {
        let (wait, since) = (now.wait.get(), now.since.get());
        self.wait.set(wait);
        self.since.set(since);
    }

    #[inline]
    pub(crate) fn set_wait(&self, wait: Wait) {
        self.wait.set(wait.pack());
    }

    pub(crate) fn wait(&self) -> Wait {
        Wait::unpack(self.wait.get()).unwrap_or(Wait::Foreign)
    }

    #[inline]
    fn next_free(&self) -> u32 {
        self.wait.get()
    }

    pub(crate) fn since(&self) -> u32 {
        self.since.get()
    }

    /// Notes the stage that the task has reached, and gives its word as it is then.
    #[inline]
    pub(crate) fn set_stage(&self, stage: ShortLabel) -> Word {
        self.word.set(self.word.get().at(stage));
        self.word.get()
    }

    pub(crate) fn stage(&self) -> ShortLabel {
        self.word.get().stage()
    }

    /// Whether there is no such task, any more or at all.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.id() == Self::VACANT
    }

    pub(crate) fn is_queued(&self) -> bool {
        self.word.get().is_queued()
    }
}

const _: () = assert!(ShortLabel::BITS + TaskId::BITS == 63, "queued has a bit of its own");

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
pub(crate) struct Tasks {
    /// The first is [nobody](Tasks::nobody)'s, that of slot 0 comes after it, ….
    blocks: Reservation<Task>,
    /// The control blocks of slots before this one have been written.
    pub(super) used: Cell<usize>,
    /// The first of those among them that are free, each of which knows the next; [`NO_SLOT`] when none is.
    free: Cell<u32>,
    /// Those to run, in turn. An entry whose task is not queued is void: its task ended otherwise.
    pub(super) ready: Ready,
    spawned: Cell<u32>,
}

impl Tasks {
    /// An empty table.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when there is no address space for it.
    pub(crate) fn new() -> io::Result<Self> {
        let blocks = Reservation::new(1 << TaskId::SLOT_BITS)?;
        blocks.make_usable(0);
        // SAFETY: the place is usable. The block is without a body, so that nobody needs to drop it.
        unsafe { blocks.place(0).write(Task::new(Task::VACANT, None, 0)) };
        Ok(Self {
            blocks,
            used: Cell::default(),
            free: Cell::new(NO_SLOT),
            ready: Ready::default(),
            spawned: Cell::default(),
        })
    }

    /// The identity that the next [`insert`](Tasks::insert) will give.
    pub(crate) fn next_id(&self) -> TaskId {
        let free = self.free.get();
        let slot = if free == NO_SLOT { self.used.get() } else { free as usize };
        let most = self.blocks.length() - 1;
        assert!(slot < most, "a loop has room for {most} tasks, 2^26 or a part of RLIMIT_AS");
        TaskId::new(slot as u32, self.spawned.get())
    }

    /// Adds a task, ready to run. Part of its callers, who so make the body where it will be; to pass it by way of
    /// memory, in words, and to read it in pairs of words, as is done with what is so long, stalls the processor.
    #[inline(always)]
    pub(crate) fn insert(&self, body: Body, now: u32) -> TaskId {
        let id = self.next_id();
        let slot = id.slot() as usize;
        let place = if slot == self.used.get() {
            self.use_another()
        } else {
            // SAFETY: there is room for what has been used.
            let place = unsafe { self.place(slot) };
            // SAFETY: the slot has been used, so its control block is written; nobody has its body, which is gone.
            self.free.set(unsafe { place.as_ref() }.next_free());
            place
        };
        // SAFETY: the place is usable, and no task is there that anyone could refer to.
        unsafe { place.write(Task::new(id, Some(body), now)) };
        self.spawned.set(self.spawned.get().wrapping_add(1));
        // For what is queued, for this task, and for each that is not queued yet.
        self.ready.make_room(1 + self.used.get());
        // SAFETY: there is room.
        unsafe { self.ready.push(TaskRef(place)) };
        id
    }

    #[cold]
    fn use_another(&self) -> NonNull<Task> {
        let slot = self.used.get();
        self.blocks.make_usable(slot + 1);
        self.used.set(slot + 1);
        // SAFETY: it is usable.
        unsafe { self.place(slot) }
    }

    /// Queues the task, unless it is queued or gone.
    #[inline]
    pub(crate) fn wake(&self, id: TaskId) {
        if let Some(task) = self.at(id.slot()) {
            let word = task.word.get();
            if word.is_idle(id) {
                self.queue(task, word);
            }
        }
    }

    /// Queues a task that is not queued, whose word this is.
    #[inline]
    fn queue(&self, task: TaskRef, word: Word) {
        task.word.set(word.queued());
        // SAFETY: `insert` has left room for one more entry of each slot; and its task is queued here only when the
        // entry from there or here before is out of the queue again.
        unsafe { self.ready.push(task) };
    }

    /// Queues the task that runs, unless it is queued, as nobody always is.
    #[inline]
    pub(crate) fn requeue(&self, task: TaskRef) {
        let word = task.word.get();
        if !word.is_queued() {
            self.queue(task, word);
        }
    }

    /// A task that is none: always queued, never in the queue.
    pub(crate) fn nobody(&self) -> TaskRef {
        // SAFETY: there is room for one, and it has been written.
        TaskRef(unsafe { self.blocks.place(0) })
    }

    /// Queues whichever task lives in a slot: timers know no more than that.
    pub(crate) fn wake_slot(&self, slot: u32) {
        if let Some(task) = self.at(slot)
            && !task.is_gone()
        {
            self.wake(task.id());
        }
    }

    /// How many tasks are ready now, at most.
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The next ready task, which is to run now, and its word as it stood in the queue.
    #[inline]
    pub(crate) fn next(&self) -> Option<(TaskRef, Word)> {
        loop {
            let (task, len) = self.ready.pop()?;
            if len > STACK_AHEAD + 1 {
                // SAFETY: so many are left in the queue.
                unsafe { self.fetch_ahead(len - 1) };
            }
            let word = task.word.get();
            if word.is_queued() {
                task.word.set(word.taken());
                return Some((task, word));
            }
            cold_path();
        }
    }

    /// The tasks by their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = TaskRef> {
        let slots = 0..self.used.get() as u32;
        slots.filter_map(|slot| self.at(slot)).filter(|task| !task.is_gone())
    }

    /// Ends a task, whose body `drop_body` drops or takes: it cannot be woken any more then, and its slot is free
    /// after that. Should `drop_body` panic, the slot is lost; a task that has ended so is not ended again.
    #[inline]
    pub(crate) fn end(&self, task: TaskRef, drop_body: impl FnOnce(&mut Option<Body>)) {
        if task.is_gone() {
            return;
        }
        let slot = task.id().slot();
        task.word.set(Word(Task::VACANT.0));
        // SAFETY: the caller does not run it any more, and nobody finds it in the table.
        drop_body(unsafe { &mut *task.body.get() });
        task.wait.set(self.free.replace(slot));
    }

    pub(crate) fn contains(&self, id: TaskId) -> bool {
        self.at(id.slot()).is_some_and(|task| task.id() == id)
    }

    /// The first task at or after a slot.
    pub(crate) fn first_from(&self, slot: u32) -> Option<TaskRef> {
        let mut tasks = (slot..self.used.get() as u32).filter_map(|slot| self.at(slot));
        tasks.find(|task| !task.is_gone())
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
