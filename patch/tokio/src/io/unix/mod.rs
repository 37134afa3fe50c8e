//! Descriptors of other libraries.

mod guard;
#[expect(unsafe_code, reason = "tokio's interface knows a descriptor by its number")]
mod raw;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::task::{Context, Poll, ready};

use duality_poller::Direction;

#[expect(deprecated, reason = "programs may use the former name")]
pub use self::guard::AsyncFdTryNewError;
pub use self::guard::{AsyncFdReadyGuard, AsyncFdReadyMutGuard, AsyncFdRegisterError, TryIoError};
use super::{Interest, Ready};

use crate::watched::{Watched, refuse_simulated};

/// A descriptor that another library reads and writes, in non-blocking mode. This type only waits
/// for it, by a duplicate of the descriptor.
pub struct AsyncFd<T> {
    watched: Watched,
    interest: Interest,
    inner: T,
}

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// The constructors.
#[expect(unsafe_code, reason = "tokio marks two of them as unsafe, and they are safe here")]
impl<T: AsRawFd> AsyncFd<T> {
    /// Takes an object with a descriptor.
    ///
    /// # Safety
    ///
    /// tokio asks that the object owns its descriptor. Here nothing depends on it.
    ///
    /// # Errors
    ///
    /// If the number is of no open descriptor, or no descriptor is left.
    pub unsafe fn register(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::watch(inner, BOTH)
    }

    /// Takes an object with a descriptor, to wait for this interest only.
    ///
    /// # Safety
    ///
    /// As with [`register`](Self::register).
    ///
    /// # Errors
    ///
    /// Those of [`register`](Self::register).
    pub unsafe fn register_with_interest(
        inner: T,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::watch(inner, interest)
    }

    /// Takes an object with a descriptor.
    ///
    /// # Errors
    ///
    /// Those of [`register`](Self::register).
    pub fn new(inner: T) -> io::Result<Self> {
        Ok(Self::watch(inner, BOTH)?)
    }

    /// Takes an object with a descriptor, to wait for this interest only.
    ///
    /// # Errors
    ///
    /// Those of [`register`](Self::register).
    pub fn with_interest(inner: T, interest: Interest) -> io::Result<Self> {
        Ok(Self::watch(inner, interest)?)
    }

    /// Takes an object with a descriptor. The error gives the object back.
    ///
    /// # Errors
    ///
    /// Those of [`register`](Self::register).
    pub fn try_new(inner: T) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::watch(inner, BOTH)
    }

    /// Takes an object with a descriptor, to wait for this interest only. The error gives the
    /// object back.
    ///
    /// # Errors
    ///
    /// Those of [`register`](Self::register).
    pub fn try_with_interest(
        inner: T,
        interest: Interest,
    ) -> Result<Self, AsyncFdRegisterError<T>> {
        Self::watch(inner, interest)
    }

    fn watch(inner: T, interest: Interest) -> Result<Self, AsyncFdRegisterError<T>> {
        match refuse_simulated("AsyncFd").and_then(|()| raw::duplicate(&inner)) {
            Ok(duplicate) => {
                let watched = Watched::of_nonblocking(duplicate);
                Ok(Self { watched, interest, inner })
            }
            Err(cause) => Err(AsyncFdRegisterError { inner, cause }),
        }
    }
}

impl<T: AsRawFd> AsyncFd<T> {
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

