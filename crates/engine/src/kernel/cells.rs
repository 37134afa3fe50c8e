//! Cells in structures that several workers reach. The type of a cell says when the cell may be
//! used.
//!
//! | type | used |
//! | --- | --- |
//! | [`UnderLock`] | under the lock, by whichever worker |
//! | [`Own`] | by the worker that runs the thread, task or worker; otherwise under the lock |
//! | [`Relaxed`], an atomic | always |
//!
//! So `Thread`, `Waiter`, `Task` and `Worker` are `Sync` because their fields are.

use core::cell::Cell;
use core::ops::Deref;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::kernel::lock::Held;

/// A value that is reached only under the lock.
#[repr(transparent)]
pub(crate) struct UnderLock<T>(Cell<T>);

// SAFETY: the value is copied in and out while the proof that the lock is held is borrowed. So one
// worker at a time reaches the value.
unsafe impl<T> Sync for UnderLock<T> {}

impl<T: Copy> UnderLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Cell::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self, _: Held<'_>) -> T {
        self.0.get()
    }

    #[inline(always)]
    pub(crate) fn set(&self, _: Held<'_>, value: T) {
        self.0.set(value);
    }

    #[inline(always)]
    pub(crate) fn replace(&self, _: Held<'_>, value: T) -> T {
        self.0.replace(value)
    }
}

/// A value of a thread, a task or a worker. The worker that runs it uses the value without the
/// lock. While no worker runs it, the value is used under the lock. So the lock hands the value
/// from one worker to the next.
#[repr(transparent)]
pub(crate) struct Own<T>(Cell<T>);

// SAFETY: one worker at a time uses the value, as the type says.
unsafe impl<T> Sync for Own<T> {}

impl<T> Own<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Cell::new(value))
    }
}

impl<T> Deref for Own<T> {
    type Target = Cell<T>;

    #[inline(always)]
    fn deref(&self) -> &Cell<T> {
        &self.0
    }
}

/// A word that any worker reads and writes at any time. The word orders no other memory access.
#[repr(transparent)]
pub(crate) struct Relaxed<W: Word>(W::Atomic);

/// An integer that fits into an atomic.
pub(crate) trait Word: Sized {
    type Atomic;
    fn load(atomic: &Self::Atomic) -> Self;
    fn store(atomic: &Self::Atomic, value: Self);
}

macro_rules! word {
    ($($word:ty, $atomic:ty;)*) => {$(
        impl Word for $word {
            type Atomic = $atomic;

            #[inline(always)]
            fn load(atomic: &$atomic) -> Self {
                atomic.load(Ordering::Relaxed)
            }

            #[inline(always)]
            fn store(atomic: &$atomic, value: Self) {
                atomic.store(value, Ordering::Relaxed);
            }
        }
    )*};
}

word! { i32, AtomicI32; u32, AtomicU32; u64, AtomicU64; usize, AtomicUsize; }

impl<W: Word> Relaxed<W> {
    pub(crate) const fn new(atomic: W::Atomic) -> Self {
        Self(atomic)
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> W {
        W::load(&self.0)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: W) {
        W::store(&self.0, value);
    }
}
