//! tokio's runtime beside the architectures of ours: one for the process, with one kernel thread.
//! It runs what an application itself uses of tokio. Each of its wakes crosses kernel threads.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use duality_runtime::task;
use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tokio::runtime::Runtime;

use crate::runtimes;

pin_project! {
    /// A connection's future, which finds tokio on each kernel thread that polls it.
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
        // In each poll, since a task may go on where tokio has not been entered.
        enter()?;
        self.project().serving.poll(context)
    }
}

/// Enters the runtime beside, once for each kernel thread.
fn enter() -> io::Result<()> {
    static BESIDE: OnceLock<io::Result<Runtime>> = OnceLock::new();
    thread_local! {
        static HAS_ENTERED: Cell<bool> = const { Cell::new(false) };
    }
    if HAS_ENTERED.get() {
        return Ok(());
    }
    match BESIDE.get_or_init(|| runtimes::multi_thread(1)) {
        Ok(runtime) => {
            // For as long as the thread lives: guards must be dropped in order, and tasks of one
            // thread interleave.
            mem::forget(runtime.enter());
            HAS_ENTERED.set(true);
            Ok(())
        }
        Err(error) => Err(io::Error::new(error.kind(), format!("tokio's runtime beside: {error}"))),
    }
}

/// Spawns what hyper runs beside a connection, such as the streams of HTTP/2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tasks;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, future: F) {
        // Without room for a task, the future is dropped, and hyper resets its stream.
        let serving = async {
            future.await;
            Ok(())
        };
        drop(task::spawn(Beside { serving }));
    }
}
