//! Tasks: starting them, taking turns, and work that must not hold up a loop.

mod abort;
mod join;
mod join_set;
mod offload;
mod select;
mod several;
// Support for the architectures. Hidden items here and below may change without notice.
#[doc(hidden)]
pub mod thread;

#[doc(hidden)]
pub use crate::world::budget::end_round;
pub use crate::world::gather::gather;
pub use abort::{AbortHandle, Aborted, abortable};
pub use join::{JoinError, JoinHandle};
pub use join_set::JoinSet;
pub use offload::offload;
pub(crate) use offload::on_disk;
#[doc(hidden)]
pub use offload::{HELPERS, limit_helpers, submit};
#[doc(hidden)]
pub use select::{Branch, Branches, Either, NoBranch, Polled, Select, all_disabled};
#[doc(hidden)]
pub use several::Joined;

use std::future::Future;
use std::io;
use std::num::NonZeroU32;
use std::panic::Location;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use self::join::{Finish, Spawned};
use crate::blocks;
use crate::event_loop::core::Core;
use crate::event_loop::{ReservedTask, current};
use crate::gather::leave_turn;
use crate::join_cell::join_cell;
use crate::visibility::graph::{self, Trace};
use crate::visibility::{self, Label, thread_slots};
use crate::wait::Waited;
use crate::world::{Here, block};

#[doc(hidden)]
pub use crate::blocks::BoxedFuture;

/// The stack of a task that is a kernel thread. Only the pages that are touched cost memory.
const THREAD_STACK: thread::ThreadStack =
    thread::ThreadStack::fixed(256 * 1024, "the thread of a task");

/// A larger future is put into a box before it is moved. Without optimisation, each function on the
/// way has a copy of its own on the spawning task's stack.
const LARGE: usize = if cfg!(debug_assertions) { 2048 } else { 16384 };

/// Starts `future` as its own task. In the block world and in a work pool, the task is a kernel
/// thread. On a loop, it is a user-level thread or a state machine. In a staged server, it is
/// another task of the server.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::{block_on, task};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let one = task::spawn(async { 1 })?;
///     let two = task::spawn(async { 2 })?;
///     assert_eq!(one.await.unwrap() + two.await.unwrap(), 3);
///     Ok(())
/// })
/// # }
/// ```
///
/// # Errors
///
/// If there is no thread, stack or memory for the task.
pub fn spawn<F>(future: F) -> io::Result<JoinHandle<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match size_of::<F>() > LARGE {
        true => spawn_as_it_is(Box::pin(future)),
        false => spawn_as_it_is(future),
    }
}

fn spawn_as_it_is<F>(future: F) -> io::Result<JoinHandle<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let reserved = current::with_loop(|core| core.map(Core::reserve).transpose())?;
    let (completer, joiner) = join_cell();
    start(reserved, || Spawned {
        future,
        finish: Finish::new(completer),
        trace: Trace::spawned(),
    })?;
    let state = size_of::<Spawned<F>>() as u64;
    visibility::count(|counters| counters.task_state_allocated_bytes.add(state));
    Ok(JoinHandle::new(joiner))
}

fn start<F>(reserved: Option<ReservedTask>, make: impl FnOnce() -> F) -> io::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let Some(reserved) = reserved else {
        let task = make();
        // SAFETY: the references end with this call.
        if let Here::Reactor(running, _) = unsafe { Here::find() } {
            running.spawn(Box::pin(task));
            return Ok(());
        }
        return thread::start(THREAD_STACK, Box::new(move || block::block_on(task)))
            .map_err(|refused| refused.error);
    };
    reserved.spawn(Box::pin(make()));
    Ok(())
}

/// Lets other tasks run first.
///
/// The running task gets another turn, as with the waits for sockets and times. The function does
/// not use the waker with which it is polled. So do not use it inside a combinator that polls only
/// its woken futures.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::{block_on, task};
///
/// block_on(async {
///     for item in 0..100_u64 {
///         let _digest = item.wrapping_mul(0x9E37_79B9_7F4A_7C15);
///         if item % 10 == 9 {
///             task::yield_now().await;
///         }
///     }
/// });
/// ```
#[inline]
#[track_caller]
pub fn yield_now() -> impl Future<Output = ()> + Send {
    graph::arrive("turn", Location::caller());
    YieldNow { has_yielded: false }
}

/// Written by hand: the `async fn` took three times the instructions.
struct YieldNow {
    has_yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            graph::depart();
            return Poll::Ready(());
        }
        // SAFETY: the references end with this call.
        let here = unsafe { Here::find() };
        match here.wait_for_turn(context) {
            Waited::Again => {
                graph::depart();
                Poll::Ready(())
            }
            Waited::Pending => {
                self.has_yielded = true;
                Poll::Pending
            }
        }
    }
}

/// Waits until the running task's waker is used. May return early. For code with its own way to
/// notify a task.
///
/// ```
/// # use std::{future::poll_fn, task::Poll};
/// # use duality_runtime::{block_on, task};
/// # block_on(async {
/// let mut is_told = false;
/// while !is_told {
///     let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
///     waker.wake(); // Most often another task does that.
///     is_told = true;
///     task::woken().await; // A task that was woken before it waits does not wait.
/// }
/// # });
/// ```
///
/// A future that returns `Pending` has the same effect. But a user-level thread must then leave its
/// frames and come back to them. This function waits in place. Like [`yield_now`], it does not use
/// the waker with which it is polled.
#[inline]
pub fn woken() -> impl Future<Output = ()> + Send {
    Woken { has_waited: false }
}

