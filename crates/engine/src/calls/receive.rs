//! Receives by way of the engine's ring, which wakes a parked thread with the result.
//!
//! ```text
//!   thread ── RingWait on its own stack ──▶ ring ──▶ the kernel receives into the thread's buffer
//!     parked                                          │
//!     woken, with the result ◀── ended ◀── completion ┘
//!     a signal, a deadline ──▶ cancel ──▶ completion: ECANCELED, or what came first
//! ```
//!
//! The thread does not go on before the completion has come. Until then, the kernel may write to
//! the thread's buffer, and the completion refers to the thread's stack. The request keeps the file
//! open, as a native call does.

use crate::descriptors::ring;
use crate::descriptors::ring_wait::RingWait;
use crate::kernel::clock::{NEVER, Nanoseconds};
use crate::kernel::lock::{Locked, lock};
use crate::kernel::sys::{EAGAIN, EINTR, error};
use crate::schedule::idle;
use crate::schedule::scheduler::{park, park_through_signals};
use crate::schedule::waiter::Reason;
use crate::schedule::worker::current;
use crate::workers::pump;

/// The most that one request receives.
pub(crate) const MOST: usize = 1 << 30;

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// The call's result.
    Result(isize),
    /// The kernel has not received, for a reason of its own.
    Again,
    TimedOut,
    Interrupted,
}

/// Parks the current thread until the kernel has received up to `length` bytes into its buffer.
pub(crate) fn receive(
    number: usize,
    address: usize,
    length: usize,
    deadline: Nanoseconds,
) -> Received {
    let thread = current();
    if thread.deliverable() != 0 {
        return Received::Interrupted;
    }
    let request = RingWait::new(thread);
    let data = &raw const request as usize;
    let mut locked = lock();
    ring::receive(&mut locked, number, address, length.min(MOST) as u32, data);
    if idle::is_watched(&mut locked) {
        // The watcher already sleeps, and would not submit the request.
        ring::flush(&mut locked);
    }
    thread.waits_for.set(number);
    let mut reason = Reason::Woken;
    while !request.is_done() && reason == Reason::Woken {
        reason = park(&mut locked, deadline);
    }
    if !request.is_done() {
        withdraw(&mut locked, &request);
    }
    drop(locked);
    outcome(request.result(), reason)
}

/// Translates a request's result for a thread that was woken for `reason`.
fn outcome(result: i32, reason: Reason) -> Received {
    const CANCELED: isize = error(libc::ECANCELED);
    const NO_MEMORY: isize = error(libc::ENOMEM);
    match (result as isize, reason) {
        (EAGAIN | EINTR | CANCELED | NO_MEMORY, Reason::Woken) => Received::Again,
        (EAGAIN | EINTR | CANCELED | NO_MEMORY, Reason::TimedOut) => Received::TimedOut,
        (EAGAIN | EINTR | CANCELED | NO_MEMORY, Reason::Interrupted) => Received::Interrupted,
        (result, _) => Received::Result(result),
    }
}

/// Cancels a request, and waits until the kernel no longer uses the request.
fn withdraw(locked: &mut Locked, request: &RingWait) {
    ring::cancel(locked, &raw const *request as usize);
    pump::look(locked);
    while !request.is_done() {
        park_through_signals(locked, NEVER);
    }
}
