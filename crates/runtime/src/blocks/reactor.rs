//! A reactor: one kernel thread that learns which descriptors are ready, for tasks that run on any
//! other.
//!
//! ```text
//!   kernel threads that run blocks                              the reactor's kernel thread
//!   attempt ──"would block"──▶ Source: is it ready by now? ──no──▶ leaves its waker
//!                                   ▲                                │ wakes: dispatches the task
//!                                   └── readiness ◀── epoll_wait(2) ─┘
//!   deadline ──────────────────▶ timers ◀── expire ─────┘
//! ```
//!
//! A descriptor is registered once, edge-triggered and for both directions, when an attempt on it
//! has first met "would block". No call of epoll_ctl(2) follows until the descriptor closes. An
//! edge may come between an attempt and the wait, on another kernel thread. So the source keeps the
//! edge, and a task checks the source before it waits.
//!
//! Source: epoll(7). Since libevent, every library that shares one epoll among threads has this
//! shape.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use duality_poller::{Direction, Timers};
use rustix::event::epoll::{self, EventFlags};
use slab::Slab;

use super::TaskState;
use super::readiness::Readiness;
use super::watch::{WAKEUP, Watch};
use crate::drain;
use crate::gather::{Deadlines, Key, TICK};
use crate::locks::{Mutex, MutexGuard};
use crate::remote::wakeup::{Wakeup, WakeupSender};
use crate::threads;
use crate::visibility::survey::{self, LoopReport};
use crate::visibility::{self, thread_slots};
use crate::wait::earlier;

/// Wakes tasks on any kernel thread when descriptors are ready and when timers expire.
#[derive(Clone)]
pub struct Reactor {
    inner: Arc<Inner>,
}

struct Inner {
    watch: Watch,
    wakeup: Wakeup,
    interrupt: WakeupSender,
    sources: Mutex<Slab<Arc<Source>>>,
    /// The wakers of waits for the drain. Their deadline is `began`, so they keep their order.
    drains: Mutex<Deadlines>,
    began: Instant,
    tasks: Mutex<TaskTable>,
    is_draining: AtomicBool,
    /// Set before `is_draining` is.
    drain_began: OnceLock<Instant>,
    is_stopped: AtomicBool,
}

/// The tasks of this reactor, each with at most one deadline for single waits.
struct TaskTable {
    /// The deadlines of gathered waits.
    gathered: Deadlines,
    /// The timers of the tasks, by their slots.
    timers: Timers,
    slots: Slab<Slot>,
    /// The time until which the reactor sleeps, if it sleeps. An inner `None` means for ever.
    sleeps_until: Option<Option<Instant>>,
}

struct Slot {
    task: Arc<TaskState>,
    /// The waker of the task, if its timer is set.
    waker: Option<Waker>,
}

/// Events taken at a time.
const EVENTS: usize = 256;

impl fmt::Debug for Reactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reactor").finish_non_exhaustive()
    }
}

