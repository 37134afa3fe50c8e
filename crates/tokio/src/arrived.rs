//! A stream that tells whether a reader has read all that has come. It keeps the end of the input
//! from the reader for a while.
//!
//! hyper takes the end of the input for a client that has left, and drops the request under way.
//! But a client may end its side alone, after its last request. So the end comes to hyper after the
//! reply, or after [`PATIENCE`] if the reply takes longer.
//!
//! At a drain, hyper closes an idle connection at once. A request may have come by then that hyper
//! has not read yet. So the server first [looks](Look::begin), and polls hyper until all is read.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::time::{Duration, Sleep, sleep};

use crate::requests::UnderWay;
use crate::socket::Socket;

/// A connection that can be looked at without reading.
pub(crate) trait Quiet {
    /// Whether neither bytes nor an end have come that have not been read.
    fn is_quiet(&self) -> bool;

    /// Whether a read has found the end of the input.
    fn has_ended(&self) -> bool;
}

/// The time for which a request goes on after its client may have left.
const PATIENCE: Duration = Duration::from_secs(1);

impl Quiet for TokioIo<Socket> {
    fn has_ended(&self) -> bool {
        self.inner().has_ended()
    }

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
    under_way: UnderWay,
    /// The end of the patience with a client that may have left.
    patience: Option<Pin<Box<Sleep>>>,
}

impl<I> Arrived<I> {
    pub(crate) fn new(stream: I, under_way: UnderWay) -> (Self, Look) {
        let look = Look(Arc::new(AtomicU8::new(AWAY)));
        (Self { stream, look: look.clone(), under_way, patience: None }, look)
    }

    /// Waits until the reader may know of the end of the input.
    #[cold]
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.under_way.is_any() {
            return Poll::Ready(Ok(()));
        }
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        patience.as_mut().poll(context).map(Ok)
    }
}

impl<I: Read + Quiet + Unpin> Read for Arrived<I> {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.stream.has_ended() {
            return self.poll_end(context);
        }
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.stream.has_ended() {
            return self.poll_end(context);
        }
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
