//! The waker of a kernel thread that waits in place. The waker ends a sleep on a condition
//! variable, or a poll(2) for gathered waits.
//!
//! ```text
//!   a waker, on any thread                the kernel thread, before and after its sleep
//!   ring:  rung ← true                    alone?   no other thread has a clone: no event
//!          sleeps ← no; it was            prepare: sleeps ← in poll or parked; rung? ─▶ no sleep
//!            in poll ─▶ the event         finish:  sleeps ← no; rung ← false
//!            parked  ─▶ the condition
//! ```
//!
//! The sleep is no `thread::park`, because a program may use the token of its thread for itself.
//!
//! The event is an eventfd(2). The event is made, and polled, only while another thread can use the
//! waker. So a connection has no second descriptor as long as no other thread wakes it.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use self::shim::{AtomicBool, AtomicU8, Ordering, fence};
use crate::locks::{Condvar, Mutex};
use crate::threads;

#[cfg(all(test, loom))]
use loom::sync::atomic as shim;
#[cfg(not(all(test, loom)))]
use std::sync::atomic as shim;

thread_local! {
    static SHARED: Arc<ThreadWaker> = Arc::new(ThreadWaker {
        bell: Bell::new(),
        parked: Mutex::default(),
        woken: Condvar::new(),
        event: OnceLock::new(),
    });
    static WAKER: Waker = Waker::from(SHARED.with(Arc::clone));
    /// The address of the waker's data while a task waits in place on this thread. 0 otherwise.
    static RUNNING: Cell<usize> = const { Cell::new(0) };
}

/// The references of this kernel thread itself: [`SHARED`] and [`WAKER`].
const OWN: usize = 2;

/// The longest sleep if no descriptor is left for an event, because wakers cannot end this sleep.
const WITHOUT_EVENT: Duration = Duration::from_millis(2);

struct ThreadWaker {
    bell: Bell,
    parked: Mutex<()>,
    woken: Condvar,
    event: OnceLock<OwnedFd>,
}

impl ThreadWaker {
    fn let_go(&self) {
        match self.bell.ring() {
            Sleeps::InPoll => {
                if let Some(event) = self.event.get() {
                    // The write fails only if the event is already readable.
                    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
                }
            }
            Sleeps::Parked => threads::quietly(|| {
                // The thread has looked at the bell under the lock, and now waits, or it will look.
                drop(self.parked.lock().unwrap_or_else(PoisonError::into_inner));
                self.woken.notify_one();
            }),
            Sleeps::No => {}
        }
    }

    /// Sleeps until the waker is used, at most for `limit`.
    fn park(&self, limit: Option<Duration>) {
        let parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        let sleeps = |_: &mut ()| self.bell.sleeps();
        match limit {
            None => drop(self.woken.wait_while(parked, sleeps)),
            Some(limit) => drop(self.woken.wait_timeout_while(parked, limit, sleeps)),
        }
    }

    fn event(&self) -> Option<BorrowedFd<'_>> {
        if self.event.get().is_none() {
            let made = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).ok()?;
            // Only this thread makes an event.
            let _ = self.event.set(made);
        }
        self.event.get().map(AsFd::as_fd)
    }
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.let_go();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.let_go();
    }
}

/// Calls `operation` with the waker of this kernel thread.
pub(crate) fn with_waker_of_this_thread<R>(operation: impl FnOnce(&Waker) -> R) -> R {
    WAKER.with(operation)
}

/// Calls `operation` with the waker of a task that this kernel thread runs in the block world.
pub(crate) fn with_waker_of_running<R>(operation: impl FnOnce(&Waker) -> R) -> R {
    /// Restores the former address, even after a panic.
    struct Outer(usize);
    impl Drop for Outer {
        fn drop(&mut self) {
            RUNNING.set(self.0);
        }
    }
    with_waker_of_this_thread(|waker| {
        let _outer = Outer(RUNNING.replace(waker.data().addr()));
        operation(waker)
    })
}

/// The address of the data of the running task's waker, in the block world. 0 if no task runs.
pub(crate) fn running_waker() -> usize {
    RUNNING.get()
}

