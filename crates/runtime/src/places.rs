//! Places: kernel threads that serve one connection at a time. A server has a limited number of
//! places.
//!
//! A silent client holds its place, and other clients wait. So if other clients wait, a connection
//! that does not use its place sees the end of its input, as at a [drain](crate::drain). A
//! connection does not use its place in two cases:
//!
//! - No bytes have passed over the connection, in either direction, for `SILENCE`.
//!
//! - The client sends more slowly than `LEAST_RATE`, and has had `SLOW` for its request.
//!
//! In a handshake of TLS, the client has an answer to give, and nothing to think about. So silence
//! is shorter there: two round trips, and `SECOND_LOOK`.
//!
//! A connection never ends in this way while a reply is on its way.
//!
//! A thread that is blocked in recv(2) checks this once in each `SILENCE`, the socket's time-out
//! then. Once other clients are known to wait, a thread checks before it waits. The kernel knows
//! how long a connection has been silent, even in the accept queue. So a crowd of silent
//! connections ends at once, and not one by one.

use std::cell::Cell;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::machine::{self, Traffic};
use crate::tcp_info::tcp_info;

/// The time for which a connection may be silent while other clients wait.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

/// The time after the last reply from which on the rate of a request matters.
const SLOW: Duration = Duration::from_secs(2);

/// The rate in bytes a second.
const LEAST_RATE: u64 = 1024;

/// A waiting connection may be on its way to a free thread. So the connection must have waited for
/// this time.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// After this many reads without a write, a thread checks how slowly a request comes.
const MANY_READS: u32 = 3;

thread_local! {
    /// The place of this kernel thread, or null. The place lies on the stack of [`Places::enter`].
    static PLACE: Cell<*const Place<'static>> = const { Cell::new(ptr::null()) };

    /// Whether the connection that this kernel thread serves is in its handshake.
    static SHAKES_HANDS: Cell<bool> = const { Cell::new(false) };

    /// The number of reads since the last write.
    static READS: Cell<u32> = const { Cell::new(0) };
}

/// The places of one server.
#[derive(Debug, Default)]
pub struct Places {
    /// Whether other connections waited at the last look.
    are_wanted: AtomicBool,
}

/// A place of the server.
pub(crate) struct Place<'p> {
    places: &'p Places,
    others_wait: &'p dyn Fn() -> bool,
}

impl Places {
    /// Runs `body` on this kernel thread as a place of the server. `others_wait` says whether
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

/// Calls `operation` with this kernel thread's place, if the thread is one.
#[inline]
pub(crate) fn here<R>(operation: impl FnOnce(Option<&Place<'_>>) -> R) -> R {
    // SAFETY: `PLACE` is non-null only while `enter` has not returned, and the place lies on the
    // stack of `enter`. The operation is called now, and cannot keep a reference.
    operation(unsafe { PLACE.get().as_ref() })
}

/// A handshake of the connection that this kernel thread serves. Ends when it is dropped.
#[cfg(feature = "rustls")]
pub(crate) struct Handshake;

#[cfg(feature = "rustls")]
impl Handshake {
    pub(crate) fn begin() -> Self {
        SHAKES_HANDS.set(true);
        Self
    }
}

#[cfg(feature = "rustls")]
impl Drop for Handshake {
    fn drop(&mut self) {
        SHAKES_HANDS.set(false);
    }
}

/// Counts a read or a write of the connection that this kernel thread serves.
#[inline]
pub(crate) fn count(is_read: bool) {
    READS.set(if is_read { READS.get().saturating_add(1) } else { 0 });
}

impl Place<'_> {
    /// Whether a read must check before it waits.
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
    let (traffic, rtt) = traffic(connection)?;
    let Traffic { is_under_way, received, sent, bytes_received, packets_sent } = traffic;
    if is_under_way {
        return None;
    }
    // A later request may have begun long after the last reply, and have come in two pieces.
    let in_pieces = packets_sent == 0 || READS.get() >= MANY_READS;
    let is_slow =
        in_pieces && sent >= SLOW && bytes_received < LEAST_RATE.saturating_mul(sent.as_secs());
    let silence = match SHAKES_HANDS.get() {
        true => SILENCE.min(SECOND_LOOK + rtt * 2),
        false => SILENCE,
    };
    Some(if is_slow { Duration::ZERO } else { silence.saturating_sub(received.min(sent)) })
}

/// What the kernel knows of a connection's traffic, and its round trip.
fn traffic(connection: BorrowedFd<'_>) -> Option<(Traffic, Duration)> {
    if let Some(machine) = machine::here() {
        let traffic = machine.traffic(machine.socket(connection.as_raw_fd())?)?;
        return Some((traffic, Duration::ZERO));
    }
    let info = tcp_info(connection)?;
    let milliseconds = |count: u32| Duration::from_millis(count.into());
    let traffic = Traffic {
        is_under_way: info.unacked > 0 || info.notsent_bytes > 0,
        received: milliseconds(info.last_data_recv),
        sent: milliseconds(info.last_data_sent),
        bytes_received: info.bytes_received,
        packets_sent: info.data_segs_out,
    };
    Some((traffic, Duration::from_micros(info.rtt.into())))
}
