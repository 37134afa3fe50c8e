//! A non-blocking socket: the operations that the kinds of sockets share.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use duality_poller::Direction;
use real::io::ReadBuf;
use rustix::net::{RecvFlags, SocketAddrAny};

use super::blocked::{Blocked, would_block};
use super::calls;
use super::datagram_calls::receive_from;
use crate::buffer;
use crate::elsewhere::helped;
use crate::io::{Interest, Ready};
use crate::watched::Watched;

/// A non-blocking socket.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: Watched,
    blocked: Blocked,
}

impl Socket {
    /// Makes `descriptor` non-blocking.
    #[track_caller]
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        Ok(Self { descriptor: Watched::new(descriptor)?, blocked: Blocked::both() })
    }

    #[track_caller]
    pub(super) fn of_nonblocking(descriptor: OwnedFd) -> Self {
        let descriptor = Watched::of_nonblocking(descriptor);
        Self { descriptor, blocked: Blocked::both() }
    }

    /// The socket of an accepted connection, in non-blocking mode.
    #[track_caller]
    pub(super) fn accepted(descriptor: OwnedFd) -> Self {
        let descriptor = Watched::of_nonblocking(descriptor);
        Self { descriptor, blocked: Blocked::neither() }
    }

    /// The descriptor alone, which stays non-blocking. Loops forget the old one.
    pub(super) fn into_descriptor(self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    /// One operation, which waits.
    pub(super) fn poll<T>(
        &self,
        context: &Context<'_>,
        direction: Direction,
        attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.helped(context, direction, self.descriptor.poll(context, direction, attempt))
    }

    /// Notes whether the operation would block. Has another thread wake the task, if this one
    /// cannot wait.
    #[inline]
    fn helped<T>(
        &self,
        context: &Context<'_>,
        direction: Direction,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_pending() {
            self.blocked.add(direction);
        }
        helped(&self.descriptor, context, direction, polled)
    }

    /// One operation, which waits.
    pub(super) async fn wait<T>(
        &self,
        direction: Direction,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        poll_fn(|context| self.poll(context, direction, &mut attempt)).await
    }

    pub(super) fn poll_ready(
        &self,
        context: &Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<()>> {
        if self.blocked.contains(direction) {
            let polled = self.descriptor.poll_ready(context, direction);
            ready!(self.helped(context, direction, polled))?;
            self.blocked.remove(direction);
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until one of the interests comes true.
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let known = self.blocked.known(interest);
        if !known.is_empty() {
            return Ok(known | Ready::now(self.as_fd(), interest)?);
        }
        let ready = Ready::awaited(&self.descriptor, interest).await?;
        self.blocked.learn(ready);
        Ok(ready)
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_ready(context, Direction::Read)).await
    }

    pub(super) async fn writable(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_ready(context, Direction::Write)).await
    }

    /// Calls `operation` if the socket is ready.
    pub(super) fn try_io<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        if self.blocked.known(interest).is_empty() {
            let ready = Ready::now(self.as_fd(), interest)?;
            if ready.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.blocked.learn(ready);
        }
        self.blocked.note_all(interest, operation())
    }

    /// Calls `operation` until it does not return `WouldBlock`, and waits before each further call.
    pub(super) async fn async_io<R>(
        &self,
        interest: Interest,
        mut operation: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let outcome = self.blocked.note_all(interest, operation());
            if !would_block(&outcome) {
                return outcome;
            }
            self.ready(interest).await?;
        }
    }

    pub(super) fn poll_read(
        &self,
        context: &Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        let read = self.descriptor.poll_moving(context, Direction::Read, room, |socket| {
            buffer::fill(buffer, |room| {
                let count = calls::receive(socket, room, RecvFlags::empty())?;
                Ok((count, count))
            })
        });
        self.helped(context, Direction::Read, read).map_ok(drop)
    }

    pub(super) fn poll_peek(
        &self,
        context: &Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll(context, Direction::Read, |socket| {
            buffer::fill(buffer, |room| {
                let count = calls::receive(socket, room, RecvFlags::PEEK)?;
                Ok((count, count))
            })
        })
    }

    pub(super) fn poll_write(
        &self,
        context: &Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written =
            self.descriptor.poll_moving(context, Direction::Write, bytes.len(), |socket| {
                calls::send_some(socket, bytes)
            });
        self.helped(context, Direction::Write, written)
    }

    pub(super) fn poll_write_vectored(
        &self,
        context: &Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let room = buffers.iter().map(|buffer| buffer.len()).sum();
        let written = self.descriptor.poll_moving(context, Direction::Write, room, |socket| {
            calls::send_gathered(socket, buffers)
        });
        self.helped(context, Direction::Write, written)
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match calls::shut_down(self.as_fd(), how) {
            // The peer has already ended the connection.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other,
        }
    }

    /// The outcome of an operation that does not wait.
    pub(super) fn noted<T>(
        &self,
        direction: Direction,
        outcome: Result<T, impl Into<io::Error>>,
    ) -> io::Result<T> {
        self.blocked.note(direction, outcome.map_err(Into::into))
    }

    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.noted(Direction::Read, calls::receive_into(self.as_fd(), buffer))
    }

    pub(super) fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.noted(Direction::Read, calls::receive_scattered(self.as_fd(), buffers))
    }

    pub(super) fn try_read_buf<B: BufMut>(&self, buffer: &mut B) -> io::Result<usize> {
        let (count, ()) = buffer::fill_bytes(buffer, |room: &mut [MaybeUninit<u8>]| {
            let received = calls::receive(self.as_fd(), room, RecvFlags::empty());
            self.noted(Direction::Read, received.map(|count| (count, ())))
        })?;
        Ok(count)
    }

    /// Receives a datagram and its sender.
    pub(super) fn try_receive(
        &self,
        room: &mut [MaybeUninit<u8>],
        flags: RecvFlags,
    ) -> io::Result<(usize, Option<SocketAddrAny>)> {
        self.noted(Direction::Read, receive_from(self.as_fd(), room, flags))
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.noted(Direction::Write, calls::send_some(self.as_fd(), bytes))
    }

    pub(super) fn try_write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.noted(Direction::Write, calls::send_gathered(self.as_fd(), buffers))
    }

    pub(super) fn take_error(&self) -> io::Result<Option<io::Error>> {
        calls::error(self.as_fd())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
