//! Both directions of a connection, in memory. [`h2`] reads and writes here, and never waits for
//! the network: the [session](super::session) moves the bytes.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// See the [module](self). A clone is another handle to the same bytes.
#[derive(Clone, Default)]
pub(super) struct Pipe(Arc<Mutex<Directions>>);

#[derive(Default)]
struct Directions {
    /// The bytes from the server. The first `taken` bytes have been read.
    input: Vec<u8>,
    taken: usize,
    /// The bytes for the server.
    output: Vec<u8>,
}

impl Pipe {
    // One task uses a pipe, so the lock is free.
    fn directions(&self) -> MutexGuard<'_, Directions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds bytes from the server.
    pub(super) fn put(&self, bytes: &[u8]) {
        self.directions().input.extend_from_slice(bytes);
    }

    /// Moves the bytes for the server into `output`, which is empty.
    pub(super) fn take(&self, output: &mut Vec<u8>) {
        std::mem::swap(&mut self.directions().output, output);
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut directions = self.directions();
        let Directions { input, taken, .. } = &mut *directions;
        let rest = &input[*taken..];
        if rest.is_empty() {
            // The session polls again when there are bytes, so no waker is kept.
            return Poll::Pending;
        }
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..count]);
        *taken += count;
        if *taken == input.len() {
            input.clear();
            *taken = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.directions().output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
