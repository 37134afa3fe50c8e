//! Waiting for several descriptors.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, POLLIN, POLLOUT, POLLPRI,
    POLLRDBAND, POLLRDHUP, POLLRDNORM, POLLWRBAND, POLLWRNORM,
};

use crate::kernel::assertions::check;
use crate::kernel::cells::UnderLock;
use crate::kernel::lock::{Held, Locked};
use crate::schedule::waiter::WaiterRef;

/// The first node of a list of waits. Without the lock, the field shows only whether there is a
/// node.
pub(crate) type PollList = AtomicPtr<PollNode>;

/// A waiter for several descriptors stands in the list of each descriptor.
pub(crate) struct PollNode {
    pub(crate) waiter: WaiterRef,
    /// The events of epoll that end the wait.
    events: i32,
    list: UnderLock<&'static PollList>,
    next: UnderLock<*const PollNode>,
    previous: UnderLock<*const PollNode>,
    /// A copy of the descriptor, if one is kept for the wait. The node then stands in the copy's
    /// list: see `descriptors/closed.rs`.
    kept: UnderLock<Option<usize>>,
}

impl PollNode {
    /// A node for a wait by `waiter` for the events of poll(2).
    pub(crate) fn new(waiter: WaiterRef, events: i16, list: &'static PollList) -> Self {
        Self {
            waiter,
            events: events_of_epoll(events),
            list: UnderLock::new(list),
            next: UnderLock::new(ptr::null()),
            previous: UnderLock::new(ptr::null()),
            kept: UnderLock::new(None),
        }
    }

    /// Whether these events of epoll end the wait.
    pub(crate) fn is_met_by(&self, events: i32) -> bool {
        self.events & events != 0
    }

    /// The descriptor that is kept for the waiter.
    pub(crate) fn kept(&self, held: Held<'_>) -> Option<usize> {
        self.kept.get(held)
    }

    /// Puts the node into the list of its descriptor. The node must not move until `unlink`.
    pub(crate) fn link(&self, locked: &mut Locked) {
        let held = locked.held();
        let list = self.list.get(held);
        let first = list.load(Ordering::Relaxed);
        check!(!Self::is_in(held, list, self), "a wait is in the list of a descriptor twice");
        self.previous.set(held, ptr::null());
        self.next.set(held, first);
        // SAFETY: nodes in a list are alive.
        if let Some(first) = unsafe { first.as_ref() } {
            let before = first.previous.replace(held, self);
            assert!(before.is_null(), "the first wait of a list has one before it");
        }
        list.store(ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
    }

    /// The first node in `list`.
    pub(crate) fn first(_: &mut Locked, list: &PollList) -> *const Self {
        list.load(Ordering::Relaxed)
    }

    /// The next node in the list.
    pub(crate) fn next(&self, held: Held<'_>) -> *const Self {
        self.next.get(held)
    }

    pub(crate) fn unlink(&self, locked: &mut Locked) {
        let held = locked.held();
        let (next, previous) = (self.next.get(held), self.previous.get(held));
        // SAFETY: nodes in a list are alive.
        if let Some(next) = unsafe { next.as_ref() } {
            let before = next.previous.replace(held, previous);
            assert!(ptr::eq(before, self), "a wait is before one that is not after it");
        }
        // SAFETY: `previous` is in the list too, so it is alive.
        let after = match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.replace(held, next),
            None => self.list.get(held).swap(next.cast_mut(), Ordering::Relaxed),
        };
        assert!(ptr::eq(after, self), "a wait is not in the list of its descriptor");
        check!(!Self::is_in(held, self.list.get(held), self), "a wait is in the list that it left");
    }

    fn is_in(held: Held<'_>, list: &PollList, node: &Self) -> bool {
        // SAFETY: nodes in a list are alive.
        let first = unsafe { list.load(Ordering::Relaxed).as_ref() };
        // SAFETY: the next node of one in a list is in the list too, so it is alive.
        let next = |node: &&Self| unsafe { node.next.get(held).as_ref() };
        core::iter::successors(first, next).any(|other| ptr::eq(other, node))
    }

    /// Moves all nodes of a list to the list of a descriptor that is kept for them. Returns the
    /// number of nodes.
    pub(crate) fn move_all(
        locked: &mut Locked,
        from: &'static PollList,
        to: &'static PollList,
        kept: usize,
    ) -> usize {
        let mut count = 0;
        // SAFETY: nodes in a list are alive.
        while let Some(node) = unsafe { Self::first(locked, from).as_ref() } {
            node.unlink(locked);
            node.list.set(locked.held(), to);
            node.kept.set(locked.held(), Some(kept));
            node.link(locked);
            count += 1;
        }
        count
    }
}

/// The events for which the kernel would end a poll(2) with `events`, by their names in epoll(7).
fn events_of_epoll(events: i16) -> i32 {
    const READING: i16 = POLLIN | POLLRDNORM | POLLRDBAND;
    const WRITING: i16 = POLLOUT | POLLWRNORM | POLLWRBAND;
    [
        (READING, EPOLLIN),
        (WRITING, EPOLLOUT),
        (POLLPRI | POLLRDBAND, EPOLLPRI),
        (POLLRDHUP, EPOLLRDHUP),
    ]
    .into_iter()
    .filter(|(asked, _)| events & asked != 0)
    .fold(EPOLLERR | EPOLLHUP, |all, (_, event)| all | event)
}
