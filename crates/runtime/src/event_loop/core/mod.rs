//! The state of one loop, and the functions for operations. The loop's [`round`] has its own file.
//!
//! Tasks call in here through [`current`] while the round that runs them is on the stack below. So
//! every field is a cell, and no borrow is held while a task runs.

mod gathered;
mod pace;
mod round;
mod shared;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use duality_fiber::overflow::{self, Watch};
use duality_fiber::{Stack, StackPool};
use duality_poller::{Direction, Poller, Ring, Timers, Token};

use self::gathered::Gathered;
use self::pace::Pace;
pub(crate) use self::round::Round;
use super::clock::{Clock, Hold};
use super::current;
use super::park;
use super::report::ReportState;
use super::reserved_task::ReservedTask;
use super::sources::Sources;
use super::spare::Spare;
use super::tasks::{Task, TaskBody, Tasks};
use super::waker;
use super::{LoopOptions, LoopWorld};
use crate::drain;
use crate::gather::TICK;
use crate::machine::Machine;
use crate::memory::Reserve;
use crate::remote::{self, LoopId, OwnInbox, TaskName};
use crate::threads;
use crate::visibility::thread_slots::{self, ThreadSlot};
use crate::visibility::{self, Label, Wait};
use crate::wait::BUDGET;

pub(crate) struct Core {
    world: LoopWorld,
    inbox: OwnInbox,
    /// The token of the inbox's eventfd.
    inbox_token: Token,
    poller: RefCell<Box<dyn Poller>>,
    /// Whether the poller is a ring. Sockets then operate through the ring.
    has_ring: bool,
    sources: RefCell<Sources>,
    pub(super) tasks: Tasks,
    pub(super) timers: RefCell<Timers>,
    /// The further notes of gathered waits.
    pub(crate) gathered: Gathered,
    pub(crate) report_state: ReportState,
    stacks: RefCell<StackPool>,
    /// The memory that stacks must leave to the rest of the process.
    reserve: Reserve,
    /// Spare buffers for its sockets.
    pub(crate) spare: Spare,
    clock: Clock,
    /// The clock's time at the beginning of the round.
    now: Cell<Instant>,
    /// The rest of the running task's [budget](crate::world::budget), if the task has spent a part
    /// in the turn `spent_in`.
    budget: Cell<u32>,
    spent_in: Cell<usize>,
    /// The time at which the loop began to drain. `None` before.
    drain_began: Cell<Option<Instant>>,
    pace: Pace,
    /// The total time in which the poller waited while no task was ready.
    idle: Cell<Duration>,
    options: LoopOptions,
    /// The slot of this kernel thread, while the loop runs.
    slot: Cell<&'static ThreadSlot>,
    /// The machine, if the loop is that of a simulated host.
    machine: Option<Arc<dyn Machine>>,
}

/// Has an overflow of a task's stack on this kernel thread reported, until the result is dropped.
///
/// # Errors
///
/// The errors of mmap(2) and sigaltstack(2), if memory is lacking.
pub(super) fn watch_overflows() -> io::Result<Watch> {
    // SAFETY: `name_running` is safe in a signal handler: it reads cells and formats numbers.
    unsafe { overflow::watch(name_running) }
}

/// Writes the name of the task that runs on this kernel thread. Called in a signal handler after
/// the task's stack has overflowed, so it only reads cells.
fn name_running(line: &mut dyn fmt::Write) -> fmt::Result {
    current::with_loop(|core| match core.and_then(|core| core.running().name()) {
        Some(name) => write!(line, "task {} of loop {}", name.serial(), name.loop_number()),
        None => line.write_str("a user-level thread"),
    })
}

