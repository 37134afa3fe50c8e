//! Tasks as blocks. A block lies between two stage boundaries, and an architecture queues each
//! block in its own way.
//!
//! ```text
//!   Tasks::start(future)
//!        │                      ┌──────────────── at a stage boundary, or woken ────────────────┐
//!        ▼                      ▼                                                               │
//!   dispatch(Block) ──▶ the architecture's queue ──▶ Block::run, on the thread that took it ────┤
//!                                                                                               ▼
//!                                                                                 the task ends
//! ```
//!
//! The service is the same straight-line code as everywhere. Here
//! [`task::stage`](crate::task::stage()) ends a block. The task leaves the kernel thread, and is
//! handed to `dispatch` with the stage it has reached. The kind of *wait* is a second, separate
//! choice ([`Waits`]). In a work pool, the kernel thread waits in place (Truppel & Abreu). In a
//! staged server, the task waits in a [`Reactor`], and comes back as another block when woken
//! (SEDA).
//!
//! A task may change its kernel thread after each block. The task's state moves with it, so
//! services' futures are `Send`. The parts of a task that other threads read, such as its stage,
//! are atomic numbers. The crate `async-task` keeps the life of a task (queued, running, woken
//! while it runs, ended).

mod reactor;
mod readiness;
mod running;
mod watch;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_task::Runnable;
use rustix::process::getpid;

use crate::drain::{self, Scope};
use crate::gather;
use crate::thread_waker::with_waker_of_this_thread;
use crate::threads;
use crate::visibility::survey::TaskReport;
use crate::visibility::{self, Label, Wait, thread_slots, waits};
use crate::wait::{Ambient, BUDGET, Waited, ambient_deadline, earlier, set_ambient};

pub use reactor::Reactor;
pub(crate) use reactor::Source;
pub(crate) use running::{Outside, running, this_task};

/// A future in a box: the form of the tasks of a loop or a pool.
pub type BoxedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The effect of a wait within a block.
#[derive(Clone, Debug)]
pub enum Waits {
    /// The kernel thread that runs the block waits in place, as in the block world. A spawned task
    /// is a kernel thread there. So no block waits for a block that has no thread to run on.
    InPlace,
    /// The task leaves its kernel thread. The task is dispatched again when the reactor, another
    /// task or a time has woken it.
    Suspend(Reactor),
}

/// The tasks of one server, and the dispatcher of their blocks.
#[derive(Clone)]
pub struct Tasks {
    group: Arc<Group>,
}

struct Group {
    waits: Waits,
    dispatch: Box<dyn Fn(Block) + Send + Sync>,
    /// The scope of the thread that made the group. The scope says which drain concerns the group's
    /// tasks.
    scope: Option<Scope>,
    begun: AtomicU64,
}

impl fmt::Debug for Tasks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tasks").field("waits", &self.group.waits).finish_non_exhaustive()
    }
}

impl Tasks {
    /// Tasks that wait as `waits` says. `dispatch` gets each block to run, on the kernel thread
    /// that ran the block before it or woke the task.
    pub fn new(waits: Waits, dispatch: impl Fn(Block) + Send + Sync + 'static) -> Self {
        let (dispatch, scope) = (Box::new(dispatch), Scope::here());
        Self { group: Arc::new(Group { waits, dispatch, scope, begun: AtomicU64::new(0) }) }
    }

    /// Starts a task with its own connection: dispatches its first block, before any stage.
    pub fn start(&self, future: BoxedFuture) {
        start(&self.group, None, future);
    }
}

/// Starts a task of the given connection, or with its own connection. A panic in the task is
/// reported and ends the task.
fn start(group: &Arc<Group>, connection: Option<u64>, future: BoxedFuture) {
    let number = group.begun.fetch_add(1, Ordering::Relaxed);
    let state = Arc::new(TaskState {
        group: group.clone(),
        connection: connection.unwrap_or(number),
        stage: AtomicU16::new(Label::NONE.bits()),
        first: AtomicU16::new(Label::NONE.bits()),
        passed: AtomicU32::new(0),
        priority: AtomicU32::new(0),
        leaves: AtomicBool::new(false),
        budget: AtomicU32::new(BUDGET),
        number,
        slot: AtomicU32::new(NO_SLOT),
        is_queued: AtomicBool::new(true),
        wait: AtomicU32::new(Wait::Begin.pack()),
        since: AtomicU64::new(thread_slots::coarse_milliseconds()),
    });
    if let Some(reactor) = state.reactor() {
        state.slot.store(reactor.add_task(state.clone()), Ordering::Relaxed);
    }
    visibility::count(|counters| counters.tasks_created.add(1));
    let body = BlockByBlock { future: Some(future), state: state.clone() };
    let schedule = |runnable: Runnable<Arc<TaskState>>| {
        let state = runnable.metadata();
        state.is_queued.store(true, Ordering::Relaxed);
        let group = state.group.clone();
        let dispatch = || (group.dispatch)(Block { runnable });
        // A block may wake another one under a lock of the service.
        let is_woken_by_block = threads::simulates() && running(|task| task.is_some());
        if is_woken_by_block { threads::quietly(dispatch) } else { dispatch() }
    };
    let (runnable, task) = async_task::Builder::new()
        .propagate_panic(true)
        .metadata(state)
        .spawn(move |_| body, schedule);
    task.detach();
    runnable.schedule();
}