impl Reactor {
    /// A reactor, which a kernel thread must [`run`](Reactor::run).
    ///
    /// # Errors
    ///
    /// If no descriptor is left for the reactor.
    pub fn new() -> io::Result<Self> {
        let wakeup = Wakeup::new()?;
        let watch = Watch::new(wakeup.as_fd())?;
        let began = threads::now();
        let tasks = TaskTable {
            gathered: Deadlines::default(),
            timers: Timers::new(began),
            slots: Slab::new(),
            sleeps_until: None,
        };
        let inner = Inner {
            watch,
            interrupt: wakeup.sender(),
            wakeup,
            sources: Mutex::default(),
            drains: Mutex::default(),
            began,
            tasks: Mutex::new(tasks),
            is_draining: AtomicBool::new(false),
            drain_began: OnceLock::new(),
            is_stopped: AtomicBool::new(false),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Wakes tasks, on this kernel thread, until [`stop`](Reactor::stop).
    pub fn run(&self) {
        let _slot = thread_slots::occupy();
        let _shown = thread_slots::run_loop();
        let mut answered = survey::asked();
        let mut events = Vec::with_capacity(EVENTS);
        let mut fired = Vec::new();
        let mut woken = Vec::new();
        // A drain that was requested before the wakeup existed has not interrupted the reactor.
        let mut drains = drain::requested_before_wakeup();
        let _last = LetGo(self);
        while !self.inner.is_stopped.load(Ordering::Acquire) {
            if drains && !self.draining() {
                let _ = self.inner.drain_began.set(threads::now());
                self.inner.is_draining.store(true, Ordering::SeqCst);
                self.end_input();
            }
            self.await_events(&mut events);
            for event in events.drain(..) {
                match event.data.u64() {
                    WAKEUP => self.inner.wakeup.clear(),
                    source => self.note(source as usize, event.flags, &mut woken),
                }
            }
            self.expire(&mut fired, &mut woken);
            woken.drain(..).for_each(Waker::wake);
            drains = drain::requested();
            if answered != survey::asked() {
                answered = survey::asked();
                thread_slots::with(|slot| survey::answer(answered, self.report(slot.thread())));
            }
        }
    }

    /// Ends [`run`](Reactor::run), from any kernel thread.
    pub fn stop(&self) {
        self.inner.is_stopped.store(true, Ordering::Release);
        self.inner.interrupt.send();
    }

    /// Whether a task that waits for a client's input sees the end of the input.
    pub(crate) fn draining(&self) -> bool {
        self.inner.is_draining.load(Ordering::SeqCst)
    }

    /// The time until which a drain waits for the first bytes of a new connection. `None` without a
    /// drain.
    pub(crate) fn first_bytes_until(&self) -> Option<Instant> {
        self.inner.drain_began.get().map(|began| *began + drain::FIRST_BYTES)
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Registers a descriptor.
    ///
    /// # Errors
    ///
    /// The errors of epoll_ctl(2).
    pub(crate) fn register(&self, descriptor: BorrowedFd<'_>) -> io::Result<Arc<Source>> {
        visibility::count(|counters| counters.registrations.add(1));
        let source = {
            let mut sources = lock(&self.inner.sources);
            let entry = sources.vacant_entry();
            let number = entry.key();
            let readiness = Readiness::default();
            entry.insert(Arc::new(Source { reactor: self.clone(), number, readiness })).clone()
        };
        if let Err(error) = self.inner.watch.add(descriptor, source.number) {
            lock(&self.inner.sources).remove(source.number);
            return Err(error);
        }
        Ok(source)
    }

    /// Adds a task that may wait here, and returns its slot.
    pub(super) fn add_task(&self, task: Arc<TaskState>) -> u32 {
        lock(&self.inner.tasks).slots.insert(Slot { task, waker: None }) as u32
    }

    pub(super) fn remove_task(&self, slot: u32) {
        let mut tasks = lock(&self.inner.tasks);
        tasks.timers.clear(slot);
        let removed = tasks.slots.remove(slot as usize);
        // The drop of a task's last waker frees the task.
        drop(tasks);
        drop(removed);
    }

    /// Has the task in a slot woken by `waker` at `deadline`, which replaces the task's earlier
    /// deadline.
    pub(super) fn set_timer(&self, slot: u32, deadline: Instant, waker: &Waker) {
        let mut tasks = lock(&self.inner.tasks);
        let TaskTable { timers, slots, .. } = &mut *tasks;
        let kept = &mut slots[slot as usize].waker;
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
        timers.set(slot, deadline);
        self.look_at(deadline, tasks);
    }

    /// Interrupts the reactor, if it sleeps beyond `deadline`.
    fn look_at(&self, deadline: Instant, mut tasks: MutexGuard<'_, TaskTable>) {
        let until = &mut tasks.sleeps_until;
        if until.is_some_and(|until| until.is_none_or(|until| deadline < until)) {
            // One interruption is enough.
            *until = None;
            drop(tasks);
            self.inner.interrupt.send();
        }
    }

    /// Whether the timer of a slot fires at `deadline` or before.
    pub(super) fn is_due_by(&self, slot: u32, deadline: Instant) -> bool {
        let due = lock(&self.inner.tasks).timers.deadline(slot);
        due.is_some_and(|due| due <= deadline + TICK)
    }

    /// Has `waker` used at a deadline of gathered waits.
    pub(crate) fn note_time(&self, key: Key, deadline: Instant, waker: &Waker) {
        let mut tasks = lock(&self.inner.tasks);
        let replaced = tasks.gathered.set(key, deadline, Some(waker.clone()));
        self.look_at(deadline, tasks);
        // This is not under the lock, because the drop of a task's last waker frees the task.
        drop(replaced);
    }

    /// Moves a deadline, and keeps its waker. Returns whether there was one.
    pub(crate) fn move_time(&self, key: Key, deadline: Instant) -> bool {
        let mut tasks = lock(&self.inner.tasks);
        let is_noted = tasks.gathered.move_to(key, deadline);
        self.look_at(deadline, tasks);
        is_noted
    }

    pub(crate) fn forget_time(&self, key: Key) {
        let forgotten = lock(&self.inner.tasks).gathered.forget(key);
        drop(forgotten);
    }

    /// Has `waker` used when the reactor drains. Returns false if the reactor drains already.
    pub(crate) fn note_drain(&self, key: Key, waker: &Waker) -> bool {
        let replaced = lock(&self.inner.drains).set(key, self.inner.began, Some(waker.clone()));
        drop(replaced);
        // A drain that this check does not see finds the waker.
        !self.draining()
    }

    pub(crate) fn forget_drain(&self, key: Key) {
        let forgotten = lock(&self.inner.drains).forget(key);
        drop(forgotten);
    }

    /// The waits of the tasks, the longest wait first.
    fn report(&self, thread: u32) -> LoopReport {
        let now = thread_slots::coarse_milliseconds();
        let tasks = lock(&self.inner.tasks);
        let mut all: Vec<_> = tasks.slots.iter().collect();
        all.sort_by_key(|(_, slot)| slot.task.since());
        let due = |slot: usize| {
            let due = tasks.timers.deadline(slot as u32)?;
            Some(due.saturating_duration_since(threads::now()))
        };
        let longest = all.iter().take(survey::most());
        let longest = longest.map(|&(slot, Slot { task, .. })| task.report(now, due(slot)));
        let ready = all.iter().filter(|(_, slot)| slot.task.is_queued()).count();
        LoopReport { thread, tasks: all.len(), ready, longest: longest.collect() }
    }

    /// Sleeps until there are events or a timer is due.
    fn await_events(&self, events: &mut Vec<epoll::Event>) {
        let until = {
            let mut tasks = lock(&self.inner.tasks);
            let until = earlier(tasks.timers.next_expiry(), tasks.gathered.next());
            tasks.sleeps_until = Some(until);
            until
        };
        self.inner.watch.wait(self.inner.wakeup.as_fd(), until, events);
        lock(&self.inner.tasks).sleeps_until = None;
        let count = events.len() as u64;
        visibility::count(|counters| {
            counters.poller_rounds.add(1);
            counters.poller_events.add(count);
        });
    }

    /// Notes an event, and adds the tasks that waited for it to `woken`.
    fn note(&self, source: usize, flags: EventFlags, woken: &mut Vec<Waker>) {
        // The source may have been deregistered in the same round. Then another source may have its
        // number, and looks in vain.
        let Some(source) = lock(&self.inner.sources).get(source).cloned() else { return };
        let has_failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        let hangup = has_failed || flags.contains(EventFlags::RDHUP);
        let readable = hangup || flags.contains(EventFlags::IN);
        let writable = has_failed || flags.contains(EventFlags::OUT);
        woken.extend(source.readiness.note([readable, writable], hangup).into_iter().flatten());
    }

    fn expire(&self, fired: &mut Vec<u32>, woken: &mut Vec<Waker>) {
        let mut tasks = lock(&self.inner.tasks);
        tasks.timers.expire(threads::now(), fired);
        let slots = &mut tasks.slots;
        woken.extend(fired.drain(..).filter_map(|slot| slots.get_mut(slot as usize)?.waker.take()));
        tasks.gathered.expire(threads::now(), woken);
    }

    /// The process drains, so each task that waits to read looks again.
    fn end_input(&self) {
        let sources: Vec<_> =
            lock(&self.inner.sources).iter().map(|(_, source)| source.clone()).collect();
        for source in sources {
            let woken = source.readiness.note([true, false], false);
            woken.into_iter().flatten().for_each(Waker::wake);
        }
        let mut woken = Vec::new();
        lock(&self.inner.drains).expire(self.inner.began, &mut woken);
        woken.into_iter().for_each(Waker::wake);
    }
}

/// Lets go of all tasks once no event is told any more: a task that waits owns the reactor, and its
/// waker is the reactor's. Neither would ever be dropped.
struct LetGo<'r>(&'r Reactor);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        let inner = &self.0.inner;
        let mut wakers = Vec::new();
        {
            let mut tasks = lock(&inner.tasks);
            wakers.extend(tasks.slots.iter_mut().filter_map(|(_, slot)| slot.waker.take()));
            tasks.gathered.take_all(&mut wakers);
        }
        for (_, source) in &*lock(&inner.sources) {
            wakers.extend(source.readiness.note([true, true], true).into_iter().flatten());
        }
        lock(&inner.drains).take_all(&mut wakers);
        // Outside of the locks, which the end of a task takes.
        drop(wakers);
    }
}