impl Core {
    pub(crate) fn new(mut poller: Box<dyn Poller>, world: LoopWorld) -> io::Result<Self> {
        let inbox = remote::take_inbox()?;
        let mut sources = Sources::default();
        let has_ring = poller.ring().is_some();
        let inbox_token = sources.insert(false);
        poller.arm(inbox.event(), inbox_token, Direction::Read)?;
        let now = threads::now();
        let stack_size = match world {
            LoopWorld::Park { stack_size } => stack_size,
            LoopWorld::Suspend => 0,
        };
        let mut stacks = StackPool::new(stack_size);
        if let LoopWorld::Park { .. } = world {
            // A loop needs room for its first two tasks.
            let first = [stacks.take()?, stacks.take()?];
            first.into_iter().for_each(|stack| stacks.put(stack));
        }
        let tasks = Tasks::new(TaskName::first(inbox.number()))?;
        Ok(Self {
            world,
            inbox,
            inbox_token,
            poller: RefCell::new(poller),
            has_ring,
            sources: RefCell::new(sources),
            timers: RefCell::new(Timers::new(now)),
            gathered: Gathered::default(),
            report_state: ReportState::new(now),
            stacks: RefCell::new(stacks),
            reserve: Reserve::of_this_process(),
            spare: Spare::default(),
            clock: Clock::default(),
            now: Cell::new(now),
            tasks,
            budget: Cell::new(0),
            spent_in: Cell::new(0),
            drain_began: Cell::new(None),
            pace: Pace::new(now),
            idle: Cell::new(Duration::ZERO),
            options: LoopOptions::default(),
            slot: Cell::new(thread_slots::unused()),
            machine: None,
        })
    }

    /// Makes the loop that of a simulated host. The time is `now`.
    pub(crate) fn simulate(&mut self, machine: Arc<dyn Machine>, now: Instant) {
        self.machine = Some(machine);
        self.clock.stand_at(now);
        self.now.set(now);
        self.timers.replace(Timers::new(now));
    }

    /// The machine of a simulated host.
    #[inline]
    pub(crate) fn machine(&self) -> Option<&Arc<dyn Machine>> {
        self.machine.as_ref()
    }

    /// Whether other kernel threads or loops have sent messages.
    pub(crate) fn has_messages(&self) -> bool {
        self.inbox.has_messages()
    }

    pub(crate) fn world(&self) -> LoopWorld {
        self.world
    }

    pub(crate) fn options(&self) -> &LoopOptions {
        &self.options
    }

    pub(crate) fn options_mut(&mut self) -> &mut LoopOptions {
        &mut self.options
    }

    // The functions of the loop that operations call.

    pub(crate) fn number(&self) -> u16 {
        self.inbox.number()
    }

