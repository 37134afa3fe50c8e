//! Draining: how a server stops without cutting off a client.
//!
//! From its request on, a drain ends the input of every *accepted* connection that waits for input,
//! as if the client had closed. So a service finishes what it is doing, writes its reply, and
//! returns. Data that came before are read first. A connection that has sent nothing yet has a
//! second to send its first bytes ([`FIRST_BYTES`]). Listeners accept what is in their queues, and
//! no more. No service needs a line of code for a drain, and a drain is the same in every world:
//!
//! - A loop looks at the flag in each round, and its reads return 0 where they would have waited.
//!
//! - In the block world, the descriptors that kernel threads may be blocked on are listed here.
//!   `shutdown(2)` for reading lets these threads go.
//!
//! `shutdown(2)` resets the connections in the queue of a listener. So a drain makes the listener
//! non-blocking, and shuts it down once its queue is empty. The drain shuts down an
//! empty queue at once. Otherwise the thread that finds the queue empty shuts the listener
//! down. The connections have woken every thread that was blocked while the queue filled.
//!
//! A listener may be shared with other processes: a child accepts from the socket of its parent.
//! `shutdown(2)` would end that socket for all of them. So a child that drains puts another file in
//! the place of its own descriptor (dup3(2)). The accept(2) that the signal interrupts begins again
//! on the new file, and fails. A child has one kernel thread, and the signal interrupts that one.
//!
//! A listener inherited from another program is shared too, and other processes go on accepting
//! from it. A drain ends the listener in the same way, and leaves the connections in its queue to
//! the other processes. Several kernel threads may be blocked on it, so each gets a signal
//! ([`LOOK_AGAIN`]) to begin again.
//!
//! [`request`] is async-signal-safe, so a SIGTERM handler can call it and do nothing else. A call
//! drains the whole process.
//!
//! Tasks that wait for other events than input, or that use another notice of a drain, wait for the
//! drain itself ([`drained`](crate::drained)).
//!
//! A program may run several servers. A [`Scope`] is the kernel threads of one of them, and drains
//! them alone. A kernel thread knows its scope, and each listed descriptor is marked with the scope
//! of the thread that listed it.

mod simulation;
mod told;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use self::shim::Mutex;
use self::shim::atomic::{AtomicBool, Ordering, fence};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socket_with, sockopt,
};
use rustix::process::{Pid, getpid};
use rustix::thread::gettid;

pub(crate) use self::simulation::simulate_by;
use self::simulation::simulated;
pub(crate) use self::told::events;
use crate::remote;

#[cfg(all(test, loom))]
use self::loom_tests::shim;
#[cfg(not(all(test, loom)))]
use std::sync as shim;

#[cfg(not(all(test, loom)))]
static PROCESS: Drain =
    Drain { requested: AtomicBool::new(false), blocking: Mutex::new(Vec::new()) };
#[cfg(all(test, loom))]
loom::lazy_static! { static ref PROCESS: Drain = Drain::default(); }

thread_local! {
    /// The scope of this kernel thread, or null. The scope lies on the stack of [`within`].
    static SCOPE: Cell<*const Scope> = const { Cell::new(ptr::null()) };
}

/// The time that a drain waits for the first bytes of an accepted connection. A client connects and
/// then sends, so without this wait a connection could be accepted in vain.
pub const FIRST_BYTES: Duration = Duration::from_secs(1);

/// The signal that makes a kernel thread look again, which nothing else uses. The signal's handler
/// does nothing, and interrupted system calls begin again.
pub const LOOK_AGAIN: i32 = libc::SIGIO;

/// Whether this process, or the [`Scope`] of this kernel thread, has been asked to drain.
#[inline]
pub fn requested() -> bool {
    PROCESS.requested.load(Ordering::Relaxed)
        || with_scope(|scope| scope.is_some_and(Scope::is_requested))
}

