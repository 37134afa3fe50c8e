//! The engine's one lock, and the state under the lock.
//!
//! The lock is held across a switch: the thread that parks takes it, and the thread or worker that
//! is switched to releases it. So no worker sees a thread as parked before its stack has been left.
//!
//! With one worker, the lock is not taken at all, because nothing else changes the engine's state.
//! The second worker activates the lock (`share`). A worker that finds the lock taken spins for a
//! moment, then sleeps.

use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::kernel::assertions::{self, check};
use crate::kernel::lock_counts as counts;
use crate::kernel::sys::sys;

/// Proof that the lock is held. Taking the lock again while the proof exists would wait for ever.
pub(crate) struct Locked(());

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and a worker sleeps until it is free.
const AWAITED: u32 = 2;
/// Looks at the lock before a worker sleeps: some microseconds.
const LOOKS: u32 = 200;

static STATE: AtomicU32 = AtomicU32::new(FREE);
/// More than one worker runs the program's threads.
static SHARED: AtomicBool = AtomicBool::new(false);
/// The scheduler has something to do before the lock is released.
static ATTENTION: AtomicBool = AtomicBool::new(false);
/// The scheduler's function for this work.
static BEFORE_RELEASE: Setting<Option<fn(&mut Locked)>> = Setting::new(None);
/// System calls that are due, as bits. The engine makes the calls without the lock, since each call
/// takes longer than most holds of the lock.
static OWED: AtomicU32 = AtomicU32::new(0);
/// The function that makes these calls.
static AFTER_RELEASE: Setting<Option<fn(u32)>> = Setting::new(None);

/// The worker that has the proof, or zero without a proof. The costly assertions keep this word,
/// because with one worker nothing else would prevent a second proof.
static HOLDER: AtomicUsize = AtomicUsize::new(0);
/// Each kernel thread that takes the lock has a worker.
static WORKERS_EXIST: AtomicBool = AtomicBool::new(false);

/// Takes the lock.
#[inline(always)]
pub(crate) fn lock() -> Locked {
    if is_shared() {
        acquire();
    }
    Locked::prove()
}

/// Whether more than one worker runs the program's threads.
#[inline(always)]
pub(crate) fn is_shared() -> bool {
    SHARED.load(Ordering::Relaxed)
}

/// Makes the lock real, before the second worker starts.
pub(crate) fn share(_: &mut Locked, before_release: fn(&mut Locked), after_release: fn(u32)) {
    assert!(!is_shared(), "the lock is shared already");
    assert!(OWED.load(Ordering::Relaxed) == 0, "calls are due that no release would make");
    STATE.store(HELD, Ordering::Relaxed);
    BEFORE_RELEASE.set(Some(before_release));
    AFTER_RELEASE.set(Some(after_release));
    if counts::is_on() {
        counts::begin();
    }
    SHARED.store(true, Ordering::Release);
}

/// Called in the child of a fork, which has one worker.
pub(crate) fn unshare(_: &mut Locked) {
    SHARED.store(false, Ordering::Relaxed);
    STATE.store(FREE, Ordering::Relaxed);
    ATTENTION.store(false, Ordering::Relaxed);
    OWED.store(0, Ordering::Relaxed);
}

/// Whether this worker holds the lock. Only the costly assertions know.
pub(crate) fn is_held_here() -> bool {
    HOLDER.load(Ordering::Relaxed) == this_worker()
}

#[cold]
fn become_holder() {
    let before = HOLDER.swap(this_worker(), Ordering::Relaxed);
    assert!(before == 0, "the lock is held already");
}

#[cold]
fn stop_holding() {
    assert!(is_held_here(), "another worker took the lock than the one that releases it");
    HOLDER.store(0, Ordering::Relaxed);
}

/// Called when the first worker exists, and the processor is known to be able to name it.
pub(crate) fn know_workers() {
    WORKERS_EXIST.store(true, Ordering::Relaxed);
}

/// What distinguishes the worker that executes this: the address in `gs`, which is not zero.
fn this_worker() -> usize {
    let address: usize;
    if !WORKERS_EXIST.load(Ordering::Relaxed) {
        return 1;
    }
    // SAFETY: reads a register; the start has checked that the instruction is allowed.
    unsafe { asm!("rdgsbase {}", out(reg) address, options(nomem, nostack, preserves_flags)) };
    address
}

/// Has the scheduler look, before the lock is released, whether another worker is needed.
#[inline(always)]
pub(crate) fn attend(_: &mut Locked, wanted: bool) {
    ATTENTION.store(wanted, Ordering::Relaxed);
}

/// Has system calls made as soon as the lock has been released.
pub(crate) fn owe(_: &mut Locked, calls: u32) {
    OWED.store(OWED.load(Ordering::Relaxed) | calls, Ordering::Relaxed);
}