    pub(crate) fn id(&self) -> LoopId {
        self.inbox.id()
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Stops the clock. False if it stands already.
    pub(crate) fn stop_clock(&self) -> bool {
        self.clock.stop().inspect(|&now| self.now.set(now)).is_some()
    }

    /// Moves a clock that stands, and has the round end, so that timers have their turn. False if
    /// the clock goes.
    pub(crate) fn advance_clock(&self, by: Duration) -> bool {
        let moved = self.clock.move_on(|now| now + by);
        if let Some(now) = moved {
            self.now.set(now);
            self.pace.end_round();
        }
        moved.is_some()
    }

    /// Keeps a clock that stands from moving by itself.
    pub(crate) fn hold_clock(&self) -> Hold {
        self.clock.hold(waker::of(self.running().name()))
    }

    /// Whether a timer wakes the running task at `deadline`, or before.
    pub(crate) fn wakes_running_by(&self, deadline: Instant) -> bool {
        let name = self.running().name();
        let due = name.and_then(|name| self.timers.borrow().deadline(name.slot()));
        due.is_some_and(|due| due <= deadline + TICK)
    }

    pub(crate) fn draining(&self) -> bool {
        self.drain_began.get().is_some()
    }

    /// The time until which a drain waits for the first bytes of a new connection. `None` without a
    /// drain.
    pub(crate) fn first_bytes_until(&self) -> Option<Instant> {
        self.drain_began.get().map(|began| began + drain::FIRST_BYTES)
    }

    /// Wakes the loop's task with this name, if it still exists.
    pub(crate) fn wake(&self, name: TaskName) {
        self.tasks.wake(name);
    }

    /// Wakes the task with this name in any loop, if it still exists.
    #[inline]
    pub(crate) fn wake_wherever(&self, name: TaskName) {
        if !self.tasks.wake(name) && name.loop_number() != self.number() {
            remote::wake(name);
        }
    }

    /// Spends one unit of the running task's budget. If the budget is used up, queues the task
    /// again and returns false. The task must then wait, so that descriptors and timers have their
    /// turn.
    #[inline]
    pub(crate) fn spend(&self) -> bool {
        let turn = self.tasks.taken();
        let has_spent = self.spent_in.replace(turn) == turn;
        let left = if has_spent { self.budget.get() } else { BUDGET };
        if left == 0 {
            self.tasks.requeue_running();
            self.end_round();
            // For another future of the task, which a combinator may poll next in this turn.
            self.budget.set(1);
            return false;
        }
        self.budget.set(left - 1);
        true
    }

    /// Takes back a unit that the running task has just spent.
    #[inline]
    pub(crate) fn refund(&self) {
        self.budget.set(self.budget.get() + 1);
    }

    /// Has the round end once all tasks that were ready at its beginning have had their turns.
    pub(crate) fn end_round(&self) {
        self.pace.end_round();
    }

    /// Whether an attempt on a watched descriptor is worth its system call.
    #[inline]
    pub(crate) fn exhausted(&self, token: Token, direction: Direction) -> bool {
        self.sources.borrow().exhausted(token, direction)
    }

    #[inline]
    pub(crate) fn exhaust(&self, token: Token, direction: Direction) {
        self.sources.borrow_mut().exhaust(token, direction);
    }

    /// Whether sockets of this loop operate through its ring.
    #[inline]
    pub(crate) fn has_ring(&self) -> bool {
        self.has_ring
    }

    /// Performs an operation through the ring.
    #[inline]
    pub(crate) fn with_ring<R>(&self, operation: impl FnOnce(&mut Ring) -> R) -> R {
        let mut poller = self.poller.borrow_mut();
        operation(poller.ring().expect("only what knows of a ring operates through it"))
    }

    /// Begins to watch a descriptor, which is a client's or another one.
    pub(crate) fn watch(&self, client: bool) -> Token {
        visibility::count(|counters| counters.registrations.add(1));
        self.sources.borrow_mut().insert(client)
    }

    pub(crate) fn resting(&self) -> usize {
        self.sources.borrow().resting()
    }

    pub(crate) fn idle(&self) -> Duration {
        self.idle.get()
    }

    /// Has the running task woken by the next event of `descriptor`. Since the last event, the
    /// caller has made an attempt, as the poller's contract demands.
    #[inline]
    pub(crate) fn wake_when(
        &self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        direction: Direction,
    ) -> io::Result<()> {
        let task = self.running();
        task.set_wait(Wait::descriptor(direction, descriptor.as_raw_fd()));
        if let Some(name) = task.name() {
            self.sources.borrow_mut().wait(token, direction, name);
        }
        self.poller.borrow_mut().arm(descriptor, token, direction)
    }

    /// The waker of the task that waits for this direction of a descriptor.
    pub(crate) fn waiter(&self, token: Token, direction: Direction) -> Option<Waker> {
        self.sources.borrow().waiter(token, direction).map(|name| waker::of(Some(name)))
    }

    /// Ends the watch of a descriptor and closes it. `duplicated` says whether it may have
    /// duplicates.
    pub(crate) fn close(&self, descriptor: OwnedFd, token: Token, duplicated: bool) {
        {
            let mut poller = self.poller.borrow_mut();
            if let Some(ring) = poller.ring() {
                ring.close(descriptor, token);
            } else if duplicated {
                poller.forget_duplicate(descriptor.as_fd(), token);
            } else {
                poller.forget(descriptor.as_fd(), token);
            }
        }
        self.sources.borrow_mut().remove(token);
        self.gathered.forget_descriptor(token);
    }

    /// Notes the wait that the running task is about to begin.
    #[inline]
    pub(crate) fn set_wait(&self, wait: Wait) {
        self.running().set_wait(wait);
    }

    /// Reserves a task for a connection that is being served. The task may take some of the memory
    /// kept in reserve.
    pub(crate) fn reserve(&self) -> io::Result<ReservedTask> {
        self.reserve_leaving(self.reserve.bytes() / 2)
    }

    /// Reserves a task for one more connection.
    pub(super) fn reserve_for_another(&self) -> io::Result<ReservedTask> {
        self.reserve_leaving(self.reserve.bytes())
    }

    fn reserve_leaving(&self, bytes: usize) -> io::Result<ReservedTask> {
        let stack = match self.world {
            LoopWorld::Park { .. } => Some(self.stacks.borrow_mut().take_leaving(bytes)?),
            LoopWorld::Suspend => None,
        };
        Ok(ReservedTask::new(stack))
    }

    #[inline]
    fn running(&self) -> &Task {
        self.tasks.running()
    }

    /// The data of the running task's waker.
    #[inline]
    pub(crate) fn running_waker(&self) -> usize {
        self.running().name().map_or(0, |name| name.bits() as usize)
    }

    // Tasks.

    /// Starts a task that need not be `Send`: the loop's own root.
    pub(crate) fn spawn_local(
        &self,
        future: impl Future<Output = ()> + 'static,
    ) -> io::Result<TaskName> {
        Ok(match self.reserve()?.stack {
            None => self.insert(|| TaskBody::Future(Box::pin(future))),
            Some(stack) => self.insert_fiber(stack, || future),
        })
    }

    #[inline(always)]
    pub(super) fn insert(&self, make: impl FnOnce() -> TaskBody) -> TaskName {
        visibility::count(|counters| counters.tasks_created.add(1));
        self.tasks.insert(make, self.report_state.clock())
    }

    pub(crate) fn set_stage(&self, stage: Label) {
        let task = self.running();
        if task.name().is_some() {
            task.set_stage(stage);
            self.show(task);
        }
    }

    /// The stage that the running task has reached last.
    pub(crate) fn stage(&self) -> Label {
        self.running().shown().stage()
    }

    /// Shows the running task, as it is now, to watching threads.
    #[inline]
    fn show(&self, task: &Task) {
        self.slot.get().set_turn(task.shown().during(self.tasks.taken()));
    }

    #[inline(always)]
    pub(super) fn insert_fiber<F: Future<Output = ()> + 'static>(
        &self,
        stack: Stack,
        make: impl FnOnce() -> F,
    ) -> TaskName {
        let waker = waker::of(Some(self.tasks.next_name()));
        if let LoopWorld::Park { stack_size } = self.world {
            visibility::count(|counters| {
                counters.task_stack_allocated_bytes.add(stack_size as u64);
            });
        }
        self.insert(|| TaskBody::Fiber(park::fiber(stack, waker, make)))
    }

