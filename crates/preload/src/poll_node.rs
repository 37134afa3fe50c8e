//! Waiting for several descriptors.

use core::cell::Cell;

use crate::lock::Locked;
use crate::waiter::WaiterRef;

/// What waits for several descriptors stands in the list of each.
pub(crate) struct PollNode {
    pub(crate) waiter: WaiterRef,
    list: &'static Cell<*const PollNode>,
    next: Cell<*const PollNode>,
    previous: Cell<*const PollNode>,
}

impl PollNode {
    pub(crate) fn new(waiter: WaiterRef, list: &'static Cell<*const PollNode>) -> Self {
        let (next, previous) = (Cell::new(core::ptr::null()), Cell::new(core::ptr::null()));
        Self { waiter, list, next, previous }
    }

    /// Puts the node into the list of its descriptor. It stays where it is until `unlink`.
    pub(crate) fn link(&self, _: &mut Locked) {
        let first = self.list.get();
        self.next.set(first);
        if !first.is_null() {
            // SAFETY: nodes in a list are alive.
            unsafe { (*first).previous.set(self) };
        }
        self.list.set(self);
    }

    /// The next in the list.
    pub(crate) fn next(&self) -> *const PollNode {
        self.next.get()
    }

    pub(crate) fn unlink(&self, _: &mut Locked) {
        let (next, previous) = (self.next.get(), self.previous.get());
        if !next.is_null() {
            // SAFETY: nodes in a list are alive.
            unsafe { (*next).previous.set(previous) };
        }
        if previous.is_null() {
            self.list.set(next);
        } else {
            // SAFETY: as above.
            unsafe { (*previous).next.set(next) };
        }
    }
}
