//! The state of one loop, and its round.
//!
//! Tasks call in here through [`world::with_loop`](crate::world) while the round that runs them is on
//! the stack below; so every field is a cell, and no borrow is held while a task runs.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use duality_fiber::{Stack, StackPool};
use duality_poller::{Direction, Event, Poller, Timers, Token};

use super::Waiting;
use super::remote::{self, Message};
use super::report::{self, Sight};
use super::sources::Sources;
use super::tasks::{Body, TaskId, Tasks};
use super::waker::TaskName;
use crate::drain;
use crate::visibility::{self, Label, Wait, seats};
use crate::world::{self, Waited, park, suspend};

/// How many operations a task may complete before others have their turn. A socket that is always
/// ready would otherwise keep the loop to itself, for optimistic I/O never waits by itself.
const BUDGET: u32 = 64;

pub(crate) struct Core {
    waiting: Waiting,
    lane: remote::Claim,
    bell: Token,
    poller: RefCell<Box<dyn Poller>>,
    sources: RefCell<Sources>,
    pub(super) tasks: RefCell<Tasks>,
    pub(super) timers: RefCell<Timers>,
    pub(crate) sight: Sight,
    stacks: RefCell<StackPool>,
    now: Cell<Instant>,
    running: Cell<Option<TaskId>>,
    budget: Cell<u32>,
    draining: Cell<bool>,
    /// How long the poller has waited in all while no task was ready.
    idle: Cell<Duration>,
}

/// Room for one task: its stack, where tasks have one.
pub struct Place {
    stack: Option<Stack>,
}

impl Place {
    /// Starts `future` as a task of this kernel thread's loop. A panic in it is reported and ends it.
    ///
    /// # Panics
    ///
    /// When this kernel thread runs no loop.
    pub fn spawn(self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        world::with_loop(|core| {
            let core = core.expect("a place is filled on the loop that made it");
            match self.stack {
                None => core.insert(Body::Future(future)),
                Some(stack) => core.insert_fiber(stack, future),
            };
        });
    }
}

impl Core {
    pub(crate) fn new(mut poller: Box<dyn Poller>, waiting: Waiting) -> io::Result<Self> {
        let lane = remote::claim()?;
        let mut sources = Sources::default();
        let bell = sources.insert(false);
        poller.arm(lane.bell(), bell, Direction::Read)?;
        let now = Instant::now();
        let stack_size = match waiting {
            Waiting::Park { stack_size } => stack_size,
            Waiting::Suspend => 0,
        };
        Ok(Self {
            waiting,
            lane,
            bell,
            poller: RefCell::new(poller),
            sources: RefCell::new(sources),
            tasks: RefCell::default(),
            timers: RefCell::new(Timers::new(now)),
            sight: Sight::new(now),
            stacks: RefCell::new(StackPool::new(stack_size)),
            now: Cell::new(now),
            running: Cell::new(None),
            budget: Cell::new(0),
            draining: Cell::new(false),
            idle: Cell::new(Duration::ZERO),
        })
    }

    // What operations ask of the loop.

