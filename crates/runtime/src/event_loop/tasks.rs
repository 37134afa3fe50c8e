//! The tasks of one loop: a table of control blocks, and the queue of those that are ready.
//!
//! ```text
//!   ready:   ◀─ next │ … ahead: its stack is fetched │ … further: its control block │ … ◀─ wake
//!
//!   chunks:  ┌ 64 bytes ┬──────────┬──      one line for each task; a chunk of them never moves,
//!            │ task 0   │ task 1   │ …      so a task runs in place while others come and go
//! ```
//!
//! With a million tasks, nothing of the next one is in a cache; but the queue tells who comes, and what
//! is asked for some tasks ahead has come when its turn has. That is most of what a wake costs then.

use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr::{self, NonNull};

use duality_fiber::Fiber;

use crate::visibility::{Label, ShortLabel, Wait};

/// Names a task of one loop: the slot that it lives in, and which of the slot's tenants it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub(crate) slot: u32,
    /// The low bits of the loop's count of tasks. A stale identity is recognised by it, and should it
    /// not be (a slot's tenant 2^28 tasks later), the wake is spurious, which every wait allows for.
    pub(crate) serial: u32,
}

impl TaskId {
    pub(crate) const SLOT_BITS: u32 = 26;
    pub(crate) const SERIAL_BITS: u32 = 28;
}

/// What a task is made of: the one difference between the two worlds of a loop.
pub(crate) enum Body {
    Future(Pin<Box<dyn Future<Output = ()>>>),
    Fiber(Fiber),
}

/// A control block. It is reached by shared references only: a wake may come while the body runs.
#[repr(align(64))]
pub(crate) struct Task {
    /// [`VACANT`] where no task is.
    serial: Cell<u32>,
    /// What it waits for, and since when by the clock of `Sight`.
    wait: Cell<u32>,
    since: Cell<u32>,
    /// The stage that it reached last.
    stage: Cell<ShortLabel>,
    queued: Cell<bool>,
    /// In use by nobody but the round that runs it, if one does.
    body: UnsafeCell<Option<Body>>,
}

impl Task {
    pub(crate) fn serial(&self) -> u32 {
        self.serial.get()
    }

    pub(crate) fn wait(&self) -> Wait {
        Wait::unpack(self.wait.get()).unwrap_or(Wait::Foreign)
    }

    pub(crate) fn since(&self) -> u32 {
        self.since.get()
    }

    pub(crate) fn stage(&self) -> Label {
        self.stage.get().label()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.queued.get()
    }
}

// A fiber that tells AddressSanitizer of its stack is two words longer.
#[cfg(not(feature = "sanitizer"))]
const _: () = assert!(size_of::<Task>() == 64, "a control block is one cache line");

/// No task has it: a serial has 28 bits.
const VACANT: u32 = u32::MAX;
/// How many control blocks lie together: 1 MiB of address space, touched as they are used.
const CHUNK: usize = 1 << 14;
/// How many tasks ahead of its turn a stack is fetched: far enough for memory to answer, not so far
/// that it is gone again from the first-level cache.
const STACK_AHEAD: usize = 3;
/// And a control block, which leads to the stack.
const TASK_AHEAD: usize = 8;

#[derive(Default)]
pub(crate) struct Tasks {
    chunks: Vec<NonNull<Task>>,
    /// The control blocks before this one have been written.
    used: usize,
    /// Those among them that are free.
    free: Vec<u32>,
    ready: VecDeque<TaskId>,
    spawned: u32,
}

impl Tasks {
    /// The identity that the next [`insert`](Tasks::insert) will give.
    pub(crate) fn next_id(&self) -> TaskId {
        let slot = self.free.last().map_or(self.used, |slot| *slot as usize);
        assert!(slot < 1 << TaskId::SLOT_BITS, "a loop holds at most 2^26 tasks");
        TaskId { slot: slot as u32, serial: self.spawned & ((1 << TaskId::SERIAL_BITS) - 1) }
    }

    /// Adds a task, ready to run.
    pub(crate) fn insert(&mut self, body: Body, now: u32) -> TaskId {
        let id = self.next_id();
        let slot = id.slot as usize;
        if self.free.pop().is_none() {
            if slot == self.chunks.len() * CHUNK {
                let chunk = Box::<[Task]>::new_uninit_slice(CHUNK);
                let chunk = Box::into_raw(chunk).cast::<Task>();
                self.chunks.push(NonNull::new(chunk).expect("a box is not null"));
            }
            self.used += 1;
        }
        let body = UnsafeCell::new(Some(body));
        let task = Task {
            serial: Cell::new(id.serial),
            wait: Cell::new(Wait::Begin.pack()),
            since: Cell::new(now),
            stage: Cell::default(),
            queued: Cell::new(true),
            body,
        };
        // SAFETY: the place is in a chunk, and no task is there that anyone could refer to.
        unsafe { self.place(slot).write(task) };
        self.spawned = self.spawned.wrapping_add(1);
        self.ready.push_back(id);
        id
    }

