//! Draining: how a server stops without cutting anyone off.
//!
//! From the moment a drain is requested, every *accepted* connection that waits for input sees the end
//! of its input, as if the client had closed: a service finishes what it is doing, writes its reply,
//! and returns. Listeners accept no more. No service needs a line of code for it, and it is the same
//! in every world:
//!
//! - a loop looks at the flag in each round, and its reads return 0 where they would have waited;
//! - in the block world, the descriptors that kernel threads may be blocked on are listed here, and
//!   `shutdown(2)` for reading lets them go.
//!
//! [`request`] is async-signal-safe, so that it can be all that a SIGTERM handler does.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{Shutdown, shutdown};

use crate::event_loop::remote;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// The descriptors of the block world that end at a drain, each at the index of its number.
static BLOCKING: Mutex<Vec<bool>> = Mutex::new(Vec::new());

/// Whether this process has been asked to drain.
#[inline]
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Asks this process to drain. There is no way back. Async-signal-safe.
pub fn request() {
    REQUESTED.store(true, Ordering::SeqCst);
    release();
    remote::ring_all();
}

/// A descriptor of the block world, listed for as long as this lives.
pub(crate) struct Listed(RawFd);

impl Listed {
    /// Lists a descriptor that stays open for longer than the result lives.
    pub(crate) fn new(descriptor: BorrowedFd<'_>) -> Self {
        let number = descriptor.as_raw_fd();
        list(number, true);
        Self(number)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        list(self.0, false);
    }
}

fn list(number: RawFd, open: bool) {
    let index = usize::try_from(number).expect("descriptors are not negative");
    {
        let mut blocking = lock();
        if index >= blocking.len() {
            blocking.resize((index + 1).next_power_of_two(), false);
        }
        blocking[index] = open;
    }
    // A request that came while the lock was held could not walk the list: it is walked now. One that
    // comes later walks it itself.
    if open && REQUESTED.load(Ordering::SeqCst) {
        release();
    }
}

/// Ends the input of all that is listed, unless the list is being changed, whose author does it then.
fn release() {
    let Ok(blocking) = BLOCKING.try_lock() else { return };
    for (number, _) in blocking.iter().enumerate().filter(|(_, open)| **open) {
        // SAFETY: what is listed is open, and cannot be closed before it is taken off the list, which
        // needs the lock.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number as RawFd) };
        // A peer that has reset the connection makes this fail, and needs no telling.
        let _ = shutdown(descriptor, Shutdown::Read);
    }
}

fn lock() -> std::sync::MutexGuard<'static, Vec<bool>> {
    BLOCKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