/// A registered descriptor.
pub(crate) struct Source {
    reactor: Reactor,
    number: usize,
    readiness: Readiness<Waker>,
}

impl Source {
    pub(crate) fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    /// Whether an attempt would block for certain.
    pub(crate) fn is_exhausted(&self, direction: Direction) -> bool {
        self.readiness.is_exhausted(direction)
    }

    /// Notes that an attempt moved less than it could have.
    pub(crate) fn exhaust(&self, direction: Direction) {
        self.readiness.exhaust(direction);
    }

    /// `Ready` if another attempt is worthwhile. Otherwise the next event will wake the task.
    /// Called after an attempt that met "would block".
    pub(crate) fn poll_ready(&self, context: &Context<'_>, direction: Direction) -> Poll<()> {
        let waker = context.waker();
        let is_known = |known: &Waker| known.will_wake(waker);
        match self.readiness.is_ready(direction, is_known, || waker.clone()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Ends the registration of the source's `descriptor`, which is about to be closed. A
    /// descriptor without duplicates leaves epoll by itself.
    pub(crate) fn deregister(&self, descriptor: BorrowedFd<'_>, is_duplicated: bool) {
        if is_duplicated {
            self.reactor.inner.watch.delete(descriptor, self.number);
        }
        let removed = lock(&self.reactor.inner.sources).try_remove(self.number);
        drop(removed);
    }
}

fn lock<T: Send>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
