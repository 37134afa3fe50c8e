//! A bounded number of turns at something costly, and what the turns before left open for reuse.

use std::sync::{Mutex, MutexGuard, PoisonError};

use duality_runtime::sync::{Permit, Semaphore};
use duality_runtime::time::{Duration, timeout};

/// At most so many turns at a time, and at most as many things that wait for the next turn.
pub(super) struct Pool<T> {
    turns: Semaphore,
    idle: Mutex<Vec<T>>,
}

/// A turn, in which one thing at a time is taken out of the pool or made, used, and put into the pool.
pub(super) struct Turn<'p, T> {
    pool: &'p Pool<T>,
    _permit: Permit<'p>,
}

impl<T> Pool<T> {
    /// With room for `turns` turns at a time.
    pub(super) const fn new(turns: usize) -> Self {
        Self { turns: Semaphore::new(turns), idle: Mutex::new(Vec::new()) }
    }

    /// Waits for a turn; `None` when none came within `limit`.
    pub(super) async fn turn(&self, limit: Duration) -> Option<Turn<'_, T>> {
        let permit = match self.turns.try_acquire() {
            Some(permit) => permit,
            None => timeout(limit, self.turns.acquire()).await.ok()?,
        };
        Some(Turn { pool: self, _permit: permit })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<T>> {
        // Nothing can panic while it is held.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Turn<'_, T> {
    /// Takes out what was put in last, which is the likeliest to be good still.
    pub(super) fn take(&self) -> Option<T> {
        self.pool.idle().pop()
    }

    /// Puts in something that the next turn may use.
    pub(super) fn put(self, thing: T) {
        self.pool.idle().push(thing);
    }
}
