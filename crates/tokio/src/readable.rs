//! A descriptor that tokio's reactor watches. This module is the only place of this crate with
//! unsafe code. Tokio has no other way to watch a descriptor that is not its own socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches a copy of a descriptor, on the runtime that the copy was made on.
pub(crate) struct Readable(AsyncFd<OwnedFd>);

impl Readable {
    /// Watches `descriptor`, which must not block.
    ///
    /// # Errors
    ///
    /// Fails when no descriptor is left.
    pub(crate) fn watch(descriptor: &impl AsFd) -> io::Result<Self> {
        let copy = descriptor.as_fd().try_clone_to_owned()?;
        // SAFETY: tokio requires that the descriptor stays open, and the same, as long as tokio
        // watches it. An `OwnedFd` closes when it is dropped, and no other code can reach this
        // `OwnedFd`.
        let watched = unsafe { AsyncFd::register_with_interest(copy, Interest::READABLE) };
        Ok(Self(watched.map_err(io::Error::from)?))
    }

    /// Calls `attempt` until it does not fail with `WouldBlock`. Calls it again each time that the
    /// descriptor becomes readable.
    ///
    /// # Errors
    ///
    /// Returns the errors of `attempt`. Fails when the runtime ends.
    pub(crate) async fn attempt<R>(
        &self,
        mut attempt: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        self.0.async_io(Interest::READABLE, |_| attempt()).await
    }
}
