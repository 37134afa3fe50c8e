//! Kernel threads of a simulated host: what they ask, where other kernel threads ask the kernel.
//!
//! ```text
//!   a wait in place, a lock, a poller, a new thread ─ here? ─ no ──▶ the kernel
//!                                                       └─ yes ─▶ Threads: another thread's turn
//! ```
//!
//! Such a thread is a kernel thread, so everything that is local to a thread is apart. But it runs
//! only while the driver of its simulation lets it. Each wait gives the turn back to the driver,
//! with a condition that the driver asks before it gives the thread its next turn. So one thread
//! of a simulation runs at a time. The crate `duality-simulate` implements [`Threads`].
//!
//! In a process without simulations, the question whether a thread is simulated costs one load.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::num::NonZero;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use duality_poller::{Direction, Event, Poller, Token};

/// The function that a kernel thread runs.
pub type Body = Box<dyn FnOnce() + Send>;

/// What the kernel threads of a simulated host ask.
///
/// A wait ends by a panic if the host has crashed or ended, so that its threads end too. A thread
/// that is already unwinding does not wait.
pub trait Threads: fmt::Debug + Send + Sync {
    /// The time by the host's clock.
    fn now(&self) -> Instant;

    /// The number of processors of the host.
    fn processors(&self) -> usize;

    /// Starts a kernel thread of the host.
    ///
    /// # Errors
    ///
    /// `EAGAIN`, as pthread_create(3) refuses a thread.
    fn start(&self, body: Body) -> io::Result<()>;

    /// Waits until `condition` holds or `deadline` passes. May return early. `what` is what the
    /// thread waits for, in words.
    fn wait(&self, what: &'static str, condition: &Arc<Lent>, deadline: Option<Instant>);

    /// Waits until a lock may be free. Never ends the thread: it may be in a destructor, which must
    /// not panic. The lock's holder ends, and leaves the lock.
    fn wait_for_lock(&self, condition: &Arc<Lent>);

    /// A place at which the kernel may give the processor to another thread. Never ends the thread.
    fn give_way(&self);

    /// Which of `count` threads that wait is woken. 0 is the one that has waited longest.
    fn pick(&self, count: usize) -> usize;

    /// Whether an attempt on the descriptor would not block.
    fn is_ready(&self, descriptor: RawFd, direction: Direction) -> bool;

    /// A poller for a loop of the host.
    fn poller(&self) -> Box<dyn Poller>;

    /// An edge-triggered queue of events, as an epoll(7) descriptor is one.
    fn watcher(&self) -> Box<dyn Watcher>;
}

/// An edge-triggered queue of events. Any thread watches descriptors, and one thread waits.
pub trait Watcher: fmt::Debug + Send + Sync {
    /// Watches both directions of a descriptor, until it is closed or forgotten.
    fn watch(&self, descriptor: BorrowedFd<'_>, token: Token);

    /// Ends the watch.
    fn forget(&self, descriptor: BorrowedFd<'_>, token: Token);

    /// Waits for events, until the `interrupt` is readable, or until `deadline`. May return early.
    fn wait(&self, interrupt: BorrowedFd<'_>, deadline: Option<Instant>, events: &mut Vec<Event>);
}

/// Whether this process has ever had a simulated thread.
static SIMULATES: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Points to what [`enter`] borrows, or is null.
    static HERE: Cell<*const Arc<dyn Threads>> = const { Cell::new(ptr::null()) };
    /// Whether [`quietly`] is on the stack.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body` on this kernel thread as a thread of a simulated host.
pub fn enter<R>(threads: &Arc<dyn Threads>, body: impl FnOnce() -> R) -> R {
    struct Restore(*const Arc<dyn Threads>);
    impl Drop for Restore {
        fn drop(&mut self) {
            HERE.set(self.0);
        }
    }
    SIMULATES.store(true, Ordering::Relaxed);
    let _restore = Restore(HERE.replace(ptr::from_ref(threads)));
    body()
}

/// Whether this process has ever had a simulated thread.
#[inline]
pub(crate) fn simulates() -> bool {
    SIMULATES.load(Ordering::Relaxed)
}

/// What this kernel thread asks, if it is one of a simulated host.
#[inline]
#[must_use]
pub fn here() -> Option<Arc<dyn Threads>> {
    if simulates() { here_in_simulation() } else { None }
}

#[cold]
#[inline(never)]
fn here_in_simulation() -> Option<Arc<dyn Threads>> {
    // SAFETY: non-null only while `enter`, which borrows the value, is on the stack below.
    unsafe { HERE.get().as_ref() }.cloned()
}

/// Calls `body`, within which locks and notifications give no way. A waker may be used under a
/// lock that the simulation does not see.
#[inline]
pub(crate) fn quietly<R>(body: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_QUIET.set(self.0);
        }
    }
    let _restore = simulates().then(|| Restore(IS_QUIET.replace(true)));
    body()
}

/// A place at which the kernel may give the processor to another thread.
pub(crate) fn give_way(threads: &dyn Threads) {
    if !IS_QUIET.get() {
        threads.give_way();
    }
}

/// Lets another kernel thread have the processor.
#[inline]
pub(crate) fn yield_now() {
    if simulates() { yield_in_simulation() } else { std::thread::yield_now() }
}

#[cold]
#[inline(never)]
fn yield_in_simulation() {
    match here_in_simulation() {
        Some(threads) => threads.give_way(),
        None => std::thread::yield_now(),
    }
}

/// The time by the clock of this kernel thread.
#[inline]
#[must_use]
pub fn now() -> Instant {
    if simulates() { now_in_simulation() } else { Instant::now() }
}

#[cold]
#[inline(never)]
fn now_in_simulation() -> Instant {
    here_in_simulation().map_or_else(Instant::now, |threads| threads.now())
}

/// The number of processors on which threads of this process, or of this simulated host, run.
#[must_use]
pub fn processors() -> usize {
    match here() {
        Some(threads) => threads.processors(),
        None => std::thread::available_parallelism().map_or(1, NonZero::get),
    }
}

/// Has a simulated thread wait until `condition` holds or `deadline` passes. May return early.
pub fn wait(
    threads: &dyn Threads,
    what: &'static str,
    condition: &(dyn Fn() -> bool + Sync),
    deadline: Option<Instant>,
) {
    lend(condition, |lent| threads.wait(what, lent, deadline));
}

/// Has a simulated thread wait until a lock is free, as `condition` says. May return early.
pub(crate) fn wait_for_lock(threads: &dyn Threads, condition: &(dyn Fn() -> bool + Sync)) {
    lend(condition, |lent| threads.wait_for_lock(lent));
}

/// Lends a condition for as long as `wait` takes.
fn lend(condition: &(dyn Fn() -> bool + Sync), wait: impl FnOnce(&Arc<Lent>)) {
    let lent = Lent::new(condition);
    /// Takes the condition back, even after a panic.
    struct TakeBack<'l>(&'l Lent);
    impl Drop for TakeBack<'_> {
        fn drop(&mut self) {
            self.0.take_back();
        }
    }
    let _lent = TakeBack(&lent);
    wait(&lent);
}