/// Calls `sleep`, unless the waker of this kernel thread has been used since the last call. The
/// arguments of `sleep` are the event that ends it, and the longest time that it may take. Returns
/// whether it called `sleep`.
pub(crate) fn sleep_in_poll(sleep: impl FnOnce(Option<BorrowedFd<'_>>, Option<Duration>)) -> bool {
    SHARED.with(|shared| {
        if Arc::strong_count(shared) <= OWN {
            let may_sleep = shared.bell.is_silent_alone();
            if may_sleep {
                sleep(None, None);
            }
            return may_sleep;
        }
        let Some(event) = shared.event() else {
            sleep(None, Some(WITHOUT_EVENT));
            return true;
        };
        let may_sleep = shared.bell.prepare(Sleeps::InPoll);
        if may_sleep {
            sleep(Some(event), None);
        }
        if shared.bell.finish() {
            // A write that is still to come ends a later sleep early.
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
        may_sleep
    })
}

/// Sleeps, unless the waker of this kernel thread has been used since the last sleep. The waker
/// ends the sleep, or the end of `limit`.
pub(crate) fn sleep_parked(limit: Option<Duration>) {
    SHARED.with(|shared| {
        if shared.bell.prepare(Sleeps::Parked) {
            shared.park(limit);
        }
        shared.bell.finish();
    });
}

/// How the kernel thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleeps {
    No,
    InPoll,
    Parked,
}

impl Sleeps {
    fn of(number: u8) -> Self {
        let all = [Self::No, Self::InPoll, Self::Parked];
        all[usize::from(number)]
    }
}

struct Bell {
    /// A wake that no sleep has seen.
    rung: AtomicBool,
    /// How the thread sleeps, or is about to: a number of [`Sleeps`].
    sleeps: AtomicU8,
}

impl Bell {
    fn new() -> Self {
        Self { rung: AtomicBool::new(false), sleeps: AtomicU8::new(Sleeps::No as u8) }
    }

    /// Ends the thread's sleep, and says how it slept. The caller wakes the thread.
    fn ring(&self) -> Sleeps {
        self.rung.store(true, Ordering::SeqCst);
        Sleeps::of(self.sleeps.swap(Sleeps::No as u8, Ordering::SeqCst))
    }

    /// Whether nothing has ended the sleep.
    fn sleeps(&self) -> bool {
        self.sleeps.load(Ordering::SeqCst) != Sleeps::No as u8
    }

    /// Whether the thread may sleep without the event, because no other thread has the waker. A
    /// thread that had the waker may have rung before it dropped it.
    fn is_silent_alone(&self) -> bool {
        fence(Ordering::Acquire);
        !self.rung.swap(false, Ordering::SeqCst)
    }

    /// Whether the thread may sleep in this way.
    fn prepare(&self, how: Sleeps) -> bool {
        self.sleeps.store(how as u8, Ordering::SeqCst);
        !self.rung.swap(false, Ordering::SeqCst)
    }

    /// Ends the period that [`prepare`](Bell::prepare) began. Returns true if the waker has been
    /// used meanwhile.
    fn finish(&self) -> bool {
        let is_used = self.sleeps.swap(Sleeps::No as u8, Ordering::SeqCst) == Sleeps::No as u8;
        // All earlier rings are looked at after this line.
        self.rung.swap(false, Ordering::SeqCst);
        is_used
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wake_ends_the_sleep_that_is_and_else_the_next_one() {
        let (mut sleeps, waker) = (0, WAKER.with(Waker::clone));
        waker.wake_by_ref();
        sleep_in_poll(|_, _| sleeps += 1);
        assert_eq!(sleeps, 0, "it was woken before");
        sleep_in_poll(|event, limit| {
            sleeps += 1;
            assert!(event.is_some() && limit.is_none());
            std::thread::spawn(move || waker.wake()).join().unwrap();
        });
        assert_eq!(sleeps, 1);
        // All clones are gone, and the wake has been seen.
        sleep_in_poll(|event, _| {
            sleeps += 1;
            assert!(event.is_none());
        });
        assert_eq!(sleeps, 2);
    }

    #[test]
    fn a_wake_ends_a_sleep_without_descriptors_and_leaves_the_token_of_the_thread() {
        let (waker, this) = (WAKER.with(Waker::clone), std::thread::current());
        this.unpark();
        sleep_parked(Some(Duration::from_millis(1)));
        waker.wake_by_ref();
        sleep_parked(None);
        let other = std::thread::spawn(move || waker.wake());
        sleep_parked(None);
        other.join().unwrap();
        // The token is still there, so that this call returns.
        std::thread::park();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::*;

    /// A wake, by a thread that then drops its clone, ends the wait of the thread that sleeps in
    /// poll(2). A lost wake shows as a deadlock.
    #[test]
    fn loom_a_wake_ends_the_sleep_in_poll() {
        loom::model(|| {
            let bell = Arc::new(Bell::new());
            // The event: an eventfd that poll(2) waits for.
            let event = Arc::new((Mutex::new(false), Condvar::new()));
            let is_done = Arc::new(AtomicBool::new(false));
            let waker = {
                let (bell, event, is_done) = (bell.clone(), event.clone(), is_done.clone());
                thread::spawn(move || {
                    is_done.store(true, Ordering::Release);
                    if bell.ring() == Sleeps::InPoll {
                        *event.0.lock().unwrap() = true;
                        event.1.notify_one();
                    }
                    drop(bell);
                })
            };
            while !is_done.load(Ordering::Acquire) {
                if Arc::strong_count(&bell) == 1 {
                    // A sleep now would last for ever.
                    assert!(!bell.is_silent_alone() || is_done.load(Ordering::Acquire));
                    continue;
                }
                if bell.prepare(Sleeps::InPoll) {
                    let mut is_readable = event.0.lock().unwrap();
                    while !*is_readable {
                        is_readable = event.1.wait(is_readable).unwrap();
                    }
                }
                if bell.finish() {
                    *event.0.lock().unwrap() = false;
                }
            }
            waker.join().unwrap();
        });
    }

    /// A wake ends the wait of the thread that sleeps on a condition variable.
    #[test]
    fn loom_a_wake_ends_the_sleep_on_the_condition() {
        loom::model(|| {
            let bell = Arc::new(Bell::new());
            let condition = Arc::new((Mutex::new(()), Condvar::new()));
            let waker = {
                let (bell, condition) = (bell.clone(), condition.clone());
                thread::spawn(move || {
                    if bell.ring() == Sleeps::Parked {
                        drop(condition.0.lock().unwrap());
                        condition.1.notify_one();
                    }
                })
            };
            if bell.prepare(Sleeps::Parked) {
                let mut parked = condition.0.lock().unwrap();
                while bell.sleeps() {
                    parked = condition.1.wait(parked).unwrap();
                }
            }
            bell.finish();
            waker.join().unwrap();
        });
    }
}
