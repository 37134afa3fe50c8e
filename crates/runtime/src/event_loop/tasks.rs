//! The tasks of one loop: a slab of bodies, and the queue of those that are ready.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use duality_fiber::Fiber;
use slab::Slab;

use crate::visibility::{Label, Wait};

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

pub(crate) struct Task {
    pub(crate) serial: u32,
    pub(crate) queued: bool,
    /// The stage that it reached last.
    pub(crate) stage: Label,
    /// What it waits for, and since when by the clock of `Sight`.
    wait: u32,
    pub(crate) since: u32,
    /// Taken while the task runs, so that it can spawn and wake others.
    pub(crate) body: Option<Body>,
}

impl Task {
    pub(crate) fn wait(&self) -> Wait {
        Wait::unpack(self.wait).unwrap_or(Wait::Foreign)
    }
}

#[derive(Default)]
pub(crate) struct Tasks {
    slab: Slab<Task>,
    ready: VecDeque<TaskId>,
    spawned: u32,
}

impl Tasks {
    /// The identity that the next [`insert`](Tasks::insert) will give.
    pub(crate) fn next_id(&self) -> TaskId {
        let slot = u32::try_from(self.slab.vacant_key()).expect("fewer than 2^26 tasks");
        assert!(slot < 1 << TaskId::SLOT_BITS, "a loop holds at most 2^26 tasks");
        TaskId { slot, serial: self.spawned & ((1 << TaskId::SERIAL_BITS) - 1) }
    }

    /// Adds a task, ready to run.
    pub(crate) fn insert(&mut self, body: Body, now: u32) -> TaskId {
        let id = self.next_id();
        self.slab.insert(Task {
            serial: id.serial,
            queued: true,
            stage: Label::NONE,
            wait: Wait::Begin.pack(),
            since: now,
            body: Some(body),
        });
        self.spawned = self.spawned.wrapping_add(1);
        self.ready.push_back(id);
        id
    }

    /// Queues the task, unless it is queued or gone.
    #[inline]
    pub(crate) fn wake(&mut self, id: TaskId) {
        if let Some(task) = self.slab.get_mut(id.slot as usize)
            && task.serial == id.serial
            && !task.queued
        {
            task.queued = true;
            self.ready.push_back(id);
        }
    }

    /// Queues whichever task lives in a slot: timers know no more than that.
    pub(crate) fn wake_slot(&mut self, slot: u32) {
        if let Some(serial) = self.slab.get(slot as usize).map(|task| task.serial) {
            self.wake(TaskId { slot, serial });
        }
    }

    /// How many tasks are ready now.
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Takes the next ready task's body, to be run and given back, and tells its stage.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(TaskId, Body, Label)> {
        loop {
            let id = self.ready.pop_front()?;
            let Some(task) = self.slab.get_mut(id.slot as usize) else { continue };
            if task.serial != id.serial {
                continue;
            }
            task.queued = false;
            if let Some(body) = task.body.take() {
                return Some((id, body, task.stage));
            }
        }
    }

    pub(crate) fn set_stage(&mut self, id: TaskId, stage: Label) {
        self.slab[id.slot as usize].stage = stage;
    }

    /// The tasks by their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Task)> {
        self.slab.iter().map(|(slot, task)| (slot as u32, task))
    }

    pub(crate) fn at(&mut self, slot: u32) -> Option<&mut Task> {
        self.slab.get_mut(slot as usize)
    }

    /// Gives back the body of a task that is not done, but waits since `now`.
    #[inline]
    pub(crate) fn put_back(&mut self, id: TaskId, body: Body, wait: Wait, now: u32) {
        let task = &mut self.slab[id.slot as usize];
        task.body = Some(body);
        (task.wait, task.since) = (wait.pack(), now);
    }

    /// Frees the slot of a task that is done.
    pub(crate) fn remove(&mut self, id: TaskId) {
        self.slab.remove(id.slot as usize);
    }

    pub(crate) fn contains(&self, id: TaskId) -> bool {
        self.slab.get(id.slot as usize).is_some_and(|task| task.serial == id.serial)
    }

    /// Takes the body of any task, to drop it outside the borrow of this table.
    pub(crate) fn take_any(&mut self) -> Option<(TaskId, Option<Body>)> {
        let (slot, task) = self.slab.iter_mut().next()?;
        let id = TaskId { slot: slot as u32, serial: task.serial };
        let body = task.body.take();
        self.slab.remove(slot);
        Some((id, body))
    }
}