/// A stretch of a task, up to its next stage boundary or its next wait that suspends. A block is
/// run once, on any kernel thread. Dropping the block ends its task.
pub struct Block {
    runnable: Runnable<Arc<TaskState>>,
}

impl fmt::Debug for Block {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Block")
            .field("connection", &self.connection())
            .field("stage", &self.stage_name())
            .finish_non_exhaustive()
    }
}

impl Block {
    /// The largest value of [`stage`](Block::stage).
    pub const LAST_STAGE: usize = Label::MOST;

    /// The number of the block's connection: the connections of a server count from 0. Tasks that a
    /// connection's task has spawned belong to the same connection.
    pub fn connection(&self) -> u64 {
        self.state().connection
    }

    /// The stage of the block, as a small number. 0 before the first stage.
    pub fn stage(&self) -> usize {
        self.state().stage().bits().into()
    }

    /// The name of the block's stage. `None` before the first stage.
    pub fn stage_name(&self) -> Option<String> {
        self.state().stage().name()
    }

    /// The urgency of the block. The service may have set it at the boundary
    /// ([`Stage::priority`](crate::task::Stage::priority)). By default, it is the number of
    /// boundaries that the task has passed since it was last at its first stage. So started tasks
    /// come before new ones.
    pub fn priority(&self) -> u32 {
        self.state().priority.load(Ordering::Relaxed)
    }

    /// Whether the task is at its first stage, or before it: the request has not begun.
    pub fn begins(&self) -> bool {
        self.state().passed.load(Ordering::Relaxed) == 0
    }

    /// Runs the block on this kernel thread, which needs no preparation.
    pub fn run(self) {
        let state = self.state().clone();
        let _slot = thread_slots::occupy();
        drain::within(state.group.scope.as_ref(), || {
            let _shown = thread_slots::run_block(state.stage());
            state.is_queued.store(false, Ordering::Relaxed);
            state.set_wait(Wait::Nothing);
            if state.reactor().is_some() {
                visibility::count(|counters| counters.switches.add(1));
            }
            self.runnable.run();
        });
    }

    fn state(&self) -> &Arc<TaskState> {
        self.runnable.metadata()
    }
}

/// The state of a task between its blocks. The numbers belong to the thread that runs the task, and
/// a dispatcher reads them.
pub(crate) struct TaskState {
    group: Arc<Group>,
    connection: u64,
    /// The labels of the stage that the task has reached, and of the first stage that it ever
    /// reached.
    stage: AtomicU16,
    first: AtomicU16,
    /// The number of boundaries that the task has passed since it was at its first stage.
    passed: AtomicU32,
    priority: AtomicU32,
    /// The running block is over: the task leaves, and must be dispatched at once.
    leaves: AtomicBool,
    /// The rest of the [budget](crate::world::budget) of the running block.
    budget: AtomicU32,
    /// The number of tasks before this one.
    number: u64,
    /// The place among the tasks of the reactor, if its waits suspend.
    slot: AtomicU32,
    /// For dumps: whether the task waits only for its turn, its present or last wait, and when that
    /// wait began.
    is_queued: AtomicBool,
    wait: AtomicU32,
    since: AtomicU64,
}

const NO_SLOT: u32 = u32::MAX;

impl TaskState {
    pub(crate) fn stage(&self) -> Label {
        Label::from_bits(self.stage.load(Ordering::Relaxed))
    }

    /// The running block has come to a stage boundary, and its task must return `Pending`.
    pub(crate) fn reach(&self, stage: Label, priority: Option<u32>) {
        let first = self.first.load(Ordering::Relaxed);
        let passed = if first == stage.bits() || first == Label::NONE.bits() {
            self.first.store(stage.bits(), Ordering::Relaxed);
            0
        } else {
            self.passed.load(Ordering::Relaxed).saturating_add(1)
        };
        self.passed.store(passed, Ordering::Relaxed);
        self.stage.store(stage.bits(), Ordering::Relaxed);
        self.priority.store(priority.unwrap_or(passed), Ordering::Relaxed);
        self.leave();
    }

    /// The task must return `Pending`, and be dispatched again at once.
    pub(crate) fn leave(&self) {
        self.leaves.store(true, Ordering::Relaxed);
    }

