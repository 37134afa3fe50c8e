//! Where a task's end meets whoever awaits it.
//!
//! ```text
//!              await: leaves its waker                 await again: takes it back
//!   ALONE ─────────────────────────────▶ AWAITED ─────────────────────────────▶ ALONE
//!    │ │                                  │   │
//!    │ └─ end ──▶ ENDED ◀── TAKING ◀── end┘   │      end: has left its value; while TAKING it takes the waker
//!    └──────────▶ LEFT ◀──────────────────────┘      the awaiting side goes, and will not ask
//! ```
//!
//! One atomic read-modify-write on either side at most, because a task's life of a hundred nanoseconds has no time for a
//! lock, nor for counting who has left: the state tells that as well. Whoever may write a field at a state is the
//! only one that does: the waker is the awaiting side's while ALONE and the ending side's while TAKING; the value is
//! the ending side's before ENDED, and the awaiting side's after. The place belongs to the awaiting side once it is
//! ENDED, and to the ending side once it is LEFT.

use std::ptr::NonNull;

#[cfg(all(test, loom))]
use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU8, Ordering},
    thread::yield_now,
};
#[cfg(not(all(test, loom)))]
use std::{
    sync::atomic::{AtomicU8, Ordering},
    thread::yield_now,
};

use crate::recycled::Recycled;

const ALONE: u8 = 0;
const AWAITED: u8 = 1;
const TAKING: u8 = 2;
const ENDED: u8 = 3;
const LEFT: u8 = 4;

/// The side that ends, and the side that awaits it; a `W` is what wakes the latter.
pub(super) fn meeting<T, W>() -> (Ending<T, W>, Awaiting<T, W>) {
    let place = Recycled::new(Place {
        state: AtomicU8::new(ALONE),
        value: UnsafeCell::new(None),
        waker: UnsafeCell::new(None),
    });
    let place = place.into_raw();
    (Ending { place: Some(place) }, Awaiting { place })
}

/// Whoever has it must end it, or the other side will wait in vain.
pub(super) struct Ending<T, W> {
    /// None after the end.
    place: Option<NonNull<Place<T, W>>>,
}

pub(super) struct Awaiting<T, W> {
    place: NonNull<Place<T, W>>,
}

struct Place<T, W> {
    state: AtomicU8,
    value: UnsafeCell<Option<T>>,
    waker: UnsafeCell<Option<W>>,
}

impl<T, W> Ending<T, W> {
    /// Leaves the value, and returns the waker of whoever waits for it already.
    ///
    /// # Panics
    ///
    /// At the second call.
    pub(super) fn end(&mut self, value: T) -> Option<W> {
        let owned = self.place.take().expect("a task ends once");
        // SAFETY: the other side frees the place only after ENDED, which we have not written.
        let place = unsafe { owned.as_ref() };
        // SAFETY: the state is not ENDED yet, so the value is ours; no other `Ending` exists.
        place.value.with_mut(|left| unsafe { *left = Some(value) });
        loop {
            match place.state.load(Ordering::Acquire) {
                ALONE if place.becomes(ALONE, ENDED) => return None,
                AWAITED if place.becomes(AWAITED, TAKING) => {
                    // SAFETY: the other side left it before it wrote AWAITED, and leaves it to us while TAKING.
                    let waker = place.waker.with_mut(|waker| unsafe { (*waker).take() });
                    place.state.store(ENDED, Ordering::Release);
                    return waker;
                }
                LEFT => {
                    // SAFETY: the other side will not look at it again, so it is ours, and came from `into_raw`.
                    drop(unsafe { Recycled::from_raw(owned) });
                    return None;
                }
                // The other side was quicker.
                _ => {}
            }
        }
    }
}

impl<T, W> Awaiting<T, W> {
    /// Takes the value, if it is there, and otherwise leaves `waker` for the other side.
    pub(super) fn poll(&mut self, waker: impl FnOnce() -> W) -> Option<T> {
        self.poll_by(waker, |place| place.becomes(ALONE, AWAITED))
    }

    /// The same where the other side cannot come in between: without the one instruction that others would wait for,
    /// which is a tenth of a short task's life.
    ///
    /// # Safety
    ///
    /// The other side is used on this kernel thread alone, if it has not ended.
    pub(super) unsafe fn poll_beside(&mut self, waker: impl FnOnce() -> W) -> Option<T> {
        self.poll_by(waker, |place| {
            place.state.store(AWAITED, Ordering::Release);
            true
        })
    }

    /// `leave` changes the state from ALONE to AWAITED, unless the other side has ended.
    #[inline]
    fn poll_by(
        &mut self,
        waker: impl FnOnce() -> W,
        leave: impl FnOnce(&Place<T, W>) -> bool,
    ) -> Option<T> {
        let place = self.place();
        let has_ended = loop {
            match place.state.load(Ordering::Acquire) {
                ALONE => break false,
                AWAITED if place.becomes(AWAITED, ALONE) => break false,
                ENDED => break true,
                // The other side ends, and has a few instructions to go.
                _ => yield_now(),
            }
        };
        if !has_ended {
            // SAFETY: the state is ALONE, and only we, who are borrowed exclusively, change it to AWAITED; so the other
            // side will not touch the waker.
            place.waker.with_mut(|left| unsafe { *left = Some(waker()) });
            if leave(place) {
                return None;
            }
        }
        // SAFETY: the state is ENDED, so the other side has left the value and is done with the place.
        place.value.with_mut(|value| unsafe { (*value).take() })
    }

