//! A handle of a runtime, for code on any thread.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, MutexGuard};

use super::context;
use super::{RuntimeFlavor, RuntimeId, RuntimeMetrics, Shared};
use crate::join::{JoinHandle, LARGE, Task, work};

/// A handle of a runtime. Handles do not keep the runtime alive.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// The runtime of the calling code.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[must_use]
    #[track_caller]
    pub fn current() -> Self {
        context::with_current(Self::clone)
    }

    /// The runtime of the calling code, if there is one.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn try_current() -> Result<Self, TryCurrentError> {
        context::try_current()
    }

    /// Makes this the current runtime of the calling thread, until the guard is dropped.
    pub fn enter(&self) -> EnterGuard<'_> {
        let depth = context::enter(self.clone());
        EnterGuard { _entered: Entered { depth, _local: PhantomData }, _handle: PhantomData }
    }

    /// Starts a task of the runtime.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match size_of::<F>() > LARGE {
            true => self.start(Box::pin(future)),
            false => self.start(future),
        }
    }

    #[track_caller]
    fn start<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (task, handle) = Task::new(future, Some(self.shared.clone()));
        self.shared.start(self, Box::pin(duality_runtime::task::gather(task)));
        handle
    }

    /// Runs work that blocks on a thread that may block.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, body: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let (run, handle) = work(body);
        self.shared.run_blocking(self, run);
        handle
    }

    /// Runs a future to its end on this kernel thread, which waits in place.
    ///
    /// # Panics
    ///
    /// If the future panics. Within a runtime.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match size_of::<F>() > LARGE {
            true => self.shared.block_on_in_place(self, Box::pin(future), true),
            false => self.shared.block_on_in_place(self, future, true),
        }
    }

    /// The number of the runtime.
    #[must_use]
    pub fn id(&self) -> RuntimeId {
        self.shared.id()
    }

    /// Whether this is of a local runtime.
    pub(crate) fn is_local(&self) -> bool {
        self.shared.is_local()
    }

    /// The name that the program gave to the runtime.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.shared.name()
    }

    /// How the runtime uses kernel threads.
    #[must_use]
    pub fn runtime_flavor(&self) -> RuntimeFlavor {
        self.shared.flavor()
    }

    /// What the runtime counts.
    #[must_use]
    pub fn metrics(&self) -> RuntimeMetrics {
        RuntimeMetrics::of(self.shared.clone())
    }
}

impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Handle").field("flavor", &self.runtime_flavor()).finish()
    }
}

/// Keeps a runtime the current one of its thread. Drop guards in the reverse order of their making.
#[must_use]
#[derive(Debug)]
pub struct EnterGuard<'a> {
    _entered: Entered,
    _handle: PhantomData<&'a Handle>,
}

/// Has no lifetime, so that a runtime may be shut down while a guard exists, as with tokio.
#[derive(Debug)]
struct Entered {
    depth: usize,
    /// A guard stays on its thread, and other threads may look at it, as with a guard of a mutex.
    _local: PhantomData<MutexGuard<'static, ()>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        context::exit(self.depth);
    }
}

/// There is no runtime on this thread.
pub struct TryCurrentError {
    is_gone: bool,
}

impl TryCurrentError {
    pub(crate) const fn missing() -> Self {
        Self { is_gone: false }
    }

    pub(crate) const fn gone() -> Self {
        Self { is_gone: true }
    }

    /// Whether no runtime was entered.
    #[must_use]
    pub fn is_missing_context(&self) -> bool {
        !self.is_gone
    }

    /// Whether the thread is ending.
    #[must_use]
    pub fn is_thread_local_destroyed(&self) -> bool {
        self.is_gone
    }
}

impl fmt::Display for TryCurrentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.is_gone {
            false => "there is no reactor running, must be called from the context of a Tokio 1.x runtime",
            true => "The Tokio context thread-local variable has been destroyed.",
        })
    }
}

impl fmt::Debug for TryCurrentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_gone { "ThreadLocalDestroyed" } else { "NoContext" };
        formatter.debug_struct("TryCurrentError").field("kind", &kind).finish()
    }
}

impl std::error::Error for TryCurrentError {}
