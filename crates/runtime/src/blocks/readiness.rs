//! The state of a descriptor that tasks on any kernel thread wait for. The state says whether there
//! has been an event, and which tasks wait for an event.
//!
//! ```text
//!   a task                                                the reactor
//!   attempt ─▶ "would block"                              an edge
//!        │                                                  │
//!        ▼ poll_ready                                       ▼ note
//!   has_come? ──yes──▶ attempt again                      has_come, and wakes the waiter
//!        └─no─▶ leaves its waker, Pending
//! ```
//!
//! Both sides change the state under one lock. So the wait finds an edge that comes between the
//! attempt and the wait.

use std::mem;

use duality_poller::Direction;

#[cfg(not(all(test, loom)))]
use crate::locks::{Mutex, MutexGuard};
#[cfg(all(test, loom))]
use loom::sync::{Mutex, MutexGuard};

/// The readiness of a descriptor. In its waits, a `W` wakes the task.
pub(super) struct Readiness<W> {
    directions: Mutex<[OneWay<W>; 2]>,
}

/// The state of one direction.
struct OneWay<W> {
    /// There has been an event since the last wait began.
    has_come: bool,
    /// The last attempt took all bytes, so the next one would block until there is an event.
    is_exhausted: bool,
    /// The descriptor has hung up, so no edge may follow.
    hangup: bool,
    waiter: Option<W>,
}

impl<W> Default for OneWay<W> {
    fn default() -> Self {
        Self { has_come: false, is_exhausted: false, hangup: false, waiter: None }
    }
}

impl<W> Default for Readiness<W> {
    fn default() -> Self {
        Self { directions: Mutex::new([OneWay::default(), OneWay::default()]) }
    }
}

impl<W: Send> Readiness<W> {
    /// Whether an attempt would block for certain.
    pub(super) fn is_exhausted(&self, direction: Direction) -> bool {
        self.lock()[direction as usize].is_exhausted
    }

    /// Notes that an attempt moved less than it could have. An event since the last wait may be for
    /// later bytes.
    pub(super) fn exhaust(&self, direction: Direction) {
        let one_way = &mut self.lock()[direction as usize];
        if !mem::take(&mut one_way.has_come) {
            one_way.is_exhausted = !one_way.hangup;
        }
    }

    /// Returns true if another attempt is worthwhile. Otherwise the next event wakes the waiter
    /// that `waker` makes. Called after an attempt that met "would block". `is_known` tells whether
    /// an existing waiter wakes the same task.
    pub(super) fn is_ready(
        &self,
        direction: Direction,
        is_known: impl FnOnce(&W) -> bool,
        waker: impl FnOnce() -> W,
    ) -> bool {
        let before = {
            let one_way = &mut self.lock()[direction as usize];
            if mem::take(&mut one_way.has_come) {
                return true;
            }
            if one_way.waiter.as_ref().is_some_and(is_known) {
                return false;
            }
            one_way.waiter.replace(waker())
        };
        // This is not under the lock: the drop may be of the last waker of a task, and the end of a
        // task takes locks.
        drop(before);
        false
    }

    /// Notes an event: readiness for reading, for writing, or for both, and whether no other event
    /// may follow. Returns the wakers to call.
    pub(super) fn note(&self, ready: [bool; 2], hangup: bool) -> [Option<W>; 2] {
        let mut directions = self.lock();
        let mut index = 0;
        ready.map(|is_ready| {
            let one_way = &mut directions[index];
            index += 1;
            one_way.hangup |= hangup;
            if !is_ready {
                return None;
            }
            one_way.is_exhausted = false;
            one_way.has_come = true;
            one_way.waiter.take()
        })
    }

    fn lock(&self) -> MutexGuard<'_, [OneWay<W>; 2]> {
        self.directions.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const READ: Direction = Direction::Read;

    #[test]
    fn an_event_before_the_wait_is_found_by_it_once() {
        let readiness = Readiness::default();
        assert_eq!(readiness.note([true, false], false), [None, None]);
        assert!(readiness.is_ready(READ, |_| false, || 1));
        assert!(!readiness.is_ready(READ, |_| false, || 1));
        assert!(!readiness.is_ready(
            READ,
            |&known| known == 1,
            || unreachable!("it waits already")
        ));
        assert_eq!(readiness.note([true, true], false), [Some(1), None]);
    }

    #[test]
    fn what_is_exhausted_is_not_tried_until_there_is_an_event() {
        let readiness = Readiness::<u32>::default();
        readiness.exhaust(READ);
        assert!(readiness.is_exhausted(READ) && !readiness.is_exhausted(Direction::Write));
        readiness.note([true, false], false);
        assert!(!readiness.is_exhausted(READ));
        // The event may be for bytes that came after the bytes that were read.
        readiness.exhaust(READ);
        assert!(!readiness.is_exhausted(READ));
        readiness.exhaust(READ);
        assert!(readiness.is_exhausted(READ));
        // After a hang-up each attempt is made, because no event may follow.
        readiness.note([true, false], true);
        readiness.is_ready(READ, |_| false, || 1);
        readiness.exhaust(READ);
        assert!(!readiness.is_exhausted(READ));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    use super::*;

    /// Bytes come to a descriptor, one at a time and each with an edge. A reader takes them all. A
    /// lost wake shows as a deadlock.
    #[test]
    fn loom_a_reader_gets_all_that_comes() {
        loom::model(|| {
            let readiness = Arc::new(Readiness::default());
            let bytes = Arc::new(AtomicUsize::new(0));
            let reactor = {
                let (readiness, bytes) = (readiness.clone(), bytes.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        bytes.fetch_add(1, Ordering::Release);
                        let woken: [Option<thread::Thread>; 2] =
                            readiness.note([true, false], false);
                        woken.into_iter().flatten().for_each(|thread| thread.unpark());
                    }
                })
            };
            let mut read = 0;
            while read < 2 {
                if !readiness.is_exhausted(Direction::Read) {
                    // The reader has room for one byte more than there is, so it always moves less
                    // than it could have.
                    let got = bytes.swap(0, Ordering::Acquire);
                    read += got;
                    if got > 0 {
                        readiness.exhaust(Direction::Read);
                        continue;
                    }
                }
                if !readiness.is_ready(Direction::Read, |_| false, thread::current) {
                    thread::park();
                }
            }
            reactor.join().unwrap();
        });
    }
}
