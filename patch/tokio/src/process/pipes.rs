//! The parent's ends of the pipes to a child.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::process::{self, Stdio};
use std::task::{Context, Poll};

use real::io::{AsyncRead, AsyncWrite, ReadBuf};
use rustix::io::ioctl_fionbio;

use crate::net::unix::pipe::{Receiver, Sender};

/// The writing end of a child's standard input.
#[derive(Debug)]
pub struct ChildStdin(Sender);

/// The reading end of a child's standard output.
#[derive(Debug)]
pub struct ChildStdout(Receiver);

/// The reading end of a child's standard error.
#[derive(Debug)]
pub struct ChildStderr(Receiver);

macro_rules! ends {
    ($($end:ident = $pipe:ident)+) => {$(
        impl $end {
            /// Takes the pipe of a child of the standard library, in non-blocking mode.
            ///
            /// # Errors
            ///
            /// The errors of `fcntl(2)`.
            pub fn from_std(pipe: process::$end) -> io::Result<Self> {
                Ok(Self($pipe::from_owned_fd(pipe.into())?))
            }

            /// The descriptor alone, in blocking mode.
            ///
            /// # Errors
            ///
            /// If no descriptor is left.
            pub fn into_owned_fd(self) -> io::Result<OwnedFd> {
                let descriptor = self.as_fd().try_clone_to_owned()?;
                ioctl_fionbio(&descriptor, false)?;
                Ok(descriptor)
            }
        }

        impl AsFd for $end {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        impl AsRawFd for $end {
            fn as_raw_fd(&self) -> RawFd {
                self.0.as_raw_fd()
            }
        }

        /// For another child's pipe, in blocking mode.
        impl TryFrom<$end> for Stdio {
            type Error = io::Error;

            fn try_from(pipe: $end) -> io::Result<Self> {
                Ok(pipe.into_owned_fd()?.into())
            }
        }
    )+};
}

ends! { ChildStdin = Sender ChildStdout = Receiver ChildStderr = Receiver }

macro_rules! reads {
    ($($end:ident)+) => {$(
        impl AsyncRead for $end {
            fn poll_read(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.0).poll_read(context, buffer)
            }
        }
    )+};
}

reads! { ChildStdout ChildStderr }

impl AsyncWrite for ChildStdin {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, buffers)
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
