//! A runtime, as its handles share it.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use duality_runtime::event_loop::wait_on_stack;
use duality_runtime::log;
use duality_runtime::task::thread::{ThreadStack, start};
use duality_runtime::task::{gather, offload};
use duality_runtime::time::clock;

use super::blocking::{Blocking, Job};
use super::context::{self, Driver};
use super::loops::{BoxedTask, Inbox, keep_own, start_here, take_own};
use super::threads::{ThreadCount, ThreadOptions};
use super::{Handle, RuntimeFlavor, RuntimeId};
use crate::budget::with_budget;
use crate::join::{Header, Id, Owner};
use crate::world::{self, MOST_LOOPS, World};

/// What a runtime is made as.
pub(super) struct Nature {
    pub(super) name: Option<String>,
    pub(super) world: World,
    pub(super) flavor: RuntimeFlavor,
    /// Whether it is of one thread, with tasks that are not `Send`.
    pub(super) is_local: bool,
    /// Whether its clock stands from the beginning.
    pub(super) starts_paused: bool,
    /// The number of loops that the program wants.
    pub(super) workers: Option<usize>,
}

/// A runtime.
pub(crate) struct Shared {
    id: RuntimeId,
    nature: Nature,
    options: ThreadOptions,
    threads: ThreadCount,
    blocking: Arc<Blocking>,
    /// The inbox of each loop.
    inboxes: Mutex<Vec<Arc<Inbox>>>,
    next: AtomicUsize,
    /// The thread that a `current_thread` runtime's loop belongs to.
    driver: Mutex<Option<Ownership>>,
    alive: AtomicUsize,
    /// The tasks that do not end with a loop of the runtime, to be aborted at the end.
    thread_tasks: Mutex<HashMap<Id, Weak<Header>>>,
    is_closed: AtomicBool,
}

#[derive(Clone, Copy)]
struct Ownership {
    thread: ThreadId,
    /// Whether the thread runs the loop now.
    runs: bool,
}

/// Gives each poll of a future a budget of its own.
async fn in_turns<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| with_budget(context, |context| future.as_mut().poll(context))).await
}

