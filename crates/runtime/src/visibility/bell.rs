//! How a signal handler, in this process or in a child of it, wakes the kernel thread that watches.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

static BELL: OnceLock<OwnedFd> = OnceLock::new();

/// Makes the bell, before any handler can ring it.
///
/// # Errors
///
/// When no descriptor is left.
pub fn prepare() -> io::Result<()> {
    if BELL.get().is_none() {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        // Whoever was quicker has made one that is as good.
        let _ = BELL.set(bell);
    }
    Ok(())
}

/// Asks for a dump. Async-signal-safe. A child process asks its parent, whose bell it has inherited.
pub fn request_dump() {
    if let Some(bell) = BELL.get() {
        // It can only fail when the counter is full: then there are enough requests.
        let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
    }
}

/// Waits until a dump is asked for, and returns true, or until `limit` has passed.
///
/// # Panics
///
/// When [`prepare`] has not succeeded before.
#[must_use]
pub fn wait(limit: Option<Duration>) -> bool {
    let bell = BELL.get().expect("a bell is made before it is waited for");
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // A time beyond what the kernel can tell is for ever.
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(bell, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) => return false,
            // Several requests that came together are one.
            Ok(_) => return rustix::io::read(bell, &mut [0u8; 8]).is_ok(),
            Err(_) => {}
        }
    }
}