/// Registers a new loop, before the loop first sleeps. The loop has just made the wakeup with which
/// a drain interrupts it.
///
/// A request sets the flag and then interrupts the existing loops. The fence here and the one in
/// the request ensure that the request finds the wakeup, or this function finds the flag.
pub fn requested_before_wakeup() -> bool {
    fence(Ordering::SeqCst);
    requested()
}

/// Asks this process to drain. A drain cannot be undone. Async-signal-safe.
pub fn request() {
    PROCESS.request(end_input);
    told::tell_process();
    remote::interrupt_all();
}

/// The kernel threads of one server, which drain together while the rest of the process goes on.
///
/// A thread that [`task::thread::start`](crate::task::thread::start) makes is in the scope of the
/// thread that makes it.
#[derive(Clone, Debug)]
pub struct Scope {
    part: Arc<Part>,
}

#[derive(Debug)]
struct Part {
    /// The mark of the scope's descriptors. Never 0, which marks descriptors outside all scopes.
    number: u64,
    requested: AtomicBool,
    /// Made when a thread first waits for it in place ([`drained`](crate::drained)).
    event: OnceLock<OwnedFd>,
}

impl Scope {
    /// A scope without threads.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let part = Part { number, requested: AtomicBool::new(false), event: OnceLock::new() };
        Self { part: Arc::new(part) }
    }

    /// Runs `body` on this kernel thread, as a thread of the scope.
    pub fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        within(Some(self), body)
    }

    /// The scope of this kernel thread.
    pub(crate) fn here() -> Option<Self> {
        with_scope(|scope| Some(scope?.clone()))
    }

    /// Asks the threads of the scope to drain. A drain cannot be undone. Do not call this function
    /// in a signal handler.
    pub fn request(&self) {
        if simulated(&[]) {
            // The driver of a simulation has the loops of the host look, and only those.
            let inputs = RefCell::new(Vec::new());
            PROCESS.request_part(&self.part, |number, _| inputs.borrow_mut().push(number));
            simulated(&inputs.take());
            told::tell_part(&self.part.event);
            return;
        }
        PROCESS.request_part(&self.part, end_input);
        told::tell_part(&self.part.event);
        remote::interrupt_all();
    }

    fn is_requested(&self) -> bool {
        self.part.is_requested()
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self::new()
    }
}

impl Part {
    fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}

/// Runs `body` with `scope` as this kernel thread's. Restores the former scope afterwards, even
/// after a panic.
pub(crate) fn within<R>(scope: Option<&Scope>, body: impl FnOnce() -> R) -> R {
    struct Restore(*const Scope);
    impl Drop for Restore {
        fn drop(&mut self) {
            SCOPE.set(self.0);
        }
    }
    let _restore = Restore(SCOPE.replace(scope.map_or(ptr::null(), ptr::from_ref)));
    body()
}

#[inline]
fn with_scope<R>(operation: impl FnOnce(Option<&Scope>) -> R) -> R {
    // SAFETY: non-null only while `within`, which borrows the scope, is on the stack below. The
    // operation is called now, and cannot keep a reference.
    operation(unsafe { SCOPE.get().as_ref() })
}

/// A descriptor of the block world, listed for as long as this value lives.
pub(crate) struct Listed(RawFd);

/// A part of the process that ends at a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainTarget {
    /// The input of a connection.
    Connection,
    /// A listener, with the process that made it.
    Listener(Pid),
    /// A listener that other programs share, with the kernel thread that listed it.
    Inherited(Option<Pid>),
}

impl Listed {
    /// Lists a descriptor that outlives the result.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the listener is another process's, because leaving it takes a descriptor.
    pub(crate) fn new(descriptor: BorrowedFd<'_>, input: DrainTarget) -> io::Result<Self> {
        let input = match input {
            DrainTarget::Inherited(_) => DrainTarget::Inherited(Some(gettid())),
            input => input,
        };
        let is_shared = match input {
            DrainTarget::Connection => false,
            DrainTarget::Listener(maker) => maker != getpid(),
            DrainTarget::Inherited(_) => true,
        };
        if is_shared {
            make_not_listening()?;
        }
        let number = descriptor.as_raw_fd();
        with_scope(|scope| {
            PROCESS.list(number, input, scope.map(|scope| &*scope.part), end_input);
        });
        Ok(Self(number))
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        PROCESS.unlist(self.0, end_input);
    }
}

