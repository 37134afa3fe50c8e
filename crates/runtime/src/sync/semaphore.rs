//! A number of permits.

use super::queue::{Waiting, Wake};
use crate::visibility::{self, Wait};

/// A number of permits that tasks take and give back.
pub struct Semaphore {
    permits: Waiting<usize>,
}

impl Semaphore {
    /// A semaphore with `permits` permits.
    pub const fn new(permits: usize) -> Self {
        Self { permits: Waiting::new(Wait::Lock, permits) }
    }

    /// Takes a permit, waiting for one if need be.
    pub async fn acquire(&self) -> Permit<'_> {
        self.permits.until(take).await;
        Permit { semaphore: self }
    }

    /// Takes a permit if there is one.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        let taken = self.permits.change(|permits| (take(permits), Wake::Nobody));
        taken.map(|()| Permit { semaphore: self })
    }

    /// How many permits there are now.
    pub fn available(&self) -> usize {
        self.permits.change(|permits| (*permits, Wake::Nobody))
    }
}

/// A permit; given back when it is dropped.
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.permits.change(|permits| {
            *permits += 1;
            ((), Wake::One)
        });
    }
}

fn take(permits: &mut usize) -> Option<()> {
    *permits = permits.checked_sub(1)?;
    visibility::count(|counters| counters.locks.add(1));
    Some(())
}
