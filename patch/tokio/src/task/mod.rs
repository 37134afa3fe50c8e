//! Tasks: spawned, joined, aborted, local to a thread, or blocking.

mod local;
mod set;

use std::future::Future;

use crate::scheduler::{Handle, context};

pub use self::local::{LocalEnterGuard, LocalSet, spawn_local};
pub use self::set::JoinSet;
pub use crate::join::{AbortHandle, Id, JoinError, JoinHandle, id, try_id};
#[doc(hidden)]
pub use real::task::coop::{Unconstrained, consume_budget, unconstrained};
pub use real::task::{LocalKey, coop, futures, yield_now};

/// Starts a task of the current runtime: a kernel thread, a user-level thread, or a state machine
/// on a loop. On a loop's own thread, the task goes to this loop.
///
/// # Panics
///
/// Outside of a runtime.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Handle::current().spawn(future)
}

/// Runs work that blocks on a thread that may block.
///
/// # Panics
///
/// Outside of a runtime.
#[track_caller]
pub fn spawn_blocking<F, R>(work: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    context::with_current(|handle| handle.spawn_blocking(work))
}

/// Runs work that blocks on this kernel thread.
///
/// If the task is a kernel thread, nothing else waits. On a loop, the other tasks of the loop wait
/// until `work` is done, and tasks that `work` spawns go to another loop.
///
/// # Panics
///
/// In a [`LocalSet`], or in `Runtime::block_on` or a task of a runtime with the flavor
/// `current_thread`.
#[track_caller]
pub fn block_in_place<F, R>(work: F) -> R
where
    F: FnOnce() -> R,
{
    context::leave(work)
}
