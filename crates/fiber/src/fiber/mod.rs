//! The type [`Fiber`]: making, entering and dropping a fiber, and running functions on top of a
//! suspended fiber.

pub(crate) mod here;

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::process::abort;
use std::ptr;

use self::here::{HERE, run_functions};
use crate::LINE;
use crate::sanitizer::{Left, left_for_good};
use crate::stack::{Occupied, Stack};
use crate::switch::{StackPointer, nowhere, prepare, room_for, switch};

// A switch hands over one word. The message to a fiber says that the fiber goes on, or is the
// address of a function to run on the fiber's stack first. The message from a fiber says that the
// resumer goes on or that the fiber has ended. After a panic, the message is the address of the
// panic's payload.

pub(crate) const GO_ON: usize = 0;
const ENDED: usize = 1;

/// A function that runs on the stack of a suspended fiber, on top of the fiber's own frames.
pub(crate) type OnTop<'a> = &'a mut dyn FnMut();
pub(crate) type Payload = Box<dyn Any + Send>;

/// A function that runs on its own stack and can be left and entered again.
///
/// Dropping a suspended fiber unwinds its stack, so that the values on the stack are dropped.
#[repr(C)]
pub struct Fiber {
    /// The place where the fiber's stack was left. Null while the fiber runs, and after it has
    /// ended. This is the first field, so that a switch needs no offset.
    pub(crate) left_at: Cell<StackPointer>,
    /// Only `into_stack`, which consumes the fiber, and the drop take the stack.
    pub(crate) stack: ManuallyDrop<Occupied>,
}

impl fmt::Debug for Fiber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Fiber").finish_non_exhaustive()
    }
}

impl Fiber {
    /// Makes a fiber that will run `entry` on `stack` at its first [`resume`](Fiber::resume).
    ///
    /// `resume` passes on a panic in `entry`.
    pub fn new(stack: Stack, entry: impl FnOnce() + 'static) -> Self {
        Self::with(stack, || (), |_| entry())
    }

    /// Makes a fiber that will run `entry` on a pinned value. `make` makes the value, and the value
    /// lies at the base of the stack itself. A value with an alignment of more than 64 bytes does
    /// not compile.
    ///
    /// # Panics
    ///
    /// Panics if the value and the captures of `entry` leave less than 4 KiB of the stack. Nothing
    /// has been written to the stack then. Also passes on a panic of `make`.
    #[inline]
    pub fn with<T: 'static>(
        stack: Stack,
        make: impl FnOnce() -> T,
        entry: impl FnOnce(Pin<&mut T>) + 'static,
    ) -> Self {
        const { assert!(align_of::<T>() <= LINE) };
        Self::begin(stack, |room| {
            // SAFETY: `begin` gives room for a value of this type on the stack. The fiber keeps the
            // stack as long as the body.
            let mut value = unsafe { InPlace::new(make(), room) };
            move || entry(value.pinned())
        })
    }

    /// Makes a fiber that will run the body that `make` makes. `make` gets a place for a value at
    /// the base of the stack. This is a separate function, so that the type of the body has a name.
    #[inline]
    fn begin<T, B: FnOnce()>(stack: Stack, make: impl FnOnce(*mut T) -> B) -> Self {
        let stack = Occupied::new(stack, size_of::<T>(), room_for::<B>());
        let body = make(stack.room());
        // SAFETY: `Occupied::new` has left room for the body; nothing runs on the stack, and `main`
        // takes the body.
        let left_at = unsafe { prepare(stack.base(), body, main) };
        Self { left_at: Cell::new(left_at), stack: ManuallyDrop::new(stack) }
    }

    /// Runs the fiber, and the fibers that it passes the processor to, until one of these fibers
    /// suspends itself or ends. Returns true if that fiber has ended.
    ///
    /// # Panics
    ///
    /// Panics if the fiber runs or has ended. Also passes on a panic of the `entry` of the fiber
    /// that came back.
    // This function is not inlined: the switch would take all registers from the caller, even on
    // paths that do not resume.
    #[inline(never)]
    pub fn resume(&self) -> bool {
        self.assert_suspended();
        came_back(self.enter(self, GO_ON))
    }

    /// Runs `function` on the stack of the suspended fiber, on top of its frames, and leaves the
    /// fiber suspended again. Boost.Context calls this "ontop".
    ///
    /// The fiber does not run meanwhile: a [`suspend`](crate::suspend) in `function` panics.
    ///
    /// # Panics
    ///
    /// Panics if the fiber runs or has ended. A panic of `function` is a panic of the fiber: the
    /// call by which the fiber suspended itself passes the panic on.
    pub fn run_on_top(&self, mut function: impl FnMut()) {
        self.assert_suspended();
        came_back(self.send(self, &mut function));
    }

    fn assert_suspended(&self) {
        assert!(!self.left_at.get().is_null(), "a fiber that runs, or has ended, is not entered");
    }

    /// Like [`enter`](Fiber::enter), with a function for the fiber to run first.
    fn send(&self, running: *const Self, mut function: OnTop<'_>) -> usize {
        let outer = HERE.with(|here| here.on_top_of.replace(self));
        let message = self.enter(running, (&raw mut function).expose_provenance());
        HERE.with(|here| here.on_top_of.set(outer));
        message
    }

    /// Switches to the fiber, which must be suspended, with `running` as the running fiber. Returns
    /// the message that comes back.
    #[inline]
    fn enter(&self, running: *const Self, message: usize) -> usize {
        HERE.with(|here| {
            let outer = (here.running.replace(running), here.resumer.get());
            let outer_stack = here.resumer_stack.replace(here.stack.get());
            // SAFETY: the fiber was left at `left_at`, or prepared, and no other code goes on
            // there. If the fiber passes the processor on, the last fiber comes back here.
            let message =
                unsafe { here.switch(&here.resumer, &self.left_at, self.stack.bounds(), message) };
            here.running.set(outer.0);
            here.resumer.set(outer.1);
            here.resumer_stack.set(outer_stack);
            message
        })
    }

    /// The stack of a fiber that has ended, for use by another fiber.
    ///
    /// # Panics
    ///
    /// Panics if the fiber has not ended.
    pub fn into_stack(self) -> Stack {
        assert!(self.left_at.get().is_null(), "the stack of a fiber that is suspended is in use");
        let mut fiber = ManuallyDrop::new(self);
        // SAFETY: the fiber is neither used again nor dropped.
        unsafe { ManuallyDrop::take(&mut fiber.stack) }.vacate()
    }
}

