//! The loops of a runtime, and the tasks that other threads send to them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use duality_runtime::event_loop::{EventLoop, reserve};
use duality_runtime::log;

use super::RuntimeId;

pub(crate) type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tasks that other threads have spawned on a loop.
#[derive(Default)]
pub(crate) struct Inbox(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    tasks: Vec<BoxedTask>,
    /// The waker of the loop's task that takes the tasks.
    waker: Option<Waker>,
    is_closed: bool,
    /// Whether a task holds the loop up in a call that waits.
    is_passed_over: bool,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a task. Drops it if the loop has ended.
    pub(crate) fn push(&self, task: BoxedTask) {
        let mut queue = self.lock();
        if queue.is_closed {
            drop(queue);
            drop(task);
            return;
        }
        let waker = if queue.tasks.is_empty() { queue.waker.clone() } else { None };
        queue.tasks.push(task);
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends the loop.
    pub(crate) fn close(&self) {
        let mut queue = self.lock();
        queue.is_closed = true;
        let (unbegun, waker) = (std::mem::take(&mut queue.tasks), queue.waker.take());
        drop(queue);
        drop(unbegun);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().tasks.len()
    }

    /// Whether other loops should be sent tasks instead.
    pub(crate) fn is_passed_over(&self) -> bool {
        self.lock().is_passed_over
    }

    /// Sets whether the loop should be sent tasks. If not, returns those that have not begun.
    pub(crate) fn pass_over(&self, is_passed_over: bool) -> Vec<BoxedTask> {
        let mut queue = self.lock();
        queue.is_passed_over = is_passed_over;
        if is_passed_over { std::mem::take(&mut queue.tasks) } else { Vec::new() }
    }

    /// Takes what was sent. `None` once the inbox is closed.
    fn poll(&self, context: &Context<'_>) -> Poll<Option<Vec<BoxedTask>>> {
        let mut queue = self.lock();
        if queue.is_closed {
            return Poll::Ready(None);
        }
        if queue.tasks.is_empty() {
            queue.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Some(std::mem::take(&mut queue.tasks)))
    }

    /// Starts the tasks that are sent, until the inbox is closed. A task of the loop.
    pub(crate) async fn serve(self: Arc<Self>) {
        while let Some(tasks) = poll_fn(|context| self.poll(context)).await {
            tasks.into_iter().for_each(start_here);
        }
    }
}

/// Starts a task on the loop of this kernel thread. Without a stack or memory for it, drops the
/// task.
pub(crate) fn start_here(task: BoxedTask) {
    match reserve() {
        Ok(reserved) => reserved.spawn(task),
        Err(error) => log::warn(format_args!("a task is dropped before it begins: {error}")),
    }
}

thread_local! {
    /// The loops of `current_thread` runtimes that belong to this kernel thread, by the numbers of
    /// the runtimes.
    static OWN: RefCell<HashMap<RuntimeId, EventLoop>> = RefCell::default();
}

/// Takes the loop of a runtime that this kernel thread has.
pub(crate) fn take_own(runtime: RuntimeId) -> Option<EventLoop> {
    OWN.try_with(|own| own.borrow_mut().remove(&runtime)).ok().flatten()
}

/// Keeps the loop of a runtime for the next `block_on` on this kernel thread.
pub(crate) fn keep_own(runtime: RuntimeId, event_loop: EventLoop) {
    let _ = OWN.try_with(|own| own.borrow_mut().insert(runtime, event_loop));
}