    fn place(&self) -> &Place<T, W> {
        // SAFETY: the other side frees the place only after LEFT, which is written when this is dropped.
        unsafe { self.place.as_ref() }
    }
}

impl<T, W> Drop for Awaiting<T, W> {
    fn drop(&mut self) {
        loop {
            match self.place().state.load(Ordering::Acquire) {
                state @ (ALONE | AWAITED) if self.place().becomes(state, LEFT) => return,
                ENDED => break,
                _ => yield_now(),
            }
        }
        // SAFETY: the other side is done with it, so it is ours, and came from `into_raw`.
        drop(unsafe { Recycled::from_raw(self.place) });
    }
}

impl<T, W> Place<T, W> {
    /// Changes the state, unless the other side has.
    fn becomes(&self, from: u8, to: u8) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.state.compare_exchange(from, to, success, failure).is_ok()
    }
}

// SAFETY: value and waker move from one side to the other, and are never shared; the states say whose they are, as
// the module's picture shows.
unsafe impl<T: Send, W: Send> Send for Ending<T, W> {}
// SAFETY: what it takes is the value, and what it leaves is the waker: both move, and the states say whose they are.
unsafe impl<T: Send, W: Send> Send for Awaiting<T, W> {}
// SAFETY: all that it does is by exclusive reference.
unsafe impl<T: Send, W: Send> Sync for Ending<T, W> {}
// SAFETY: all that it does is by exclusive reference.
unsafe impl<T: Send, W: Send> Sync for Awaiting<T, W> {}

/// std's, with the interface of loom's.
#[cfg(not(all(test, loom)))]
struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(all(test, loom)))]
impl<T> UnsafeCell<T> {
    const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    fn with_mut<R>(&self, operation: impl FnOnce(*mut T) -> R) -> R {
        operation(self.0.get())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn who_comes_first_waits() {
        let (mut ending, mut awaiting) = meeting();
        assert_eq!(awaiting.poll(|| "first"), None);
        assert_eq!(awaiting.poll(|| "second"), None);
        assert_eq!(ending.end(7), Some("second"), "the newest waker counts");
        assert_eq!(awaiting.poll(|| "third"), Some(7));
    }

    #[test]
    fn who_comes_late_finds_the_value() {
        let (mut ending, mut awaiting) = meeting();
        assert_eq!(ending.end(7), None);
        assert_eq!(awaiting.poll(|| unreachable!("nothing to wait for")), Some(7));
    }

    #[test]
    fn who_waits_beside_the_other_is_found() {
        let (mut ending, mut awaiting) = meeting();
        // SAFETY: both sides are on this kernel thread.
        assert_eq!(unsafe { awaiting.poll_beside(|| "first") }, None);
        assert_eq!(awaiting.poll(|| "second"), None);
        // SAFETY: both sides are on this kernel thread.
        assert_eq!(unsafe { awaiting.poll_beside(|| "third") }, None);
        assert_eq!(ending.end(7), Some("third"));
        // SAFETY: both sides are on this kernel thread.
        assert_eq!(unsafe { awaiting.poll_beside(|| unreachable!("it is there")) }, Some(7));
    }

    #[test]
    fn nothing_is_lost_when_a_side_leaves() {
        let kept = Rc::new(());
        let (mut ending, awaiting) = meeting::<_, ()>();
        drop(awaiting);
        ending.end(kept.clone());
        assert_eq!(Rc::strong_count(&kept), 1);

        let (mut ending, mut awaiting) = meeting::<_, Rc<()>>();
        assert_eq!(awaiting.poll(|| kept.clone()), None);
        drop(awaiting);
        assert_eq!(ending.end(kept.clone()), None, "nobody is to be woken");
        assert_eq!(Rc::strong_count(&kept), 1);

        let (mut ending, awaiting) = meeting::<_, ()>();
        ending.end(kept.clone());
        assert_eq!(Rc::strong_count(&kept), 2);
        drop(awaiting);
        assert_eq!(Rc::strong_count(&kept), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// Either the awaiting side finds the value, or the ending side finds its newest waker.
    #[test]
    fn loom_a_task_that_ends_is_met() {
        loom::model(|| {
            let (mut ending, mut awaiting) = meeting::<_, u32>();
            let task = loom::thread::spawn(move || ending.end(7));
            let found = awaiting.poll(|| 1).or_else(|| awaiting.poll(|| 2));
            let woken = task.join().unwrap();
            match found {
                Some(value) => {
                    assert_eq!(value, 7);
                    assert!(woken.is_none_or(|waker| waker == 1));
                }
                None => {
                    assert_eq!(woken, Some(2));
                    assert_eq!(awaiting.poll(|| 3), Some(7));
                }
            }
        });
    }

    /// Whichever side leaves first, the value and the waker are dropped, once.
    #[test]
    fn loom_who_leaves_last_clears_the_place() {
        loom::model(|| {
            let kept = loom::sync::Arc::new(());
            let (mut ending, mut awaiting) = meeting::<_, _>();
            let value = kept.clone();
            let task = loom::thread::spawn(move || drop(ending.end(value)));
            drop(awaiting.poll(|| kept.clone()));
            drop(awaiting);
            task.join().unwrap();
            assert_eq!(loom::sync::Arc::strong_count(&kept), 1);
        });
    }
}
