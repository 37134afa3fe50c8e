//! Kernel threads of a host. Each is a kernel thread, and runs only while the driver lets it.
//!
//! ```text
//!   driver                                a thread
//!   give_turn: the turn is the thread's ─▶ runs, up to its next wait
//!        ▲                                       │
//!        └──────── the turn is the driver's ◀── hand_back: what it waits for
//! ```
//!
//! So one thread of a simulation runs at a time, and what is local to a thread is apart. A thread
//! of a host that has ended is ended too: its wait panics with [`Ended`], and its destructors run.

mod queue;
mod seat;
mod sleep;

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use duality_poller::{Direction, Poller};
use duality_runtime::machine::{self, Machine};
use duality_runtime::threads::{self, Body, Lent, Threads, Watcher};

use crate::decisions::Kind;
use crate::machine::{HostMachine, lock};
use crate::outside;

use self::queue::Queue;
pub(crate) use self::seat::keep_on_one_processor;
use self::seat::{Seat, Wait};

/// The stack of a thread. Code without optimisation needs more than services.
const STACK: usize = 2 << 20;

/// What a thread panics with if its host has ended.
struct Ended;

thread_local! {
    /// The seat of this kernel thread, if it is one of a host.
    static SEAT: RefCell<Option<Arc<Seat>>> = const { RefCell::new(None) };
}

/// What the driver learns after a turn.
#[derive(Default)]
pub(crate) struct Reports {
    pub(crate) panic: Option<String>,
    pub(crate) refused: Option<String>,
}

impl Reports {
    /// Those of this kernel thread.
    pub(crate) fn take() -> Self {
        Self { panic: outside::take_panic(), refused: outside::take_refused() }
    }
}

/// A thread, as the driver has it.
pub(crate) struct Thread {
    pub(crate) number: u32,
    pub(crate) last_turn: u64,
    seat: Arc<Seat>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    pub(crate) fn has_ended(&self) -> bool {
        self.seat.lock().is_ended
    }

    /// Whether its wait is over at `now`.
    pub(crate) fn is_able(&self, now: Instant) -> bool {
        let state = self.seat.lock();
        let Some(wait) = &state.wait else { return true };
        let is_due = wait.deadline.is_some_and(|deadline| deadline <= now);
        let (is_spurious, condition) = (wait.is_spurious, wait.condition.clone());
        // The condition may lock what the simulation itself uses.
        drop(state);
        is_due || is_spurious || condition.holds()
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.seat.lock().wait.as_ref()?.deadline
    }

    /// What it waits for, in words.
    pub(crate) fn waits_for(&self) -> &'static str {
        self.seat.lock().wait.as_ref().map_or("its turn", |wait| wait.what)
    }

    /// Gives the thread the turn, and takes it back at its next wait or its end.
    ///
    /// # Errors
    ///
    /// If the thread sleeps in the kernel, or runs without a wait. It then has the turn for ever,
    /// and is left alone.
    pub(crate) fn give_turn(&mut self, ends: bool) -> Result<Reports, String> {
        let thread = self.handle.as_ref().map(JoinHandle::thread);
        let taken = outside::unobserved(|| self.seat.take_turn(thread, ends));
        let (reports, is_ended) = taken.map_err(|why| {
            let number = self.number;
            format!("thread {number} {why}: use the runtime's locks and waits")
        })?;
        if is_ended && let Some(handle) = self.handle.take() {
            // What is local to the thread is dropped before anything else happens.
            outside::unobserved(|| drop(handle.join()));
        }
        Ok(reports)
    }
}

/// What the threads of a host ask, and what the driver knows of them.
pub(crate) struct HostThreads {
    machine: HostMachine,
    /// The machine's time at which the simulation began.
    base: Instant,
    /// The kernel thread of the driver.
    driver: thread::Thread,
    /// Itself, for the threads that it starts.
    own: std::sync::Weak<Self>,
    /// The threads that have been started since the last turn.
    started: Mutex<Vec<Thread>>,
    next: AtomicU64,
    /// How often the host was asked to drain: loops look.
    pub(crate) drains: AtomicU64,
}

impl fmt::Debug for HostThreads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HostThreads")
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}

