//! Fibers: a stack of one's own, and the switch to it and back.
//!
//! A fiber is the *mechanism* under a user-level thread; it knows nothing of descriptors, timers or
//! queues. The park world of `duality-runtime` resumes fibers from its loop, and each fiber calls
//! [`suspend`] where it must wait.
//!
//! ```text
//!   kernel thread's stack                     fiber's stack (Stack)
//!   ─────────────────────                     ─────────────────────
//!   loop ── Fiber::resume ───── switch ─────▶ entry() … suspend()
//!     ▲                                                    │
//!     └───────────────────────── switch ───────────────────┘
//! ```
//!
//! A fiber stays on the kernel thread that made it ([`Fiber`] is not `Send`), so thread-locals keep
//! their meaning across a switch. The switch itself is [`corosensei`]'s: callee-saved registers and
//! the stack pointer, about a nanosecond.
//!
//! ```
//! use duality_fiber::{Fiber, Stack, suspend};
//!
//! let mut fiber = Fiber::new(Stack::new(64 * 1024)?, || suspend());
//! assert!(!fiber.resume()); // it suspended itself,
//! assert!(fiber.resume()); //  and now it has run to its end
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod overflow;
mod pool;
mod slab;
mod stack;

pub use pool::StackPool;
pub use stack::Stack;

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::ptr;

use corosensei::stack::Stack as _;
use corosensei::{Coroutine, CoroutineResult, Yielder};

thread_local! {
    /// The fiber that runs on this kernel thread, null outside every fiber.
    /// A plain pointer, constant-initialised: no destructor, no lazy set-up on the hot path.
    static RUNNING: Cell<*const Fiber> = const { Cell::new(ptr::null()) };
}

/// A function that runs on a stack of its own and can be left and entered again.
///
/// Dropping a suspended fiber unwinds its stack, so that what lives on it is dropped.
pub struct Fiber {
    /// Taken only by `into_stack`, which consumes the fiber, and by the drop.
    coroutine: Option<Coroutine<(), (), (), Stack>>,
    /// Leads back to whoever resumed the fiber. Null until it first runs; then it lives on its stack.
    yielder: Cell<*const Yielder<(), ()>>,
    /// The page below its stack.
    guard: NonZeroUsize,
}

impl Fiber {
    /// Makes a fiber that will run `entry` on `stack` at its first [`resume`](Fiber::resume).
    ///
    /// A panic in `entry` comes out of `resume`.
    pub fn new(stack: Stack, entry: impl FnOnce() + 'static) -> Self {
        let guard = stack.limit();
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            // SAFETY: this is the first run, within the `resume` that has set the pointer to the
            // fiber that it borrows.
            unsafe { (*RUNNING.get()).yielder.set(yielder) };
            entry();
        });
        Self { coroutine: Some(coroutine), yielder: Cell::new(ptr::null()), guard }
    }

    /// Runs the fiber until it suspends itself or ends; true when it has ended.
    ///
    /// # Panics
    ///
    /// When the fiber has ended before, and with whatever `entry` panics with.
    #[inline]
    pub fn resume(&mut self) -> bool {
        let this: *mut Self = self;
        let _outer = Outer(RUNNING.replace(this));
        // SAFETY: `this` is the borrow that the caller gave. The yielder is a cell, and nobody
        // reaches the coroutine but through such a borrow.
        let coroutine = unsafe { (*this).coroutine.as_mut() };
        let coroutine = coroutine.expect("only into_stack takes it");
        matches!(coroutine.resume(()), CoroutineResult::Return(()))
    }

    /// The stack of a fiber that has ended, for use by another one.
    ///
    /// # Panics
    ///
    /// When the fiber has not ended.
    pub fn into_stack(mut self) -> Stack {
        self.coroutine.take().expect("only into_stack takes it").into_stack()
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        // A suspended coroutine unwinds its stack when it is dropped. The destructors that run there
        // must not suspend: for them no fiber is running.
        let _outer = Outer(RUNNING.replace(ptr::null()));
        drop(self.coroutine.take());
    }
}

/// Leaves the running fiber: its `resume` returns false, and this call returns at the next one.
///
/// # Panics
///
/// Outside every fiber.
#[inline]
pub fn suspend() {
    let fiber = RUNNING.get();
    assert!(!fiber.is_null(), "fiber::suspend called outside every fiber");
    // SAFETY: the pointer was set by the `resume` of the fiber that runs now, on whose stack the
    // yielder lives; it is replaced by `Outer` whenever that fiber is left.
    unsafe { (*(*fiber).yielder.get()).suspend(()) };
}

/// Restores the running fiber of the caller when a resumed fiber is left, even by a panic.
struct Outer(*const Fiber);

impl Drop for Outer {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    use super::*;

    fn stack() -> Stack {
        Stack::new(64 * 1024).unwrap()
    }

    #[test]
    fn a_fiber_runs_in_pieces() {
        let steps = Rc::new(Cell::new(0));
        let seen = steps.clone();
        let mut fiber = Fiber::new(stack(), move || {
            for step in 1..=3 {
                seen.set(step);
                suspend();
            }
        });
        for step in 1..=3 {
            assert!(!fiber.resume());
            assert_eq!(steps.get(), step);
        }
        assert!(fiber.resume());
    }

    #[test]
    fn fibers_nest() {
        let mut outer = Fiber::new(stack(), || {
            let mut inner = Fiber::new(stack(), suspend);
            assert!(!inner.resume());
            suspend();
            assert!(inner.resume());
            suspend();
        });
        assert!(!outer.resume());
        assert!(!outer.resume());
        assert!(outer.resume());
    }

    #[test]
    fn dropping_a_suspended_fiber_drops_what_it_holds() {
        let alive = Rc::new(());
        let held = alive.clone();
        let mut fiber = Fiber::new(stack(), move || {
            let _held = held;
            suspend();
        });
        fiber.resume();
        assert_eq!(Rc::strong_count(&alive), 2);
        drop(fiber);
        assert_eq!(Rc::strong_count(&alive), 1);
    }

    #[test]
    fn a_fiber_that_catches_panics_can_be_dropped_while_suspended() {
        let mut fiber = Fiber::new(stack(), || {
            let _ = catch_unwind(AssertUnwindSafe(suspend));
        });
        assert!(!fiber.resume());
        drop(fiber);
    }

    #[test]
    fn a_panic_comes_out_of_resume_and_leaves_the_caller_as_it_was() {
        let mut fiber = Fiber::new(stack(), || panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(|| fiber.resume())).is_err());
        assert!(RUNNING.get().is_null());
    }
}
