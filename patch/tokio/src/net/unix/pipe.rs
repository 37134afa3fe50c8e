//! Pipes.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use duality_poller::Direction;
use real::io::{AsyncRead, AsyncWrite, ReadBuf};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::buffer;
use crate::io::{Interest, Ready};
use crate::watched::{Watched, refuse_simulated};

/// Makes a pipe.
///
/// # Errors
///
/// If no descriptor is left.
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    refuse_simulated("pipes")?;
    let (reads, writes) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let (pipe, other) = (Watched::of_nonblocking(writes), Watched::of_nonblocking(reads));
    Ok((Sender { pipe }, Receiver { pipe: other }))
}

/// The writing end of a pipe.
#[derive(Debug)]
pub struct Sender {
    pipe: Watched,
}

/// The reading end of a pipe.
#[derive(Debug)]
pub struct Receiver {
    pipe: Watched,
}

/// How a named pipe is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    reads_and_writes: bool,
    is_unchecked: bool,
}

impl OpenOptions {
    /// One direction, of a file that must be a pipe.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether to open both directions. So the opener need not wait for a peer, and a reader has no
    /// end of input.
    pub fn read_write(&mut self, is_wanted: bool) -> &mut Self {
        self.reads_and_writes = is_wanted;
        self
    }

    /// Whether to take files that are no pipes.
    pub fn unchecked(&mut self, is_unchecked: bool) -> &mut Self {
        self.is_unchecked = is_unchecked;
        self
    }

    /// Opens the reading end of a named pipe.
    ///
    /// # Errors
    ///
    /// The errors of `open(2)`. If the file is no pipe.
    pub fn open_receiver<P: AsRef<Path>>(&self, path: P) -> io::Result<Receiver> {
        let file = self.open(path.as_ref(), true, self.reads_and_writes)?;
        match self.is_unchecked {
            true => Receiver::from_file_unchecked(file),
            false => Receiver::from_file(file),
        }
    }

    /// Opens the writing end of a named pipe.
    ///
    /// # Errors
    ///
    /// The errors of `open(2)`, such as ENXIO if no reader has opened the pipe. If the file is no
    /// pipe.
    pub fn open_sender<P: AsRef<Path>>(&self, path: P) -> io::Result<Sender> {
        let file = self.open(path.as_ref(), self.reads_and_writes, true)?;
        match self.is_unchecked {
            true => Sender::from_file_unchecked(file),
            false => Sender::from_file(file),
        }
    }

    fn open(&self, path: &Path, reads: bool, writes: bool) -> io::Result<File> {
        let mut options = File::options();
        options.read(reads).write(writes).custom_flags(libc::O_NONBLOCK).open(path)
    }
}

/// Takes a pipe, in non-blocking mode. `mode` is the access that it must not have.
fn take(descriptor: OwnedFd, wrong: OFlags) -> io::Result<Watched> {
    refuse_simulated("pipes")?;
    if FileType::from_raw_mode(fstat(&descriptor)?.st_mode) != FileType::Fifo {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a pipe"));
    }
    if fcntl_getfl(&descriptor)? & OFlags::RWMODE == wrong {
        let problem = "not in O_RDONLY, O_WRONLY or O_RDWR access mode, as this end needs";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    Watched::new(descriptor)
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

    /// Takes a file, which the caller knows to be a pipe in non-blocking mode.
    ///
    /// # Errors
    ///
    /// None.
    pub fn from_file_unchecked(file: File) -> io::Result<Self> {
        Self::from_owned_fd_unchecked(file.into())
    }

    /// Takes a descriptor, which the caller knows to be of a pipe in non-blocking mode.
    ///
    /// # Errors
    ///
    /// None.
    pub fn from_owned_fd_unchecked(descriptor: OwnedFd) -> io::Result<Self> {
        refuse_simulated("pipes")?;
        Ok(Self { pipe: Watched::of_nonblocking(descriptor) })
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

    /// Like [`writable`](Self::writable), for a future of one's own.
    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe.poll_ready(context, Direction::Write)
    }

    /// Writes several buffers without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `writev(2)`.
    pub fn try_write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::writev(&self.pipe, buffers)?)
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

    /// Takes a file, which the caller knows to be a pipe in non-blocking mode.
    ///
    /// # Errors
    ///
    /// None.
    pub fn from_file_unchecked(file: File) -> io::Result<Self> {
        Self::from_owned_fd_unchecked(file.into())
    }

    /// Takes a descriptor, which the caller knows to be of a pipe in non-blocking mode.
    ///
    /// # Errors
    ///
    /// None.
    pub fn from_owned_fd_unchecked(descriptor: OwnedFd) -> io::Result<Self> {
        refuse_simulated("pipes")?;
        Ok(Self { pipe: Watched::of_nonblocking(descriptor) })
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
        let room = buffer.len();
        self.unless_early(room, rustix::io::read(&self.pipe, buffer)?)
    }

    /// Like [`readable`](Self::readable), for a future of one's own.
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe.poll_ready(context, Direction::Read)
    }

    /// Reads into several buffers without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `readv(2)`.
    pub fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let room = buffers.iter().map(|buffer| buffer.len()).sum();
        self.unless_early(room, rustix::io::readv(&self.pipe, buffers)?)
    }

    /// Reads into a buffer of the crate bytes without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `read(2)`.
    pub fn try_read_buf<B: BufMut>(&self, buffer: &mut B) -> io::Result<usize> {
        let (count, ()) = buffer::fill_bytes(buffer, |free| {
            let room = free.len();
            let count = rustix::io::read(&self.pipe, free)?.0.len();
            Ok((self.unless_early(room, count)?, ()))
        })?;
        Ok(count)
    }

    /// The number of bytes of a read. `WouldBlock` if no writer has opened the pipe yet.
    ///
    /// read(2) returns 0 for such a pipe and for an end of input. poll(2) tells them apart.
    fn unless_early(&self, room: usize, count: usize) -> io::Result<usize> {
        match count == 0 && room != 0 && !self.pipe.is_ready(Direction::Read)? {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => Ok(count),
        }
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
            buffer::fill(buffer, |free| {
                let count = self.unless_early(room, rustix::io::read(pipe, free)?.0.len())?;
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
        impl $end {
            /// Waits until one of the interests comes true.
            ///
            /// # Errors
            ///
            /// The errors of `poll(2)`.
            pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
                Ready::awaited(&self.pipe, interest).await
            }

            /// Calls `operation` once.
            ///
            /// # Errors
            ///
            /// The errors of `operation`.
            pub fn try_io<R>(&self, operation: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
                operation()
            }

            /// The descriptor, in non-blocking mode.
            ///
            /// # Errors
            ///
            /// If no descriptor is left.
            pub fn into_nonblocking_fd(self) -> io::Result<OwnedFd> {
                self.as_fd().try_clone_to_owned()
            }

            /// The descriptor, in blocking mode.
            ///
            /// # Errors
            ///
            /// If no descriptor is left.
            pub fn into_blocking_fd(self) -> io::Result<OwnedFd> {
                let descriptor = self.into_nonblocking_fd()?;
                ioctl_fionbio(&descriptor, false)?;
                Ok(descriptor)
            }
        }

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
