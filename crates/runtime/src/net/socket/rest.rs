//! The connections in a listener's accept queue when the process drains.
//!
//! These connections came before the drain, and their requests may have come too. So they are
//! accepted and served. Later connections are not accepted. Otherwise clients that keep connecting
//! would prevent the end of the server.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::drain;
use crate::tcp_info::accept_queue_length;

/// The number of connections that a listener still accepts. Until the process drains, there is no
/// limit.
#[derive(Debug, Default)]
pub(crate) struct Rest(Option<usize>);

impl Rest {
    /// Accepts a connection of `listener`, if one may still be accepted.
    ///
    /// # Errors
    ///
    /// `WouldBlock` once all have been accepted. The errors of `accept`.
    #[inline]
    pub(crate) fn take<T>(
        &mut self,
        listener: BorrowedFd<'_>,
        accept: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.take_of(|| queued(listener), || accept(listener))
    }

    /// As [`take`](Self::take), for a listener with an accept queue of which `queued` tells.
    #[inline]
    pub(crate) fn take_of<T>(
        &mut self,
        queued: impl FnOnce() -> usize,
        accept: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if !drain::requested() {
            return accept();
        }
        let left = self.0.get_or_insert_with(queued);
        *left = left.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
        accept()
    }

    /// Whether all have been accepted. Called when the process drains.
    pub(crate) fn is_over(&mut self, listener: BorrowedFd<'_>) -> bool {
        self.is_over_of(|| queued(listener))
    }

    /// As [`is_over`](Self::is_over), for a listener with an accept queue of which `queued` tells.
    pub(crate) fn is_over_of(&mut self, queued: impl FnOnce() -> usize) -> bool {
        *self.0.get_or_insert_with(queued) == 0
    }
}

/// The most connections that a Unix listener still accepts. The kernel does not tell how long its
/// accept queue is.
const MOST_UNCOUNTED: usize = 4096;

/// The number of connections in the accept queue of `listener`.
fn queued(listener: BorrowedFd<'_>) -> usize {
    if let Some(length) = accept_queue_length(listener) {
        return length as usize;
    }
    // The socket that replaces the listener in a child process has no accept queue, and is never
    // ready.
    let mut polled = [PollFd::from_borrowed_fd(listener, PollFlags::IN)];
    let is_ready = poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        && polled[0].revents().contains(PollFlags::IN);
    if is_ready { MOST_UNCOUNTED } else { 0 }
}
