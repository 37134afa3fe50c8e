//! The running fiber of a kernel thread, and the ways to leave that fiber.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::{GO_ON, OnTop};
use crate::Fiber;
use crate::sanitizer::{Bounds, Left};
use crate::switch::{StackPointer, nowhere, switch};

thread_local! {
    /// Constant-initialised: no destructor, no lazy set-up on the hot path.
    pub(crate) static HERE: Here = const {
        Here {
            running: Cell::new(ptr::null()),
            on_top_of: Cell::new(ptr::null()),
            resumer: nowhere(),
            stack: Cell::new(Bounds::UNKNOWN),
            resumer_stack: Cell::new(Bounds::UNKNOWN),
        }
    };
}

/// The state of a kernel thread's fibers.
pub(crate) struct Here {
    /// The fiber that runs and may leave. Null outside every fiber, and while a function runs on
    /// top of a fiber.
    pub(crate) running: Cell<*const Fiber>,
    /// The fiber that a function runs on top of, or null.
    pub(crate) on_top_of: Cell<*const Fiber>,
    /// The place where the resumer's stack was left. Fibers come back to this stack.
    pub(crate) resumer: Cell<StackPointer>,
    /// The bounds of the running stack, and of the resumer's stack.
    pub(crate) stack: Cell<Bounds>,
    pub(crate) resumer_stack: Cell<Bounds>,
}

impl Here {
    /// Calls [`switch`] for a stack with these bounds.
    ///
    /// # Safety
    ///
    /// See the function [`switch`].
    #[inline(always)]
    pub(crate) unsafe fn switch(
        &self,
        from: &Cell<StackPointer>,
        to: &Cell<StackPointer>,
        bounds: Bounds,
        message: usize,
    ) -> usize {
        let own = self.stack.replace(bounds);
        let left = Left::here_for(bounds);
        // SAFETY: the caller promises that a stack was left or prepared at `to`, and that `from`
        // lives until its stack goes on.
        let message = unsafe { switch(from, to, message) };
        left.back();
        self.stack.set(own);
        message
    }
}

/// Runs the functions that are sent to run on top of a fiber, until the message says that the fiber
/// goes on.
#[cold]
pub(crate) fn run_functions(mut message: usize) {
    while message != GO_ON {
        let function = ptr::with_exposed_provenance_mut::<OnTop<'_>>(message);
        let no_fiber = NoFiber::begin();
        // SAFETY: `send` has lent the function until we switch back. The function itself cannot
        // switch: no fiber runs for it.
        unsafe { (*function)() };
        drop(no_fiber);
        // SAFETY: `next` names no fiber.
        message = unsafe { leave(|| None) };
    }
}

/// While this value lives, no fiber counts as running. The function borrows from its caller's
/// frame. If the function could leave the fiber, it would go on after that frame is gone.
struct NoFiber {
    fiber: *const Fiber,
}

impl NoFiber {
    fn begin() -> Self {
        Self { fiber: HERE.with(|here| here.running.replace(ptr::null())) }
    }
}

impl Drop for NoFiber {
    /// Runs after a panic too. A panic of the function is a panic of the fiber, and the fiber may
    /// catch the panic and run on.
    fn drop(&mut self) {
        HERE.with(|here| here.running.set(self.fiber));
    }
}

/// Leaves the running fiber: `resume` returns false, and this call returns at the next `resume`.
///
/// # Panics
///
/// Panics outside every fiber, within [`below`](crate::below), and in a function that [runs on top
/// of a fiber](Fiber::run_on_top). Panics in a destructor that the drop of a fiber runs, too.
#[inline(always)]
pub fn suspend() {
    // SAFETY: `next` names no fiber.
    unsafe { suspend_for(|| None) };
}

/// Leaves the running fiber for the fiber that `next` names. That fiber goes on as if it had been
/// resumed instead of this fiber. If `next` names no fiber, the call is a [`suspend`].
///
/// The compiler inlines this function into its callers, and these into their own callers if
/// possible. Otherwise the processor mispredicts returns: after a switch, a function returns that
/// was called before the switch. The prediction is right only if the other fiber has made the same
/// calls.
///
/// # Safety
///
/// `next` does not switch. `next` names a suspended fiber, or the running fiber. The named fiber
/// belongs to this kernel thread, and does not move until it has been left again.
///
/// # Panics
///
/// Panics where [`suspend`] does, before `next` is called.
#[inline(always)]
pub unsafe fn suspend_for(next: impl FnOnce() -> Option<NonNull<Fiber>>) {
    // SAFETY: `leave` and this function have the same contract, which the caller keeps: `next` does
    // not switch, and names a fiber as required.
    let message = unsafe { leave(next) };
    if message != GO_ON {
        run_functions(message);
    }
}

/// The switch of [`suspend_for`]. Returns the message that the fiber goes on with.
///
/// # Safety
///
/// See [`suspend_for`].
#[inline(always)]
unsafe fn leave(next: impl FnOnce() -> Option<NonNull<Fiber>>) -> usize {
    // SAFETY: `HERE` has no destructor, so it lives as long as the kernel thread, which a fiber
    // does not leave. The borrow lasts longer than `with` allows: a closure with the rest of this
    // function would not be inlined into the callers.
    let here = unsafe { &*HERE.with(ptr::from_ref) };
    let running = here.running.get();
    assert!(
        !running.is_null(),
        "only a running fiber can be suspended: what runs below it, on top of it and in its drop must not suspend"
    );
    let (to, bounds) = match next() {
        Some(next) => {
            here.running.set(next.as_ptr());
            // SAFETY: the caller promises that the fiber does not move.
            let next = unsafe { next.as_ref() };
            (&next.left_at, next.stack.bounds())
        }
        None => (&here.resumer, here.resumer_stack.get()),
    };
    // SAFETY: this fiber runs, and so is alive. A fiber at `to` was left there, as the caller
    // promises. A resumer at `to` was left there when it switched to a fiber. The resumer had
    // switched to this fiber, or to a fiber that has since passed the processor on.
    unsafe { here.switch(&(*running).left_at, to, bounds, GO_ON) }
}
