//! Locks of kernel threads. They are those of `std`, with its interface. On simulated threads, a
//! simulation sees which thread holds a lock, and which threads wait.
//!
//! Architectures and the waits of kernel threads use these. On a [simulated
//! thread](crate::threads), each lock and each notification is a place at which another thread may
//! go on. A thread that finds a lock held waits for its turn, and not in the kernel.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LockResult, PoisonError, TryLockError};
use std::time::Duration;

use crate::threads::{self, Threads};

/// A `Mutex` of `std`.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

/// The guard of a [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'m, T> {
    guard: std::sync::MutexGuard<'m, T>,
    mutex: &'m Mutex<T>,
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }
}

impl<T: Send> Mutex<T> {
    /// Waits for the lock.
    ///
    /// # Errors
    ///
    /// If a thread has panicked with the lock. Its guard is in the error. On a simulated thread
    /// there is no error: the threads of a crashed host unwind, and must still get their locks.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        if let Some(threads) = threads::here() {
            return Ok(self.lock_simulated(&*threads));
        }
        self.guard(self.0.lock())
    }

    #[cold]
    fn lock_simulated(&self, threads: &dyn Threads) -> MutexGuard<'_, T> {
        threads::give_way(threads);
        loop {
            match self.0.try_lock() {
                Ok(guard) => return MutexGuard { guard, mutex: self },
                Err(TryLockError::Poisoned(error)) => {
                    return MutexGuard { guard: error.into_inner(), mutex: self };
                }
                Err(TryLockError::WouldBlock) => {
                    let is_free = || !matches!(self.0.try_lock(), Err(TryLockError::WouldBlock));
                    threads::wait_for_lock(threads, &is_free);
                }
            }
        }
    }

    fn guard<'m>(
        &'m self,
        locked: LockResult<std::sync::MutexGuard<'m, T>>,
    ) -> LockResult<MutexGuard<'m, T>> {
        match locked {
            Ok(guard) => Ok(MutexGuard { guard, mutex: self }),
            Err(error) => {
                Err(PoisonError::new(MutexGuard { guard: error.into_inner(), mutex: self }))
            }
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A `Condvar` of `std`.
#[derive(Debug, Default)]
pub struct Condvar {
    kernels: std::sync::Condvar,
    /// The simulated threads that wait, in the order in which they came, each with whether it has
    /// been notified.
    sleepers: std::sync::Mutex<Vec<Arc<AtomicBool>>>,
}

/// Whether a wait ended by its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time was over before the notification.
    #[must_use]
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable for which no thread waits.
    #[must_use]
    pub const fn new() -> Self {
        Self { kernels: std::sync::Condvar::new(), sleepers: std::sync::Mutex::new(Vec::new()) }
    }

    /// Waits for a notification, without the lock. May return early.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`].
    pub fn wait<'m, T: Send>(&self, guard: MutexGuard<'m, T>) -> LockResult<MutexGuard<'m, T>> {
        if let Some(threads) = threads::here() {
            return Ok(self.sleep(&*threads, guard, None).0);
        }
        let mutex = guard.mutex;
        mutex.guard(self.kernels.wait(guard.guard))
    }

    /// Waits while `condition` says so.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`].
    pub fn wait_while<'m, T: Send>(
        &self,
        mut guard: MutexGuard<'m, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'m, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits for a notification, at most for `limit`. May return early.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`].
    pub fn wait_timeout<'m, T: Send>(
        &self,
        guard: MutexGuard<'m, T>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'m, T>, WaitTimeoutResult)> {
        let mutex = guard.mutex;
        if let Some(threads) = threads::here() {
            return Ok(self.sleep(&*threads, guard, Some(limit)));
        }
        match self.kernels.wait_timeout(guard.guard, limit) {
            Ok((guard, outcome)) => {
                Ok((MutexGuard { guard, mutex }, WaitTimeoutResult(outcome.timed_out())))
            }
            Err(error) => {
                let (guard, outcome) = error.into_inner();
                let outcome = WaitTimeoutResult(outcome.timed_out());
                Err(PoisonError::new((MutexGuard { guard, mutex }, outcome)))
            }
        }
    }

    /// Waits while `condition` says so, at most for `limit`.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`].
    pub fn wait_timeout_while<'m, T: Send>(
        &self,
        mut guard: MutexGuard<'m, T>,
        limit: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'m, T>, WaitTimeoutResult)> {
        let start = threads::now();
        while condition(&mut guard) {
            let left = limit.saturating_sub(threads::now().saturating_duration_since(start));
            if left.is_zero() {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            guard = self.wait_timeout(guard, left)?.0;
        }
        Ok((guard, WaitTimeoutResult(false)))
    }

    /// Wakes one of the threads that wait.
    #[inline]
    pub fn notify_one(&self) {
        self.kernels.notify_one();
        if threads::simulates() {
            self.tell(false);
        }
    }

    /// Wakes all threads that wait.
    #[inline]
    pub fn notify_all(&self) {
        self.kernels.notify_all();
        if threads::simulates() {
            self.tell(true);
        }
    }

    #[cold]
    fn tell(&self, all: bool) {
        let threads = threads::here();
        if let Some(threads) = &threads {
            threads::give_way(&**threads);
        }
        let mut sleepers = self.sleepers();
        let count = sleepers.len();
        if count == 0 {
            return;
        }
        let told = match (all, threads) {
            (true, _) => 0..count,
            (false, threads) => {
                let one = threads.map_or(0, |threads| threads.pick(count));
                one..one + 1
            }
        };
        sleepers.drain(told).for_each(|sleeper| sleeper.store(true, Ordering::Relaxed));
    }

    #[cold]
    fn sleep<'m, T: Send>(
        &self,
        threads: &dyn Threads,
        guard: MutexGuard<'m, T>,
        limit: Option<Duration>,
    ) -> (MutexGuard<'m, T>, WaitTimeoutResult) {
        let mutex = guard.mutex;
        let sleeper = Arc::new(AtomicBool::new(false));
        self.sleepers().push(sleeper.clone());
        drop(guard);
        let deadline = limit.and_then(|limit| threads.now().checked_add(limit));
        let is_told = || sleeper.load(Ordering::Relaxed);
        threads::wait(threads, "a condition variable", &is_told, deadline);
        self.sleepers().retain(|other| !Arc::ptr_eq(other, &sleeper));
        let is_over = !is_told() && deadline.is_some_and(|deadline| threads.now() >= deadline);
        (mutex.lock_simulated(threads), WaitTimeoutResult(is_over))
    }

    fn sleepers(&self) -> std::sync::MutexGuard<'_, Vec<Arc<AtomicBool>>> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