    pub(crate) fn lane(&self) -> u16 {
        self.lane.number()
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    pub(crate) fn draining(&self) -> bool {
        self.draining.get()
    }

    pub(crate) fn wake(&self, task: TaskId) {
        self.tasks.borrow_mut().wake(task);
    }

    /// Spends one unit of the running task's budget; false when it is used up, and then the task has
    /// been queued again and must wait.
    #[inline]
    pub(crate) fn spend(&self) -> bool {
        let left = self.budget.get();
        if left == 0 {
            self.sight.set_wait(Wait::Turn);
            self.wake(self.running_task());
            return false;
        }
        self.budget.set(left - 1);
        true
    }

    /// Whether an attempt on a watched descriptor is worth its system call.
    #[inline]
    pub(crate) fn exhausted(&self, token: Token, direction: Direction) -> bool {
        self.sources.borrow_mut().exhausted(token, direction)
    }

    #[inline]
    pub(crate) fn exhaust(&self, token: Token, direction: Direction) {
        self.sources.borrow_mut().exhaust(token, direction);
    }

    /// Begins to watch a descriptor: a client's, or another.
    pub(crate) fn watch(&self, client: bool) -> Token {
        self.sources.borrow_mut().insert(client)
    }

    pub(crate) fn resting(&self) -> usize {
        self.sources.borrow().resting()
    }

    pub(crate) fn idle(&self) -> Duration {
        self.idle.get()
    }

    /// Has the running task woken by the next event of `descriptor`. The caller has attempted since
    /// the last one, as the poller's contract asks.
    #[inline]
    pub(crate) fn wake_when(
        &self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        direction: Direction,
    ) -> io::Result<()> {
        self.sight.set_wait(Wait::descriptor(direction, descriptor.as_raw_fd()));
        self.sources.borrow_mut().wait(token, direction, self.running_task());
        self.poller.borrow_mut().arm(descriptor, token, direction)
    }

    /// Ends the watch of a descriptor, which the caller closes next.
    pub(crate) fn forget(&self, descriptor: BorrowedFd<'_>, token: Token) {
        self.poller.borrow_mut().forget(descriptor, token);
        self.sources.borrow_mut().remove(token);
    }

    /// The same for a descriptor that has, or may have, duplicates.
    pub(crate) fn forget_duplicate(&self, descriptor: BorrowedFd<'_>, token: Token) {
        self.poller.borrow_mut().forget_duplicate(descriptor, token);
        self.sources.borrow_mut().remove(token);
    }

    /// Leaves the running task until it is woken, `deadline` passes or the ambient deadline does.
    #[inline]
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Waited {
        let task = self.running_task();
        let deadline = world::earlier(deadline, world::ambient_deadline());
        if let Some(deadline) = deadline {
            self.timers.borrow_mut().set(task.slot, deadline);
        }
        // A timer that is still set when the task is woken otherwise is left alone: the next deadline
        // replaces it, and should there be none, it wakes the task in vain once.
        match self.waiting {
            Waiting::Park { .. } => park::wait(self),
            Waiting::Suspend => suspend::wait(),
        }
    }

    /// Makes room for a task.
    pub(crate) fn reserve(&self) -> io::Result<Place> {
        let stack = match self.waiting {
            Waiting::Park { .. } => Some(self.stacks.borrow_mut().take()?),
            Waiting::Suspend => None,
        };
        Ok(Place { stack })
    }

    fn running_task(&self) -> TaskId {
        self.running.get().expect("operations run within a task")
    }

    // Tasks.

    /// Starts a task that need not be `Send`: the loop's own root.
    pub(crate) fn spawn_local(
        &self,
        future: Pin<Box<dyn Future<Output = ()>>>,
    ) -> io::Result<TaskId> {
        Ok(match self.reserve()?.stack {
            None => self.insert(Body::Future(future)),
            Some(stack) => self.insert_fiber(stack, future),
        })
    }

    fn insert(&self, body: Body) -> TaskId {
        visibility::count(|counters| counters.tasks_created.add(1));
        self.tasks.borrow_mut().insert(body, self.sight.clock())
    }

    pub(crate) fn set_stage(&self, stage: Label) {
        if let Some(task) = self.running.get() {
            self.tasks.borrow_mut().set_stage(task, stage);
        }
    }

    fn insert_fiber(&self, stack: Stack, future: Pin<Box<dyn Future<Output = ()>>>) -> TaskId {
        let task = self.tasks.borrow().next_id();
        let waker = TaskName { lane: self.lane(), task }.waker();
        if let Waiting::Park { stack_size } = self.waiting {
            visibility::count(|counters| {
                counters.task_stack_allocated_bytes.add(stack_size as u64);
            });
        }
        self.insert(Body::Fiber(park::fiber(stack, waker, future)))
    }

    /// Runs a task until it waits or ends.
    #[inline]
    fn run_task(&self, id: TaskId, mut body: Body, stage: Label) {
        seats::with(|seat| seat.begin_turn(id.serial, stage));
        self.running.set(Some(id));
        self.budget.set(BUDGET);
        let done = catch_unwind(AssertUnwindSafe(|| match &mut body {
            Body::Fiber(fiber) => fiber.resume(),
            Body::Future(future) => {
                let waker = TaskName { lane: self.lane(), task: id }.waker();
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                matches!(polled, Poll::Ready(()))
            }
        }));
        match done {
            Ok(false) => {
                self.running.set(None);
                let (wait, now) = (self.sight.take_wait(), self.sight.clock());
                self.tasks.borrow_mut().put_back(id, body, wait, now);
            }
            Ok(true) => self.end(id, body),
            // The panic hook has said what and where; the task's connection closes, the rest go on.
            Err(_) => {
                world::set_ambient_deadline(None);
                self.end(id, body);
            }
        }
    }

    fn end(&self, id: TaskId, body: Body) {
        visibility::count(|counters| counters.tasks_ended.add(1));
        self.sight.take_wait();
        self.timers.borrow_mut().clear(id.slot);
        match body {
            // What a destructor panics with ends here as well.
            Body::Future(future) => drop(catch_unwind(AssertUnwindSafe(|| drop(future)))),
            Body::Fiber(fiber) => self.stacks.borrow_mut().put(fiber.into_stack()),
        }
        self.running.set(None);
        self.tasks.borrow_mut().remove(id);
    }

    /// Drops every task, within the loop, so that their descriptors are forgotten as they close.
    pub(crate) fn drop_tasks(&self) {
        loop {
            let taken = self.tasks.borrow_mut().take_any();
            let Some((id, body)) = taken else { break };
            visibility::count(|counters| counters.tasks_ended.add(1));
            self.timers.borrow_mut().clear(id.slot);
            // What a destructor panics with has been reported, and there is nobody left to tell.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(body)));
        }
    }

    // The round.

    pub(crate) fn run_until_done(&self, root: TaskId) {
        let mut events = Vec::with_capacity(256);
        let mut fired = Vec::new();
        self.now.set(Instant::now());
        loop {
            self.run_ready();
            if !self.tasks.borrow().contains(root) {
                return;
            }
            self.await_events(&mut events);
            self.dispatch(&events);
            self.timers.borrow_mut().expire(self.now(), &mut fired);
            for slot in fired.drain(..) {
                self.tasks.borrow_mut().wake_slot(slot);
            }
            if self.sight.is_asked() {
                report::answer(self);
            }
            if drain::requested() && !self.draining.replace(true) {
                self.wake_readers();
            }
        }
    }

    /// Runs the tasks that are ready now; those that they make ready wait for the next round, so that
    /// descriptors and timers have their turn.
    #[inline]
    fn run_ready(&self) {
        let ready = self.tasks.borrow().ready();
        for _ in 0..ready {
            let next = self.tasks.borrow_mut().next();
            let Some((id, body, stage)) = next else { break };
            self.run_task(id, body, stage);
        }
        seats::with(seats::Seat::end_turns);
    }

    fn await_events(&self, events: &mut Vec<Event>) {
        let idle_from = (self.tasks.borrow().ready() == 0).then(Instant::now);
        let timeout = match idle_from {
            None => Some(Duration::ZERO),
            Some(from) => {
                let expiry = self.timers.borrow_mut().next_expiry();
                expiry.map(|expiry| expiry.saturating_duration_since(from))
            }
        };
        let waited = self.poller.borrow_mut().wait(timeout, events);
        waited.expect("a poller fails only when it is used wrongly");
        let now = Instant::now();
        self.now.set(now);
        if let Some(from) = idle_from {
            self.idle.set(self.idle.get() + (now - from));
        }
        self.sight.tick(now);
        visibility::count(|counters| {
            counters.poller_rounds.add(1);
            counters.poller_events.add(events.len() as u64);
            counters.idle_ns.add(idle_from.map_or(0, |from| (now - from).as_nanos() as u64));
        });
    }

    #[inline]
    fn dispatch(&self, events: &[Event]) {
        for event in events {
            if event.token == self.bell {
                self.answer_bell();
                continue;
            }
            let woken = self.sources.borrow_mut().event(event);
            let mut tasks = self.tasks.borrow_mut();
            woken.into_iter().flatten().for_each(|task| tasks.wake(task));
        }
    }

    fn answer_bell(&self) {
        for message in self.lane.take() {
            match message {
                Message::Wake(name) => self.wake(name.task),
                Message::Close(token, descriptor) => {
                    self.forget_duplicate(descriptor.as_fd(), token);
                }
            }
        }
        let armed = self.poller.borrow_mut().arm(self.lane.bell(), self.bell, Direction::Read);
        armed.expect("the bell stays registered for the life of the loop");
    }

    fn wake_readers(&self) {
        let readers = self.sources.borrow_mut().take_readers();
        readers.into_iter().for_each(|task| self.wake(task));
    }
}
