//! The bell that ends a worker's sleep, and the epoll that reports events of the program's
//! descriptors.
//!
//! The numbers of both descriptors are numbers that the program does not use. The bell is an
//! eventfd that is never read. Each ring of the bell is an edge, and epoll reports each edge to one
//! worker.

use crate::kernel::lock::Setting;
use crate::kernel::sys::sys;

/// The epoll descriptor, which reports the events of all others.
pub(crate) static EPOLL: Setting<i32> = Setting::new(-1);
pub(crate) static BELL: Setting<i32> = Setting::new(-1);

/// The data that the bell's events carry.
pub(crate) const BELL_DATA: u64 = u64::MAX;

/// Ends the sleep of the worker that waits for events. If no worker sleeps, the next look at epoll
/// finds the bell. Signal handlers and helpers may call this function.
pub(crate) fn ring() {
    let once = 1u64;
    sys!(SYS_write, BELL.get(), &once, 8);
}
