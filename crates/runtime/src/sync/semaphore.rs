//! A number of permits.

use std::fmt;
use std::panic::Location;

use super::atomic::AtomicUsize;
use super::permits::Permits;
use super::wait_queue::{Position, WaitQueue, Wake, Want};
use crate::visibility::graph;
use crate::visibility::{self, Wait};
use crate::world::budget::budgeted;

/// A number of permits that tasks take and give back.
///
/// The semaphore is fair: while tasks wait, a released permit goes to the task that has waited
/// longest. No later task can take the permit. So a task that releases its permit and wants another
/// waits until all current waiters have had a permit.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::sync::Semaphore;
///
/// block_on(async {
///     let connections = Semaphore::new(2);
///     let first = connections.acquire().await;
///     let _second = connections.acquire().await;
///     assert!(connections.try_acquire().is_none());
///     drop(first);
///     assert_eq!(connections.available(), 1);
/// });
/// ```
pub struct Semaphore {
    permits: Permits,
    waiters: WaitQueue<()>,
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Semaphore")
            .field("available", &self.available())
            .finish_non_exhaustive()
    }
}

impl Semaphore {
    /// A semaphore with `permits` permits, at most `usize::MAX / 2`.
    pub const fn new(permits: usize) -> Self {
        Self {
            permits: Permits::new(AtomicUsize::new(Permits::word(permits))),
            waiters: WaitQueue::new(Wait::Lock, ()),
        }
    }

    /// Takes a permit, waiting for one if need be. Waiting tasks get permits in the order of their
    /// first polls. If a wait is given up, a permit that it was handed goes to the next task.
    #[track_caller]
    pub fn acquire(&self) -> impl Future<Output = Permit<'_>> {
        graph::arrive("lock", Location::caller());
        async {
            budgeted().await;
            if !self.permits.take() {
                self.waiters.until(&self.permits).await;
            }
            graph::depart();
            Permit::taken(self)
        }
    }

    /// Takes a permit if there is one that no task waits for.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        // With the flag up, only the queue knows whether a task still waits.
        let taken = self.permits.take()
            || self.permits.count() > 0
                && self
                    .waiters
                    .change(|(), waited| (!waited && self.permits.take_alone(), Wake::None));
        taken.then(|| Permit::taken(self))
    }

    /// The number of free permits.
    pub fn available(&self) -> usize {
        self.permits.count()
    }

    /// Hands the returned permit to the task that has waited longest.
    #[cold]
    fn hand_over(&self) {
        self.waiters.change(|(), waited| {
            if !waited {
                self.permits.nothing_waits();
            }
            let handed = waited && self.permits.take_for_waiter();
            ((), if handed { Wake::One } else { Wake::None })
        });
    }
}

impl Want<()> for &Permits {
    type Gain = ();

    fn attempt(&mut self, (): &mut (), position: Position) -> Option<()> {
        let taken = match position {
            Position::Handed => true,
            Position::First => self.take_or_wait(),
            Position::Behind => false,
        };
        taken.then_some(())
    }

    fn decline(&mut self, (): &mut (), waited: bool) -> Wake {
        if waited {
            return Wake::One;
        }
        self.give_back();
        Wake::None
    }
}

/// A permit, which is given back when this value is dropped.
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Permit").finish_non_exhaustive()
    }
}

impl<'a> Permit<'a> {
    #[inline]
    fn taken(semaphore: &'a Semaphore) -> Self {
        visibility::count(|counters| counters.locks.add(1));
        Self { semaphore }
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.semaphore.permits.give_back() {
            self.semaphore.hand_over();
        }
    }
}
