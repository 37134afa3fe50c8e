//! A number of permits that is counted without a lock, as long as nobody waits for one.
//!
//! ```text
//!   63                                     1   0
//!   │ how many there are                    │ w │     w: somebody may wait
//! ```
//!
//! Who finds none queues, with a lock held, *says so here and looks again*; who gives one back *adds it and sees* whether
//! anybody may wait. Both are one operation on one word, so that one of the two comes first: then the waiter finds the
//! permit, or else who gave it finds the waiter.

use super::atomic::{AtomicUsize, Ordering};

pub(super) struct Permits(AtomicUsize);

const WAITED: usize = 1;
const ONE: usize = 2;

impl Permits {
    /// Those that a [word](Permits::word) says.
    pub(super) const fn new(word: AtomicUsize) -> Self {
        Self(word)
    }

    /// The word of so many, but of half of what a word counts to at most.
    pub(super) const fn word(count: usize) -> usize {
        const MOST: usize = usize::MAX / ONE;
        if count < MOST { count * ONE } else { MOST * ONE }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed) / ONE
    }

    /// Takes one, if there is one.
    #[inline]
    pub(super) fn take(&self) -> bool {
        self.take_from(self.0.load(Ordering::Relaxed))
    }

    /// Takes one, or has those who give one back see that somebody waits. The caller holds the lock that it queues under.
    pub(super) fn take_or_wait(&self) -> bool {
        self.take() || self.take_from(self.0.fetch_or(WAITED, Ordering::Relaxed) | WAITED)
    }

    /// Takes one of those that there were last.
    #[inline]
    fn take_from(&self, mut last: usize) -> bool {
        while last >= ONE {
            let next = last - ONE;
            match self.0.compare_exchange_weak(last, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => last = now,
            }
        }
        false
    }

    /// Gives one back; true when somebody may wait, for the caller to see to.
    #[inline]
    pub(super) fn give_back(&self) -> bool {
        self.0.fetch_add(ONE, Ordering::Release) & WAITED != 0
    }

    /// Nobody waits. The caller holds the lock that those who do queue under.
    pub(super) fn nobody_waits(&self) {
        self.0.fetch_and(!WAITED, Ordering::Relaxed);
    }
}
