//! How a signal handler, in this process or in its child, asks the watching kernel thread for a
//! dump.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// An eventfd that is readable while a dump is requested.
static REQUESTED: OnceLock<OwnedFd> = OnceLock::new();

/// Makes the eventfd, before a handler can request a dump.
///
/// # Errors
///
/// If no descriptor is left.
pub fn prepare_dumps() -> io::Result<()> {
    if REQUESTED.get().is_none() {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        // Another thread may have been faster. Then its eventfd serves as well.
        let _ = REQUESTED.set(event);
    }
    Ok(())
}

/// Requests a dump. Async-signal-safe. A child process asks its parent through the inherited
/// eventfd.
pub fn request_dump() {
    if let Some(event) = REQUESTED.get() {
        // This write can only fail if the counter is full. Then there are enough requests.
        let _ = rustix::io::write(event, &1u64.to_ne_bytes());
    }
}

/// Waits until a dump is requested, and returns true. Returns false after `limit`.
///
/// # Panics
///
/// If [`prepare_dumps`] has not succeeded before.
#[must_use]
pub fn wait_for_dump_request(limit: Option<Duration>) -> bool {
    let event = REQUESTED.get().expect("the eventfd is made before it is waited for");
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // A time beyond the kernel's range means for ever.
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(event, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) => return false,
            // Several requests at the same time count as one.
            Ok(_) => return rustix::io::read(event, &mut [0u8; 8]).is_ok(),
            Err(_) => {}
        }
    }
}
