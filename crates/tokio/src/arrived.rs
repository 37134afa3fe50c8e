//! A stream that tells whether a reader has read all that has come.
//!
//! At a drain, hyper closes an idle connection at once. A request may have come by then that hyper
//! has not read yet. So the server first [looks](Look::begin), and polls hyper until all is read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;

use crate::socket::Socket;

/// A connection that can be looked at without reading.
pub(crate) trait Quiet {
    /// Whether neither bytes nor an end have come that have not been read.
    fn is_quiet(&self) -> bool;
}

impl Quiet for TokioIo<Socket> {
    fn is_quiet(&self) -> bool {
        self.inner().is_quiet()
    }
}

/// What the reader has done since a look began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Found {
    /// It has not tried to read, because a request is under way.
    NoRead,
    /// It has read, and may not have read everything.
    Bytes,
    /// It waits for bytes that have come. The stream's event is on its way.
    Unread,
    /// It waits, and nothing has come.
    Nothing,
}

/// A look at the reads of a stream. A clone stands for the same look.
#[derive(Clone, Debug)]
pub(crate) struct Look(Arc<AtomicU8>);

/// No look has begun.
const AWAY: u8 = u8::MAX;

impl Look {
    /// Forgets what was found, and looks at the reads from now on.
    pub(crate) fn begin(&self) {
        self.0.store(Found::NoRead as u8, Ordering::Relaxed);
    }

    /// What was found since the beginning.
    pub(crate) fn found(&self) -> Found {
        let all = [Found::NoRead, Found::Bytes, Found::Unread];
        let found = self.0.load(Ordering::Relaxed);
        all.into_iter().find(|kind| *kind as u8 == found).unwrap_or(Found::Nothing)
    }

    fn is_away(&self) -> bool {
        self.0.load(Ordering::Relaxed) == AWAY
    }
}

/// See the [module](self).
pub(crate) struct Arrived<I> {
    stream: I,
    look: Look,
}

impl<I> Arrived<I> {
    pub(crate) fn new(stream: I) -> (Self, Look) {
        let look = Look(Arc::new(AtomicU8::new(AWAY)));
        (Self { stream, look: look.clone() }, look)
    }
}

impl<I: Read + Quiet + Unpin> Read for Arrived<I> {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if !self.look.is_away() {
            let found = match read {
                Poll::Ready(_) => Found::Bytes,
                Poll::Pending if self.stream.is_quiet() => Found::Nothing,
                Poll::Pending => Found::Unread,
            };
            self.look.0.store(found as u8, Ordering::Relaxed);
        }
        read
    }
}

impl<I: Write + Unpin> Write for Arrived<I> {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
