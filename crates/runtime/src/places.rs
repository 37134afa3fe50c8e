//! Places: kernel threads that serve one connection at a time. A server has only so many.
//!
//! A client that is silent holds its place, and other clients wait. So if other clients wait, a
//! connection that keeps its place in vain sees the end of its input, as at a
//! [drain](crate::drain). A connection keeps its place in vain in two cases:
//!
//! - No bytes have passed over the connection, in either direction, for `SILENCE`.
//!
//! - Its client sends more slowly than `LEAST_RATE`, and has had `SLOW` for its request.
//!
//! A connection never ends so while a reply is on its way.
//!
//! A thread that is blocked in recv(2) looks at this once in each `SILENCE`, which is the
//! time-out of the socket then. Once others are known to wait, a thread looks before it waits. The
//! kernel knows how long a connection has been silent, also in the accept queue. So a crowd of
//! silent connections ends at once, and not one by one.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::tcp_info::tcp_info;

/// The time that a connection may be silent while other clients wait.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

/// When the rate of a request begins to matter, after the last reply.
const SLOW: Duration = Duration::from_secs(2);

/// In bytes a second.
const LEAST_RATE: u64 = 1024;

/// What waits may be on its way to a thread that is free. So it has to wait for so long.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// After so many reads without a write, a thread checks how slowly a request comes.
const MANY_READS: u32 = 3;

thread_local! {
    /// The place of this kernel thread, or null. The place lies on the stack of [`Places::enter`].
    static PLACE: Cell<*const Place<'static>> = const { Cell::new(ptr::null()) };

    /// The number of reads since the last write.
    static READS: Cell<u32> = const { Cell::new(0) };
}

/// The places of one server.
#[derive(Debug, Default)]
pub struct Places {
    /// Other connections waited at the last look.
    are_wanted: AtomicBool,
}

/// One of them.
pub(crate) struct Place<'p> {
    places: &'p Places,
    others_wait: &'p dyn Fn() -> bool,
}

impl Places {
    /// Runs `body` on this kernel thread as one of the places. `others_wait` says whether
    /// connections wait and no place is free.
    pub fn enter<R>(&self, others_wait: &dyn Fn() -> bool, body: impl FnOnce() -> R) -> R {
        struct Restore(*const Place<'static>);
        impl Drop for Restore {
            fn drop(&mut self) {
                PLACE.set(self.0);
            }
        }
        let place = Place { places: self, others_wait };
        let _restore = Restore(PLACE.replace(ptr::from_ref(&place).cast()));
        body()
    }
}

/// Calls `operation` with the place that this kernel thread is, if it is one.
#[inline]
pub(crate) fn here<R>(operation: impl FnOnce(Option<&Place<'_>>) -> R) -> R {
    // SAFETY: `PLACE` is non-null only while `enter` has not returned, and the place lies on the
    // stack of `enter`. The operation is called now, and can keep no reference.
    operation(unsafe { PLACE.get().as_ref() })
}

/// Counts a read or a write of the connection that this kernel thread serves.
#[inline]
pub(crate) fn count(is_read: bool) {
    READS.set(if is_read { READS.get().saturating_add(1) } else { 0 });
}

impl Place<'_> {
    /// Whether a read is to look before it waits.
    #[inline]
    pub(crate) fn looks_first(&self) -> bool {
        READS.get() >= MANY_READS || self.places.are_wanted.load(Ordering::Relaxed)
    }

    /// The time that an empty read of `connection` may wait until the next look. `None` if the
    /// connection must end.
    #[cold]
    pub(crate) fn look(&self, connection: BorrowedFd<'_>) -> Option<Duration> {
        let are_wanted = &self.places.are_wanted;
        if !(self.others_wait)() {
            are_wanted.store(false, Ordering::Relaxed);
            return Some(SILENCE);
        }
        match left(connection) {
            Some(Duration::ZERO) if are_wanted.swap(true, Ordering::Relaxed) => None,
            Some(Duration::ZERO) => Some(SECOND_LOOK),
            left => Some(left.unwrap_or(SILENCE)),
        }
    }
}

/// The time for which a connection without unread bytes may still keep its place. `None` if a reply
/// is on its way.
fn left(connection: BorrowedFd<'_>) -> Option<Duration> {
    let info = tcp_info(connection)?;
    if info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0 {
        return None;
    }
    // Both are counted from the start of a connection over which nothing has passed.
    let [received, sent] = [info.tcpi_last_data_recv, info.tcpi_last_data_sent]
        .map(|milliseconds| Duration::from_millis(milliseconds.into()));
    // A later request may have begun long after the last reply, and come in two pieces.
    let in_pieces = info.tcpi_data_segs_out == 0 || READS.get() >= MANY_READS;
    let is_slow = in_pieces
        && sent >= SLOW
        && info.tcpi_bytes_received < LEAST_RATE.saturating_mul(sent.as_secs());
    Some(if is_slow { Duration::ZERO } else { SILENCE.saturating_sub(received.min(sent)) })
}
