//! The join cell: where a task leaves its result, and a task that awaits it leaves its waker. A
//! [`oneshot`](crate::sync::oneshot) channel is such a cell, too.
//!
//! ```text
//!               await: leaves its waker                await again: takes it back
//!   PENDING ─────────────────────────────▶ AWAITED ────────────────────────────▶ PENDING
//!     │ │                                   │   │
//!     │ └ complete ─▶ COMPLETE ◀─ TAKING ◀──┘   │     complete: leaves value; TAKING: takes the waker
//!     └─────────────▶ ABANDONED ◀───────────────┘     the joiner is dropped
//! ```
//!
//! Each side makes at most one atomic read-modify-write: a task's life of a hundred nanoseconds is
//! too short for a lock or a reference count. The state assigns each field to one side. The waker
//! is the joiner's while PENDING and the completer's while TAKING. The value is the completer's
//! before COMPLETE, and the joiner's after. The cell itself belongs to the joiner once it is
//! COMPLETE, and to the completer once it is ABANDONED.

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

const PENDING: u8 = 0;
const AWAITED: u8 = 1;
const TAKING: u8 = 2;
const COMPLETE: u8 = 3;
const ABANDONED: u8 = 4;

/// A new cell, with its two sides. A `W` wakes the joiner.
pub(crate) fn join_cell<T, W>() -> (Completer<T, W>, Joiner<T, W>) {
    let cell = NonNull::from(Box::leak(Box::new(JoinCell {
        state: AtomicU8::new(PENDING),
        value: UnsafeCell::new(None),
        waker: UnsafeCell::new(None),
    })));
    (Completer { cell: Some(cell) }, Joiner { cell })
}

/// The side of the task. Its owner must complete it, or the joiner waits for ever.
pub(crate) struct Completer<T, W> {
    /// None after the end.
    cell: Option<NonNull<JoinCell<T, W>>>,
}

/// The side of the handle that awaits the task.
pub(crate) struct Joiner<T, W> {
    cell: NonNull<JoinCell<T, W>>,
}

struct JoinCell<T, W> {
    state: AtomicU8,
    value: UnsafeCell<Option<T>>,
    waker: UnsafeCell<Option<W>>,
}

impl<T, W> Completer<T, W> {
    /// Leaves the value, and returns the waker of the joiner, if the joiner already waits.
    ///
    /// # Errors
    ///
    /// The value, when the joiner is gone.
    ///
    /// # Panics
    ///
    /// At the second call.
    pub(crate) fn complete(&mut self, value: T) -> Result<Option<W>, T> {
        let owned = self.cell.take().expect("a task ends once");
        // SAFETY: the other side frees the cell only after COMPLETE, which this side has not
        // written.
        let cell = unsafe { owned.as_ref() };
        // SAFETY: the state is not COMPLETE yet, so the value is ours; no other `Completer` exists.
        cell.value.with_mut(|left| unsafe { *left = Some(value) });
        loop {
            match cell.state.load(Ordering::Acquire) {
                PENDING if cell.becomes(PENDING, COMPLETE) => return Ok(None),
                AWAITED if cell.becomes(AWAITED, TAKING) => {
                    // SAFETY: the other side left the waker before it wrote AWAITED, and leaves it
                    // to this side during TAKING.
                    let waker = cell.waker.with_mut(|waker| unsafe { (*waker).take() });
                    cell.state.store(COMPLETE, Ordering::Release);
                    return Ok(waker);
                }
                ABANDONED => {
                    // SAFETY: the value is ours, as above.
                    let value = cell.value.with_mut(|value| unsafe { (*value).take() });
                    // SAFETY: the other side will not look at it again, so it is ours, and came
                    // from a box.
                    drop(unsafe { Box::from_raw(owned.as_ptr()) });
                    return Err(value.expect("it was left above"));
                }
                // The other side was faster.
                _ => {}
            }
        }
    }

    /// Whether the joiner is gone, as far as this side has heard.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.cell.is_none_or(|cell| {
            // SAFETY: the other side frees the cell only after COMPLETE, which this side writes in
            // `complete`, and then it has no cell.
            unsafe { cell.as_ref() }.state.load(Ordering::Acquire) == ABANDONED
        })
    }
}

impl<T, W> Joiner<T, W> {
    /// Takes the value, if it is there, and otherwise leaves `waker` for the other side.
    pub(crate) fn poll(&mut self, waker: impl FnOnce() -> W) -> Option<T> {
        let cell = self.cell();
        let has_ended = loop {
            match cell.state.load(Ordering::Acquire) {
                PENDING => break false,
                AWAITED if cell.becomes(AWAITED, PENDING) => break false,
                COMPLETE => break true,
                // The other side is ending, and needs a few more instructions.
                _ => yield_now(),
            }
        };
        if !has_ended {
            // SAFETY: the state is PENDING, and only this side, which is borrowed exclusively,
            // changes it to AWAITED. So the other side will not touch the waker.
            cell.waker.with_mut(|left| unsafe { *left = Some(waker()) });
            if cell.becomes(PENDING, AWAITED) {
                return None;
            }
        }
        // SAFETY: the state is COMPLETE, so the other side has left the value and is done with the
        // cell.
        cell.value.with_mut(|value| unsafe { (*value).take() })
    }

