//! Calls on the stack from which the running fiber was resumed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use crate::fiber::Payload;
use crate::fiber::here::HERE;
use crate::sanitizer::{Bounds, Left};
use crate::switch::{self, StackPointer};

/// Runs `body` on the stack from which the running fiber was resumed; outside every fiber it just
/// runs.
///
/// That stack is in the cache, since all fibers come back to it, and most often a deep one, of the
/// kernel thread.
///
/// # Panics
///
/// With what `body` panics with; it must not [`suspend`](crate::suspend).
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

/// Calls `body` on the stack that was left at `place`; the bounds are those of this stack and of
/// that one.
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
    /// It is called with such a call.
    unsafe extern "C" fn function<R, F: FnOnce() -> R>(call: *mut ()) {
        // SAFETY: the caller below has just made it, and waits.
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

/// In a frame of its own, which else would be a part of the caller's, on the fiber's stack, whether
/// it is used or not.
#[inline(never)]
fn apart<R>(body: impl FnOnce() -> R) -> R {
    body()
}
