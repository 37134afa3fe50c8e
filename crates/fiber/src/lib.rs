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
//! Stacks of one size come from a [`StackPool`], which carves them from *slabs*, so that a million of them
//! are a handful of mappings:
//!
//! ```text
//!   slab, one mapping: ├ guard │ ◀── stack ┼ guard │ ◀── stack ┼ guard │ ◀── stack ┼ …
//!                        │                    ▲ from the top: label, value, calls
//!                        └ touched: SIGSEGV, and the line of `overflow`, which names the fiber
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

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::ptr;

use corosensei::stack::Stack as _;
use corosensei::{Coroutine, CoroutineResult, Yielder};

pub use self::pool::StackPool;
use self::stack::Occupied;
pub use self::stack::Stack;

thread_local! {
    /// The yielder of the fiber that runs on this kernel thread, null outside every fiber.
    /// A plain pointer, constant-initialised: no destructor, no lazy set-up on the hot path.
    static RUNNING: Cell<*const Yielder<(), usize>> = const { Cell::new(ptr::null()) };
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// A function that runs on a stack of its own and can be left and entered again.
///
/// Dropping a suspended fiber unwinds its stack, so that what lives on it is dropped.
pub struct Fiber {
    /// Taken only by `into_stack`, which consumes the fiber, and by the drop.
    coroutine: ManuallyDrop<Coroutine<(), usize, (), Occupied>>,
    span: Span,
}

/// The part of a stack that is in use, in one word: where its base is (48 bits), and of where it was left the 16 low
/// bits, which are noted at every switch, by one store. It says what to fetch; of a stack that is deeper than 64 KiB it
/// tells some other line, which is as well.
#[derive(Clone, Copy)]
struct Span {
    base_low: u32,
    base_high: u16,
    left_at: u16,
}

impl Span {
    fn new(base: usize) -> Self {
        Self { base_low: base as u32, base_high: (base >> 32) as u16, left_at: base as u16 }
    }

    const fn base(self) -> usize {
        (self.base_high as usize) << 32 | self.base_low as usize
    }

    /// Where the stack was left.
    const fn top(self) -> usize {
        let depth = (self.base_low as u16).wrapping_sub(self.left_at);
        self.base().wrapping_sub(depth as usize)
    }
}

impl Fiber {
    /// Makes a fiber that will run `entry` on `stack` at its first [`resume`](Fiber::resume).
    ///
    /// A panic in `entry` comes out of `resume`.
    pub fn new(stack: Stack, entry: impl FnOnce() + 'static) -> Self {
        Self::with(stack, (), |_| entry())
    }

    /// Makes a fiber that will run `entry` on a value that lies, pinned, at the base of the stack itself.
    ///
    /// # Panics
    ///
    /// When the value leaves less than a page of the stack, or is to be aligned to more than 64 bytes.
    pub fn with<T: 'static>(
        stack: Stack,
        value: T,
        entry: impl FnOnce(Pin<&mut T>) + 'static,
    ) -> Self {
        const { assert!(align_of::<T>() <= 64) };
        let stack = Occupied::new(stack, size_of::<T>());
        let base = stack.base().get();
        let mut value = InPlace::new(value, stack.room());
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), usize>, ()| {
            RUNNING.set(yielder);
            entry(value.pinned());
        });
        Self { coroutine: ManuallyDrop::new(coroutine), span: Span::new(base) }
    }

    /// Runs the fiber until it suspends itself or ends; true when it has ended.
    ///
    /// # Panics
    ///
    /// When the fiber has ended before, and with whatever `entry` panics with.
    #[inline]
    pub fn resume(&mut self) -> bool {
        let _outer = Outer(RUNNING.get());
        match self.coroutine.resume(()) {
            CoroutineResult::Yield(left_at) => {
                self.span.left_at = left_at as u16;
                false
            }
            CoroutineResult::Return(()) => true,
        }
    }

    /// Asks for the memory that the next [`resume`](Fiber::resume) touches first, without waiting for it:
    /// what lies at the base, and from where the fiber was left, room for the next calls.
    #[inline]
    pub fn fetch(&self) {
        for line in 0..3 {
            fetch(self.span.base() + line * LINE);
        }
        for line in 0..4 {
            fetch(self.span.top().wrapping_sub(line * LINE));
        }
    }

    /// The stack of a fiber that has ended, for use by another one.
    ///
    /// # Panics
    ///
    /// When the fiber has not ended.
    pub fn into_stack(self) -> Stack {
        let mut fiber = ManuallyDrop::new(self);
        // SAFETY: the fiber is not used any more, nor dropped.
        unsafe { ManuallyDrop::take(&mut fiber.coroutine) }.into_stack().vacate()
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        // A suspended coroutine unwinds its stack when it is dropped. The destructors that run there
        // must not suspend: for them no fiber is running.
        let _outer = Outer(RUNNING.replace(ptr::null()));
        // SAFETY: this is the drop; nobody sees the fiber after it.
        unsafe { ManuallyDrop::drop(&mut self.coroutine) };
    }
}

