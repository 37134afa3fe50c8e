//! A descriptor that tokio's reactor watches. It is the one place of this crate with unsafe code:
//! tokio has no other way to watch what is none of its own sockets.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches a copy of a descriptor, on the runtime that it was made on.
pub(crate) struct Readable(AsyncFd<OwnedFd>);

impl Readable {
    /// Watches `descriptor`, which must not block.
    ///
    /// # Errors
    ///
    /// When no descriptor is left.
    pub(crate) fn watch(descriptor: &impl AsFd) -> io::Result<Self> {
        let copy = descriptor.as_fd().try_clone_to_owned()?;
        // SAFETY: tokio wants the descriptor to stay open, and the same, for as long as it is
        // watched. An `OwnedFd` closes when it is dropped, and no other holder can reach this one.
        let watched = unsafe { AsyncFd::register_with_interest(copy, Interest::READABLE) };
        Ok(Self(watched.map_err(io::Error::from)?))
    }

    /// Calls `attempt`, again each time that the descriptor becomes readable, until it does not
    /// fail with `WouldBlock`.
    ///
    /// # Errors
    ///
    /// Those of `attempt`, and of a runtime that ends.
    pub(crate) async fn attempt<R>(
        &self,
        mut attempt: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        self.0.async_io(Interest::READABLE, |_| attempt()).await
    }
}
