//! The connections in a listener's accept queue when the process drains.
//!
//! These connections came before the drain, and their requests may have come too. So they are
//! accepted and served. Later connections are not accepted. Otherwise clients that keep connecting
//! would prevent the end of the server.

use std::io;
use std::os::fd::BorrowedFd;

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
        if !drain::requested() {
            return accept(listener);
        }
        let left = self.left(listener);
        *left = left.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
        accept(listener)
    }

    /// Whether all have been accepted. Called when the process drains.
    pub(crate) fn is_over(&mut self, listener: BorrowedFd<'_>) -> bool {
        *self.left(listener) == 0
    }

    fn left(&mut self, listener: BorrowedFd<'_>) -> &mut usize {
        self.0.get_or_insert_with(|| queued(listener))
    }
}

/// The number of connections in the accept queue of `listener`.
fn queued(listener: BorrowedFd<'_>) -> usize {
    // The socket that replaces the listener in a child process has no accept queue.
    accept_queue_length(listener).map_or(0, |length| length as usize)
}
