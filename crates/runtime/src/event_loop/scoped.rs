//! A root task that borrows from the code that runs the loop.

use std::future::{Future, poll_fn};
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::abort;
use std::task::Poll;
use std::thread;

/// Calls `run` with a task that runs `future`. When `run` returns, the loop has ended and dropped
/// this task, or has refused it. Returns the output of `future`, or its panic.
///
/// # Errors
///
/// The errors of `run`.
pub(super) fn run<F: Future>(
    future: F,
    run: impl FnOnce(Pin<Box<dyn Future<Output = ()>>>) -> io::Result<()>,
) -> io::Result<thread::Result<F::Output>> {
    /// Ends the process if the loop unwinds: its table of tasks would keep the borrowing task.
    struct Unwinding;
    impl Drop for Unwinding {
        fn drop(&mut self) {
            abort();
        }
    }
    let mut output = None;
    let place = &mut output;
    let root: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(async move {
        let mut future = Box::pin(future);
        let caught = poll_fn(|context| {
            let poll = AssertUnwindSafe(|| future.as_mut().poll(context));
            match catch_unwind(poll) {
                Ok(polled) => polled.map(Ok),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        });
        *place = Some(caught.await);
    });
    // SAFETY: only the type changes, by a lifetime. The loop drops the task at its end, before
    // `run` returns, so no borrow is used after it ends. The loop cannot unwind past the guard.
    let root = unsafe {
        mem::transmute::<Pin<Box<dyn Future<Output = ()> + '_>>, Pin<Box<dyn Future<Output = ()>>>>(
            root,
        )
    };
    let guard = Unwinding;
    let ran = run(root);
    mem::forget(guard);
    ran?;
    Ok(output.expect("the root has ended"))
}
