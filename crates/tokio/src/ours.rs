//! The application under the architectures of ours.
//!
//! ```text
//!   architecture of ours ─▶ Beside ─ enters tokio, once for each thread ─▶ hyper ─▶ our stream
//!                                                                            └─▶ the application
//! ```
//!
//! Sockets of clients wait in our worlds. What the application itself uses of tokio, such as timers,
//! spawned tasks and outgoing connections, runs on a runtime beside: one for the process, with one
//! kernel thread. Each of its wakes crosses kernel threads.
//!
//! hyper waits for its client and for the application at the same time. Its waits are gathered, so
//! every architecture carries it. User-level threads gain nothing by that: each wait of such code
//! goes back to the bottom of the stack.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use duality_architectures::Handler;
use duality_runtime::task;
use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::form::Form;
use crate::{refusal, runtimes};

/// The handler of the application's connections.
pub(crate) fn handler(form: Form) -> Handler {
    let instance = Arc::new(OnceCell::new());
    let serve = move |stream| {
        let (form, instance) = (form.clone(), instance.clone());
        let serving = async move {
            let instance = instance.get_or_try_init(|| form.instance()).await?;
            instance.serve_on_ours(stream).await
        };
        Beside { serving }
    };
    Handler::new(serve).refusing(refusal::send_on_ours)
}

pin_project! {
    /// A connection's future, which finds tokio on each kernel thread that polls it.
    struct Beside<F> {
        #[pin]
        serving: F,
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
