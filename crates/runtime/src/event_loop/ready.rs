//! The queue of a loop's ready tasks.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr::NonNull;

/// First in, first out.
pub(crate) struct Ready<Task> {
    queue: RefCell<VecDeque<NonNull<Task>>>,
    /// The number of tasks that have left the queue so far.
    taken: Cell<usize>,
}

impl<Task> Default for Ready<Task> {
    fn default() -> Self {
        Self { queue: RefCell::default(), taken: Cell::default() }
    }
}

impl<Task> Ready<Task> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.queue.borrow().len()
    }

    #[inline]
    pub(crate) fn push(&self, task: NonNull<Task>) {
        self.queue.borrow_mut().push_back(task);
    }

    /// Has the task at `index` come out next.
    pub(crate) fn bring_forward(&self, index: usize) {
        let mut queue = self.queue.borrow_mut();
        if let Some(task) = queue.remove(index) {
            queue.push_front(task);
        }
    }

    /// The next task, and the number of tasks that were queued with it.
    #[inline]
    pub(crate) fn pop(&self) -> Option<(NonNull<Task>, usize)> {
        let mut queue = self.queue.borrow_mut();
        let len = queue.len();
        let task = queue.pop_front()?;
        self.taken.set(self.taken.get().wrapping_add(1));
        Some((task, len))
    }

    /// The number of tasks that have left the queue so far.
    #[inline]
    pub(crate) fn taken(&self) -> usize {
        self.taken.get()
    }

    /// The task that comes out after `others` other tasks. The queue has more than `others` tasks.
    #[inline]
    pub(crate) fn ahead(&self, others: usize) -> NonNull<Task> {
        self.queue.borrow()[others]
    }
}
