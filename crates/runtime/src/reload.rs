//! A reload: the server reads data again when its operator asks, such as the files beneath its
//! root.
//!
//! A request is a number that grows, in memory that child processes share. Code that keeps
//! reloadable data compares the number with the last number that it saw. So a signal handler of the
//! parent reaches every process, and a reload costs requests a load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared;

static REQUESTS: OnceLock<&'static AtomicU64> = OnceLock::new();

/// Makes the number. Call this before a handler may ask for a reload, and before processes are
/// forked.
pub fn prepare() {
    REQUESTS.get_or_init(|| {
        let [requests] = shared::words();
        requests
    });
}

/// Asks for a reload. Async-signal-safe.
pub fn request() {
    if let Some(requests) = REQUESTS.get() {
        requests.fetch_add(1, Ordering::Relaxed);
    }
}

/// The number of reload requests.
#[inline]
#[must_use]
pub fn requests() -> u64 {
    REQUESTS.get().map_or(0, |requests| requests.load(Ordering::Relaxed))
}