    /// Spends a unit of the block's budget. False if nothing is left.
    pub(crate) fn spend(&self) -> bool {
        let left = self.budget.load(Ordering::Relaxed);
        // Without a unit, one is left for another future of the task, which a combinator may poll
        // next.
        self.budget.store(left.checked_sub(1).unwrap_or(1), Ordering::Relaxed);
        left > 0
    }

    /// Takes back a unit that was just spent.
    pub(crate) fn refund(&self) {
        self.budget.store(self.budget.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The reactor for the task's waits, if they suspend.
    pub(crate) fn reactor(&self) -> Option<&Reactor> {
        match &self.group.waits {
            Waits::InPlace => None,
            Waits::Suspend(reactor) => Some(reactor),
        }
    }

    /// Starts a task of the same connection.
    pub(crate) fn spawn(&self, future: BoxedFuture) {
        start(&self.group, Some(self.connection), future);
    }

    /// Suspends the running task, in a world where waits suspend. The call returns `Pending`. The
    /// reactor wakes the task at `deadline` or at the ambient one, if no other event wakes it
    /// before.
    pub(crate) fn wait(
        &self,
        context: &Context<'_>,
        reactor: &Reactor,
        wait: Wait,
        deadline: Option<Instant>,
    ) -> Waited {
        self.set_wait(wait);
        if let Some(deadline) = earlier(deadline, ambient_deadline()) {
            reactor.set_timer(self.slot.load(Ordering::Relaxed), deadline, context.waker());
        }
        Waited::Pending
    }

    /// Whether a timer wakes the running task at `deadline`, or before.
    pub(crate) fn is_woken_by(&self, reactor: &Reactor, deadline: Instant) -> bool {
        reactor.is_due_by(self.slot.load(Ordering::Relaxed), deadline)
    }

    pub(crate) fn set_wait(&self, wait: Wait) {
        self.wait.store(wait.pack(), Ordering::Relaxed);
        self.since.store(thread_slots::coarse_milliseconds(), Ordering::Relaxed);
    }

    /// The task's line in a dump. `now` is of the coarse clock, in milliseconds, and `due` is the
    /// time of its timer.
    fn report(&self, now: u64, due: Option<Duration>) -> TaskReport {
        let wait = Wait::unpack(self.wait.load(Ordering::Relaxed)).unwrap_or(Wait::Nothing);
        TaskReport {
            number: self.number as u32,
            stage: self.stage().name(),
            wait,
            is_ready: self.is_queued(),
            waited: Duration::from_millis(now.saturating_sub(self.since())),
            due: due.filter(|_| wait == Wait::Time),
            peer: waits::peer(wait, getpid()),
            trace: None,
        }
    }

    fn is_queued(&self) -> bool {
        self.is_queued.load(Ordering::Relaxed)
    }

    fn since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }
}

/// A task's future, which is polled once for each block.
struct BlockByBlock {
    /// `None` when the task has ended.
    future: Option<BoxedFuture>,
    state: Arc<TaskState>,
}

impl Future for BlockByBlock {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { future, state } = self.get_mut();
        let _running = running::enter(Some(state));
        state.budget.store(BUDGET, Ordering::Relaxed);
        let outer = set_ambient(Ambient::Never);
        let polled = match (&mut *future, &state.group.waits) {
            (None, _) => Poll::Ready(()),
            (Some(future), Waits::Suspend(_)) => future.as_mut().poll(context),
            (Some(future), Waits::InPlace) => poll_in_place(future.as_mut(), state),
        };
        set_ambient(outer);
        if polled.is_ready() {
            // The future's destructors run as the task.
            *future = None;
        } else if state.leaves.swap(false, Ordering::Relaxed) {
            context.waker().wake_by_ref();
        }
        polled
    }
}

/// Polls until the block is over. While the block waits to be woken, this kernel thread waits too.
fn poll_in_place(
    mut future: Pin<&mut (dyn Future<Output = ()> + Send)>,
    state: &TaskState,
) -> Poll<()> {
    with_waker_of_this_thread(|waker| {
        let mut context = Context::from_waker(waker);
        loop {
            let polled = future.as_mut().poll(&mut context);
            if polled.is_ready() || state.leaves.load(Ordering::Relaxed) {
                return polled;
            }
            // Beside `timeout`, a foreign future comes here, and a future that has gathered its
            // waits.
            gather::wait_in_place(Ambient::Never);
        }
    })
}

impl Drop for BlockByBlock {
    fn drop(&mut self) {
        let slot = self.state.slot.swap(NO_SLOT, Ordering::Relaxed);
        if let Some(reactor) = self.state.reactor().filter(|_| slot != NO_SLOT) {
            reactor.remove_task(slot);
        }
        visibility::count(|counters| counters.tasks_ended.add(1));
    }
}