/// A condition that the thread which waits for it lends to the driver.
pub struct Lent(Mutex<Option<&'static (dyn Fn() -> bool + Sync)>>);

impl fmt::Debug for Lent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lent").finish_non_exhaustive()
    }
}

impl Lent {
    fn new(condition: &(dyn Fn() -> bool + Sync)) -> Arc<Self> {
        // SAFETY: only `holds` uses the reference, under the lock. `lend` removes it under the
        // same lock before the borrow ends, even after a panic.
        let lent = unsafe {
            std::mem::transmute::<&(dyn Fn() -> bool + Sync), &'static (dyn Fn() -> bool + Sync)>(
                condition,
            )
        };
        Arc::new(Self(Mutex::new(Some(lent))))
    }

    /// Whether the condition holds. False if it is lent no more.
    #[must_use]
    pub fn holds(&self) -> bool {
        let lent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lent.is_some_and(|condition| condition())
    }

    fn take_back(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Waits until one of the descriptors is ready, or until `deadline`. Notes which ones are.
pub(crate) fn poll(
    threads: &dyn Threads,
    descriptors: &mut [(RawFd, Direction, bool)],
    deadline: Option<Instant>,
) {
    let are_ready = || {
        let mut all = descriptors.iter();
        all.any(|&(descriptor, direction, _)| threads.is_ready(descriptor, direction))
    };
    wait(threads, "a descriptor", &are_ready, deadline);
    for (descriptor, direction, is_ready) in descriptors {
        *is_ready = threads.is_ready(*descriptor, *direction);
    }
}

/// Whether the kernel says that a descriptor is ready, without a wait. For descriptors such as
/// eventfd(2) that are no sockets of a simulation.
#[must_use]
pub fn kernel_says_ready(descriptor: RawFd, direction: Direction) -> bool {
    let events = match direction {
        Direction::Read => libc::POLLIN,
        Direction::Write => libc::POLLOUT,
    };
    let mut polled = libc::pollfd { fd: descriptor, events, revents: 0 };
    // SAFETY: the array of one entry outlives the call. The kernel only looks the number up.
    unsafe { libc::poll(&raw mut polled, 1, 0) > 0 }
}
