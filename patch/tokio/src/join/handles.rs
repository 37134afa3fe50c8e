//! The two ends of a task: the future that a world runs, and the handles of other tasks.
//!
//! ```text
//!   JoinHandle ──▶ Outcome ◀── Task { future }     the output goes this way
//!   JoinHandle, AbortHandle ──▶ Header ◀── Task    an abort goes this way
//! ```
//!
//! A task leaves its waker in the header only while a handle exists. So a detached task that is a
//! kernel thread needs no descriptor to be woken by.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use pin_project_lite::pin_project;
use real::task::coop;

use super::{Id, JoinError};
use crate::budget::with_budget;

/// The runtime of a task.
pub(crate) trait Owner: Send + Sync {
    /// Counts a new task.
    fn task_begins(&self, task: &Arc<Header>);

    /// Counts the end of a task.
    fn task_ended(&self, id: Id);

    /// Whether the runtime has ended, so that its tasks end too.
    fn is_closed(&self) -> bool;
}

/// What handles know of a task whatever its output is.
#[derive(Debug)]
pub(crate) struct Header {
    id: Id,
    /// The place that spawned the task.
    spawned: &'static Location<'static>,
    is_aborted: AtomicBool,
    is_finished: AtomicBool,
    /// The waker of the task, while a handle exists.
    waker: Mutex<Option<Waker>>,
}

/// The output of a task on its way to the handle.
#[derive(Debug)]
pub(crate) struct Outcome<T>(Mutex<State<T>>);

#[derive(Debug)]
enum State<T> {
    Running(Option<Waker>),
    Ended(Result<T, JoinError>),
    /// The handle has taken the output, or is gone.
    Taken,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> State<T> {
    /// Drops an output that has no taker. A panic of its destructor has been reported, and ends
    /// here.
    fn forget(self) {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self)));
    }
}

impl Header {
    #[track_caller]
    fn new() -> Arc<Self> {
        Arc::new(Self {
            id: Id::next(),
            spawned: Location::caller(),
            is_aborted: AtomicBool::new(false),
            is_finished: AtomicBool::new(false),
            waker: Mutex::new(None),
        })
    }

    pub(crate) fn id(&self) -> Id {
        self.id
    }

    /// Ends the task, at once if it has left its waker.
    pub(crate) fn abort(&self) {
        self.is_aborted.store(true, Ordering::SeqCst);
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Leaves the waker for an abort. Called before the check for an abort.
    fn leave_waker(self: &Arc<Self>, context: &Context<'_>) {
        let has_handles = Arc::strong_count(self) > 1;
        let mut left = lock(&self.waker);
        let before = match (&*left, has_handles) {
            (Some(waker), true) if waker.will_wake(context.waker()) => None,
            (_, true) => left.replace(context.waker().clone()),
            (_, false) => left.take(),
        };
        // A waker may be the last owner of a future, so it is dropped without the lock.
        drop(left);
        drop(before);
    }
}

impl<T> Outcome<T> {
    fn end(&self, outcome: Result<T, JoinError>) {
        let before = {
            let mut state = lock(&self.0);
            match &mut *state {
                State::Running(_) => std::mem::replace(&mut *state, State::Ended(outcome)),
                // The handle is gone, and the output is dropped without the lock.
                State::Taken => State::Ended(outcome),
                State::Ended(_) => return,
            }
        };
        match before {
            State::Running(Some(waker)) => waker.wake(),
            unclaimed => unclaimed.forget(),
        }
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Result<T, JoinError>> {
        let mut state = lock(&self.0);
        match &mut *state {
            State::Running(waker) => {
                if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    let before = waker.replace(context.waker().clone());
                    drop(state);
                    drop(before);
                }
                Poll::Pending
            }
            State::Ended(_) => match std::mem::replace(&mut *state, State::Taken) {
                State::Ended(outcome) => Poll::Ready(outcome),
                _ => unreachable!("the state was looked at under the lock"),
            },
            State::Taken => panic!("JoinHandle polled after completion"),
        }
    }
}

/// A larger future is put into a box before it is moved. Without optimisation, each function on the
/// way to the loop has a copy of its own on the stack.
pub(crate) const LARGE: usize = if cfg!(debug_assertions) { 2048 } else { 16384 };

pin_project! {
    /// The future that a world runs as a task.
    pub(crate) struct Task<F: Future> {
        // `None` after the end.
        #[pin]
        future: Option<F>,
        end: End<F::Output>,
    }
}

/// A future while it is polled. A panic drops it on its way, as destructors may want to know.
struct Polled<'a, F> {
    future: Pin<&'a mut Option<F>>,
    has_ended: bool,
}

impl<F: Future> Polled<'_, F> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        let future = self.future.as_mut().as_pin_mut().expect("the caller has looked");
        let polled = with_budget(context, |context| future.poll(context));
        self.has_ended = true;
        polled
    }
}

impl<F> Drop for Polled<'_, F> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.future.set(None);
        }
    }
}

/// The task's end. The drop ends a task that has not ended: it is cancelled.
struct End<T> {
    header: Arc<Header>,
    outcome: Arc<Outcome<T>>,
    owner: Option<Arc<dyn Owner>>,
}

