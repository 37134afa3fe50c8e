//! A number of permits.

use super::atomic::AtomicUsize;
use super::permits::Permits;
use super::queue::{Waiting, Wake};
use crate::visibility::{self, Wait};

/// A number of permits that tasks take and give back.
pub struct Semaphore {
    permits: Permits,
    waiters: Waiting<()>,
}

impl Semaphore {
    /// A semaphore with `permits` permits; `usize::MAX / 2` are as many as there can be.
    pub const fn new(permits: usize) -> Self {
        Self {
            permits: Permits::new(AtomicUsize::new(Permits::word(permits))),
            waiters: Waiting::new(Wait::Lock, ()),
        }
    }

    /// Takes a permit, waiting for one if need be.
    pub async fn acquire(&self) -> Permit<'_> {
        if !self.permits.take() {
            self.waiters.until(|()| self.permits.take_or_wait().then_some(())).await;
        }
        Permit::taken(self)
    }

    /// Takes a permit if there is one.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.permits.take().then(|| Permit::taken(self))
    }

    /// How many permits there are now.
    pub fn available(&self) -> usize {
        self.permits.count()
    }

    /// Wakes who waits for the permit that was given back.
    #[cold]
    fn tell(&self) {
        self.waiters.change_knowing(|(), waited| {
            if !waited {
                self.permits.nobody_waits();
            }
            ((), Wake::One)
        });
    }
}

/// A permit; given back when it is dropped.
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
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
            self.semaphore.tell();
        }
    }
}
