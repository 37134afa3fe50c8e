//! A set of tasks, which are joined in the order in which they end.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use real::task::coop;

use super::{LocalSet, spawn, spawn_blocking, spawn_local};
use crate::join::{AbortHandle, Id, JoinError, JoinHandle};
use crate::scheduler::Handle;

/// Tasks with outputs of one type. Dropping the set aborts its tasks.
pub struct JoinSet<T> {
    running: HashMap<Id, JoinHandle<T>>,
    ended: Arc<Ended>,
}

/// The tasks that have ended, in order.
#[derive(Default)]
struct Ended(Mutex<(VecDeque<Id>, Option<Waker>)>);

impl Ended {
    fn lock(&self) -> MutexGuard<'_, (VecDeque<Id>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The waker that a task of the set uses when it ends.
struct OnEnd {
    id: Id,
    ended: Arc<Ended>,
}

impl Wake for OnEnd {
    fn wake(self: Arc<Self>) {
        let waiting = {
            let mut ended = self.ended.lock();
            ended.0.push_back(self.id);
            ended.1.take()
        };
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

impl<T> JoinSet<T> {
    /// A set without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self { running: HashMap::new(), ended: Arc::default() }
    }

    /// The number of tasks that have not been joined.
    #[must_use]
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether all tasks have been joined.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}

impl<T: 'static> JoinSet<T> {
    /// Spawns a task of the set.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    pub fn spawn<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.insert(spawn(task))
    }

    /// Spawns a task of the set on another runtime.
    #[track_caller]
    pub fn spawn_on<F>(&mut self, task: F, handle: &Handle) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.insert(handle.spawn(task))
    }

    /// Spawns a task of the set on the running [`LocalSet`].
    ///
    /// # Panics
    ///
    /// Outside of a `LocalSet`.
    #[track_caller]
    pub fn spawn_local<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.insert(spawn_local(task))
    }

    /// Spawns a task of the set on a [`LocalSet`].
    #[track_caller]
    pub fn spawn_local_on<F>(&mut self, task: F, local_set: &LocalSet) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.insert(local_set.spawn_local(task))
    }

    /// Runs work that blocks, as a task of the set.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, work: F) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.insert(spawn_blocking(work))
    }

    /// Runs work that blocks, as a task of the set, on another runtime.
    #[track_caller]
    pub fn spawn_blocking_on<F>(&mut self, work: F, handle: &Handle) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.insert(handle.spawn_blocking(work))
    }

    fn insert(&mut self, task: JoinHandle<T>) -> AbortHandle {
        let (id, abort) = (task.id(), task.abort_handle());
        let on_end = Arc::new(OnEnd { id, ended: self.ended.clone() });
        let is_running = task.wake_at_end(&Waker::from(on_end.clone()));
        self.running.insert(id, task);
        if !is_running {
            on_end.wake();
        }
        abort
    }

    /// Waits for the next task to end, and returns its output. `None` if the set is empty.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|context| self.poll_join_next(context)).await
    }

    /// Like [`join_next`](Self::join_next), with the number of the task.
    pub async fn join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        poll_fn(|context| self.poll_join_next_with_id(context)).await
    }

    /// The output of a task that has ended. `None` if no task has.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        Some(self.try_join_next_with_id()?.map(|(_, output)| output))
    }

    /// Like [`try_join_next`](Self::try_join_next), with the number of the task.
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        let id = self.ended.lock().0.pop_front()?;
        self.join(id)
    }

    /// Aborts all tasks, and waits until they have ended.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Waits for all tasks. Returns their outputs in the order in which they ended.
    ///
    /// # Panics
    ///
    /// If a task panicked or was aborted.
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len());
        while let Some(outcome) = self.join_next().await {
            match outcome {
                Ok(output) => outputs.push(output),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(error) => panic!("{error}"),
            }
        }
        outputs
    }

    /// Aborts all tasks. They stay in the set until they are joined.
    pub fn abort_all(&mut self) {
        self.running.values().for_each(JoinHandle::abort);
    }

    /// Empties the set. Its tasks run on.
    pub fn detach_all(&mut self) {
        self.running.clear();
        self.ended = Arc::default();
    }

    /// Like [`join_next`](Self::join_next), for a future of one's own.
    pub fn poll_join_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<T, JoinError>>> {
        let joined = self.poll_join_next_with_id(context);
        joined.map(|joined| joined.map(|outcome| outcome.map(|(_, output)| output)))
    }

    /// Like [`join_next_with_id`](Self::join_next_with_id), for a future of one's own.
    pub fn poll_join_next_with_id(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<(Id, T), JoinError>>> {
        if self.is_empty() {
            return Poll::Ready(None);
        }
        let budget = ready!(coop::poll_proceed(context));
        let (next, before) = {
            let mut ended = self.ended.lock();
            match ended.0.pop_front() {
                None => (None, ended.1.replace(context.waker().clone())),
                next => (next, None),
            }
        };
        // A waker may own tasks of the set, so it is dropped without the lock.
        drop(before);
        let Some(id) = next else { return Poll::Pending };
        budget.made_progress();
        Poll::Ready(self.join(id))
    }

    /// The outcome of a task that has ended.
    fn join(&mut self, id: Id) -> Option<Result<(Id, T), JoinError>> {
        let task = self.running.remove(&id)?;
        match task.poll_outcome(&Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome.map(|output| (id, output))),
            Poll::Pending => unreachable!("the task has said that it ended"),
        }
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.running.values().for_each(JoinHandle::abort);
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("JoinSet").field("len", &self.len()).finish()
    }
}

impl<T, F> FromIterator<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn from_iter<I: IntoIterator<Item = F>>(tasks: I) -> Self {
        let mut set = Self::new();
        set.extend(tasks);
        set
    }
}

impl<T, F> Extend<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn extend<I: IntoIterator<Item = F>>(&mut self, tasks: I) {
        for task in tasks {
            self.spawn(task);
        }
    }
}
