//! Where a task's end meets whoever awaits it.
//!
//! ```text
//!              await: leaves its waker                 await again: takes it back
//!   ALONE ─────────────────────────────▶ AWAITED ─────────────────────────────▶ ALONE
//!     │                                     │
//!     └──── end: leaves its value ──▶ ENDED ◀┘ … and takes the waker, to wake it
//! ```
//!
//! One atomic operation on either side, because a task's life of a hundred nanoseconds has no time for a lock.
//! Whoever may write a field at a state is the only one that does: the waker is the awaiting side's while ALONE and
//! the ending side's after AWAITED has become ENDED; the value is the ending side's before ENDED, and the awaiting
//! side's after.

#[cfg(all(test, loom))]
use loom::{
    cell::UnsafeCell,
    sync::Arc,
    sync::atomic::{AtomicU8, Ordering},
};
#[cfg(not(all(test, loom)))]
use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

const ALONE: u8 = 0;
const AWAITED: u8 = 1;
const ENDED: u8 = 2;

/// The side that ends, and the side that awaits it; a `W` is what wakes the latter.
pub(super) fn meeting<T, W>() -> (Ending<T, W>, Awaiting<T, W>) {
    let place = Arc::new(Place {
        state: AtomicU8::new(ALONE),
        value: UnsafeCell::new(None),
        waker: UnsafeCell::new(None),
    });
    (Ending { place: place.clone() }, Awaiting { place })
}

pub(super) struct Ending<T, W> {
    place: Arc<Place<T, W>>,
}

pub(super) struct Awaiting<T, W> {
    place: Arc<Place<T, W>>,
}

struct Place<T, W> {
    state: AtomicU8,
    value: UnsafeCell<Option<T>>,
    waker: UnsafeCell<Option<W>>,
}

impl<T, W> Ending<T, W> {
    /// Leaves the value, and returns the waker of whoever waits for it already. To be called once.
    pub(super) fn end(&mut self, value: T) -> Option<W> {
        let place = &*self.place;
        // SAFETY: the state is not ENDED yet, so the value is ours; no other `Ending` exists.
        place.value.with_mut(|left| unsafe { *left = Some(value) });
        match place.state.swap(ENDED, Ordering::AcqRel) {
            // SAFETY: the other side left it before it wrote AWAITED, and does not touch it after ENDED.
            AWAITED => place.waker.with_mut(|waker| unsafe { (*waker).take() }),
            _ => None,
        }
    }
}

impl<T, W> Awaiting<T, W> {
    /// Takes the value, if it is there, and otherwise leaves `waker` for the other side.
    pub(super) fn poll(&mut self, waker: impl FnOnce() -> W) -> Option<T> {
        let place = &*self.place;
        let alone = match place.state.load(Ordering::Acquire) {
            ENDED => false,
            AWAITED => self.becomes(AWAITED, ALONE),
            _ => true,
        };
        if alone {
            // SAFETY: the state is ALONE, and only we, who are borrowed exclusively, change it to AWAITED; so the other
            // side will not touch the waker.
            place.waker.with_mut(|left| unsafe { *left = Some(waker()) });
            if self.becomes(ALONE, AWAITED) {
                return None;
            }
        }
        // SAFETY: the state is ENDED, so the other side has left the value and is done with it.
        place.value.with_mut(|value| unsafe { (*value).take() })
    }

    /// Changes the state, unless the other side has ended.
    fn becomes(&self, from: u8, to: u8) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.place.state.compare_exchange(from, to, success, failure).is_ok()
    }
}

// SAFETY: value and waker move from one side to the other, and are never shared.
unsafe impl<T: Send, W: Send> Send for Place<T, W> {}
// SAFETY: as above; the states say whose they are, as the module's picture shows.
unsafe impl<T: Send, W: Send> Sync for Place<T, W> {}

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
    fn nothing_is_lost_when_a_side_leaves() {
        let kept = Arc::new(());
        let (mut ending, awaiting) = meeting::<_, ()>();
        drop(awaiting);
        ending.end(kept.clone());
        drop(ending);
        assert_eq!(Arc::strong_count(&kept), 1);
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
}
