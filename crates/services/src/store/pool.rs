//! A pool of values that are costly to open. A bounded number is in use at a time, and idle ones
//! are reused.

use std::sync::Arc;

use duality_runtime::select;
use duality_runtime::sync::{Permit, Semaphore};
use duality_runtime::time::{Duration, timeout};

use crate::client::Client;
use crate::idle::Idle;

/// A bounded number of values in use at a time, and at most as many idle ones.
pub(super) struct Pool<T> {
    permits: Semaphore,
    idle: Arc<Idle<T>>,
}

/// The permission to use one value. The holder takes a value from the pool or makes one, uses it,
/// and puts it back.
pub(super) struct Checkout<'p, T> {
    pool: &'p Pool<T>,
    _permit: Permit<'p>,
}

/// Why there was no permission.
pub(super) enum NoTurn {
    /// None came free in time.
    Late,
    /// The client did not wait for it.
    ClientLeft,
}

impl<T: Send + 'static> Pool<T> {
    /// A pool with at most `most` values in use at a time. One that is idle for `longest` is
    /// dropped, if that is given.
    pub(super) fn new(most: usize, longest: Option<Duration>) -> Self {
        Self { permits: Semaphore::new(most), idle: Idle::new(most, longest) }
    }

    /// Waits for a permission, for `limit` at most, and not longer than the client does.
    pub(super) async fn check_out(
        &self,
        limit: Duration,
        client: Client<'_>,
    ) -> Result<Checkout<'_, T>, NoTurn> {
        let permit = match self.permits.try_acquire() {
            Some(permit) => permit,
            None if client.may_leave() => {
                select! {
                    permit = timeout(limit, self.permits.acquire()) =>
                        permit.map_err(|_| NoTurn::Late)?,
                    () = client.leaves() => return Err(NoTurn::ClientLeft),
                }
            }
            None => timeout(limit, self.permits.acquire()).await.map_err(|_| NoTurn::Late)?,
        };
        Ok(Checkout { pool: self, _permit: permit })
    }
}

impl<T: Send + 'static> Checkout<'_, T> {
    /// Takes the value that was put in last, which is most likely still good.
    pub(super) fn take(&self) -> Option<T> {
        self.pool.idle.take(|_| true)
    }

    /// Puts a value into the pool, for the next checkout.
    pub(super) fn put(self, thing: T) {
        self.pool.idle.put(thing);
    }
}