/// Ends the input of a listed descriptor, which is therefore open. Async-signal-safe.
fn end_input(number: RawFd, input: DrainTarget) {
    // No simulation has a signal handler.
    if simulated(&[number]) {
        return;
    }
    // SAFETY: a listed descriptor is open. To close it, a thread first takes it off the list, which
    // needs the lock.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    match input {
        // The socket is shared with the process that made it and goes on accepting.
        DrainTarget::Listener(maker) if maker != getpid() => replace_file(number),
        DrainTarget::Inherited(thread) => {
            replace_file(number);
            if let Some(thread) = thread.filter(|thread| *thread != gettid()) {
                let (process, thread) = (getpid().as_raw_pid(), thread.as_raw_pid());
                // SAFETY: tgkill(2) changes no memory. A thread that has ended gets no signal.
                unsafe { libc::syscall(libc::SYS_tgkill, process, thread, LOOK_AGAIN) };
            }
        }
        DrainTarget::Listener(_) => {
            // Where connections are injected, the injector ends them.
            if sockopt::socket_acceptconn(descriptor) == Ok(true) {
                let _ = ioctl_fionbio(descriptor, true);
                let mut queue = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
                if poll(&mut queue, Some(&Timespec::default())) == Ok(0) {
                    end_listener(descriptor, input);
                }
            }
        }
        // This fails if the peer has reset the connection, which needs no report.
        DrainTarget::Connection => drop(shutdown(descriptor, Shutdown::Read)),
    }
}

/// Replaces a listed listener by a socket that does not listen. Async-signal-safe.
fn replace_file(number: RawFd) {
    if let Some(other) = NOT_LISTENING.get() {
        // SAFETY: dup3 changes no memory. The number stays open, and stays its owner's. Only the
        // file behind the number changes. A failure leaves the listener as it was.
        unsafe { libc::dup3(other.as_raw_fd(), number, libc::O_CLOEXEC) };
    }
}

/// Wakes the kernel threads that are blocked on a listener of this process with an empty accept
/// queue. Async-signal-safe.
pub(crate) fn end_listener(listener: BorrowedFd<'_>, input: DrainTarget) {
    if !simulated(&[]) && input == DrainTarget::Listener(getpid()) {
        // This fails if the descriptor has been shut down already.
        let _ = shutdown(listener, Shutdown::Read);
    }
}

/// A socket that does not listen: accept(2) fails on it at once (EINVAL).
static NOT_LISTENING: OnceLock<OwnedFd> = OnceLock::new();

/// Makes the socket [`NOT_LISTENING`], unless there is one.
fn make_not_listening() -> io::Result<()> {
    if NOT_LISTENING.get().is_none() {
        let made = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        // Another thread may have been faster. Then its socket serves as well.
        let _ = NOT_LISTENING.set(made?);
    }
    Ok(())
}

/// Whether a process drains, and the descriptors that the drain ends.
#[cfg_attr(all(test, loom), derive(Default))]
struct Drain {
    requested: AtomicBool,
    /// The descriptors of the block world that end at a drain, each at the index of its number.
    blocking: Mutex<Vec<Option<Entry>>>,
}

#[derive(Clone, Copy)]
struct Entry {
    input: DrainTarget,
    /// The number of the [`Part`] that also ends the descriptor when it drains, or 0.
    part: u64,
}

impl Drain {
    fn request(&self, end: impl Fn(RawFd, DrainTarget)) {
        self.requested.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.release(end);
    }

