//! Who waits for a condition, in the order in which they came.

use std::collections::VecDeque;
use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

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
    waiters: VecDeque<(NonZeroU64, Waker)>,
    next_ticket: NonZeroU64,
}

/// Whom to wake after a change.
pub(super) enum Wake {
    Nobody,
    One,
    All,
}

impl<T> Waiting<T> {
    pub(super) const fn new(wait: Wait, state: T) -> Self {
        let next_ticket = NonZeroU64::MIN;
        Self { wait, inner: Mutex::new(Inner { state, waiters: VecDeque::new(), next_ticket }) }
    }

    /// Changes the state, wakes as the change says, and returns its result.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut T) -> (R, Wake)) -> R {
        self.change_knowing(|state, _| change(state))
    }

    /// The same; the change is told whether somebody waits.
    pub(super) fn change_knowing<R>(&self, change: impl FnOnce(&mut T, bool) -> (R, Wake)) -> R {
        let mut inner = self.lock();
        let waited = !inner.waiters.is_empty();
        let (result, wake) = change(&mut inner.state, waited);
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
    pub(super) fn until<R, A>(&self, attempt: A) -> Until<'_, T, A>
    where
        A: FnMut(&mut T) -> Option<R>,
    {
        Until { place: Place { queue: self, ticket: None }, attempt }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Inner<T> {
    /// Queues a waiter, in its old place if it has one still; returns its ticket.
    fn queue(&mut self, ticket: Option<NonZeroU64>, waker: &Waker) -> NonZeroU64 {
        if let Some(ticket) = ticket
            && let Ok(index) = self.find(ticket)
        {
            self.waiters[index].1.clone_from(waker);
            return ticket;
        }
        let ticket = self.next_ticket;
        self.next_ticket = ticket.saturating_add(1);
        self.waiters.push_back((ticket, waker.clone()));
        ticket
    }

    /// Takes a waiter out of the queue; false when it was not in it, because it had been woken.
    fn leave(&mut self, ticket: Option<NonZeroU64>) -> bool {
        let Some(index) = ticket.and_then(|ticket| self.find(ticket).ok()) else { return false };
        self.waiters.remove(index);
        true
    }

    fn find(&self, ticket: NonZeroU64) -> Result<usize, usize> {
        self.waiters.binary_search_by_key(&ticket, |(ticket, _)| *ticket)
    }
}

/// The wait for a state. By hand and not an `async fn`, which would keep what it was called with twice, as
/// its arguments and as what it uses: a parked task is as large as what it waits in.
pub(super) struct Until<'a, T, A> {
    place: Place<'a, T>,
    attempt: A,
}

impl<T, A> Unpin for Until<'_, T, A> {}

impl<T, R, A: FnMut(&mut T) -> Option<R>> Future for Until<'_, T, A> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        let Self { place, attempt } = &mut *self;
        let wait = place.queue.wait;
        let reached = world::wait_until(context, wait, None, |context| {
            let mut inner = place.queue.lock();
            match attempt(&mut inner.state) {
                Some(value) => {
                    inner.leave(place.ticket.take());
                    Poll::Ready(value)
                }
                None => {
                    if place.ticket.is_none() {
                        visibility::count(|counters| match wait {
                            Wait::Lock => counters.lock_waits.add(1),
                            _ => counters.condition_waits.add(1),
                        });
                    }
                    place.ticket = Some(inner.queue(place.ticket, context.waker()));
                    Poll::Pending
                }
            }
        });
        reached.map(|value| value.expect("without a deadline it waits until the attempt succeeds"))
    }
}

/// A waiter's place. Given up while it was woken but had not acted on it, the wake goes to the next.
struct Place<'a, T> {
    queue: &'a Waiting<T>,
    ticket: Option<NonZeroU64>,
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
