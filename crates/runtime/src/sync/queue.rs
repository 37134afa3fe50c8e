//! Who waits for a condition, in the order in which they came.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::visibility::{self, Wait};
use crate::world;

/// State of type `T`, and the tasks that wait for it to change.
pub(super) struct Waiting<T> {
    /// What a wait here is called in a dump.
    wait: Wait,
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    state: T,
    /// Sorted by ticket, since tickets only grow.
    waiters: VecDeque<(u64, Waker)>,
    next_ticket: u64,
}

/// Whom to wake after a change.
pub(super) enum Wake {
    Nobody,
    One,
    All,
}

impl<T> Waiting<T> {
    pub(super) const fn new(wait: Wait, state: T) -> Self {
        Self { wait, inner: Mutex::new(Inner { state, waiters: VecDeque::new(), next_ticket: 0 }) }
    }

    /// Changes the state, wakes as the change says, and returns its result.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut T) -> (R, Wake)) -> R {
        let mut inner = self.lock();
        let (result, wake) = change(&mut inner.state);
        match wake {
            Wake::Nobody => {}
            Wake::One => {
                let woken = inner.waiters.pop_front();
                drop(inner);
                if let Some((_, waker)) = woken {
                    waker.wake();
                }
            }
            Wake::All => {
                let woken = std::mem::take(&mut inner.waiters);
                drop(inner);
                woken.into_iter().for_each(|(_, waker)| waker.wake());
            }
        }
        result
    }

    /// Waits until `attempt` on the state returns a value.
    pub(super) async fn until<R>(&self, mut attempt: impl FnMut(&mut T) -> Option<R>) -> R {
        let mut place = Place { queue: self, ticket: None };
        let reached = poll_fn(|context| {
            world::wait_until(context, self.wait, None, |context| {
                let mut inner = self.lock();
                match attempt(&mut inner.state) {
                    Some(value) => {
                        inner.leave(place.ticket.take());
                        Poll::Ready(value)
                    }
                    None => {
                        if place.ticket.is_none() && self.wait == Wait::Lock {
                            visibility::count(|counters| counters.lock_waits.add(1));
                        }
                        place.ticket = Some(inner.queue(place.ticket, context.waker()));
                        Poll::Pending
                    }
                }
            })
        })
        .await;
        reached.expect("without a deadline it waits until the attempt succeeds")
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Inner<T> {
    /// Queues a waiter, in its old place if it has one still; returns its ticket.
    fn queue(&mut self, ticket: Option<u64>, waker: &Waker) -> u64 {
        if let Some(ticket) = ticket
            && let Ok(index) = self.find(ticket)
        {
            self.waiters[index].1.clone_from(waker);
            return ticket;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiters.push_back((ticket, waker.clone()));
        ticket
    }

    /// Takes a waiter out of the queue; false when it was not in it, because it had been woken.
    fn leave(&mut self, ticket: Option<u64>) -> bool {
        let Some(index) = ticket.and_then(|ticket| self.find(ticket).ok()) else { return false };
        self.waiters.remove(index);
        true
    }

    fn find(&self, ticket: u64) -> Result<usize, usize> {
        self.waiters.binary_search_by_key(&ticket, |(ticket, _)| *ticket)
    }
}

/// A waiter's place. Given up while it was woken but had not acted on it, the wake goes to the next.
struct Place<'a, T> {
    queue: &'a Waiting<T>,
    ticket: Option<u64>,
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        if self.ticket.is_none() {
            return;
        }
        let mut inner = self.queue.lock();
        if !inner.leave(self.ticket) {
            let next = inner.waiters.pop_front();
            drop(inner);
            if let Some((_, waker)) = next {
                waker.wake();
            }
        }
    }
}