impl HostThreads {
    /// The threads of a host. The caller is the driver.
    pub(crate) fn new(machine: HostMachine, base: Instant) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            machine,
            base,
            driver: thread::current(),
            own: own.clone(),
            started: Mutex::default(),
            next: AtomicU64::new(0),
            drains: AtomicU64::new(0),
        })
    }

    pub(crate) fn machine(&self) -> &HostMachine {
        &self.machine
    }

    /// The threads that have been started since the last call.
    pub(crate) fn take_started(&self) -> Vec<Thread> {
        std::mem::take(&mut *self.started.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the clocks of this kernel thread, which are those of the host until its next wait.
    fn set_time(&self) {
        let net = lock(&self.machine.network);
        let clock = net.hosts[self.machine.host].clock;
        outside::set_time(clock.at(net.now), clock.time_of_day(net.now));
    }

    /// Gives the turn back to the driver, and waits for the next one. True if the host has ended.
    fn hand_back(&self, wait: Option<Wait>) -> bool {
        let seat = SEAT.with_borrow(Clone::clone).expect("a thread of a host has a seat");
        let reports = Reports::take();
        seat.hand_back(|state| (state.wait, state.reports) = (wait, reports));
        let ends = seat.await_turn();
        self.set_time();
        ends
    }

    /// A wait for a condition, which may end for no reason. True if the host has ended.
    fn wait_for(
        &self,
        what: &'static str,
        condition: &Arc<Lent>,
        deadline: Option<Instant>,
    ) -> bool {
        let is_spurious = {
            let mut net = lock(&self.machine.network);
            let chance = net.profile.spurious;
            let is_spurious = net.happens(Kind::Spurious, chance);
            net.counts.spurious += u64::from(is_spurious);
            is_spurious
        };
        let condition = condition.clone();
        self.hand_back(Some(Wait { what, condition, deadline, is_spurious }))
    }

    /// What a new thread does, from its first turn to its end.
    fn run(self: &Arc<Self>, seat: &Arc<Seat>, inherited: outside::Inherited, body: Body) {
        seat.lock().thread = Some(rustix::thread::gettid().as_raw_pid() as u32);
        let ends = seat.await_turn();
        outside::adopt(inherited);
        outside::name_hosts(&self.machine.network);
        self.set_time();
        SEAT.set(Some(seat.clone()));
        let machine: Arc<dyn Machine> = Arc::new(self.machine.clone());
        let threads: Arc<dyn Threads> = self.clone();
        let run = || if ends { drop(body) } else { body() };
        // What panics is reported by the hook, and the end of the host is no panic.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            machine::enter(&machine, || threads::enter(&threads, run));
        }));
        SEAT.take();
        let reports = Reports::take();
        outside::end();
        seat.hand_back(|state| (state.is_ended, state.reports) = (true, reports));
    }
}

impl Threads for HostThreads {
    fn now(&self) -> Instant {
        let net = lock(&self.machine.network);
        self.base + Duration::from_nanos(net.hosts[self.machine.host].clock.at(net.now))
    }

    fn processors(&self) -> usize {
        lock(&self.machine.network).threading().processors
    }

    fn start(&self, body: Body) -> io::Result<()> {
        let own = self.own.upgrade().expect("a thread of the host asks");
        let seat = Seat::new(self.driver.clone());
        let inherited = outside::inherit().ok_or(io::ErrorKind::Unsupported)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed) as u32;
        let running = seat.clone();
        let handle = outside::unobserved(|| {
            let builder = thread::Builder::new().name("host".into()).stack_size(STACK);
            builder.spawn(move || own.run(&running, inherited, body))
        })?;
        let thread = Thread { number, last_turn: 0, seat, handle: Some(handle) };
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        self.give_way();
        Ok(())
    }

    fn wait(&self, what: &'static str, condition: &Arc<Lent>, deadline: Option<Instant>) {
        if self.wait_for(what, condition, deadline) && !thread::panicking() {
            resume_unwind(Box::new(Ended));
        }
    }

    fn wait_for_lock(&self, condition: &Arc<Lent>) {
        self.wait_for("a lock", condition, None);
    }

    fn give_way(&self) {
        let gives_way = {
            let mut net = lock(&self.machine.network);
            let chance = net.threading().preempts;
            let gives_way = net.happens(Kind::Preempt, chance);
            net.counts.preemptions += u64::from(gives_way);
            gives_way
        };
        // A destructor of a thread that ends may be within a lock of `std`.
        if gives_way && !thread::panicking() && SEAT.with_borrow(Option::is_some) {
            self.hand_back(None);
        }
    }

    fn pick(&self, count: usize) -> usize {
        lock(&self.machine.network).draw(Kind::Woken, count as u64) as usize
    }

    fn is_ready(&self, descriptor: RawFd, direction: Direction) -> bool {
        let socket = lock(&self.machine.network).socket_of(descriptor);
        match socket {
            Some(socket) => lock(&self.machine.network).is_ready(socket, direction),
            None => threads::kernel_says_ready(descriptor, direction),
        }
    }

    fn poller(&self) -> Box<dyn Poller> {
        Box::new(Queue::new(self.own.upgrade().expect("a thread of the host asks")))
    }

    fn watcher(&self) -> Box<dyn Watcher> {
        Box::new(Queue::new(self.own.upgrade().expect("a thread of the host asks")))
    }
}