    /// Drains one part. Takes the lock, which a signal handler must not take. This call ends the
    /// descriptors listed so far. A thread that lists a descriptor later sees the flag and ends it.
    fn request_part(&self, part: &Part, end: impl Fn(RawFd, DrainTarget)) {
        part.requested.store(true, Ordering::Relaxed);
        {
            let blocking = self.blocking.lock().unwrap_or_else(PoisonError::into_inner);
            for (number, entry) in blocking.iter().enumerate() {
                if let Some(entry) = entry.filter(|entry| entry.part == part.number) {
                    end(number as RawFd, entry.input);
                }
            }
        }
        self.make_up(end);
    }

    /// Lists a descriptor of a part.
    fn list(
        &self,
        number: RawFd,
        input: DrainTarget,
        part: Option<&Part>,
        end: impl Fn(RawFd, DrainTarget),
    ) {
        self.set(number, Some(Entry { input, part: part.map_or(0, |part| part.number) }));
        if part.is_some_and(Part::is_requested) {
            end(number, input);
        }
        self.make_up(end);
    }

    /// Takes a descriptor off the list.
    fn unlist(&self, number: RawFd, end: impl Fn(RawFd, DrainTarget)) {
        self.set(number, None);
        self.make_up(end);
    }

    fn set(&self, number: RawFd, entry: Option<Entry>) {
        let index = usize::try_from(number).expect("descriptors are not negative");
        let mut blocking = self.blocking.lock().unwrap_or_else(PoisonError::into_inner);
        if index >= blocking.len() {
            blocking.resize((index + 1).next_power_of_two(), None);
        }
        blocking[index] = entry;
    }

    /// Walks the list for a request of the process that found the lock held. A later request walks
    /// the list itself. The fences here and in [`request`](Drain::request) ensure that at least one
    /// of the two sees the other's store.
    fn make_up(&self, end: impl Fn(RawFd, DrainTarget)) {
        fence(Ordering::SeqCst);
        if self.requested.load(Ordering::Relaxed) {
            self.release(end);
        }
    }

    /// Ends the input of all listed descriptors. If the list is being changed, the code that
    /// changes it ends them afterwards.
    fn release(&self, end: impl Fn(RawFd, DrainTarget)) {
        let Ok(blocking) = self.blocking.try_lock() else { return };
        for (number, entry) in blocking.iter().enumerate() {
            if let Some(Entry { input, .. }) = *entry {
                end(number as RawFd, input);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    /// loom's own mutex is never seen locked by `try_lock`. Model threads take turns at atomic
    /// operations, and none happens while the mutex is held. loom's mutex also orders more than
    /// std's promises.
    pub(super) mod shim {
        use std::cell::UnsafeCell;
        use std::ops::{Deref, DerefMut};
        use std::sync::LockResult;

        use loom::sync::atomic::{AtomicBool, Ordering};

        pub(in crate::drain) use loom::sync::atomic;

        #[derive(Default)]
        pub(in crate::drain) struct Mutex<T> {
            held: AtomicBool,
            value: UnsafeCell<T>,
        }

        pub(in crate::drain) struct Guard<'a, T>(&'a Mutex<T>);

        // SAFETY: the value belongs to the holder of the lock alone.
        unsafe impl<T: Send> Sync for Mutex<T> {}

        impl<T> Mutex<T> {
            pub(in crate::drain) fn lock(&self) -> LockResult<Guard<'_, T>> {
                loop {
                    if let Some(guard) = self.take() {
                        return Ok(guard);
                    }
                    loom::thread::yield_now();
                }
            }

            pub(in crate::drain) fn try_lock(&self) -> Result<Guard<'_, T>, ()> {
                self.take().ok_or(())
            }

            fn take(&self) -> Option<Guard<'_, T>> {
                let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
                self.held.compare_exchange(false, true, success, failure).ok().map(|_| Guard(self))
            }
        }