    /// Whether the value is there, or has been.
    pub(crate) fn is_complete(&self) -> bool {
        self.cell().state.load(Ordering::Acquire) == COMPLETE
    }

    fn cell(&self) -> &JoinCell<T, W> {
        // SAFETY: the other side frees the cell only after ABANDONED, which the drop of this value
        // writes.
        unsafe { self.cell.as_ref() }
    }
}

impl<T, W> Drop for Joiner<T, W> {
    fn drop(&mut self) {
        loop {
            match self.cell().state.load(Ordering::Acquire) {
                state @ (PENDING | AWAITED) if self.cell().becomes(state, ABANDONED) => return,
                COMPLETE => break,
                _ => yield_now(),
            }
        }
        // SAFETY: the other side no longer uses the cell, so the cell is ours. It came from a box.
        drop(unsafe { Box::from_raw(self.cell.as_ptr()) });
    }
}

impl<T, W> JoinCell<T, W> {
    /// Changes the state, unless the other side has changed it.
    fn becomes(&self, from: u8, to: u8) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.state.compare_exchange(from, to, success, failure).is_ok()
    }
}

// SAFETY: value and waker move from one side to the other, and are never shared. The state says
// which side owns each, as the module's picture shows.
unsafe impl<T: Send, W: Send> Send for Completer<T, W> {}
// SAFETY: the joiner takes the value and leaves the waker. Both move, and the state says which side
// owns each.
unsafe impl<T: Send, W: Send> Send for Joiner<T, W> {}
// SAFETY: all methods need an exclusive reference.
unsafe impl<T: Send, W: Send> Sync for Completer<T, W> {}
// SAFETY: all methods need an exclusive reference.
unsafe impl<T: Send, W: Send> Sync for Joiner<T, W> {}

/// std's cell, with the interface of loom's.
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
        let (mut completer, mut joiner) = join_cell();
        assert_eq!(joiner.poll(|| "first"), None);
        assert_eq!(joiner.poll(|| "second"), None);
        assert_eq!(completer.complete(7), Ok(Some("second")), "the newest waker counts");
        assert_eq!(joiner.poll(|| "third"), Some(7));
    }

    #[test]
    fn who_comes_late_finds_the_value() {
        let (mut completer, mut joiner) = join_cell();
        assert_eq!(completer.complete(7), Ok(None));
        assert_eq!(joiner.poll(|| unreachable!("nothing to wait for")), Some(7));
    }

    #[test]
    fn nothing_is_lost_when_a_side_leaves() {
        let kept = Rc::new(());
        let (mut completer, joiner) = join_cell::<_, ()>();
        drop(joiner);
        assert!(completer.is_abandoned());
        assert!(completer.complete(kept.clone()).is_err(), "the value comes back");
        assert_eq!(Rc::strong_count(&kept), 1);

        let (mut completer, mut joiner) = join_cell::<_, Rc<()>>();
        assert_eq!(joiner.poll(|| kept.clone()), None);
        drop(joiner);
        assert!(completer.complete(kept.clone()).is_err(), "no joiner is to be woken");
        assert_eq!(Rc::strong_count(&kept), 1);

        let (mut completer, joiner) = join_cell::<_, ()>();
        assert!(!completer.is_abandoned());
        assert_eq!(completer.complete(kept.clone()), Ok(None));
        assert_eq!(Rc::strong_count(&kept), 2);
        drop(joiner);
        assert_eq!(Rc::strong_count(&kept), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// Either the joiner finds the value, or the completer finds its newest waker.
    #[test]
    fn loom_a_task_that_ends_is_met() {
        loom::model(|| {
            let (mut completer, mut joiner) = join_cell::<_, u32>();
            let task = loom::thread::spawn(move || completer.complete(7));
            let found = joiner.poll(|| 1).or_else(|| joiner.poll(|| 2));
            let woken = task.join().unwrap().expect("the joiner is there");
            match found {
                Some(value) => {
                    assert_eq!(value, 7);
                    assert!(woken.is_none_or(|waker| waker == 1));
                }
                None => {
                    assert_eq!(woken, Some(2));
                    assert_eq!(joiner.poll(|| 3), Some(7));
                }
            }
        });
    }

    /// Whichever side leaves first, the value and the waker are dropped exactly once.
    #[test]
    fn loom_who_leaves_last_clears_the_place() {
        loom::model(|| {
            let kept = loom::sync::Arc::new(());
            let (mut completer, mut joiner) = join_cell::<_, _>();
            let value = kept.clone();
            let task = loom::thread::spawn(move || drop(completer.complete(value)));
            drop(joiner.poll(|| kept.clone()));
            drop(joiner);
            task.join().unwrap();
            assert_eq!(loom::sync::Arc::strong_count(&kept), 1);
        });
    }
}
