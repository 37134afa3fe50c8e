//! What runs tasks: the module `runtime`, but for local runtimes.
//!
//! ```text
//!   multi_thread                                   current_thread
//!   block_on: waits in place on its thread         block_on: runs the loop on its thread
//!   spawn ─▶ a loop on a thread of its own         spawn ─▶ this loop
//!            (DUALITY_LOOPS of them), in turn
//!
//!   threads (both): block_on waits in place; spawn ─▶ a kernel thread
//! ```

mod blocking;
mod builder;
pub(crate) mod context;
mod handle;
mod loops;
mod metrics;
mod shared;
mod simulated;
mod threads;

use std::fmt;
use std::future::Future;
use std::io;
use std::num::NonZeroU64;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use self::builder::Builder;
pub use self::handle::{EnterGuard, Handle, TryCurrentError};
pub use self::metrics::RuntimeMetrics;
use self::shared::Shared;
use crate::join::{JoinHandle, LARGE};

/// The number of a runtime, which no other runtime of the process has.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct RuntimeId(NonZeroU64);

impl RuntimeId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(NonZeroU64::new(number).expect("2^64 runtimes take longer than the process lives"))
    }
}

impl fmt::Display for RuntimeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The number of the loop that runs the calling code. `None` outside of loops.
#[must_use]
pub fn worker_index() -> Option<usize> {
    context::loop_number()
}

/// Whether an operation failed because its runtime had ended.
///
/// Sockets and sleeps work without a runtime here, so that few operations fail for this reason.
#[must_use]
pub fn is_rt_shutdown_err(error: &io::Error) -> bool {
    let is_shutdown = |inner: &(dyn std::error::Error + Send + Sync + 'static)| {
        inner.source().is_none() && inner.to_string() == SHUT_DOWN
    };
    error.kind() == io::ErrorKind::Other && error.get_ref().is_some_and(is_shutdown)
}

/// The message of tokio's error.
const SHUT_DOWN: &str = "A Tokio 1.x context was found, but it is being shutdown.";

/// How a runtime uses kernel threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeFlavor {
    /// Tasks run while a thread is in `block_on`.
    CurrentThread,
    /// Tasks run on threads of the runtime.
    MultiThread,
}

impl RuntimeFlavor {
    pub(crate) fn is_multi_thread(self) -> bool {
        self == Self::MultiThread
    }
}

/// A runtime. Its drop ends its tasks, and waits for blocking work that has begun.
pub struct Runtime {
    handle: Handle,
    /// The longest time that the drop waits for threads. `None` means for ever.
    patience: Option<Duration>,
}

impl Runtime {
    pub(crate) fn of(handle: Handle) -> Self {
        Self { handle, patience: None }
    }

    /// A multi-threaded runtime.
    ///
    /// # Errors
    ///
    /// If the world is not available on this machine, or a thread or descriptor is lacking.
    pub fn new() -> io::Result<Self> {
        Builder::new_multi_thread().enable_all().build()
    }

    /// A handle, by which other threads spawn tasks.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Starts a task.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// Runs work that blocks on a thread that may block.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, work: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.handle.spawn_blocking(work)
    }

    /// Runs a future to its end, and returns its output.
    ///
    /// # Panics
    ///
    /// If the future panics. Within a runtime. On a `current_thread` runtime with tasks that belong
    /// to another thread.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match size_of::<F>() > LARGE {
            true => self.handle.shared.block_on(&self.handle, Box::pin(future)),
            false => self.handle.shared.block_on(&self.handle, future),
        }
    }

    /// Makes this the current runtime of the calling thread, until the guard is dropped.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Ends the runtime, and waits at most `duration` for its threads.
    pub fn shutdown_timeout(mut self, duration: Duration) {
        self.patience = Some(duration);
    }

    /// Ends the runtime without waiting for its threads.
    pub fn shutdown_background(self) {
        self.shutdown_timeout(Duration::ZERO);
    }

    /// What the runtime counts.
    #[must_use]
    pub fn metrics(&self) -> RuntimeMetrics {
        self.handle.metrics()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // A task cannot wait for the thread that runs it.
        let patience = if context::is_inside() { Some(Duration::ZERO) } else { self.patience };
        self.handle.shared.close(&self.handle, patience);
    }
}

impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}

impl fmt::Debug for Runtime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Runtime").field("handle", &self.handle).finish_non_exhaustive()
    }
}
