//! The queue of tasks that are ready: a ring that grows.
//!
//! It is pushed to while a task runs and popped from between two, thousands of times in a round; so it is reached by
//! a shared reference, and has neither borrows to count nor bounds to check, which took a third of a switch.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use super::tasks::TaskRef;

/// First in, first out.
pub(crate) struct Ready {
    /// As many as `mask` and one more, a power of two; those from `head` to before `tail` are filled.
    slots: Cell<NonNull<TaskRef>>,
    mask: Cell<usize>,
    /// How many tasks have ever come out, and gone in; a slot's index is such a number's low bits.
    head: Cell<usize>,
    tail: Cell<usize>,
}

/// How many tasks a queue has room for at first.
const ROOM: usize = 256;

impl Default for Ready {
    fn default() -> Self {
        Self {
            slots: Cell::new(allocate(ROOM)),
            mask: Cell::new(ROOM - 1),
            head: Cell::new(0),
            tail: Cell::new(0),
        }
    }
}

impl Ready {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.tail.get().wrapping_sub(self.head.get())
    }

    #[inline]
    pub(crate) fn push(&self, task: TaskRef) {
        if self.len() > self.mask.get() {
            self.grow();
        }
        let tail = self.tail.get();
        // SAFETY: the slot is one of ours and not filled.
        unsafe { self.slot(tail).write(task) };
        self.tail.set(tail.wrapping_add(1));
    }

    #[inline]
    pub(crate) fn pop(&self) -> Option<TaskRef> {
        let task = self.ahead(0)?;
        self.head.set(self.head.get().wrapping_add(1));
        Some(task)
    }

    /// The one that comes out after `others`.
    #[inline]
    pub(crate) fn ahead(&self, others: usize) -> Option<TaskRef> {
        // SAFETY: that slot is filled.
        (self.len() > others)
            .then(|| unsafe { self.slot(self.head.get().wrapping_add(others)).read() })
    }

    #[inline]
    fn slot(&self, number: usize) -> NonNull<TaskRef> {
        // SAFETY: there are more slots than the mask.
        unsafe { self.slots.get().add(number & self.mask.get()) }
    }

    #[cold]
    fn grow(&self) {
        let (from, room) = (self.head.get(), self.mask.get() + 1);
        let slots = allocate(2 * room);
        for number in 0..room {
            // SAFETY: the old slots are all filled, and the new ones are more.
            unsafe { slots.add(number).write(self.slot(from.wrapping_add(number)).read()) };
        }
        // SAFETY: nobody has a reference to them, and they are replaced.
        unsafe { free(self.slots.replace(slots), room) };
        self.mask.set(2 * room - 1);
        self.head.set(0);
        self.tail.set(room);
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        // SAFETY: they are not looked at again.
        unsafe { free(self.slots.get(), self.mask.get() + 1) };
    }
}

fn allocate(room: usize) -> NonNull<TaskRef> {
    let slots = Box::leak(Box::<[TaskRef]>::new_uninit_slice(room));
    NonNull::from(slots).cast()
}

/// # Safety
///
/// The slots are what [`allocate`] gave for as much room, and are not used again.
unsafe fn free(slots: NonNull<TaskRef>, room: usize) {
    let slots = ptr::slice_from_raw_parts_mut(slots.as_ptr().cast::<MaybeUninit<TaskRef>>(), room);
    // SAFETY: by what is asked of the caller.
    drop(unsafe { Box::from_raw(slots) });
}