/// Leaves the running fiber: its `resume` returns false, and this call returns at the next one.
///
/// # Panics
///
/// Outside every fiber.
#[inline]
pub fn suspend() {
    let yielder = RUNNING.get();
    assert!(!yielder.is_null(), "fiber::suspend called outside every fiber");
    let here = (&raw const yielder).addr();
    // SAFETY: the pointer was set by the fiber that runs now, which lives on the stack that holds
    // the yielder; it is replaced by `Outer` whenever that fiber is left.
    unsafe { (*yielder).suspend(here) };
    RUNNING.set(yielder);
}

/// Runs `body` on the stack of whoever resumed the running fiber; outside every fiber it just runs.
///
/// That stack is in the cache, since all fibers come back to it, and most often a deep one, of the kernel thread.
///
/// # Panics
///
/// With what `body` panics with; it must not [`suspend`].
#[inline]
pub fn below<R>(body: impl FnOnce() -> R + Send) -> R {
    let yielder = RUNNING.get();
    if yielder.is_null() {
        return apart(body);
    }
    let _outer = Outer(RUNNING.replace(ptr::null()));
    // SAFETY: as in `suspend`. Who resumed this fiber waits for it, and its stack is free below where it does.
    unsafe { (*yielder).on_parent_stack(body) }
}

/// In a frame of its own, which else would be a part of the caller's, on the fiber's stack, whether it is used or not.
#[inline(never)]
fn apart<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// Asks for the cache line at `address`, without waiting for it. Any address will do.
#[inline]
pub fn fetch(address: usize) {
    let address = ptr::without_provenance::<i8>(address);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, and every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch never faults, and changes neither memory nor flags.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
}

/// A value that lives elsewhere than where its owner does.
struct InPlace<T>(*mut T);

impl<T> InPlace<T> {
    /// Moves the value to `place`, which must be valid and free for as long as this lives.
    fn new(value: T, place: *mut T) -> Self {
        // SAFETY: by what is said above.
        unsafe { place.write(value) };
        Self(place)
    }

    fn pinned(&mut self) -> Pin<&mut T> {
        // SAFETY: the value is valid, ours, and not moved until it is dropped.
        unsafe { Pin::new_unchecked(&mut *self.0) }
    }
}

impl<T> Drop for InPlace<T> {
    fn drop(&mut self) {
        // SAFETY: the value is valid and ours, and nobody sees it again.
        unsafe { self.0.drop_in_place() };
    }
}

/// Restores the running fiber of the caller when a resumed fiber is left, even by a panic.
struct Outer(*const Yielder<(), usize>);

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
    fn what_runs_below_has_the_stack_of_the_resumer() {
        let mut fiber = Fiber::new(Stack::new(16 * 1024).unwrap(), || {
            let own = 0_u8;
            let sum = below(|| {
                // More than the fiber's own stack has.
                let room = std::hint::black_box([1_u8; 256 * 1024]);
                assert!((&raw const own).addr().abs_diff((&raw const room).addr()) > 16 * 1024);
                below(|| room.iter().map(|&byte| usize::from(byte)).sum::<usize>())
            });
            assert_eq!(sum, 256 * 1024);
            suspend();
            assert!(catch_unwind(|| below(|| panic!("on purpose"))).is_err());
            assert!(catch_unwind(|| below(suspend)).is_err(), "nobody could come back");
            suspend();
        });
        assert!(!fiber.resume());
        assert!(!fiber.resume());
        assert!(fiber.resume());
        assert_eq!(below(|| 7), 7);
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
    fn a_value_on_the_stack_stays_where_it_is_and_is_dropped_once() {
        let alive = Rc::new(());
        for runs in 0..3 {
            let mut fiber = Fiber::with(stack(), (alive.clone(), [7_u8; 1000]), |value| {
                let before = (&raw const *value).addr();
                suspend();
                assert_eq!((before, value.1), ((&raw const *value).addr(), [7; 1000]));
            });
            assert_eq!(Rc::strong_count(&alive), 2);
            for run in 1..=runs {
                assert_eq!(fiber.resume(), run == 2);
            }
            drop(fiber);
            assert_eq!(Rc::strong_count(&alive), 1);
        }
    }

    #[test]
    #[should_panic(expected = "leaves most of it to the calls")]
    fn a_value_that_fills_a_stack_is_refused() {
        Fiber::with(stack(), [0_u8; 64 * 1024], |_| ());
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
