//! A descriptor with operations that wait: those of [`SharedDescriptor`], as tokio would have them.
//! Each counts in the budget of the task, and only code of a runtime can make one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use duality_poller::Direction;
use duality_runtime::net::{SharedDescriptor, SimulatedSockets};

use crate::budget::counted;
use crate::scheduler::context;

/// Refuses what no simulated host has, since nothing there tells when it is ready.
pub(crate) fn refuse_simulated(what: &str) -> io::Result<()> {
    match SimulatedSockets::here() {
        None => Ok(()),
        Some(_) => {
            let problem = format!("a simulated host has no {what}");
            Err(io::Error::new(io::ErrorKind::Unsupported, problem))
        }
    }
}

/// A non-blocking descriptor for any number of tasks and kernel threads.
#[derive(Debug)]
pub(crate) struct Watched(SharedDescriptor);

impl Watched {
    /// Makes `descriptor` non-blocking.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        context::check();
        Ok(Self(SharedDescriptor::new(descriptor)?))
    }

    /// A descriptor that is in non-blocking mode already.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    pub(crate) fn of_nonblocking(descriptor: OwnedFd) -> Self {
        context::check();
        Self(SharedDescriptor::of_nonblocking(descriptor))
    }

    /// Makes one attempt, and waits if it would block.
    pub(crate) fn poll<T>(
        &self,
        context: &Context<'_>,
        direction: Direction,
        attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        counted(context, || self.0.poll(context, direction, attempt))
    }

    /// Like [`poll`](Self::poll), for an attempt that moves up to `room` bytes.
    #[inline]
    pub(crate) fn poll_moving(
        &self,
        context: &Context<'_>,
        direction: Direction,
        room: usize,
        attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        counted(context, || self.0.poll_moving(context, direction, room, attempt))
    }

    /// Waits until the descriptor is ready in this direction, or has an error.
    pub(crate) fn poll_ready(
        &self,
        context: &Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<()>> {
        counted(context, || self.0.poll_ready(context, direction))
    }

    /// Whether the descriptor is ready in this direction now, or has an error.
    pub(crate) fn is_ready(&self, direction: Direction) -> io::Result<bool> {
        self.0.is_ready(direction)
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
