//! Finds futures of other libraries that poll several of our futures at a time, such as
//! `FuturesUnordered`, outside [`gather`](super::gather).
//!
//! A straight-line task waits for one thing at a time. In the block and the park world, each wait
//! happens within `poll`. So the futures of such a combinator run one after the other, and deadlock
//! if one needs another. On a loop, a wait for a socket or a time wakes the task and not the waker
//! of the combinator. The combinator then may never poll the future again.
//!
//! The check finds a combinator by its waker. If a wait is polled with another waker than the
//! task's, a combinator is in between. So the check costs one comparison at a wait, and nothing if
//! an operation is ready. A combinator that passes the task's waker on (`join!`, `select!`) is not
//! found. A wait for a socket in the block world is not foreign either, because it is a plain
//! system call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;

use crate::log;
use crate::wait::gathers;

/// Checks that a wait is polled with the waker of its task. The data of that waker are at `own`,
/// which is 0 if no task of ours runs.
#[inline(always)]
pub(crate) fn check(context: &Context<'_>, own: usize) {
    if context.waker().data().addr() != own {
        warn_once(own);
    }
}

#[cold]
#[inline(never)]
fn warn_once(own: usize) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if own != 0 && !gathers() && !TOLD.swap(true, Ordering::Relaxed) {
        log::warn(
            "a combinator of another library (such as FuturesUnordered or join_all) waits for several futures in one \
             task: they run one after the other or never end; put it into task::gather, or use task::spawn for each",
        );
    }
}