#[inline(always)]
fn acquire() {
    if counts::is_on() {
        return acquire_and_count();
    }
    if STATE.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
        let _slept = acquire_slowly();
    }
}

#[cold]
fn acquire_and_count() {
    let free = STATE.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok();
    if free {
        return counts::taken(None, false);
    }
    let since = counts::ticks();
    let slept = acquire_slowly();
    counts::taken(Some(since), slept);
}

/// Takes the lock that another worker holds. Returns whether this worker slept.
#[cold]
fn acquire_slowly() -> bool {
    for _ in 0..LOOKS {
        core::hint::spin_loop();
        if STATE.load(Ordering::Relaxed) == FREE
            && STATE.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return false;
        }
    }
    let mut slept = false;
    while STATE.swap(AWAITED, Ordering::Acquire) != FREE {
        let flags = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        sys!(SYS_futex, &STATE, flags, AWAITED, 0);
        slept = true;
    }
    slept
}

#[inline(always)]
fn release(locked: &mut Locked) {
    if !is_shared() {
        return locked.withdraw();
    }
    if ATTENTION.load(Ordering::Relaxed)
        && let Some(before_release) = BEFORE_RELEASE.get()
    {
        before_release(locked);
    }
    let owed = OWED.load(Ordering::Relaxed);
    if owed != 0 {
        OWED.store(0, Ordering::Relaxed);
    }
    if counts::is_on() {
        counts::released();
    }
    locked.withdraw();
    let before = STATE.swap(FREE, Ordering::Release);
    assert!(before != FREE, "the lock was free before its release");
    if before == AWAITED {
        let flags = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        sys!(SYS_futex, &STATE, flags, 1);
    }
    if owed != 0
        && let Some(after_release) = AFTER_RELEASE.get()
    {
        after_release(owed);
    }
}

impl Drop for Locked {
    #[inline(always)]
    fn drop(&mut self) {
        release(self);
    }
}

impl Locked {
    #[inline(always)]
    fn prove() -> Self {
        if assertions::are_on() {
            become_holder();
        }
        Self(())
    }

    /// This comes before the lock is free for another proof.
    #[inline(always)]
    fn withdraw(&mut self) {
        if assertions::are_on() {
            stop_holding();
        }
    }

    /// For the first code on a stack that was switched to: the lock was taken before the switch.
    pub(crate) fn taken_over() -> Self {
        check!(is_held_here(), "a stack was switched to without the lock");
        Self(())
    }

    /// Leaves the lock held, for the stack that is switched to.
    pub(crate) fn hand_over(self) {
        check!(is_held_here(), "the lock of another worker is handed over");
        core::mem::forget(self);
    }

    /// Does something without the lock.
    pub(crate) fn released<T>(&mut self, work: impl FnOnce() -> T) -> T {
        release(self);
        let result = work();
        lock().hand_over();
        result
    }
}

/// The right to use the cells that the lock protects (`kernel/cells.rs`): a borrow of the proof.
#[derive(Clone, Copy)]
pub(crate) struct Held<'a>(PhantomData<&'a Locked>);

impl Locked {
    /// The right to use cells, for as long as the lock is not released.
    #[inline(always)]
    pub(crate) fn held(&self) -> Held<'_> {
        Held(PhantomData)
    }
}

/// State that the lock protects.
pub(crate) struct Guarded<T>(UnsafeCell<T>);

// SAFETY: the content is reached through a mutable borrow of the proof that the lock is held. There
// is one such proof at a time.
unsafe impl<T> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The state, for as long as the proof is borrowed.
    #[inline(always)]
    pub(crate) fn of<'a>(&'a self, _: &'a mut Locked) -> &'a mut T {
        // SAFETY: the borrow of the only proof keeps all other code from the content.
        unsafe { &mut *self.0.get() }
    }

    /// The state, and the right to use cells meanwhile: no cell is within such a state.
    #[inline(always)]
    pub(crate) fn with_cells<'a>(&'a self, locked: &'a mut Locked) -> (&'a mut T, Held<'a>) {
        (self.of(locked), Held(PhantomData))
    }
}

/// A cell in a static that changes only while no other worker reads it. The cell changes before a
/// second worker exists, in the child of a fork, or by a protocol of its own
/// (`schedule/every_worker.rs`). In the child, such a cell is read under the lock too. All other
/// statics are atomic or `Guarded`.
pub(crate) struct Setting<T>(Cell<T>);

// SAFETY: the cell does not change while another worker may read it, as the type says.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The only test that takes the lock, because tests run in parallel.
    #[test]
    fn there_is_no_second_proof() {
        let mut first = lock();
        let second = std::panic::catch_unwind(|| core::mem::forget(lock()));
        assert!(second.is_err(), "it would give out the same state twice");
        first.released(|| drop(lock()));
        drop(first);
        drop(lock());
    }
}
