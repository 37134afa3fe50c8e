//! A list of waiters: their order, and the waiters that have been handed the object of their wait.
//!
//! ```text
//!   front                                        back
//!   │ 3: handed │ 5: handed │ 6: waits │ 9: waits │ ◀── a newcomer
//!                             ▲ the next to be handed something
//! ```
//!
//! Objects are handed to the first waiter. So waiters that were handed an object and have not yet
//! taken it come before all others. A [`WaiterList`] is plain data, and its owner locks it.

use std::collections::VecDeque;
use std::num::NonZeroU64;

/// Waiters, each with the `W` that wakes it.
pub(super) struct WaiterList<W> {
    /// Sorted by ticket, since ticket numbers only grow. A waiter that was handed an object has no
    /// waker.
    waiters: VecDeque<(Ticket, Option<W>)>,
    /// The number of waiters that were handed a result. These waiters are the first in the list.
    handed: usize,
    next_ticket: Ticket,
}

/// The name of a waiter in the list.
pub(super) type Ticket = NonZeroU64;

/// The state of a waiter when it left the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaiterState {
    /// The waiter was handed an object, and takes it along.
    Handed,
    /// The waiter still waited.
    Waiting,
    /// The waiter was not in the list: it never queued, or all were woken.
    Outside,
}

impl<W: Clone> WaiterList<W> {
    pub(super) const fn new() -> Self {
        Self { waiters: VecDeque::new(), handed: 0, next_ticket: Ticket::MIN }
    }

    /// Whether a waiter waits that has not been handed an object.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiters.len() > self.handed
    }

    /// Queues a waiter, in its old place if it is still in the list. Returns its ticket.
    pub(super) fn queue(&mut self, ticket: Option<Ticket>, waker: &W) -> Ticket {
        if let Some(ticket) = ticket
            && let Ok(index) = self.find(ticket)
        {
            if let Some(old) = &mut self.waiters[index].1 {
                old.clone_from(waker);
            }
            return ticket;
        }
        let ticket = self.next_ticket;
        self.next_ticket = ticket.saturating_add(1);
        self.waiters.push_back((ticket, Some(waker.clone())));
        ticket
    }

    /// Hands an object to the waiter that has waited longest, and returns its waker.
    pub(super) fn hand(&mut self) -> Option<W> {
        let waker = self.waiters.get_mut(self.handed)?.1.take();
        self.handed += 1;
        waker
    }

    /// Whether the waiter was handed an object.
    pub(super) fn is_handed(&self, ticket: Ticket) -> bool {
        self.find(ticket).is_ok_and(|index| index < self.handed)
    }

    /// Takes a waiter out of the list.
    pub(super) fn leave(&mut self, ticket: Ticket) -> WaiterState {
        let Ok(index) = self.find(ticket) else { return WaiterState::Outside };
        self.waiters.remove(index);
        if index < self.handed {
            self.handed -= 1;
            return WaiterState::Handed;
        }
        WaiterState::Waiting
    }

    /// Takes all waiters out, and returns their wakers.
    pub(super) fn dismiss(&mut self) -> impl Iterator<Item = W> + use<W> {
        let waiting = match self.handed {
            0 => std::mem::take(&mut self.waiters),
            handed => self.waiters.split_off(handed),
        };
        waiting.into_iter().filter_map(|(_, waker)| waker)
    }

    fn find(&self, ticket: Ticket) -> Result<usize, usize> {
        self.waiters.binary_search_by_key(&ticket, |(ticket, _)| *ticket)
    }
}