/// The payload that unwinds a fiber that is dropped while it is suspended.
struct Unwound;

impl Drop for Fiber {
    /// # Panics
    ///
    /// Passes on a panic of a destructor on the stack.
    fn drop(&mut self) {
        let mut message = ENDED;
        if !self.left_at.get().is_null() {
            // Destructors on the stack must not suspend: no fiber counts as running while they run.
            message = self.send(ptr::null(), &mut || resume_unwind(Box::new(Unwound)));
        }
        // SAFETY: nothing runs on the stack any more, and the fiber is not used after this.
        unsafe { ManuallyDrop::drop(&mut self.stack) };
        came_back(message);
    }
}

/// The first and the last function on a fiber's stack.
extern "C" fn main<F: FnOnce()>(body: *mut F, message: usize) -> ! {
    Left::never().back();
    // SAFETY: `begin` has moved the body to `body` by `prepare`, and only one switch begins the
    // fiber.
    let body = unsafe { body.read() };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        if message != GO_ON {
            run_functions(message);
        }
        body();
    }));
    let message = match outcome {
        Err(payload) if !payload.is::<Unwound>() => {
            Box::into_raw(Box::<Payload>::new(payload)).expose_provenance()
        }
        _ => ENDED,
    };
    HERE.with(|here| {
        here.stack.set(here.resumer_stack.get());
        left_for_good(here.resumer_stack.get());
        // SAFETY: the resumer was left at `resumer` when it switched to a fiber. Its stack has not
        // gone on, because this fiber runs instead. No switch comes back, so the cell for this
        // stack's pointer need not live.
        unsafe { switch(&nowhere(), &here.resumer, message) };
    });
    abort()
}

/// Reads the message from a fiber. Returns true if the fiber has ended.
#[inline]
fn came_back(message: usize) -> bool {
    if message > ENDED {
        go_on_panicking(message);
    }
    message == ENDED
}

#[cold]
fn go_on_panicking(message: usize) -> ! {
    let payload = ptr::with_exposed_provenance_mut::<Payload>(message);
    // SAFETY: `main` made the pointer from a box of this type, and only this message carries the
    // pointer.
    resume_unwind(*unsafe { Box::from_raw(payload) })
}

