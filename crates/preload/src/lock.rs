//! The one lock of the engine, and the state that it protects.
//!
//! The lock is held across a switch: the thread that parks takes it, and the thread or worker that is
//! switched to releases it. So nobody sees a thread as parked before its stack has been left.

use core::cell::{Cell, UnsafeCell};
use core::sync::atomic::{AtomicBool, Ordering};

/// Proof that the lock is held.
pub(crate) struct Locked(());

static HELD: AtomicBool = AtomicBool::new(false);
/// More than one kernel thread runs the program's threads.
static CONTENDED: AtomicBool = AtomicBool::new(false);

/// Takes the lock. One worker alone has nobody to exclude, and signals leave the engine's state alone.
#[inline(always)]
pub(crate) fn lock() -> Locked {
    if CONTENDED.load(Ordering::Relaxed) {
        while HELD.swap(true, Ordering::Acquire) {
            core::hint::spin_loop();
        }
    }
    Locked(())
}

impl Drop for Locked {
    #[inline(always)]
    fn drop(&mut self) {
        HELD.store(false, Ordering::Release);
    }
}

impl Locked {
    /// For the first code on a stack that was switched to: whoever switched holds the lock.
    pub(crate) fn taken_over() -> Self {
        Self(())
    }

    /// Leaves the lock held, for whoever is switched to.
    pub(crate) fn hand_over(self) {
        core::mem::forget(self);
    }
}

/// State that the lock protects.
pub(crate) struct Guarded<T>(UnsafeCell<T>);

// SAFETY: the content is reached through a mutable borrow of the proof that the lock is held, of which
// there is one at a time.
unsafe impl<T> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The state, for as long as the proof is borrowed.
    #[inline(always)]
    pub(crate) fn of<'a>(&'a self, _: &'a mut Locked) -> &'a mut T {
        // SAFETY: see above.
        unsafe { &mut *self.0.get() }
    }
}

/// A cell in a static that is set once before a second thread exists, or changed under the lock.
pub(crate) struct Setting<T>(Cell<T>);

// SAFETY: see the type.
unsafe impl<T> Sync for Setting<T> {}

impl<T: Copy> Setting<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Cell::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> T {
        self.0.get()
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: T) {
        self.0.set(value);
    }

    /// Sets the value, and returns the one before.
    pub(crate) fn replace(&self, value: T) -> T {
        self.0.replace(value)
    }
}
