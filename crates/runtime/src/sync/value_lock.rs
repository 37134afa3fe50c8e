//! A lock of `std` for readers and a writer. On a simulated thread, a wait for it is one that the
//! simulation sees.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use crate::threads;

pub(super) struct ValueLock<T>(RwLock<T>);

impl<T> ValueLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }
}

impl<T: Send + Sync> ValueLock<T> {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, T> {
        match threads::here() {
            None => self.0.read().unwrap_or_else(PoisonError::into_inner),
            Some(threads) => until(&*threads, || match self.0.try_read() {
                Ok(guard) => Some(guard),
                Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            }),
        }
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, T> {
        match threads::here() {
            None => self.0.write().unwrap_or_else(PoisonError::into_inner),
            Some(threads) => until(&*threads, || match self.0.try_write() {
                Ok(guard) => Some(guard),
                Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            }),
        }
    }
}

/// Waits on a simulated thread until `attempt` has the lock.
#[cold]
fn until<G>(threads: &dyn threads::Threads, attempt: impl Fn() -> Option<G> + Sync) -> G {
    threads::give_way(threads);
    loop {
        if let Some(guard) = attempt() {
            return guard;
        }
        threads::wait_for_lock(threads, &|| attempt().is_some());
    }
}