/// A value that does not lie within its owner.
struct InPlace<T>(*mut T);

impl<T> InPlace<T> {
    /// Moves the value to `place`.
    ///
    /// # Safety
    ///
    /// The place has room for the value, and no other code uses the place as long as the result
    /// lives.
    unsafe fn new(value: T, place: *mut T) -> Self {
        // SAFETY: the caller promises that the place has room for the value and that no other code
        // uses the place.
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
        // SAFETY: the value is valid and ours, and not used again.
        unsafe { self.0.drop_in_place() };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::ptr::NonNull;
    use std::rc::Rc;

    use super::*;
    use crate::{below, suspend, suspend_for};

    fn stack() -> Stack {
        Stack::new(64 * 1024).unwrap()
    }

    #[test]
    fn a_fiber_runs_in_pieces() {
        let steps = Rc::new(Cell::new(0));
        let seen = steps.clone();
        let fiber = Fiber::new(stack(), move || {
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
        let outer = Fiber::new(stack(), || {
            let inner = Fiber::new(stack(), suspend);
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
        let fiber = Fiber::new(Stack::new(16 * 1024).unwrap(), || {
            let own = 0_u8;
            let sum = below(|| {
                // Larger than the fiber's own stack.
                let room = std::hint::black_box([1_u8; 256 * 1024]);
                assert!((&raw const own).addr().abs_diff((&raw const room).addr()) > 16 * 1024);
                below(|| room.iter().map(|&byte| usize::from(byte)).sum::<usize>())
            });
            assert_eq!(sum, 256 * 1024);
            suspend();
            assert!(catch_unwind(|| below(|| panic!("on purpose"))).is_err());
            assert!(catch_unwind(|| below(suspend)).is_err(), "no switch could come back");
            suspend();
        });
        assert!(!fiber.resume());
        assert!(!fiber.resume());
        assert!(fiber.resume());
        assert_eq!(below(|| 7), 7);
    }

    #[test]
    fn the_processor_is_passed_on_and_comes_back_from_the_last() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let fibers: Rc<[Cell<Option<NonNull<Fiber>>>; 3]> = Rc::default();
        let all: Vec<Box<Fiber>> = (0..3)
            .map(|me| {
                let (order, fibers) = (order.clone(), fibers.clone());
                Box::new(Fiber::new(stack(), move || {
                    for round in 0..2 {
                        order.borrow_mut().push((round, me));
                        // The last fiber names itself as the next fiber.
                        let next = fibers[(me + 1).min(2)].get();
                        // SAFETY: the next fiber is suspended or is the running fiber, and each
                        // fiber is in a box.
                        unsafe { suspend_for(|| next) };
                    }
                }))
            })
            .collect();
        for (cell, fiber) in fibers.iter().zip(&all) {
            cell.set(Some(NonNull::from(&**fiber)));
        }
        // The last fiber ends first; the others are still in their first round.
        assert!(all[0].resume());
        let expected = [(0, 0), (0, 1), (0, 2), (1, 2)];
        assert_eq!(*order.borrow(), expected);
        assert!(catch_unwind(AssertUnwindSafe(|| all[2].resume())).is_err(), "it has ended");
        fibers[2].set(fibers[0].get());
        assert!(all[1].resume(), "which goes on with the first, and that ends");
        assert_eq!(order.borrow()[4..], [(1, 1), (1, 0)]);
    }

    #[test]
    fn a_function_on_top_is_on_the_stack_of_the_fiber_and_changes_nothing() {
        let place = Rc::new(Cell::new(0));
        let told = place.clone();
        let fiber = Fiber::new(stack(), move || {
            told.set((&raw const told).addr());
            suspend();
            told.set(1);
        });
        let mut runs = 0;
        let mut run = |fiber: &Fiber| {
            let mut seen = 0;
            fiber.run_on_top(|| {
                let local = runs;
                runs = std::hint::black_box(&local) + 1;
                seen = (&raw const local).addr();
            });
            seen
        };
        run(&fiber); // before it begins
        assert!(!fiber.resume());
        let begun = place.get();
        for _ in 0..2 {
            assert!(run(&fiber).abs_diff(begun) < 64 * 1024);
        }
        assert_eq!(place.get(), begun);
        assert!(fiber.resume());
        assert_eq!((place.get(), runs), (1, 3));
    }

    #[test]
    fn a_function_on_top_that_suspends_panics_and_is_not_gone_on_with() {
        let fiber = Fiber::new(stack(), || {
            // The panic of the function is a panic of the fiber, and the fiber goes on after it.
            assert!(catch_unwind(AssertUnwindSafe(suspend)).is_err());
            suspend();
        });
        let suspends = || {
            let borrowed = Box::new(Cell::new(0));
            fiber.run_on_top(|| {
                suspend();
                borrowed.set(1);
            });
            borrowed.get()
        };
        assert!(!fiber.resume());
        assert_eq!(suspends(), 0, "the fiber has caught the panic and waits at its second place");
        assert!(catch_unwind(AssertUnwindSafe(suspends)).is_err(), "which catches nothing");
        assert!(HERE.with(|here| here.running.get().is_null()));
        fiber.into_stack(); // The panic has ended the fiber.
    }

    #[test]
    fn a_function_on_top_that_suspends_before_the_fiber_begins_ends_it() {
        let fiber = Fiber::new(stack(), || unreachable!("it is never resumed"));
        let panic = catch_unwind(AssertUnwindSafe(|| fiber.run_on_top(suspend))).unwrap_err();
        let message = *panic.downcast::<&str>().unwrap();
        assert!(message.contains("on top of it and in its drop must not suspend"), "{message}");
        fiber.into_stack();
    }

    #[test]
    fn a_function_on_top_may_run_other_fibers_and_functions_on_them() {
        let first = Fiber::new(stack(), || {
            suspend();
            suspend();
        });
        assert!(!first.resume());
        let other = Fiber::new(stack(), suspend);
        let mut steps = Vec::new();
        first.run_on_top(|| {
            steps.push(other.resume());
            other.run_on_top(|| steps.push(catch_unwind(suspend).is_err()));
            steps.push(other.resume());
            steps.push(catch_unwind(AssertUnwindSafe(|| first.resume())).is_err());
            steps.push(below(|| true));
        });
        assert_eq!(steps, [false, true, true, true, true]);
        assert!(!first.resume());
        assert!(first.resume());
    }

    #[test]
    fn dropping_a_suspended_fiber_drops_what_it_holds() {
        let alive = Rc::new(());
        let held = alive.clone();
        let fiber = Fiber::new(stack(), move || {
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
            let value = (alive.clone(), [7_u8; 1000]);
            let fiber = Fiber::with(
                stack(),
                || value,
                |value| {
                    let before = (&raw const *value).addr();
                    suspend();
                    assert_eq!((before, value.1), ((&raw const *value).addr(), [7; 1000]));
                },
            );
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
        Fiber::with(stack(), || [0_u8; 64 * 1024], |_| ());
    }

    #[test]
    #[should_panic(expected = "leaves most of it to the calls")]
    fn an_entry_that_captures_more_than_a_stack_is_refused() {
        // Longer than the fiber's stack, and short enough for some copies on the stack of a test.
        let captured = [1_u8; 128 * 1024];
        Fiber::new(stack(), move || assert_eq!(std::hint::black_box(captured)[0], 1));
    }

    #[test]
    fn an_entry_is_aligned_as_its_type_asks() {
        #[repr(align(256))]
        struct Aligned([u8; 256]);
        let captured = Aligned([7; 256]);
        let fiber = Fiber::new(stack(), move || {
            let captured = std::hint::black_box(captured);
            assert_eq!((&raw const captured).addr() % 256, 0);
            assert_eq!(captured.0, [7; 256]);
            suspend();
        });
        assert!(!fiber.resume());
        assert!(fiber.resume());
    }

    #[test]
    fn a_fiber_that_catches_panics_can_be_dropped_while_suspended() {
        let fiber = Fiber::new(stack(), || {
            let _ = catch_unwind(AssertUnwindSafe(suspend));
        });
        assert!(!fiber.resume());
        drop(fiber);
    }

    #[test]
    fn a_panic_comes_out_of_resume_and_leaves_the_caller_as_it_was() {
        let fiber = Fiber::new(stack(), || panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(|| fiber.resume())).is_err());
        assert!(HERE.with(|here| here.running.get().is_null()));
    }
}
