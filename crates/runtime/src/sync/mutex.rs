//! Mutual exclusion that may be held across a wait.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::semaphore::{Permit, Semaphore};

/// A value that one task at a time can use, even across other waits.
///
/// The mutex is fair, like a [`Semaphore`]: tasks get their turns in the order in which they came.
///
/// ```
/// # use duality_runtime as duality;
/// use std::sync::Arc;
///
/// use duality::sync::Mutex;
/// use duality::{block_on, task};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let count = Arc::new(Mutex::new(0));
///     let other = count.clone();
///     let task = task::spawn(async move { *other.lock().await += 1 })?;
///     *count.lock().await += 1;
///     task.await.expect("the task does not panic");
///     assert_eq!(*count.lock().await, 2);
///     Ok(())
/// })
/// # }
/// ```
pub struct Mutex<T> {
    semaphore: Semaphore,
    value: UnsafeCell<T>,
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut mutex = formatter.debug_struct("Mutex");
        match self.try_lock() {
            Some(value) => mutex.field("value", &*value),
            None => mutex.field("value", &format_args!("<locked>")),
        };
        mutex.finish()
    }
}

// SAFETY: only the task that has the permit reaches the value. So the value moves between threads
// (hence `T: Send`) but is never used by two at once.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// A mutex that holds `value`.
    pub const fn new(value: T) -> Self {
        Self { semaphore: Semaphore::new(1), value: UnsafeCell::new(value) }
    }

    /// Waits for the permit and takes it. A panic while the permit is held gives it back, with the
    /// value as it is.
    #[track_caller]
    pub fn lock(&self) -> impl Future<Output = MutexGuard<'_, T>> {
        let permit = self.semaphore.acquire();
        async { self.hold(permit.await) }
    }

    /// Takes the permit, unless a task has it or waits for it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.semaphore.try_acquire().map(|permit| self.hold(permit))
    }

    fn hold<'a>(&'a self, permit: Permit<'a>) -> MutexGuard<'a, T> {
        MutexGuard { mutex: self, _permit: permit, _value: PhantomData }
    }
}

/// The lock of a [`Mutex`], given back when it is dropped.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    _permit: Permit<'a>,
    /// Sharing the guard shares the value, so it has the requirements of `&mut T`.
    _value: PhantomData<&'a mut T>,
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard has the one permit, so all other references to the value borrow this
        // guard.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`, and this guard is borrowed exclusively.
        unsafe { &mut *self.mutex.value.get() }
    }
}
