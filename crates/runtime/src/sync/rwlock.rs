//! A value that many tasks may read, or one may change.
//!
//! ```text
//!   reader   takes the gate, counts itself, gives the gate back
//!   writer   takes the gate, waits until no reader is left, changes the value, gives the gate back
//! ```
//!
//! The gate is a fair [`Semaphore`] of one permit. So readers and writers come in one order, and a
//! writer that waits for readers lets no later reader in.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::semaphore::{Permit, Semaphore};
use super::wait_queue::{Position, WaitQueue, Wake, Want};
use crate::visibility::Wait;

/// A value that many tasks can read at a time, or one task can change, even across other waits.
///
/// The lock is fair: tasks get their turns in the order in which they came. So a task that reads
/// must not wait for a second read: a writer may have come in between.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::sync::RwLock;
///
/// block_on(async {
///     let settings = RwLock::new(vec!["fast"]);
///     {
///         let (one, other) = (settings.read().await, settings.read().await);
///         assert_eq!(*one, *other);
///         assert!(settings.try_write().is_none());
///     }
///     settings.write().await.push("small");
///     assert_eq!(*settings.read().await, ["fast", "small"]);
/// });
/// ```
pub struct RwLock<T> {
    gate: Semaphore,
    /// The number of guards that read.
    readers: WaitQueue<usize>,
    value: UnsafeCell<T>,
}

impl<T: fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lock = formatter.debug_struct("RwLock");
        match self.try_read() {
            Some(value) => lock.field("value", &*value),
            None => lock.field("value", &format_args!("<locked>")),
        };
        lock.finish()
    }
}

// SAFETY: the guards give out shared references while no writer has the gate. A task with the gate
// gets an exclusive reference once there is no reader. Readers on several threads share the value,
// hence `T: Sync`.
unsafe impl<T: Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    /// A lock that holds `value`.
    pub const fn new(value: T) -> Self {
        let readers = WaitQueue::new(Wait::Lock, 0);
        Self { gate: Semaphore::new(1), readers, value: UnsafeCell::new(value) }
    }

    /// Waits until no task changes the value, and until all tasks that came before have had their
    /// turns.
    #[track_caller]
    pub fn read(&self) -> impl Future<Output = RwLockReadGuard<'_, T>> {
        let gate = self.gate.acquire();
        async { self.begin_to_read(gate.await) }
    }

    /// Waits until no task has the value, and until all tasks that came before have had their
    /// turns. A panic while the value is held leaves it as it is.
    #[track_caller]
    pub fn write(&self) -> impl Future<Output = RwLockWriteGuard<'_, T>> {
        let gate = self.gate.acquire();
        async {
            let gate = gate.await;
            self.readers.until(NoReader).await;
            RwLockWriteGuard { lock: self, gate, _value: PhantomData }
        }
    }

    /// Reads the value, unless a task changes it, or waits to do so.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.gate.try_acquire().map(|gate| self.begin_to_read(gate))
    }

    /// Takes the value, unless a task has it or waits for it.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        let gate = self.gate.try_acquire()?;
        let is_free = self.readers.change(|readers, _| (*readers == 0, Wake::None));
        is_free.then(|| RwLockWriteGuard { lock: self, gate, _value: PhantomData })
    }

    /// The value, of which no guard can be.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The value, without the lock.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Counts a reader. The caller has the gate, which it then gives back.
    fn begin_to_read<'l>(&'l self, gate: Permit<'l>) -> RwLockReadGuard<'l, T> {
        self.readers.change(|readers, _| {
            *readers += 1;
            ((), Wake::None)
        });
        drop(gate);
        RwLockReadGuard { lock: self, _value: PhantomData }
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// The wish of the writer with the gate that no reader is left.
struct NoReader;

impl Want<usize> for NoReader {
    type Gain = ();

    fn attempt(&mut self, readers: &mut usize, _: Position) -> Option<()> {
        (*readers == 0).then_some(())
    }

    /// Nothing is handed to a single task.
    fn decline(&mut self, _: &mut usize, _: bool) -> Wake {
        Wake::None
    }
}

/// Reads the value of an [`RwLock`], until it is dropped.
pub struct RwLockReadGuard<'a, T> {
    lock: &'a RwLock<T>,
    /// Sharing the guard shares the value.
    _value: PhantomData<&'a T>,
}

/// Has the value of an [`RwLock`], until it is dropped.
pub struct RwLockWriteGuard<'a, T> {
    lock: &'a RwLock<T>,
    gate: Permit<'a>,
    /// Sharing the guard shares the value, so it has the requirements of `&mut T`.
    _value: PhantomData<&'a mut T>,
}

impl<'a, T> RwLockWriteGuard<'a, T> {
    /// Goes on as a reader. No other task changes the value in between.
    #[must_use]
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        self.lock.begin_to_read(self.gate)
    }
}

impl<T> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.readers.change(|readers, _| {
            *readers -= 1;
            ((), if *readers == 0 { Wake::All } else { Wake::None })
        });
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard counts as a reader, and a writer waits until there is none.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard has the gate, which readers and writers need to begin. There was no
        // reader when it was made.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`, and this guard is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}
