//! The engine's own descriptors: an epoll that tells of the program's, a bell that ends a worker's sleep, and a ring
//! if it was asked for (`uring.rs`).
//!
//! They have numbers that the program does not use. The bell is an eventfd that is never read: each ring is an
//! edge, of which epoll tells one worker.

use crate::lock::{Locked, Setting};
use crate::sys::{failed, sys};
use crate::uring;

/// The descriptor that tells of all others.
pub(crate) static EPOLL: Setting<i32> = Setting::new(-1);
static BELL: Setting<i32> = Setting::new(-1);

/// What the bell's events carry.
pub(crate) const BELL_DATA: u64 = u64::MAX;
/// Descriptors at and above this number are left to the kernel.
pub(crate) const MOST_DESCRIPTORS: usize = 1 << 20;

/// Ends the sleep of the worker that waits for events, or has the next look find the bell. Handlers of signals
/// and helpers may call it.
pub(crate) fn ring() {
    let once = 1u64;
    sys!(SYS_write, BELL.get(), &raw const once, 8);
}

/// Opens the engine's own descriptors, out of the program's way.
///
/// # Errors
///
/// The error number of the call that failed.
pub(crate) fn open(locked: &mut Locked) -> Result<(), isize> {
    let epoll = out_of_the_way(sys!(SYS_epoll_create1, libc::EPOLL_CLOEXEC))?;
    let bell = out_of_the_way(sys!(SYS_eventfd2, 0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?;
    let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
    let event = libc::epoll_event { events, u64: BELL_DATA };
    let added = sys!(SYS_epoll_ctl, epoll, libc::EPOLL_CTL_ADD, bell, &raw const event);
    if failed(added) {
        return Err(added);
    }
    EPOLL.set(epoll as i32);
    BELL.set(bell as i32);
    uring::open(locked);
    Ok(())
}

/// The engine's own descriptors.
pub(crate) fn own() -> [i32; 3] {
    [EPOLL.get(), BELL.get(), uring::descriptor()]
}

/// Closes the engine's own descriptors.
pub(crate) fn close() {
    for descriptor in own().into_iter().filter(|&descriptor| descriptor >= 0) {
        sys!(SYS_close, descriptor);
    }
}

/// Moves a descriptor above those that the program may have, or at least to the end of them.
pub(crate) fn out_of_the_way(descriptor: isize) -> Result<isize, isize> {
    if failed(descriptor) {
        return Err(descriptor);
    }
    let mut limits = [0u64; 2];
    sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, 0, &raw mut limits);
    let [soft, hard] = limits;
    let most = MOST_DESCRIPTORS as u64;
    // Room beyond the soft limit is invisible to the program.
    // Where the hard limit is as low, a privileged process may have more than that for a moment.
    let raised = hard.max(soft + 16).min(most);
    let beyond = [raised, raised.max(hard)];
    let widened =
        soft < raised && !failed(sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &raw const beyond, 0));
    let from = if widened { soft } else { soft.min(most).saturating_sub(16) };
    let moved = sys!(SYS_fcntl, descriptor, libc::F_DUPFD_CLOEXEC, from);
    if widened {
        sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &raw const limits, 0);
    }
    if failed(moved) {
        return Ok(descriptor);
    }
    sys!(SYS_close, descriptor);
    Ok(moved)
}
