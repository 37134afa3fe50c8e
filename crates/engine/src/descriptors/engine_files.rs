//! Opens and closes the engine's own descriptors, under numbers that the program does not use.

use crate::descriptors::ring;
use crate::descriptors::spare_numbers::out_of_the_way;
use crate::kernel::bell::{BELL, BELL_DATA, EPOLL};
use crate::kernel::lock::{Locked, Setting};
use crate::kernel::settings;
use crate::kernel::sys::{failed, sys};

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
    let added = sys!(SYS_epoll_ctl, epoll, libc::EPOLL_CTL_ADD, bell, &event);
    if failed(added) {
        return Err(added);
    }
    EPOLL.set(epoll as i32);
    BELL.set(bell as i32);
    ring::open(locked, epoll as i32);
    Ok(())
}

/// The descriptors of the parent's engine, in a process that has its table of descriptors.
static PARENTS: Setting<[i32; 3]> = Setting::new([-1; 3]);

/// Leaves the engine's current descriptors to the parent. This process then opens its own.
pub(crate) fn leave_to_parent() {
    PARENTS.set(own());
}

/// Descriptors that the program must not close.
pub(crate) fn protected() -> [i32; 7] {
    let ([a, b, c], [d, e, f]) = (own(), PARENTS.get());
    [a, b, c, d, e, f, settings::library()]
}

/// The engine's own descriptors.
fn own() -> [i32; 3] {
    [EPOLL.get(), BELL.get(), ring::descriptor()]
}

/// Closes the engine's own descriptors.
pub(crate) fn close() {
    for descriptor in own().into_iter().filter(|&descriptor| descriptor >= 0) {
        sys!(SYS_close, descriptor);
    }
}