        impl<T> Drop for Guard<'_, T> {
            fn drop(&mut self) {
                self.0.held.store(false, Ordering::Release);
            }
        }

        impl<T> Deref for Guard<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                // SAFETY: the guard holds the mutex.
                unsafe { &*self.0.value.get() }
            }
        }

        impl<T> DerefMut for Guard<'_, T> {
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: the guard holds the mutex, and is borrowed exclusively.
                unsafe { &mut *self.0.value.get() }
            }
        }
    }

    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    use super::*;

    /// A kernel thread is about to wait for its client. A drain finds the descriptor, whenever the
    /// drain comes.
    #[test]
    fn loom_a_drain_ends_what_is_listed() {
        model(|| {
            let drain = Arc::new(Drain::default());
            let ended = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let lister = {
                let (drain, ended) = (drain.clone(), ended.clone());
                thread::spawn(move || drain.list(0, OPEN, None, count(&ended)))
            };
            drain.request(count(&ended));
            lister.join().unwrap();
            assert!(ended[0].load(Ordering::Relaxed) > 0);
        });
    }

    /// One descriptor is listed while another is taken off the list. The thread that holds up the
    /// drain makes up for it.
    #[test]
    fn loom_one_that_leaves_the_list_hides_no_other() {
        model(|| {
            let drain = Arc::new(Drain::default());
            let ended = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            drain.list(0, OPEN, None, count(&ended));
            drain.list(1, OPEN, None, count(&ended));
            let leaver = {
                let (drain, ended) = (drain.clone(), ended.clone());
                thread::spawn(move || {
                    drain.unlist(0, count(&ended));
                    // The descriptor is closed now, and its number may be another file's.
                    ended[0].swap(0, Ordering::Relaxed)
                })
            };
            drain.request(count(&ended));
            leaver.join().unwrap();
            assert_eq!(ended[0].load(Ordering::Relaxed), 0, "it had left");
            assert!(ended[1].load(Ordering::Relaxed) > 0);
        });
    }

    /// A part drains while one of its threads and a thread of another part list a descriptor each.
    #[test]
    fn loom_a_part_drains_alone() {
        model(|| {
            let drain = Arc::new(Drain::default());
            let ended = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let (draining, other) = (part(1), part(2));
            let lister = {
                let (drain, draining, ended) = (drain.clone(), draining.clone(), ended.clone());
                thread::spawn(move || {
                    drain.list(0, OPEN, Some(&draining), count(&ended));
                    drain.list(1, OPEN, Some(&other), count(&ended));
                })
            };
            drain.request_part(&draining, count(&ended));
            lister.join().unwrap();
            assert!(ended[0].load(Ordering::Relaxed) > 0);
            assert_eq!(ended[1].load(Ordering::Relaxed), 0, "it is of another part");
        });
    }

    /// The process drains while a part does: the thread that holds the list ends all descriptors
    /// for the other.
    #[test]
    fn loom_a_part_that_drains_hides_no_other() {
        model(|| {
            let drain = Arc::new(Drain::default());
            let ended = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let draining = part(1);
            drain.list(0, OPEN, Some(&draining), count(&ended));
            drain.list(1, OPEN, None, count(&ended));
            let requester = {
                let (drain, ended) = (drain.clone(), ended.clone());
                thread::spawn(move || drain.request_part(&draining, count(&ended)))
            };
            drain.request(count(&ended));
            requester.join().unwrap();
            assert!(ended.iter().all(|ended| ended.load(Ordering::Relaxed) > 0));
        });
    }

    /// Threads are interrupted twice at most. A thread that spins has too many interleavings.
    fn model(body: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(body);
    }

    const OPEN: DrainTarget = DrainTarget::Connection;

    fn part(number: u64) -> Arc<Part> {
        Arc::new(Part { number, requested: AtomicBool::new(false), event: OnceLock::new() })
    }

    fn count(ended: &[AtomicU32; 2]) -> impl Fn(RawFd, DrainTarget) {
        |number, _| {
            ended[number as usize].fetch_add(1, Ordering::Relaxed);
        }
    }
}
