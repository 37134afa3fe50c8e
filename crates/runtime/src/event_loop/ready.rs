//! The queue of tasks that are ready: a ring.
//!
//! A micro-optimisation. It is pushed to while a task runs and popped from between two, thousands of times in a round. So it
//! is reached by a shared reference, and has neither borrows to count nor bounds to check. Nor does a push check that
//! there is room: the caller has made room before. Without it, the queue would be a `RefCell<VecDeque>`.
//!
//! | gain | measured by | delete it if it gains less than |
//! | --- | --- | --- |
//! | a third of a switch, by a command that was not noted | `duality model --measure suspend yield-2 30000000`, and `park` | 3 % of a yield |

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use super::tasks::Task;

/// First in, first out.
pub(crate) struct Ready {
    /// There are `mask + 1` of them, a power of two. Those from `head` up to `tail` are filled.
    slots: Cell<NonNull<NonNull<Task>>>,
    mask: Cell<usize>,
    /// How many tasks have ever come out, and gone in. The low bits of such a number are a slot's index.
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

    /// # Safety
    ///
    /// There is [room](Ready::make_room).
    #[inline]
    pub(crate) unsafe fn push(&self, task: NonNull<Task>) {
        debug_assert!(self.len() <= self.mask.get());
        let tail = self.tail.get();
        // SAFETY: the slot is one of ours and not filled, by what is asked of the caller.
        unsafe { self.slot(tail).write(task) };
        self.tail.set(tail.wrapping_add(1));
    }

    /// The next one, and how many there were with it.
    #[inline]
    pub(crate) fn pop(&self) -> Option<(NonNull<Task>, usize)> {
        let (head, len) = (self.head.get(), self.len());
        if len == 0 {
            return None;
        }
        // SAFETY: the slot is filled.
        let task = unsafe { self.slot(head).read() };
        self.head.set(head.wrapping_add(1));
        Some((task, len))
    }

    /// How many have ever come out.
    #[inline]
    pub(crate) fn taken(&self) -> usize {
        self.head.get()
    }

    /// The one that comes out after `others`.
    ///
    /// # Safety
    ///
    /// The queue has more than `others` tasks.
    #[inline]
    pub(crate) unsafe fn ahead(&self, others: usize) -> NonNull<Task> {
        // SAFETY: that slot is filled, by what is asked of the caller.
        unsafe { self.slot(self.head.get().wrapping_add(others)).read() }
    }

    #[inline]
    fn slot(&self, number: usize) -> NonNull<NonNull<Task>> {
        // SAFETY: there are more slots than the mask.
        unsafe { self.slots.get().add(number & self.mask.get()) }
    }

    /// Makes room for so many more.
    #[inline]
    pub(crate) fn make_room(&self, more: usize) {
        if self.len() + more > self.mask.get() {
            self.grow(self.len() + more);
        }
    }

    #[cold]
    fn grow(&self, least: usize) {
        let (room, mask) = (self.mask.get() + 1, (least + 1).next_power_of_two() - 1);
        let slots = allocate(mask + 1);
        for others in 0..self.len() {
            let number = self.head.get().wrapping_add(others);
            // SAFETY: the old slot is filled, and there are more new ones than old ones.
            unsafe { slots.add(number & mask).write(self.slot(number).read()) };
        }
        // SAFETY: there is no reference to them, and they are replaced.
        unsafe { free(self.slots.replace(slots), room) };
        self.mask.set(mask);
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        // SAFETY: they are not looked at again.
        unsafe { free(self.slots.get(), self.mask.get() + 1) };
    }
}

fn allocate(room: usize) -> NonNull<NonNull<Task>> {
    let slots = Box::leak(Box::<[NonNull<Task>]>::new_uninit_slice(room));
    NonNull::from(slots).cast()
}

/// # Safety
///
/// The slots are what [`allocate`] gave for as much room, and are not used again.
unsafe fn free(slots: NonNull<NonNull<Task>>, room: usize) {
    let slots =
        ptr::slice_from_raw_parts_mut(slots.as_ptr().cast::<MaybeUninit<NonNull<Task>>>(), room);
    // SAFETY: `allocate` has leaked such a box, and it is no longer in use, by what is asked of the caller.
    drop(unsafe { Box::from_raw(slots) });
}
