//! The threads that wait at a condition variable, counted beneath the lock of what they wait for.
//!
//! `Condvar::notify_one` of std is a system call even where no thread waits. A thread that has been
//! woken counts as waiting until it has the lock again. On a busy processor that takes long. A
//! queue that tells a thread of each event makes a call for each: 2.2 a request of `staged` at 256
//! connections. So one thread at a time is on its way. It takes its share, and if work is left, it
//! wakes the next one. Tokio's scheduler wakes its workers so.

use std::sync::PoisonError;
use std::time::Duration;

use duality_runtime::locks::{Condvar, MutexGuard};
use duality_runtime::visibility;

/// Threads that wait, and whether one of them is on its way.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: usize,
    one_comes: bool,
}

impl Waiters {
    /// How many threads wait, with the one that is on its way.
    pub(crate) fn count(&self) -> usize {
        self.waiting
    }

    /// Wakes a thread for so much work, if one waits and none is on its way. Call this when work
    /// was added, and when a thread has taken its share.
    pub(crate) fn wake_for(&mut self, work: usize) -> Wake {
        let is_needed = work > 0 && self.waiting > 0 && !self.one_comes;
        self.one_comes |= is_needed;
        Wake { is_needed }
    }

    fn enter(&mut self) {
        self.waiting += 1;
    }

    /// A thread is back: woken, timed out, or by a spurious wake-up. It looks at the queue in each
    /// case, so it stands for the one that was woken.
    fn leave(&mut self) {
        self.waiting -= 1;
        self.one_comes = false;
    }
}

/// What is left to do for a wake-up, best without the lock: the thread would wait for it.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Wake {
    is_needed: bool,
}

impl Wake {
    /// Wakes a thread that waits at `condition`, if one is needed.
    pub(crate) fn send(self, condition: &Condvar) {
        if self.is_needed {
            visibility::thread_woken();
            condition.notify_one();
        }
    }
}

/// Waits once at `condition`, as one of the `waiters` of what the lock protects.
pub(crate) fn wait<'a, T: Send>(
    condition: &Condvar,
    mut guard: MutexGuard<'a, T>,
    waiters: impl Fn(&mut T) -> &mut Waiters,
) -> MutexGuard<'a, T> {
    waiters(&mut guard).enter();
    let mut guard = condition.wait(guard).unwrap_or_else(PoisonError::into_inner);
    waiters(&mut guard).leave();
    guard
}

/// As [`wait`], for at most `longest`. True if the time is over.
pub(crate) fn wait_for<'a, T: Send>(
    condition: &Condvar,
    mut guard: MutexGuard<'a, T>,
    longest: Duration,
    waiters: impl Fn(&mut T) -> &mut Waiters,
) -> (MutexGuard<'a, T>, bool) {
    waiters(&mut guard).enter();
    let waited = condition.wait_timeout(guard, longest);
    let (mut guard, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
    waiters(&mut guard).leave();
    (guard, outcome.timed_out())
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::Waiters;

    /// What a thread of a pool does.
    #[derive(Clone, Copy, PartialEq)]
    enum Thread {
        Works,
        /// In the condition variable.
        Sleeps,
        /// Out of it, by a wake-up of any kind, without the lock.
        Wakes,
    }

    /// A pool, each thread of which takes one event at a time. Each step has the lock.
    struct Pool {
        waiters: Waiters,
        threads: Vec<Thread>,
        events: usize,
        /// Notifications that are sent once the lock is free.
        notifications: VecDeque<()>,
    }

    impl Pool {
        /// One step that may happen now, chosen by `choice`.
        fn step(&mut self, choice: usize) {
            let at = (choice / 4) % self.threads.len();
            match choice % 4 {
                0 => {
                    self.events += 1;
                    if self.waiters.wake_for(self.events).is_needed {
                        self.notifications.push_back(());
                    }
                }
                1 => self.notify(at),
                // A time-out, or for no reason.
                2 if self.threads[at] == Thread::Sleeps => self.threads[at] = Thread::Wakes,
                _ => self.advance(at),
            }
        }

        /// The kernel wakes any one of the threads that sleep.
        fn notify(&mut self, from: usize) {
            let count = self.threads.len();
            if self.notifications.pop_front().is_some()
                && let Some(woken) = (0..count)
                    .map(|step| (from + step) % count)
                    .find(|at| self.threads[*at] == Thread::Sleeps)
            {
                self.threads[woken] = Thread::Wakes;
            }
        }

        /// A thread that does not sleep takes an event, or goes to sleep.
        fn advance(&mut self, at: usize) {
            match self.threads[at] {
                Thread::Sleeps => return,
                Thread::Wakes => self.waiters.leave(),
                Thread::Works => {}
            }
            self.threads[at] = Thread::Works;
            match self.events.checked_sub(1) {
                Some(rest) => {
                    self.events = rest;
                    if self.waiters.wake_for(rest).is_needed {
                        self.notifications.push_back(());
                    }
                }
                None => {
                    self.waiters.enter();
                    self.threads[at] = Thread::Sleeps;
                }
            }
        }
    }

    proptest! {
        /// No event is left while every thread sleeps, whatever the order of their steps.
        #[test]
        fn no_event_is_left_to_threads_that_sleep(
            threads in 1usize..5,
            choices in prop::collection::vec(any::<usize>(), 0..200),
        ) {
            let mut pool = Pool {
                waiters: Waiters::default(),
                threads: vec![Thread::Works; threads],
                events: 0,
                notifications: VecDeque::new(),
            };
            for choice in choices {
                pool.step(choice);
            }
            loop {
                let awake = pool.threads.iter().position(|thread| *thread != Thread::Sleeps);
                match awake {
                    Some(at) => pool.advance(at),
                    None if pool.notifications.is_empty() => break,
                    None => pool.notify(0),
                }
            }
            prop_assert_eq!(pool.events, 0);
            prop_assert_eq!((pool.waiters.count(), pool.waiters.one_comes), (threads, false));
        }
    }

    #[test]
    fn one_thread_is_woken_at_a_time() {
        let mut waiters = Waiters::default();
        assert!(!waiters.wake_for(1).is_needed);
        waiters.enter();
        waiters.enter();
        assert!(!waiters.wake_for(0).is_needed);
        assert!(waiters.wake_for(1).is_needed);
        assert!(!waiters.wake_for(1).is_needed);
        waiters.leave();
        assert!(waiters.wake_for(1).is_needed);
        assert_eq!(waiters.count(), 1);
    }
}
