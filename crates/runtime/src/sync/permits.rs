//! A number of permits, counted without a lock as long as no task waits for one.
//!
//! ```text
//!   63                                     1   0
//!   │ how many there are                    │ w │     w: something may wait
//! ```
//!
//! A task that finds no permit queues, with a lock held, *raises the flag and looks again*. A task
//! that gives a permit back *adds it and checks the flag*. Both steps are one operation on one
//! word, so one of the two comes first. Then the waiter finds the permit, or the giver finds the
//! waiter.
//!
//! While the flag is up, a newcomer takes nothing without the lock. So a permit that is given back
//! goes to the task that has waited longest.

use super::atomic::{AtomicUsize, Ordering};

pub(super) struct Permits(AtomicUsize);

const WAITED: usize = 1;
const ONE: usize = 2;

impl Permits {
    /// The permits in a [word](Permits::word).
    pub(super) const fn new(word: AtomicUsize) -> Self {
        Self(word)
    }

    /// The word for this number of permits, at most half of a word's range.
    pub(super) const fn word(count: usize) -> usize {
        const MOST: usize = usize::MAX / ONE;
        if count < MOST { count * ONE } else { MOST * ONE }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed) / ONE
    }

    /// Takes a permit, if there is one and the flag is down.
    #[inline]
    pub(super) fn take(&self) -> bool {
        self.take_if(|word| word >= ONE && word & WAITED == 0, |word| word - ONE)
    }

    /// Takes a permit, if there is one, and lowers the flag. The caller holds the lock, and no task
    /// waits.
    pub(super) fn take_alone(&self) -> bool {
        self.take_if(|word| word >= ONE, |word| (word - ONE) & !WAITED)
    }

    /// Takes a permit, if there is one. If there is none, the flag is up afterwards, and the caller
    /// must queue.
    pub(super) fn take_or_wait(&self) -> bool {
        self.take_alone() || {
            self.0.fetch_or(WAITED, Ordering::Relaxed);
            self.take_alone()
        }
    }

    /// Takes a permit, if there is one, for the task that has waited longest. The caller holds the
    /// lock.
    pub(super) fn take_for_waiter(&self) -> bool {
        self.take_if(|word| word >= ONE, |word| word - ONE)
    }

    #[inline]
    fn take_if(&self, may: impl Fn(usize) -> bool, taken: impl Fn(usize) -> usize) -> bool {
        let mut last = self.0.load(Ordering::Relaxed);
        while may(last) {
            let next = taken(last);
            match self.0.compare_exchange_weak(last, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => last = now,
            }
        }
        false
    }

    /// Gives a permit back. Returns true if a task may wait: then the caller must hand the permit
    /// on.
    #[inline]
    pub(super) fn give_back(&self) -> bool {
        self.0.fetch_add(ONE, Ordering::Release) & WAITED != 0
    }

    /// Lowers the flag. The caller holds the lock, and no task waits.
    pub(super) fn nothing_waits(&self) {
        self.0.fetch_and(!WAITED, Ordering::Relaxed);
    }
}
