//! Pipes.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use duality_poller::Direction;
use duality_runtime::net::SharedDescriptor;
use real::io::{AsyncRead, AsyncWrite, ReadBuf};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::buffer;

/// Makes a pipe.
///
/// # Errors
///
/// If no descriptor is left.
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    let (reads, writes) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let (pipe, other) =
        (SharedDescriptor::of_nonblocking(writes), SharedDescriptor::of_nonblocking(reads));
    Ok((Sender { pipe }, Receiver { pipe: other }))
}

/// The writing end of a pipe.
#[derive(Debug)]
pub struct Sender {
    pipe: SharedDescriptor,
}

/// The reading end of a pipe.
#[derive(Debug)]
pub struct Receiver {
    pipe: SharedDescriptor,
}

/// Takes a pipe, in non-blocking mode. `mode` is the access that it must not have.
fn take(descriptor: OwnedFd, wrong: OFlags) -> io::Result<SharedDescriptor> {
    if FileType::from_raw_mode(fstat(&descriptor)?.st_mode) != FileType::Fifo {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a pipe"));
    }
    if fcntl_getfl(&descriptor)? & OFlags::RWMODE == wrong {
        let problem = "not in O_RDONLY, O_WRONLY or O_RDWR access mode, as this end needs";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    SharedDescriptor::new(descriptor)
}

impl Sender {
    /// Takes a file, which must be a pipe, in non-blocking mode.
    ///
    /// # Errors
    ///
    /// If the file is no pipe, or cannot be written.
    pub fn from_file(file: File) -> io::Result<Self> {
        Self::from_owned_fd(file.into())
    }

    /// Takes a descriptor, which must be of a pipe, in non-blocking mode.
    ///
    /// # Errors
    ///
    /// If the file is no pipe, or cannot be written.
    pub fn from_owned_fd(descriptor: OwnedFd) -> io::Result<Self> {
        Ok(Self { pipe: take(descriptor, OFlags::RDONLY)? })
    }

    /// Waits until a write does not wait.
    ///
    /// # Errors
    ///
    /// The errors of `poll(2)`.
    pub async fn writable(&self) -> io::Result<()> {
        poll_fn(|context| self.pipe.poll_ready(context, Direction::Write)).await
    }

    /// Writes without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `write(2)`.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.pipe, bytes)?)
    }
}

impl Receiver {
    /// Takes a file, which must be a pipe, in non-blocking mode.
    ///
    /// # Errors
    ///
    /// If the file is no pipe, or cannot be read.
    pub fn from_file(file: File) -> io::Result<Self> {
        Self::from_owned_fd(file.into())
    }

    /// Takes a descriptor, which must be of a pipe, in non-blocking mode.
    ///
    /// # Errors
    ///
    /// If the file is no pipe, or cannot be read.
    pub fn from_owned_fd(descriptor: OwnedFd) -> io::Result<Self> {
        Ok(Self { pipe: take(descriptor, OFlags::WRONLY)? })
    }

    /// Waits until a read does not wait.
    ///
    /// # Errors
    ///
    /// The errors of `poll(2)`.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| self.pipe.poll_ready(context, Direction::Read)).await
    }

    /// Reads without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `read(2)`.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.pipe, buffer)?)
    }
}

impl AsyncRead for Receiver {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        ready!(self.pipe.poll_moving(context, Direction::Read, room, |pipe| {
            buffer::fill(buffer, |room| {
                let count = rustix::io::read(pipe, room)?.0.len();
                Ok((count, count))
            })
        }))?;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Sender {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.pipe.poll(context, Direction::Write, |pipe| Ok(rustix::io::write(pipe, bytes)?))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.pipe.poll(context, Direction::Write, |pipe| Ok(rustix::io::writev(pipe, buffers)?))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

macro_rules! descriptor {
    ($($end:ident)+) => {$(
        impl AsFd for $end {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.pipe.as_fd()
            }
        }

        impl AsRawFd for $end {
            fn as_raw_fd(&self) -> RawFd {
                self.as_fd().as_raw_fd()
            }
        }
    )+};
}

descriptor! { Sender Receiver }
