//! A runtime of one thread, with tasks that need not be `Send`.

use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use crate::join::JoinHandle;
use crate::scheduler::{Builder, EnterGuard, Handle, Runtime, RuntimeMetrics};
use crate::task::LocalSet;

/// The settings of a [`LocalRuntime`]. There are none.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct LocalOptions {
    /// The options stay on their thread.
    _local: PhantomData<*const ()>,
}

/// A runtime that stays on its thread. Its tasks run while the thread is in `block_on`.
pub struct LocalRuntime {
    // Dropped before the runtime that its tasks use.
    set: LocalSet,
    runtime: Runtime,
}

impl Builder {
    /// Makes a runtime of the calling thread, with tasks that need not be `Send`.
    ///
    /// # Errors
    ///
    /// The errors of [`build`](Self::build).
    ///
    /// # Panics
    ///
    /// If the builder is one of a multi-threaded runtime.
    #[track_caller]
    pub fn build_local(&mut self, _: LocalOptions) -> io::Result<LocalRuntime> {
        assert!(self.is_local(), "multi_thread is not supported for LocalRuntime");
        let (set, runtime) = (LocalSet::new(), self.build_for(true)?);
        set.belongs_to(runtime.handle().id());
        Ok(LocalRuntime { set, runtime })
    }
}

impl LocalRuntime {
    /// A runtime for this thread.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::build`].
    pub fn new() -> io::Result<Self> {
        Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
    }

    /// A handle, by which other threads spawn tasks that are `Send`.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Starts a task of this thread.
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.set.spawn_local(future)
    }

    /// Runs work that blocks on a thread that may block.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, work: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.runtime.spawn_blocking(work)
    }

    /// Runs a future, and the tasks of the runtime meanwhile.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.set.block_on(&self.runtime, future)
    }

    /// Makes this the current runtime of the calling thread, until the guard is dropped.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Ends the runtime, and waits at most `duration` for its threads.
    pub fn shutdown_timeout(self, duration: Duration) {
        let Self { set, runtime } = self;
        drop(set);
        runtime.shutdown_timeout(duration);
    }

    /// Ends the runtime without waiting for its threads.
    pub fn shutdown_background(self) {
        self.shutdown_timeout(Duration::ZERO);
    }

    /// What the runtime counts.
    #[must_use]
    pub fn metrics(&self) -> RuntimeMetrics {
        self.runtime.metrics()
    }
}

impl fmt::Debug for LocalRuntime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocalRuntime").finish_non_exhaustive()
    }
}
