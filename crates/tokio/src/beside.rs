//! The runtime of tokio beside our architectures: one for each process, with one kernel thread. The
//! runtime runs the parts of tokio that an application itself uses. Each of its wakes crosses
//! kernel threads.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::runtime::Runtime;

use crate::runtimes;

pin_project! {
    /// The future of a connection. It finds tokio on each kernel thread that polls it.
    pub(crate) struct Beside<F> {
        #[pin]
        serving: F,
    }
}

impl<F> Beside<F> {
    pub(crate) fn new(serving: F) -> Self {
        Self { serving }
    }
}

impl<F: Future<Output = io::Result<()>>> Future for Beside<F> {
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Each poll enters tokio, since a task may go on where tokio has not been entered.
        enter()?;
        self.project().serving.poll(context)
    }
}

/// Waits for a future that uses tokio. Call this function on a thread that serves no connection.
///
/// # Errors
///
/// Fails when no descriptor is left.
pub(crate) fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    Ok(runtime()?.block_on(future))
}

/// Enters the runtime beside our architectures, once for each kernel thread.
fn enter() -> io::Result<()> {
    thread_local! {
        static HAS_ENTERED: Cell<bool> = const { Cell::new(false) };
    }
    if !HAS_ENTERED.get() {
        // The thread stays in tokio as long as it lives: guards must be dropped in order, and tasks
        // of one thread interleave.
        mem::forget(runtime()?.enter());
        HAS_ENTERED.set(true);
    }
    Ok(())
}

fn runtime() -> io::Result<&'static Runtime> {
    static BESIDE: OnceLock<io::Result<Runtime>> = OnceLock::new();
    BESIDE
        .get_or_init(|| runtimes::multi_thread(1))
        .as_ref()
        .map_err(|error| io::Error::new(error.kind(), format!("tokio's runtime beside: {error}")))
}
