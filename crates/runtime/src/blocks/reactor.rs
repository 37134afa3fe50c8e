//! A reactor: one kernel thread that learns which descriptors are ready, for tasks that run on any other.
//!
//! ```text
//!   kernel threads that run blocks                              the reactor's kernel thread
//!   attempt ──"would block"──▶ Source: is it ready by now? ──no──▶ leaves its waker
//!                                   ▲                                    │ wakes: the task is dispatched
//!                                   └── readiness ◀── epoll_wait(2) ─────┘
//!   deadline ──────────────────▶ timers ◀── expire ─────┘
//! ```
//!
//! A descriptor is registered once, edge-triggered and for both directions, when an attempt on it has first met "would block"; no
//! call of epoll_ctl(2) follows until it closes. An edge may come between an attempt and the wait, on another kernel thread, so it
//! is kept in the source, and who is about to wait looks there first.
//!
//! Source: epoll(7); the shape is that of every library that shares one epoll among threads, since libevent.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use duality_poller::{Direction, Timers};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use slab::Slab;

use crate::drain;
use crate::remote::wakeup::{Wakeup, WakeupSender};
use crate::visibility;

/// Tells tasks on any kernel thread what is ready, and what time it is.
#[derive(Clone)]
pub struct Reactor {
    inner: Arc<Inner>,
}

struct Inner {
    epoll: OwnedFd,
    wakeup: Wakeup,
    interrupt: WakeupSender,
    sources: Mutex<Slab<Arc<Source>>>,
    clock: Mutex<Clock>,
    is_draining: AtomicBool,
    is_stopped: AtomicBool,
}

/// The deadlines of tasks, one for each.
struct Clock {
    timers: Timers,
    /// Whom to wake when the timer of that number fires.
    wakers: Slab<Option<Waker>>,
    /// Until when the reactor sleeps, if it sleeps; `None` within is for ever.
    sleeps_until: Option<Option<Instant>>,
}

/// The data of the wakeup's events; sources count from 0.
const WAKEUP: u64 = u64::MAX;
/// Events taken at a time.
const EVENTS: usize = 256;

impl fmt::Debug for Reactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reactor").finish_non_exhaustive()
    }
}