/// Runs a future on the stack of a task of a simulated host.
#[track_caller]
fn block_on_stack<F: Future>(handle: &Handle, future: F) -> F::Output {
    let _entered = handle.enter();
    match wait_on_stack(gather(in_turns(future))) {
        Ok(output) => output,
        Err(_) => panic!(
            "this code blocks, and tasks of the simulated host have no stacks to wait on: use \
             seeds(…).waits(Waits::Park), or give the host the async function that is blocked on"
        ),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(nature: Nature, options: ThreadOptions, blocking: Arc<Blocking>) -> Self {
        Self {
            id: RuntimeId::next(),
            nature,
            options,
            threads: ThreadCount::default(),
            blocking,
            inboxes: Mutex::default(),
            next: AtomicUsize::new(0),
            driver: Mutex::default(),
            alive: AtomicUsize::new(0),
            thread_tasks: Mutex::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Starts the loops.
    pub(super) fn open(&self, handle: &Handle) -> io::Result<()> {
        match (self.nature.world, self.nature.flavor) {
            (World::Threads | World::Simulated, _) => Ok(()),
            (_, RuntimeFlavor::CurrentThread) => {
                // An unavailable poller is an error of `build`, although `block_on` makes the loop.
                drop(self.nature.world.open_loop(self.options.stack_size)?);
                lock(&self.inboxes).push(Arc::default());
                Ok(())
            }
            (_, RuntimeFlavor::MultiThread) => (0..world::loops(self.nature.workers))
                .try_for_each(|_| self.start_loop(handle).map(drop)),
        }
    }

    /// Starts one more loop, on a thread of its own.
    fn start_loop(&self, handle: &Handle) -> io::Result<Arc<Inbox>> {
        let inbox = Arc::new(Inbox::default());
        let number = {
            let mut inboxes = lock(&self.inboxes);
            inboxes.push(inbox.clone());
            inboxes.len() - 1
        };
        let (world, stack_size, runtime) = (self.nature.world, self.options.stack_size, self.id);
        let (handle, served) = (handle.clone(), inbox.clone());
        let (opened, is_opened) = mpsc::channel();
        let serve = move || {
            let mut event_loop = match world.open_loop(stack_size) {
                Ok(event_loop) => event_loop,
                Err(error) => return drop(opened.send(Err(error))),
            };
            let _ = opened.send(Ok(()));
            if let Err(error) = event_loop.run_until(served.serve()) {
                log::warn(format_args!("a loop ends: {error}"));
            }
            // Dropped while the context is entered, since destructors may look for the runtime.
            drop(event_loop);
        };
        let driver = Driver::Loop { runtime, number };
        let body = move || context::run(handle, driver, true, serve);
        self.threads.start(&self.options, body)?;
        let gone = || io::Error::other("the thread of a loop has panicked");
        is_opened.recv().map_err(|_| gone())??;
        Ok(inbox)
    }

    /// Starts a task: on the loop of the caller, if it is of this runtime, and otherwise elsewhere.
    pub(super) fn start(&self, handle: &Handle, task: BoxedTask) {
        if self.is_closed() {
            return drop(task);
        }
        if self.nature.world == World::Threads {
            return self.start_thread(handle, task);
        }
        if self.nature.world == World::Simulated || context::is_on_loop_of(self.id) {
            return start_here(task);
        }
        self.inbox(handle).push(task);
    }

    /// The loop that is next to be sent a task.
    fn inbox(&self, handle: &Handle) -> Arc<Inbox> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let first = {
            let inboxes = lock(&self.inboxes);
            let held_up = context::held_up().filter(|_| self.nature.flavor.is_multi_thread());
            let mut candidates = (0..inboxes.len()).map(|shift| (next + shift) % inboxes.len());
            let is_free =
                |number: &usize| Some(*number) != held_up && !inboxes[*number].is_passed_over();
            match candidates.find(is_free) {
                Some(number) => return inboxes[number].clone(),
                None if inboxes.len() >= MOST_LOOPS => return inboxes[0].clone(),
                None => inboxes[0].clone(),
            }
        };
        // The caller holds the only loop up, or tasks hold up all of them.
        self.start_loop(handle).unwrap_or(first)
    }

    /// Sets whether a loop is not sent tasks. If so, another loop gets those that have not
    /// begun.
    pub(crate) fn pass_over(self: &Arc<Self>, number: usize, is_passed_over: bool) {
        let Some(inbox) = lock(&self.inboxes).get(number).cloned() else { return };
        let handle = Handle { shared: self.clone() };
        for task in inbox.pass_over(is_passed_over) {
            self.start(&handle, task);
        }
    }

    fn start_thread(&self, handle: &Handle, task: BoxedTask) {
        let stack = ThreadStack::chosen(self.options.stack_size, "the thread of a task");
        let (handle, options) = (handle.clone(), self.options.clone());
        let may_leave = self.nature.flavor.is_multi_thread();
        let body = move || {
            context::run(handle, Driver::InPlace, may_leave, || {
                options.on_start.inspect(|hook| hook());
                duality_runtime::block_on(task);
                options.on_stop.inspect(|hook| hook());
            });
        };
        if let Err(refused) = start(stack, Box::new(body)) {
            log::warn(format_args!("a task is dropped before it begins: {}", refused.error));
        }
    }

    pub(super) fn run_blocking(&self, handle: &Handle, job: impl FnOnce() + Send + 'static) {
        if self.nature.world == World::Simulated {
            return start_here(Box::pin(gather(offload(job))));
        }
        // A clock that stands must not move while the work is under way.
        let hold = context::is_on_loop_of(self.id).then(clock::hold).flatten();
        let job: Job = Box::new(move || {
            job();
            drop(hold);
        });
        let current = handle.clone();
        let enter = move |serve: &mut dyn FnMut()| {
            let _entered = current.enter();
            serve();
        };
        if let Err(error) = self.blocking.run(job, &self.threads, &self.options, enter) {
            panic!("no thread for blocking work: {error}");
        }
    }

    /// Runs a future, which waits in place. `may_leave` says whether it may call `block_in_place`.
    #[track_caller]
    pub(super) fn block_on_in_place<F: Future>(
        &self,
        handle: &Handle,
        future: F,
        may_leave: bool,
    ) -> F::Output {
        if self.nature.world == World::Simulated {
            return block_on_stack(handle, future);
        }
        context::run(handle.clone(), Driver::InPlace, may_leave, || {
            duality_runtime::block_on(gather(in_turns(future)))
        })
    }

    /// Runs a future, and in a `current_thread` runtime its tasks meanwhile.
    #[track_caller]
    pub(super) fn block_on<F: Future>(&self, handle: &Handle, future: F) -> F::Output {
        let has_loop = !matches!(self.nature.world, World::Threads | World::Simulated);
        let is_ours = has_loop && self.nature.flavor == RuntimeFlavor::CurrentThread;
        if context::is_inside() || !is_ours || !self.claim() {
            let may_leave = self.nature.flavor.is_multi_thread();
            return self.block_on_in_place(handle, future, may_leave);
        }
        let _runs = Runs(self);
        let driver = Driver::Loop { runtime: self.id, number: 0 };
        context::run(handle.clone(), driver, false, || self.run_loop(future))
    }

    /// Runs a future and the tasks of a `current_thread` runtime on this kernel thread.
    fn run_loop<F: Future>(&self, future: F) -> F::Output {
        let inbox = lock(&self.inboxes)[0].clone();
        let (mut event_loop, is_new) = match take_own(self.id) {
            Some(event_loop) => (event_loop, false),
            None => match self.nature.world.open_loop(self.options.stack_size) {
                Ok(event_loop) => (event_loop, true),
                Err(error) => panic!("no loop for this thread: {error}"),
            },
        };
        let starts_paused = self.nature.starts_paused;
        let root = gather(async move {
            if is_new {
                let _ = starts_paused && clock::stop();
                start_here(Box::pin(inbox.serve()));
            }
            in_turns(future).await
        });
        let ended = event_loop.run_until(root);
        keep_own(self.id, event_loop);
        match ended {
            Ok(Ok(output)) => output,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(error) => panic!("no room for the future: {error}"),
        }
    }

    /// Makes this thread the one that runs the loop. False if another thread runs the loop now.
    fn claim(&self) -> bool {
        let this = thread::current().id();
        let mut driver = lock(&self.driver);
        match *driver {
            Some(other) if other.thread != this && other.runs => return false,
            Some(other) if other.thread != this => assert!(
                self.alive_tasks() == 0,
                "the tasks of this current_thread runtime belong to another thread: call block_on there"
            ),
            _ => {}
        }
        *driver = Some(Ownership { thread: this, runs: true });
        true
    }

    /// Ends the runtime. Waits for its threads, at most for `patience`.
    pub(super) fn close(&self, handle: &Handle, patience: Option<Duration>) {
        self.is_closed.store(true, Ordering::SeqCst);
        // Destructors of tasks may look for the runtime.
        let entered = handle.enter();
        let inboxes = lock(&self.inboxes).clone();
        inboxes.iter().for_each(|inbox| inbox.close());
        self.blocking.close();
        let thread_tasks = Vec::from_iter(lock(&self.thread_tasks).values().cloned());
        thread_tasks.iter().filter_map(Weak::upgrade).for_each(|header| header.abort());
        drop(take_own(self.id));
        drop(entered);
        self.threads.wait(patience);
    }

    /// Whether tasks are kernel threads, or tasks of a simulated host.
    fn has_apart_tasks(&self) -> bool {
        matches!(self.nature.world, World::Threads | World::Simulated)
    }

    pub(super) fn id(&self) -> RuntimeId {
        self.id
    }

    pub(super) fn is_local(&self) -> bool {
        self.nature.is_local
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.nature.name.as_deref()
    }

    pub(super) fn flavor(&self) -> RuntimeFlavor {
        self.nature.flavor
    }

    pub(super) fn loops(&self) -> usize {
        lock(&self.inboxes).len()
    }

    pub(super) fn alive_tasks(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    pub(super) fn queued_tasks(&self) -> usize {
        lock(&self.inboxes).iter().map(|inbox| inbox.len()).sum()
    }
}

impl Owner for Shared {
    fn task_begins(&self, header: &Arc<Header>) {
        self.alive.fetch_add(1, Ordering::Relaxed);
        if self.has_apart_tasks() {
            lock(&self.thread_tasks).insert(header.id(), Arc::downgrade(header));
        }
    }

    fn task_ended(&self, id: Id) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
        if self.has_apart_tasks() {
            lock(&self.thread_tasks).remove(&id);
        }
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}

/// Notes that the loop runs no longer, when it is dropped.
struct Runs<'a>(&'a Shared);

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        if let Some(driver) = &mut *lock(&self.0.driver) {
            driver.runs = false;
        }
    }
}