    /// Queues the task, unless it is queued or gone.
    #[inline]
    pub(crate) fn wake(&mut self, id: TaskId) {
        if let Some(task) = self.at(id.slot)
            && task.serial.get() == id.serial
            && !task.queued.replace(true)
        {
            self.ready.push_back(id);
        }
    }

    /// Queues whichever task lives in a slot: timers know no more than that.
    pub(crate) fn wake_slot(&mut self, slot: u32) {
        if let Some(serial) = self.at(slot).map(|task| task.serial.get())
            && serial != VACANT
        {
            self.wake(TaskId { slot, serial });
        }
    }

    /// How many tasks are ready now.
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The next ready task and its stage. The body is the caller's until it asks for another, or removes it.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(TaskId, NonNull<Body>, Label)> {
        loop {
            let id = self.ready.pop_front()?;
            self.fetch_ahead();
            let Some(task) = self.at(id.slot) else { continue };
            if task.serial.get() != id.serial {
                continue;
            }
            task.queued.set(false);
            // SAFETY: one task runs at a time, so nobody has a reference to the body.
            if let Some(body) = unsafe { &mut *task.body.get() } {
                return Some((id, NonNull::from(body), task.stage()));
            }
        }
    }

    /// Asks for the memory of tasks whose turn comes soon.
    #[inline]
    fn fetch_ahead(&self) {
        if let Some(id) = self.ready.get(TASK_AHEAD) {
            duality_fiber::fetch(self.place(id.slot as usize).addr());
        }
        if let Some(id) = self.ready.get(STACK_AHEAD)
            && let Some(task) = self.at(id.slot)
        {
            // SAFETY: as in `next`; this one does not run either.
            match unsafe { &*task.body.get() } {
                Some(Body::Fiber(fiber)) => fiber.fetch(),
                Some(Body::Future(future)) => {
                    duality_fiber::fetch((&raw const **future).addr());
                }
                None => {}
            }
        }
    }

    pub(crate) fn set_stage(&self, id: TaskId, stage: Label) {
        if let Some(task) = self.at(id.slot) {
            task.stage.set(stage.short());
        }
    }

    /// Notes what a task waits for since `now`.
    #[inline]
    pub(crate) fn waits(&self, id: TaskId, wait: Wait, now: u32) {
        if let Some(task) = self.at(id.slot) {
            task.wait.set(wait.pack());
            task.since.set(now);
        }
    }

    /// The tasks by their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Task)> {
        let slots = 0..self.used as u32;
        let tasks = slots.filter_map(|slot| Some((slot, self.at(slot)?)));
        tasks.filter(|(_, task)| task.serial() != VACANT)
    }

    /// The body of a task that does not run.
    pub(crate) fn body(&mut self, slot: u32) -> Option<&mut Body> {
        // SAFETY: no task runs, so nobody else has a reference to it.
        unsafe { &mut *self.at(slot)?.body.get() }.as_mut()
    }

    /// Takes a task's body out and frees its slot.
    pub(crate) fn remove(&mut self, id: TaskId) -> Option<Body> {
        let task = self.at(id.slot).filter(|task| task.serial.get() == id.serial)?;
        task.serial.set(VACANT);
        // SAFETY: the caller does not run it any more.
        let body = unsafe { &mut *task.body.get() }.take();
        self.free.push(id.slot);
        body
    }

    pub(crate) fn contains(&self, id: TaskId) -> bool {
        self.at(id.slot).is_some_and(|task| task.serial.get() == id.serial)
    }

    /// Removes the first task at or after a slot, to drop it outside the borrow of this table.
    pub(crate) fn take_from(&mut self, slot: u32) -> Option<(TaskId, Option<Body>)> {
        let task =
            |slot| TaskId { slot, serial: self.at(slot).map_or(VACANT, |at| at.serial.get()) };
        let mut tasks = (slot..self.used as u32).map(task);
        let found = tasks.find(|id| id.serial != VACANT)?;
        Some((found, self.remove(found)))
    }

    /// The control block of a slot that has been used.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Option<&Task> {
        let slot = slot as usize;
        // SAFETY: it has been written, and is never freed while the table lives. References to it are
        // shared ones only.
        (slot < self.used).then(|| unsafe { &*self.place(slot) })
    }

    #[inline]
    fn place(&self, slot: usize) -> *mut Task {
        // SAFETY: the chunk is as long as that.
        unsafe { self.chunks[slot / CHUNK].as_ptr().add(slot % CHUNK) }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for slot in 0..self.used {
            // SAFETY: it has been written once, and is not looked at again.
            unsafe { self.place(slot).drop_in_place() };
        }
        for chunk in &self.chunks {
            let chunk = ptr::slice_from_raw_parts_mut(chunk.as_ptr(), CHUNK);
            // SAFETY: it was such a box, whose values are dropped; the type says that it has none.
            drop(unsafe { Box::from_raw(chunk as *mut [MaybeUninit<Task>]) });
        }
    }
}
