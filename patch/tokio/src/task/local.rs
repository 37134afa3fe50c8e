//! Tasks that stay on one kernel thread, so that their futures need not be `Send`.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::join::{Id, JoinHandle, LARGE, Task};
use crate::scheduler::{Handle, Runtime, RuntimeId, context};

/// The most turns that a poll of a set gives, so that the task that polls the set gives way.
const TURNS: usize = 64;

/// Local tasks, which run while the set is polled, or a future in [`run_until`](Self::run_until).
pub struct LocalSet {
    local: Rc<Local>,
}

struct Local {
    tasks: RefCell<HashMap<Id, LocalTask>>,
    ready: Arc<Ready>,
}

struct LocalTask {
    future: Pin<Box<dyn Future<Output = ()>>>,
    waker: Waker,
}

/// The tasks that are ready, and the waker of the code that polls the set.
#[derive(Default)]
struct Ready(Mutex<(VecDeque<Id>, Option<Waker>)>);

impl Ready {
    fn lock(&self) -> MutexGuard<'_, (VecDeque<Id>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, id: Id) {
        let waker = {
            let mut ready = self.lock();
            if !ready.0.contains(&id) {
                ready.0.push_back(id);
            }
            ready.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct LocalWaker {
    id: Id,
    ready: Arc<Ready>,
}

impl Wake for LocalWaker {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.id);
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
    /// The tasks of the local runtimes that this kernel thread has made.
    static OF_RUNTIMES: RefCell<HashMap<RuntimeId, Weak<Local>>> = RefCell::default();
}

/// Starts a task of the current local runtime, or of the running [`LocalSet`].
///
/// # Panics
///
/// Outside of both. If the current local runtime belongs to another thread.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let runtime = Handle::try_current().ok().filter(Handle::is_local);
    let (local, problem) = match runtime.map(|runtime| runtime.id()) {
        Some(id) => (
            OF_RUNTIMES.with_borrow(|sets| sets.get(&id)?.upgrade()),
            "Local tasks can only be spawned on a LocalRuntime from the thread the runtime was created on",
        ),
        None => (
            CURRENT.with_borrow(Clone::clone),
            "`spawn_local` called from outside of a `task::LocalSet` or `runtime::LocalRuntime`",
        ),
    };
    local.expect(problem).spawn(future)
}

impl Local {
    #[track_caller]
    fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        match size_of::<F>() > LARGE {
            true => self.start(Box::pin(future)),
            false => self.start(future),
        }
    }

    #[track_caller]
    fn start<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let (task, handle) = Task::new(future, None);
        let id = handle.id();
        let waker = Waker::from(Arc::new(LocalWaker { id, ready: self.ready.clone() }));
        self.tasks.borrow_mut().insert(id, LocalTask { future: Box::pin(task), waker });
        self.ready.push(id);
        handle
    }

    /// Gives turns to the tasks that are ready. Ready if no task is left.
    fn poll(self: &Rc<Self>, context: &Context<'_>) -> Poll<()> {
        let (_stays, _entered) = (context::stay(), self.enter());
        for _ in 0..TURNS {
            let (next, before) = {
                let mut ready = self.ready.lock();
                match ready.0.pop_front() {
                    None => (None, ready.1.replace(context.waker().clone())),
                    next => (next, None),
                }
            };
            // A waker may own tasks of the set, so it is dropped without the lock.
            drop(before);
            let Some(id) = next else {
                let is_empty = self.tasks.borrow().is_empty();
                return if is_empty { Poll::Ready(()) } else { Poll::Pending };
            };
            // Outside of the table, so that the task may spawn others.
            let Some(mut task) = self.tasks.borrow_mut().remove(&id) else { continue };
            let turn = task.future.as_mut().poll(&mut Context::from_waker(&task.waker));
            if turn.is_pending() {
                self.tasks.borrow_mut().insert(id, task);
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn enter(self: &Rc<Self>) -> LocalEnterGuard {
        // At the end of the thread, the place is gone.
        let before = CURRENT.try_with(|current| current.replace(Some(self.clone())));
        LocalEnterGuard { before: before.ok().flatten() }
    }
}

/// Keeps a [`LocalSet`] the one of [`spawn_local`] until it is dropped.
pub struct LocalEnterGuard {
    before: Option<Rc<Local>>,
}

impl Drop for LocalEnterGuard {
    fn drop(&mut self) {
        let before = self.before.take();
        // At the end of the thread, the place is gone.
        let _ = CURRENT.try_with(|current| current.replace(before));
    }
}

impl fmt::Debug for LocalEnterGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocalEnterGuard").finish_non_exhaustive()
    }
}

impl LocalSet {
    /// A set without tasks.
    #[must_use]
    pub fn new() -> Self {
        let (tasks, ready) = (RefCell::default(), Arc::default());
        Self { local: Rc::new(Local { tasks, ready }) }
    }

    /// Makes this the set of [`spawn_local`] on this thread while the local runtime is current.
    pub(crate) fn belongs_to(&self, runtime: RuntimeId) {
        let local = Rc::downgrade(&self.local);
        OF_RUNTIMES.with_borrow_mut(|sets| {
            // The sets of runtimes that have ended leave no entry for ever.
            sets.retain(|_, set| set.strong_count() > 0);
            sets.insert(runtime, local)
        });
    }

    /// Makes this the set of [`spawn_local`], until the result is dropped.
    #[must_use]
    pub fn enter(&self) -> LocalEnterGuard {
        self.local.enter()
    }

    /// Starts a task of the set. It runs while the set is polled.
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.local.spawn(future)
    }

    /// Runs a future on `runtime`, and the tasks of the set meanwhile.
    #[track_caller]
    pub fn block_on<F: Future>(&self, runtime: &Runtime, future: F) -> F::Output {
        runtime.block_on(self.run_until(future))
    }

    /// Runs a future, and the tasks of the set meanwhile.
    pub async fn run_until<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let polled = {
                let (_stays, _entered) = (context::stay(), self.local.enter());
                future.as_mut().poll(context)
            };
            if polled.is_pending() {
                let _: Poll<()> = self.local.poll(context);
            }
            polled
        })
        .await
    }
}

impl Future for LocalSet {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.local.poll(context)
    }
}

impl Drop for LocalSet {
    fn drop(&mut self) {
        let (_stays, _entered) = (context::stay(), self.local.enter());
        // A destructor may spawn further tasks.
        while !self.local.tasks.borrow().is_empty() {
            let tasks = mem::take(&mut *self.local.tasks.borrow_mut());
            drop(tasks);
        }
    }
}

impl Default for LocalSet {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LocalSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocalSet").finish_non_exhaustive()
    }
}