impl Reactor {
    /// A reactor, which some kernel thread is to [`run`](Reactor::run).
    ///
    /// # Errors
    ///
    /// When no descriptor is left for it.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wakeup = Wakeup::new()?;
        epoll::add(&epoll, &wakeup, EventData::new_u64(WAKEUP), EventFlags::IN)?;
        let clock =
            Clock { timers: Timers::new(Instant::now()), wakers: Slab::new(), sleeps_until: None };
        let inner = Inner {
            epoll,
            interrupt: wakeup.sender(),
            wakeup,
            sources: Mutex::default(),
            clock: Mutex::new(clock),
            is_draining: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Wakes tasks, on this kernel thread, until [`stop`](Reactor::stop).
    pub fn run(&self) {
        let mut events = Vec::with_capacity(EVENTS);
        let mut fired = Vec::new();
        let mut woken = Vec::new();
        // A drain that was requested before there was a wakeup has not interrupted it.
        let mut drains = drain::requested_before_wakeup();
        while !self.inner.is_stopped.load(Ordering::Acquire) {
            if drains && !self.inner.is_draining.swap(true, Ordering::SeqCst) {
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
        }
    }

    /// Ends [`run`](Reactor::run), from any kernel thread.
    pub fn stop(&self) {
        self.inner.is_stopped.store(true, Ordering::Release);
        self.inner.interrupt.send();
    }

    /// Whether what waits for a client's input sees its end.
    pub(crate) fn draining(&self) -> bool {
        self.inner.is_draining.load(Ordering::SeqCst)
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Registers a descriptor.
    ///
    /// # Errors
    ///
    /// Those of epoll_ctl(2).
    pub(crate) fn register(&self, descriptor: BorrowedFd<'_>) -> io::Result<Arc<Source>> {
        visibility::count(|counters| counters.registrations.add(1));
        let source = {
            let mut sources = lock(&self.inner.sources);
            let entry = sources.vacant_entry();
            let number = entry.key();
            let directions = Mutex::default();
            entry.insert(Arc::new(Source { reactor: self.clone(), number, directions })).clone()
        };
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let data = EventData::new_u64(source.number as u64);
        if let Err(error) = epoll::add(&self.inner.epoll, descriptor, data, flags) {
            lock(&self.inner.sources).remove(source.number);
            return Err(error.into());
        }
        Ok(source)
    }

    /// Has `waker` woken at `deadline`, in place of what the timer of that number was set to; returns the timer's number.
    pub(super) fn set_timer(&self, timer: Option<u32>, deadline: Instant, waker: &Waker) -> u32 {
        let mut clock = lock(&self.inner.clock);
        let Clock { timers, wakers, sleeps_until } = &mut *clock;
        let timer = timer.unwrap_or_else(|| wakers.insert(None) as u32);
        let kept = &mut wakers[timer as usize];
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
        timers.set(timer, deadline);
        let is_late = sleeps_until.is_some_and(|until| until.is_none_or(|until| deadline < until));
        if is_late {
            // Once is enough.
            *sleeps_until = None;
            drop(clock);
            self.inner.interrupt.send();
        }
        timer
    }

    pub(super) fn remove_timer(&self, timer: u32) {
        let mut clock = lock(&self.inner.clock);
        clock.timers.clear(timer);
        let waker = clock.wakers.remove(timer as usize);
        // The last waker of a task frees it.
        drop(clock);
        drop(waker);
    }

    /// Sleeps until there are events or a timer is due.
    fn await_events(&self, events: &mut Vec<epoll::Event>) {
        let until = {
            let mut clock = lock(&self.inner.clock);
            let until = clock.timers.next_expiry();
            clock.sleeps_until = Some(until);
            until
        };
        let limit = until.map(|until| until.saturating_duration_since(Instant::now()));
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match epoll::wait(&self.inner.epoll, rustix::buffer::spare_capacity(events), limit.as_ref())
        {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("an epoll descriptor is waited for in vain: {error}"),
        }
        lock(&self.inner.clock).sleeps_until = None;
        let count = events.len() as u64;
        visibility::count(|counters| {
            counters.poller_rounds.add(1);
            counters.poller_events.add(count);
        });
    }

    /// Notes an event, and adds those to `woken` who waited for it.
    fn note(&self, source: usize, flags: EventFlags, woken: &mut Vec<Waker>) {
        // It may have been deregistered in this very round, and its number may be another's, which then looks in vain.
        let Some(source) = lock(&self.inner.sources).get(source).cloned() else { return };
        let has_failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        let hangup = has_failed || flags.contains(EventFlags::RDHUP);
        let mut directions = lock(&source.directions);
        for (direction, is_ready) in [
            (Direction::Read, hangup || flags.contains(EventFlags::IN)),
            (Direction::Write, has_failed || flags.contains(EventFlags::OUT)),
        ] {
            let readiness = &mut directions[direction as usize];
            readiness.hangup |= hangup;
            if is_ready {
                readiness.is_exhausted = false;
                readiness.has_come = true;
                woken.extend(readiness.waiter.take());
            }
        }
    }

    fn expire(&self, fired: &mut Vec<u32>, woken: &mut Vec<Waker>) {
        let mut clock = lock(&self.inner.clock);
        clock.timers.expire(Instant::now(), fired);
        let Clock { wakers, .. } = &mut *clock;
        woken.extend(fired.drain(..).filter_map(|timer| wakers.get_mut(timer as usize)?.take()));
    }

    /// The process drains: whoever waits to read looks again.
    fn end_input(&self) {
        let sources: Vec<_> =
            lock(&self.inner.sources).iter().map(|(_, source)| source.clone()).collect();
        for source in sources {
            let reader = {
                let mut directions = lock(&source.directions);
                let readiness = &mut directions[Direction::Read as usize];
                readiness.has_come = true;
                readiness.waiter.take()
            };
            reader.into_iter().for_each(Waker::wake);
        }
    }
}

/// A registered descriptor.
pub(crate) struct Source {
    reactor: Reactor,
    number: usize,
    directions: Mutex<[Readiness; 2]>,
}

/// What is known of one direction of a descriptor.
#[derive(Default)]
pub(crate) struct Readiness {
    /// There has been an event since the last wait began.
    has_come: bool,
    /// The last attempt took all there was, so the next one would block until there is an event.
    is_exhausted: bool,
    /// No edge may follow.
    hangup: bool,
    waiter: Option<Waker>,
}

impl Source {
    pub(crate) fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    /// Whether an attempt would block for certain.
    pub(crate) fn is_exhausted(&self, direction: Direction) -> bool {
        lock(&self.directions)[direction as usize].is_exhausted
    }

    /// An attempt moved less than it could have. An event that has come since the last wait may be of what came later.
    pub(crate) fn exhaust(&self, direction: Direction) {
        let readiness = &mut lock(&self.directions)[direction as usize];
        if !std::mem::take(&mut readiness.has_come) {
            readiness.is_exhausted = !readiness.hangup;
        }
    }

    /// `Ready` when another attempt is worth it; otherwise the task will be woken by the next event. An attempt has met "would
    /// block" before.
    pub(crate) fn poll_ready(&self, context: &Context<'_>, direction: Direction) -> Poll<()> {
        let before;
        {
            let readiness = &mut lock(&self.directions)[direction as usize];
            if std::mem::take(&mut readiness.has_come) {
                return Poll::Ready(());
            }
            if readiness.waiter.as_ref().is_some_and(|waiter| waiter.will_wake(context.waker())) {
                return Poll::Pending;
            }
            before = readiness.waiter.replace(context.waker().clone());
        }
        drop(before);
        Poll::Pending
    }

    /// Ends the registration of `descriptor`, which is this source's and about to be closed. One that has no duplicates leaves
    /// epoll by itself.
    pub(crate) fn deregister(&self, descriptor: BorrowedFd<'_>, is_duplicated: bool) {
        if is_duplicated {
            let _ = epoll::delete(&self.reactor.inner.epoll, descriptor.as_fd());
        }
        let removed = lock(&self.reactor.inner.sources).try_remove(self.number);
        drop(removed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
