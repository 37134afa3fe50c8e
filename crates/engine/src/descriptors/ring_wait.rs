//! A request to the engine's ring, on the stack of the waiting thread.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::kernel::cells::Relaxed;
use crate::kernel::lock::Locked;
use crate::schedule::scheduler::wake;
use crate::schedule::thread::ThreadRef;
use crate::schedule::waiter::Reason;

/// A request that a thread waits for. The request lies on the stack of that thread.
pub(crate) struct RingWait {
    thread: ThreadRef,
    result: Relaxed<i32>,
    done: AtomicBool,
}

impl RingWait {
    pub(crate) fn new(thread: ThreadRef) -> Self {
        Self { thread, result: Relaxed::new(AtomicI32::new(0)), done: AtomicBool::new(false) }
    }

    /// The result, after the completion has come.
    pub(crate) fn result(&self) -> i32 {
        self.result.get()
    }

    /// Whether the completion has come.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }
}

/// Handles the completion of a request.
pub(crate) fn ended(locked: &mut Locked, request: usize, result: i32) {
    // SAFETY: the ring has the address from `calls/receive.rs`, where the stack frame lives
    // until `done` is set. Each request has one completion.
    let request = unsafe { &*(request as *const RingWait) };
    let thread = request.thread;
    assert!(!request.is_done(), "a request has two completions");
    request.result.set(result);
    request.done.store(true, Ordering::Release);
    wake(locked, thread, Reason::Woken);
}