impl<T> End<T> {
    fn with(&self, outcome: Result<T, JoinError>) {
        if self.header.is_finished.swap(true, Ordering::AcqRel) {
            return;
        }
        drop(lock(&self.header.waker).take());
        if let Some(owner) = &self.owner {
            owner.task_ended(self.header.id);
        }
        self.outcome.end(outcome);
    }

    fn is_aborted(&self) -> bool {
        self.header.is_aborted.load(Ordering::SeqCst)
            || self.owner.as_ref().is_some_and(|owner| owner.is_closed())
    }
}

impl<T> Drop for End<T> {
    fn drop(&mut self) {
        self.with(Err(JoinError::cancelled(self.header.id)));
    }
}

impl<F: Future> Task<F> {
    /// The task of `future`, and its handle.
    #[track_caller]
    pub(crate) fn new(future: F, owner: Option<Arc<dyn Owner>>) -> (Self, JoinHandle<F::Output>) {
        let header = Header::new();
        if let Some(owner) = &owner {
            owner.task_begins(&header);
        }
        let outcome = Arc::new(Outcome(Mutex::new(State::Running(None))));
        let handle = JoinHandle { header: header.clone(), outcome: outcome.clone() };
        (Self { future: Some(future), end: End { header, outcome, owner } }, handle)
    }
}

impl<F: Future> Future for Task<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        let id = this.end.header.id;
        let _running = id.enter_from(this.end.header.spawned);
        this.end.header.leave_waker(context);
        if this.future.is_none() {
            return Poll::Ready(());
        }
        let outcome = if this.end.is_aborted() {
            Err(JoinError::cancelled(id))
        } else {
            let mut polled = Polled { future: this.future.as_mut(), has_ended: false };
            match catch_unwind(AssertUnwindSafe(move || polled.poll(context))) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(output)) => Ok(output),
                Err(panic) => Err(JoinError::panicked(id, panic)),
            }
        };
        let dropped = catch_unwind(AssertUnwindSafe(|| this.future.set(None)));
        let outcome = match (outcome, dropped) {
            (Err(error), Err(panic)) if error.is_cancelled() => Err(JoinError::panicked(id, panic)),
            (outcome, _) => outcome,
        };
        this.end.with(outcome);
        Poll::Ready(())
    }
}

/// Work for a thread that may block, with its handle. The work does not begin once it is aborted.
pub(crate) fn work<R>(work: impl FnOnce() -> R) -> (impl FnOnce(), JoinHandle<R>) {
    let (task, handle) = Task::new(std::future::pending::<R>(), None);
    let run = move || {
        let Task { end, .. } = task;
        if end.is_aborted() {
            return;
        }
        let _running = end.header.id.enter();
        let done = catch_unwind(AssertUnwindSafe(work));
        end.with(
            done.map_err(|panic: Box<dyn Any + Send>| JoinError::panicked(end.header.id, panic)),
        );
    };
    (run, handle)
}

/// A task that was spawned. Awaiting it gives the task's output. Dropping it lets the task run on.
pub struct JoinHandle<T> {
    header: Arc<Header>,
    outcome: Arc<Outcome<T>>,
}

impl<T> JoinHandle<T> {
    /// Ends the task at its present or next wait. A task that has ended keeps its output.
    pub fn abort(&self) {
        self.header.abort();
    }

    /// Whether the task has ended, and its future has been dropped.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.header.is_finished.load(Ordering::Acquire)
    }

    /// A handle that can end the task, and knows nothing of its output.
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle { header: self.header.clone() }
    }

    /// The number of the task.
    #[must_use]
    pub fn id(&self) -> Id {
        self.header.id
    }

    /// The output, whatever the budget of the caller is.
    pub(crate) fn poll_outcome(&self, context: &Context<'_>) -> Poll<Result<T, JoinError>> {
        self.outcome.poll(context)
    }

    /// Has `waker` used when the task ends. Returns false if the task has ended.
    pub(crate) fn wake_at_end(&self, waker: &Waker) -> bool {
        match &mut *lock(&self.outcome.0) {
            State::Running(place) => {
                *place = Some(waker.clone());
                true
            }
            _ => false,
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let budget = ready!(coop::poll_proceed(context));
        let ended = self.poll_outcome(context);
        if ended.is_ready() {
            budget.made_progress();
        }
        ended
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let unclaimed = std::mem::replace(&mut *lock(&self.outcome.0), State::Taken);
        let _running = self.header.id.enter();
        unclaimed.forget();
    }
}

impl<T> Unpin for JoinHandle<T> {}
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("JoinHandle").field("id", &self.id()).finish()
    }
}

/// Ends a task. The task goes on if this handle is dropped.
#[derive(Clone)]
pub struct AbortHandle {
    header: Arc<Header>,
}

impl AbortHandle {
    /// Ends the task at its present or next wait. A task that has ended keeps its output.
    pub fn abort(&self) {
        self.header.abort();
    }

    /// Whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.header.is_finished.load(Ordering::Acquire)
    }

    /// The number of the task.
    #[must_use]
    pub fn id(&self) -> Id {
        self.header.id
    }
}

impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AbortHandle").field("id", &self.id()).finish()
    }
}