struct Woken {
    has_waited: bool,
}

impl Future for Woken {
    type Output = ();

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.has_waited {
            return Poll::Ready(());
        }
        // SAFETY: the references end with this call.
        let here = unsafe { Here::find() };
        match here.wait_for_waker() {
            Waited::Again => Poll::Ready(()),
            Waited::Pending => {
                self.has_waited = true;
                Poll::Pending
            }
        }
    }
}

/// The group of the running task. The tasks of one loop have the same number, as do all tasks of a
/// process that are kernel threads. Data that tasks of a group share, such as a pool of
/// connections, stays on its loop.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::{block_on, task};
///
/// block_on(async {
///     let here = task::group();
///     task::yield_now().await;
///     assert_eq!(task::group(), here);
/// });
/// ```
#[must_use]
pub fn group() -> u32 {
    current::with_loop(|core| core.map_or(0, |core| core.number().into()))
}

/// Marks a stage boundary. At a boundary, an architecture made of stages queues the task again,
/// under the name of the next stage. The task may continue on another kernel thread.
///
/// All other architectures only note the stage. A dump and the report of a stalled loop name the
/// last stage of a task. A note costs a few stores.
///
/// The stage is noted at the call. A program has room for 256 names. Further names are not shown,
/// and share one queue. The first 127 bytes of a name are shown.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::{block_on, task};
///
/// block_on(async {
///     task::stage("parse").await;
///     let number: u32 = "42".parse().unwrap();
///     task::stage("answer").await;
///     assert_eq!(number, 42);
/// });
/// ```
#[inline]
#[track_caller]
pub fn stage(name: &'static str) -> Stage {
    graph::arrive_named("stage", name, Location::caller());
    visibility::block_begins();
    Stage { label: show(name), priority: None, has_left: false }
}

/// Shows the work of an architecture's own task, such as the acceptor, in the form of stages. No
/// block of a request begins.
#[doc(hidden)]
#[inline]
pub fn show_stage(name: &'static str) {
    show(name);
}

#[inline]
fn show(name: &'static str) -> Label {
    let label = Label::new(name);
    visibility::count(|counters| counters.stages.add(1));
    current::with_loop(|core| match core {
        Some(core) => core.set_stage(label),
        None => thread_slots::with(|slot| slot.set_stage(label)),
    });
    label
}

/// A stage boundary, as [`stage()`] returns it. A task passes the boundary by awaiting it.
#[derive(Debug)]
#[must_use = "a boundary is passed by awaiting it"]
pub struct Stage {
    label: Label,
    priority: Option<NonZeroU32>,
    has_left: bool,
}

impl Stage {
    /// Sets the urgency of the stage, for architectures that choose stages by priority
    /// (`workpool-priority`). Of two waiting blocks, the one with the greater number comes first.
    /// The default urgency is the number of boundaries that the task has passed since it was at its
    /// first stage. So started requests come before new ones.
    ///
    /// ```
    /// # use duality_runtime::{block_on, task};
    /// # block_on(async {
    /// task::stage("compress").priority(1).await; // after all that is nearer to its end
    /// # });
    /// ```
    #[inline]
    pub fn priority(mut self, priority: u32) -> Self {
        self.priority = NonZeroU32::new(priority.saturating_add(1));
        self
    }
}

impl Future for Stage {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.has_left {
            graph::depart();
            return Poll::Ready(());
        }
        blocks::running(|task| {
            let Some(task) = task else {
                graph::depart();
                return Poll::Ready(());
            };
            self.has_left = true;
            task.reach(self.label, self.priority.map(|priority| priority.get() - 1));
            leave_turn(context);
            Poll::Pending
        })
    }
}

/// The name of the running task's last stage, if it has one and this kernel thread has a slot.
#[doc(hidden)]
#[must_use]
pub fn current_stage() -> Option<String> {
    let stage = current::with_loop(|core| match core {
        Some(core) => core.stage(),
        None => {
            let mut stage = Label::NONE;
            thread_slots::with(|slot| stage = slot.stage());
            stage
        }
    });
    stage.name()
}

/// Computes a result without waiting, on the stack of the kernel thread.
///
/// In the block and the suspend world, the task runs on that stack anyway. A user-level thread has
/// its own small stack. With thousands of threads, that stack is in no cache when its turn comes.
/// Deep calls (a parser, a template, a library) would cost a cache miss for every line that they
/// touch first. Such calls could also overflow the stack.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::{block_on, task};
///
/// block_on(async {
///     let text = String::from("3 1 2");
///     let mut numbers: Vec<u32> =
///         task::leaf(|| text.split(' ').map(|word| word.parse().unwrap()).collect());
///     task::leaf(|| numbers.sort_unstable());
///     assert_eq!(numbers, [1, 2, 3]);
/// });
/// ```
///
/// # Panics
///
/// With the panic of `body`. In the park world also if `body` waits, for example by polling a
/// future.
#[inline]
pub fn leaf<R>(body: impl FnOnce() -> R + Send) -> R {
    duality_fiber::below(body)
}

/// Runs `body`, and stops a panic, which the panic hook has reported.
#[doc(hidden)]
pub fn contain(body: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(body));
}
