//! Descriptors of other libraries.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::task::{Context, Poll, ready};

use duality_poller::Direction;
use duality_runtime::net::SharedDescriptor;

use super::{Interest, Ready};

/// A descriptor that another library reads and writes, in non-blocking mode. This type only waits
/// for it, by a duplicate of the descriptor.
///
/// tokio asks for `AsRawFd` alone, and trusts its caller that the descriptor is open. This type
/// asks for `AsFd` too, so that the compiler knows.
pub struct AsyncFd<T> {
    watched: SharedDescriptor,
    interest: Interest,
    inner: T,
}

impl<T: AsRawFd + AsFd> AsyncFd<T> {
    /// Takes an object with a descriptor.
    ///
    /// # Errors
    ///
    /// If no descriptor is left.
    pub fn new(inner: T) -> io::Result<Self> {
        Self::with_interest(inner, Interest::READABLE | Interest::WRITABLE)
    }

    /// Takes an object with a descriptor, to wait for this interest only.
    ///
    /// # Errors
    ///
    /// If no descriptor is left.
    pub fn with_interest(inner: T, interest: Interest) -> io::Result<Self> {
        let duplicate = inner.as_fd().try_clone_to_owned()?;
        Ok(Self { watched: SharedDescriptor::of_nonblocking(duplicate), interest, inner })
    }

    /// The object.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// The object.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// The object alone.
    pub fn into_inner(self) -> T {
        self.inner
    }

    /// Waits until a read does not wait.
    ///
    /// # Errors
    ///
    /// The errors of `poll(2)`.
    pub async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        poll_fn(|context| self.poll_read_ready(context)).await
    }

    /// Waits until a write does not wait.
    ///
    /// # Errors
    ///
    /// The errors of `poll(2)`.
    pub async fn writable(&self) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        poll_fn(|context| self.poll_write_ready(context)).await
    }

    /// Like [`readable`](Self::readable), for a future of one's own.
    pub fn poll_read_ready<'a>(
        &'a self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        self.poll_one(context, Direction::Read, Interest::READABLE)
    }

    /// Like [`writable`](Self::writable), for a future of one's own.
    pub fn poll_write_ready<'a>(
        &'a self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        self.poll_one(context, Direction::Write, Interest::WRITABLE)
    }

    fn poll_one<'a>(
        &'a self,
        context: &Context<'_>,
        direction: Direction,
        interest: Interest,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        ready!(self.watched.poll_ready(context, direction))?;
        let ready = Ready::now(self.watched.as_fd(), interest)?;
        Poll::Ready(Ok(AsyncFdReadyGuard { of: self, ready }))
    }

    /// Calls `operation` until it does not return `WouldBlock`, and waits before each further call.
    ///
    /// # Errors
    ///
    /// The errors of `operation`.
    pub async fn async_io<R>(
        &self,
        interest: Interest,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            match operation(&self.inner) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            let _ready = match interest.is_readable() {
                true => self.readable().await?,
                false => self.writable().await?,
            };
        }
    }
}

impl<T: AsRawFd> AsRawFd for AsyncFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

impl<T: AsFd> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl<T: fmt::Debug> fmt::Debug for AsyncFd<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("AsyncFd");
        shown.field("inner", &self.inner).field("interest", &self.interest).finish_non_exhaustive()
    }
}

/// What an [`AsyncFd`] is ready for.
pub struct AsyncFdReadyGuard<'a, T> {
    of: &'a AsyncFd<T>,
    ready: Ready,
}

impl<'a, T> AsyncFdReadyGuard<'a, T> {
    /// Nothing: each wait asks the kernel.
    pub fn clear_ready(&mut self) {}

    /// Nothing: each wait asks the kernel.
    pub fn clear_ready_matching(&mut self, _: Ready) {}

    /// Nothing: each wait asks the kernel.
    pub fn retain_ready(&mut self) {}

    /// What the descriptor is ready for.
    #[must_use]
    pub fn ready(&self) -> Ready {
        self.ready
    }

    /// Calls `operation` once.
    ///
    /// # Errors
    ///
    /// If the operation returns `WouldBlock`.
    pub fn try_io<R>(
        &mut self,
        operation: impl FnOnce(&'a AsyncFd<T>) -> io::Result<R>,
    ) -> Result<io::Result<R>, TryIoError> {
        match operation(self.of) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(TryIoError(())),
            other => Ok(other),
        }
    }

    /// The watched descriptor.
    #[must_use]
    pub fn get_ref(&self) -> &'a AsyncFd<T> {
        self.of
    }

    /// The object with the descriptor.
    #[must_use]
    pub fn get_inner(&self) -> &'a T {
        &self.of.inner
    }
}

impl<T> fmt::Debug for AsyncFdReadyGuard<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AsyncFdReadyGuard")
            .field("ready", &self.ready)
            .finish_non_exhaustive()
    }
}

/// The operation would have blocked.
#[derive(Debug)]
pub struct TryIoError(());
