//! Tasks: starting them, taking turns, and work that must not hold up a loop.

mod offload;
pub mod thread;

pub use offload::offload;

use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::event_loop::Place;
use crate::event_loop::core::Core;
use crate::visibility::{self, Wait};
use crate::world::{self, Waited, block};

/// The stack of a task that is a kernel thread, in bytes. Only the pages that are touched cost memory.
const THREAD_STACK: usize = 256 * 1024;

/// Starts `future` as a task of its own: a kernel thread in the block world, a user-level thread or a
/// state machine on this loop in the others.
///
/// # Errors
///
/// When there is no thread, stack or memory for it.
pub fn spawn<F>(future: F) -> io::Result<JoinHandle<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let shared = Arc::new(Mutex::new(Shared { ended: false, outcome: None, waiter: None }));
    let finish = Finish(shared.clone());
    let task = async move {
        let output = future.await;
        finish.end(output);
    };
    let state = size_of_val(&task) as u64;
    let place = world::with_loop(|core| core.map(Core::reserve).transpose())?;
    start(place, task)?;
    visibility::count(|counters| counters.task_state_allocated_bytes.add(state));
    Ok(JoinHandle { shared })
}

fn start(place: Option<Place>, task: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    match place {
        Some(place) => place.spawn(Box::pin(task)),
        None => thread::start(THREAD_STACK, Box::new(move || block::block_on(task)))
            .map_err(|refused| refused.error)?,
    }
    Ok(())
}

/// Lets other tasks run first.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        world::with_loop(|core| match core {
            None => {
                std::thread::yield_now();
                Poll::Ready(())
            }
            Some(core) => {
                core.sight.set_wait(Wait::Turn);
                match core.wait(None) {
                    Waited::Again => Poll::Ready(()),
                    Waited::Pending => Poll::Pending,
                }
            }
        })
    })
    .await;
}

/// The group of the running task: the tasks of one loop have the same number, and so have all tasks of
/// a process that are kernel threads. What tasks of a group share, such as a pool of connections, stays
/// on its loop.
#[must_use]
pub fn group() -> u32 {
    world::with_loop(|core| core.map_or(0, |core| u32::from(core.lane()) + 1))
}

/// Marks a stage boundary: a place where an architecture made of stages may queue the task again.
/// The others, all those there are today, only note it: a dump tells for each task which stage it
/// reached last, and a stalled loop is reported with it. That costs a few stores.
///
/// It is noted at the call, so that nothing of it is kept in the state of the task.
#[inline]
pub fn stage(name: &'static str) -> impl Future<Output = ()> + Send {
    visibility::stage(name);
    ready(())
}

/// A task that was spawned; awaiting it gives what the task returned. Dropping it lets the task run on.
pub struct JoinHandle<T> {
    shared: Arc<Mutex<Shared<T>>>,
}

/// The task ended without a result: it panicked, or its loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinError;

impl fmt::Display for JoinError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the task panicked or was dropped before it ended")
    }
}

impl std::error::Error for JoinError {}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = world::wait_until(context, Wait::Join, None, |context| {
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            match shared.outcome.take() {
                Some(outcome) => Poll::Ready(outcome),
                None => {
                    shared.waiter = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        });
        outcome
            .map(|outcome| outcome.expect("without a deadline it waits until there is an outcome"))
    }
}

struct Shared<T> {
    ended: bool,
    outcome: Option<Result<T, JoinError>>,
    waiter: Option<Waker>,
}

/// The task's end of its handle. Dropped without a result, it says so.
struct Finish<T>(Arc<Mutex<Shared<T>>>);

impl<T> Finish<T> {
    fn end(self, output: T) {
        self.set(Ok(output));
    }

    /// The first outcome counts: `end` is followed by the drop.
    fn set(&self, outcome: Result<T, JoinError>) {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut shared.ended, true) {
            return;
        }
        shared.outcome = Some(outcome);
        let waiter = shared.waiter.take();
        drop(shared);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

impl<T> Drop for Finish<T> {
    fn drop(&mut self) {
        self.set(Err(JoinError));
    }
}

/// Runs `body`, keeping a panic (which the panic hook has reported) from going any further.
pub fn contain(body: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(body));
}