    /// Waits until one of the interests comes true.
    ///
    /// # Errors
    ///
    /// The errors of `poll(2)`.
    pub async fn ready(&self, interest: Interest) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        let ready = Ready::awaited(&self.watched, interest).await?;
        Ok(AsyncFdReadyGuard::new(self, ready))
    }

    /// Like [`ready`](Self::ready), with exclusive access.
    ///
    /// # Errors
    ///
    /// The errors of `poll(2)`.
    pub async fn ready_mut(
        &mut self,
        interest: Interest,
    ) -> io::Result<AsyncFdReadyMutGuard<'_, T>> {
        let ready = Ready::awaited(&self.watched, interest).await?;
        Ok(AsyncFdReadyMutGuard::new(self, ready))
    }

    /// Waits until a read does not wait.
    ///
    /// # Errors
    ///
    /// The errors of `poll(2)`.
    pub async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        poll_fn(|context| self.poll_read_ready(context)).await
    }

    /// Like [`readable`](Self::readable), with exclusive access.
    ///
    /// # Errors
    ///
    /// The errors of `poll(2)`.
    pub async fn readable_mut(&mut self) -> io::Result<AsyncFdReadyMutGuard<'_, T>> {
        self.ready_mut(Interest::READABLE).await
    }

    /// Waits until a write does not wait.
    ///
    /// # Errors
    ///
    /// The errors of `poll(2)`.
    pub async fn writable(&self) -> io::Result<AsyncFdReadyGuard<'_, T>> {
        poll_fn(|context| self.poll_write_ready(context)).await
    }

    /// Like [`writable`](Self::writable), with exclusive access.
    ///
    /// # Errors
    ///
    /// The errors of `poll(2)`.
    pub async fn writable_mut(&mut self) -> io::Result<AsyncFdReadyMutGuard<'_, T>> {
        self.ready_mut(Interest::WRITABLE).await
    }

    /// Like [`readable`](Self::readable), for a future of one's own.
    pub fn poll_read_ready<'a>(
        &'a self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        let ready = ready!(self.poll_one(context, Direction::Read))?;
        Poll::Ready(Ok(AsyncFdReadyGuard::new(self, ready)))
    }

    /// Like [`readable_mut`](Self::readable_mut), for a future of one's own.
    pub fn poll_read_ready_mut<'a>(
        &'a mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        let ready = ready!(self.poll_one(context, Direction::Read))?;
        Poll::Ready(Ok(AsyncFdReadyMutGuard::new(self, ready)))
    }

    /// Like [`writable`](Self::writable), for a future of one's own.
    pub fn poll_write_ready<'a>(
        &'a self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, T>>> {
        let ready = ready!(self.poll_one(context, Direction::Write))?;
        Poll::Ready(Ok(AsyncFdReadyGuard::new(self, ready)))
    }

    /// Like [`writable_mut`](Self::writable_mut), for a future of one's own.
    pub fn poll_write_ready_mut<'a>(
        &'a mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, T>>> {
        let ready = ready!(self.poll_one(context, Direction::Write))?;
        Poll::Ready(Ok(AsyncFdReadyMutGuard::new(self, ready)))
    }

    fn poll_one(&self, context: &Context<'_>, direction: Direction) -> Poll<io::Result<Ready>> {
        ready!(self.watched.poll_ready(context, direction))?;
        let interest = match direction {
            Direction::Read => Interest::READABLE,
            Direction::Write => Interest::WRITABLE,
        };
        Poll::Ready(Ready::now(self.watched.as_fd(), interest))
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
            Ready::awaited(&self.watched, interest).await?;
        }
    }

    /// Like [`async_io`](Self::async_io), with exclusive access.
    ///
    /// # Errors
    ///
    /// The errors of `operation`.
    pub async fn async_io_mut<R>(
        &mut self,
        interest: Interest,
        mut operation: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            match operation(&mut self.inner) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            Ready::awaited(&self.watched, interest).await?;
        }
    }

    /// Calls `operation` once.
    ///
    /// # Errors
    ///
    /// The errors of `operation`.
    pub fn try_io<R>(
        &self,
        _: Interest,
        operation: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        operation(&self.inner)
    }

    /// Like [`try_io`](Self::try_io), with exclusive access.
    ///
    /// # Errors
    ///
    /// The errors of `operation`.
    pub fn try_io_mut<R>(
        &mut self,
        _: Interest,
        operation: impl FnOnce(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        operation(&mut self.inner)
    }
}

impl<T: AsRawFd> AsRawFd for AsyncFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

/// The duplicate, which is of the same open file.
impl<T: AsRawFd> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watched.as_fd()
    }
}

impl<T: fmt::Debug> fmt::Debug for AsyncFd<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("AsyncFd");
        shown.field("inner", &self.inner).field("interest", &self.interest).finish_non_exhaustive()
    }
}
