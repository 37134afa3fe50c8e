//! Tasks that wait for something, in the order in which they came.
//!
//! A change of the state may *hand* a permit, a lock or a value to the task that has waited
//! longest. From then on it belongs to that task, and no other task can take it. A task that gives
//! up passes it on.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::waiter_list::{Ticket, WaiterList, WaiterState};
use crate::visibility::graph;
use crate::visibility::{self, Wait};
use crate::world;

/// State of type `T`, and the tasks that wait for it to change.
pub(super) struct WaitQueue<T> {
    /// The name of a wait on this queue in a dump.
    wait: Wait,
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    state: T,
    waiters: WaiterList<Waker>,
}

/// The waiters that a change wakes.
#[derive(Clone, Copy)]
pub(super) enum Wake {
    None,
    /// The task that has waited longest, if there is one. The change hands the permit or lock to
    /// this task.
    One,
    /// All waiters, which then attempt again.
    All,
}

/// The position of a task in the queue, for its attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// The task was handed the object of its wait.
    Handed,
    /// No task waits.
    First,
    /// Other tasks have waited longer.
    Behind,
}

/// The request of a task for a part of a state of type `T`.
pub(super) trait Want<T> {
    /// The result of the request.
    type Gain;

    /// Takes the object, if the position allows that and the state has it. If the position is
    /// [`Handed`](Position::Handed), the call must succeed.
    fn attempt(&mut self, state: &mut T, position: Position) -> Option<Self::Gain>;

    /// Gives back the handed object, because the waiter has given up. `waited` says whether other
    /// tasks wait.
    fn decline(&mut self, state: &mut T, waited: bool) -> Wake;
}

impl<T> WaitQueue<T> {
    pub(super) const fn new(wait: Wait, state: T) -> Self {
        Self { wait, inner: Mutex::new(Inner { state, waiters: WaiterList::new() }) }
    }

    /// Changes the state, wakes the waiters that the change names, and returns its result. The
    /// change receives whether tasks wait.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut T, bool) -> (R, Wake)) -> R {
        let mut inner = self.lock();
        let waited = inner.waiters.has_waiting();
        let (result, wake) = change(&mut inner.state, waited);
        wake_up(inner, wake);
        result
    }

    /// Waits until `want` is satisfied.
    pub(super) const fn until<W: Want<T>>(&self, want: W) -> Until<'_, T, W> {
        Until { queue: self, ticket: None, want }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the tasks that `wake` names, after it releases the lock: a woken task may need the lock at
/// once.
fn wake_up<T>(mut inner: MutexGuard<'_, Inner<T>>, wake: Wake) {
    match wake {
        Wake::None => {}
        Wake::One => {
            let woken = inner.waiters.hand();
            drop(inner);
            if let Some(waker) = woken {
                waker.wake();
            }
        }
        Wake::All => {
            let woken = inner.waiters.dismiss();
            drop(inner);
            woken.for_each(Waker::wake);
        }
    }
}

impl<T> Inner<T> {
    fn position(&self, ticket: Option<Ticket>) -> Position {
        if ticket.is_some_and(|ticket| self.waiters.is_handed(ticket)) {
            Position::Handed
        } else if self.waiters.has_waiting() {
            Position::Behind
        } else {
            Position::First
        }
    }
}

/// The wait for a state. The future is written by hand, because an `async fn` would store its
/// arguments twice. A parked task contains the future of its wait, so the size of this future
/// matters.
pub(super) struct Until<'a, T, W: Want<T>> {
    queue: &'a WaitQueue<T>,
    /// The ticket, if the task has queued.
    ticket: Option<Ticket>,
    want: W,
}

impl<T, W: Want<T>> Unpin for Until<'_, T, W> {}

impl<T, W: Want<T>> Future for Until<'_, T, W> {
    type Output = W::Gain;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<W::Gain> {
        let Self { queue, ticket, want } = &mut *self;
        let wait = queue.wait;
        let reached = world::wait_until(context, wait, None, |context| {
            let mut inner = queue.lock();
            let position = inner.position(*ticket);
            match want.attempt(&mut inner.state, position) {
                Some(gain) => {
                    if let Some(ticket) = ticket.take() {
                        inner.waiters.leave(ticket);
                    }
                    Poll::Ready(gain)
                }
                None => {
                    if ticket.is_none() {
                        visibility::count(|counters| match wait {
                            Wait::Lock => counters.lock_waits.add(1),
                            _ => counters.condition_waits.add(1),
                        });
                    }
                    *ticket = Some(inner.waiters.queue(*ticket, context.waker()));
                    Poll::Pending
                }
            }
        });
        if reached.is_ready() {
            graph::depart();
        }
        reached.map(|gain| gain.expect("without a deadline it waits until the attempt succeeds"))
    }
}

impl<T, W: Want<T>> Drop for Until<'_, T, W> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut inner = self.queue.lock();
        if inner.waiters.leave(ticket) == WaiterState::Handed {
            let waited = inner.waiters.has_waiting();
            let wake = self.want.decline(&mut inner.state, waited);
            wake_up(inner, wake);
        }
    }
}
