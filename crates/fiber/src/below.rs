//! Calls on the stack from which the running fiber was resumed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use crate::fiber::Payload;
use crate::fiber::here::HERE;
use crate::sanitizer::{Bounds, Left};
use crate::switch::{self, StackPointer};

/// Runs `body` on the stack from which the running fiber was resumed. Outside every fiber, just
/// calls `body`.
///
/// All fibers come back to that stack, so it is in the cache. That stack is usually deep: the
/// kernel thread's own stack.
///
/// # Panics
///
/// Panics if `body` panics, with the same payload. `body` must not [`suspend`](crate::suspend).
#[inline]
pub fn below<R>(body: impl FnOnce() -> R + Send) -> R {
    HERE.with(|here| {
        if here.running.get().is_null() {
            return apart(body);
        }
        let running = here.running.replace(ptr::null());
        let (place, bounds) = (here.resumer.get(), here.resumer_stack.get());
        let own = here.stack.replace(bounds);
        let outcome = call_on(body, place, [own, bounds]);
        here.stack.set(own);
        here.running.set(running);
        outcome.unwrap_or_else(|payload| resume_unwind(payload))
    })
}

/// Calls `body` on the stack that was left at `place`. The arguments are the bounds of this stack,
/// then the bounds of the other stack.
#[inline]
fn call_on<R, F: FnOnce() -> R>(
    body: F,
    place: StackPointer,
    [own, others]: [Bounds; 2],
) -> Result<R, Payload> {
    struct Call<F, R> {
        body: Option<F>,
        outcome: Option<Result<R, Payload>>,
        caller: Bounds,
    }
    /// # Safety
    ///
    /// `call` points to a `Call<F, R>` that no other code uses during the call.
    unsafe extern "C" fn function<R, F: FnOnce() -> R>(call: *mut ()) {
        // SAFETY: the caller below has just made this call, and waits for the call to return.
        let call = unsafe { &mut *call.cast::<Call<F, R>>() };
        Left::never().back();
        let body = call.body.take();
        call.outcome = body.map(|body| catch_unwind(AssertUnwindSafe(body)));
        let _ = Left::here_for(call.caller);
    }
    let mut call = Call { body: Some(body), outcome: None, caller: own };
    let left = Left::here_for(others);
    // SAFETY: the resumer is suspended until this fiber leaves; its stack is free below `place`.
    unsafe { switch::call_on((&raw mut call).cast(), function::<R, F>, place) };
    left.back();
    call.outcome.expect("the function has been called")
}

/// Gives `body` its own frame. Inlined, that frame would enlarge the caller's frame on the fiber's
/// stack, even when unused.
#[inline(never)]
fn apart<R>(body: impl FnOnce() -> R) -> R {
    body()
}
