//! The notes of a loop's gathered waits, beyond those of a single wait.
//!
//! A single wait is identified by its task: the poller's sources and the timers have the task's
//! name. A task has several gathered waits, with several deadlines, and maybe with wakers of a
//! combinator.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Instant;

use duality_poller::{Direction, Event, Token};

use crate::gather::{Deadlines, Key};

#[derive(Default)]
pub(crate) struct Gathered {
    deadlines: RefCell<Deadlines>,
    /// The earliest deadline.
    next: Cell<Option<Instant>>,
    /// The wakers that are not a task's own, by token and direction.
    foreign: RefCell<BTreeMap<(u32, u8), Waker>>,
    has_foreign: Cell<bool>,
    /// The wakers of waits for the drain.
    drains: RefCell<BTreeMap<Key, Waker>>,
}

impl Gathered {
    pub(crate) fn note_time(&self, key: Key, deadline: Instant, waker: &Waker) {
        let replaced = {
            let mut deadlines = self.deadlines.borrow_mut();
            let replaced = deadlines.set(key, deadline, Some(waker.clone()));
            self.next.set(deadlines.next());
            replaced
        };
        drop(replaced);
    }

    /// Moves a deadline, and keeps its waker. Uses the waker if the new deadline is due. Returns
    /// whether there was one.
    pub(crate) fn move_time(&self, key: Key, deadline: Instant, now: Instant) -> bool {
        let is_noted = {
            let mut deadlines = self.deadlines.borrow_mut();
            let is_noted = deadlines.move_to(key, deadline);
            self.next.set(deadlines.next());
            is_noted
        };
        self.expire(now);
        is_noted
    }

    pub(crate) fn forget_time(&self, key: Key) {
        let forgotten = {
            let mut deadlines = self.deadlines.borrow_mut();
            let forgotten = deadlines.forget(key);
            self.next.set(deadlines.next());
            forgotten
        };
        drop(forgotten);
    }

    #[inline]
    pub(super) fn next(&self) -> Option<Instant> {
        self.next.get()
    }

    /// Uses the wakers that are due.
    #[inline]
    pub(super) fn expire(&self, now: Instant) {
        if self.next.get().is_some_and(|next| next <= now) {
            self.expire_some(now);
        }
    }

    #[cold]
    fn expire_some(&self, now: Instant) {
        let mut woken = Vec::new();
        {
            let mut deadlines = self.deadlines.borrow_mut();
            deadlines.expire(now, &mut woken);
            self.next.set(deadlines.next());
        }
        woken.into_iter().for_each(Waker::wake);
    }

    /// Notes the waker of a combinator, which waits for a descriptor.
    #[cold]
    pub(crate) fn note_foreign(&self, token: Token, direction: Direction, waker: &Waker) {
        let key = (token.0, direction as u8);
        let replaced = self.foreign.borrow_mut().insert(key, waker.clone());
        drop(replaced);
        self.has_foreign.set(true);
    }

    /// Wakes the combinators that wait for these events.
    #[inline]
    pub(super) fn wake_ready(&self, events: &[Event]) {
        if self.has_foreign.get() {
            self.wake_foreign(events);
        }
    }

    #[cold]
    fn wake_foreign(&self, events: &[Event]) {
        for event in events {
            let ready = [(event.readable, Direction::Read), (event.writable, Direction::Write)];
            for (_, direction) in ready.into_iter().filter(|(is_ready, _)| *is_ready) {
                let key = (event.token.0, direction as u8);
                let waker = self.foreign.borrow_mut().remove(&key);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
        self.has_foreign.set(!self.foreign.borrow().is_empty());
    }

    #[inline]
    pub(super) fn forget_descriptor(&self, token: Token) {
        if self.has_foreign.get() {
            let forgotten = [Direction::Read, Direction::Write]
                .map(|direction| self.foreign.borrow_mut().remove(&(token.0, direction as u8)));
            // This is outside of the borrow, because a waker may be the last owner of a future.
            drop(forgotten);
        }
    }

    /// Has `waker` used when the loop begins to drain.
    pub(crate) fn note_drain(&self, key: Key, waker: &Waker) {
        let replaced = self.drains.borrow_mut().insert(key, waker.clone());
        drop(replaced);
    }

    pub(crate) fn forget_drain(&self, key: Key) {
        let forgotten = self.drains.borrow_mut().remove(&key);
        drop(forgotten);
    }

    /// The loop begins to drain: reads end, and waits for the drain are woken.
    pub(super) fn wake_at_drain(&self) {
        let (foreign, drains) = (self.foreign.take(), self.drains.take());
        foreign.into_values().chain(drains.into_values()).for_each(Waker::wake);
    }
}