    /// Ends a task that has run to its end. Between turns only.
    #[inline]
    fn end(&self, task: &Task) {
        self.end_by(task, |body| match body {
            Some(TaskBody::Future(_)) => drop_body(body),
            _ => {
                let Some(TaskBody::Fiber(fiber)) = body.take() else { return };
                self.stacks.borrow_mut().put(fiber.into_stack());
            }
        });
    }

    /// Ends a task. `drop_body` drops or takes its body. Between turns only.
    #[inline]
    fn end_by(&self, task: &Task, drop_body: impl FnOnce(&mut Option<TaskBody>)) {
        let Some(name) = task.name() else { return };
        visibility::count(|counters| counters.tasks_ended.add(1));
        // A destructor that waits without the loop's help is not woken.
        self.tasks.set_idle();
        self.timers.borrow_mut().clear(name.slot());
        // SAFETY: the task has returned from its turn, or a panic has ended it, or the loop has
        // ended and gives no turns. The task's destructors begin no turn. A wait there means
        // returning, or panicking if tasks are fibers, because a dropped fiber is not the running
        // one.
        unsafe { self.tasks.end(name, drop_body) };
    }

    /// Drops every task within the loop, so that the poller forgets their descriptors as they
    /// close.
    pub(crate) fn drop_tasks(&self) {
        let mut from = 0;
        loop {
            match self.tasks.first_from(from) {
                Some((slot, task)) => {
                    from = slot + 1;
                    self.end_by(task, drop_body);
                }
                // A destructor may have spawned further tasks, in earlier slots.
                None if from > 0 => from = 0,
                None => break,
            }
        }
    }
}

/// Drops a body in its place. A panic of the destructor has been reported, and ends here.
#[inline]
fn drop_body(body: &mut Option<TaskBody>) {
    let _ = catch_unwind(AssertUnwindSafe(|| *body = None));
}
