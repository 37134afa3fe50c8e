//! A pool of things that are costly to open: a bounded number is in use at a time, and idle ones
//! are reused.

use std::sync::{Mutex, MutexGuard, PoisonError};

use duality_runtime::sync::{Permit, Semaphore};
use duality_runtime::time::{Duration, timeout};

/// A bounded number of things in use at a time, and at most as many idle ones.
pub(super) struct Pool<T> {
    permits: Semaphore,
    idle: Mutex<Vec<T>>,
}

/// The permission to use one thing at a time: it is taken out of the pool or made, used, and put
/// into the pool.
pub(super) struct Checkout<'p, T> {
    pool: &'p Pool<T>,
    _permit: Permit<'p>,
}

impl<T> Pool<T> {
    /// A pool. At most `most` of its things may be in use at a time.
    pub(super) const fn new(most: usize) -> Self {
        Self { permits: Semaphore::new(most), idle: Mutex::new(Vec::new()) }
    }

    /// Waits for a permission; `None` when there was none within `limit`.
    pub(super) async fn check_out(&self, limit: Duration) -> Option<Checkout<'_, T>> {
        let permit = match self.permits.try_acquire() {
            Some(permit) => permit,
            None => timeout(limit, self.permits.acquire()).await.ok()?,
        };
        Some(Checkout { pool: self, _permit: permit })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<T>> {
        // Nothing can panic while it is held.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Checkout<'_, T> {
    /// Takes out what was put in last, which is the likeliest to be good still.
    pub(super) fn take(&self) -> Option<T> {
        self.pool.idle().pop()
    }

    /// Puts `thing` into the pool, for the next checkout.
    pub(super) fn put(self, thing: T) {
        self.pool.idle().push(thing);
    }
}
