//! Receiving: bytes that the kernel has received by itself, and bytes that are still in the socket.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::name::{Purpose, name};
use super::{Reading, Ring, find};
use crate::Token;

impl Ring {
    /// Moves bytes that have come to the start of `buffer`, and returns how many. 0 is the end of
    /// the stream.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there are none yet. The errors of `recv(2)`.
    ///
    /// # Safety
    ///
    /// The socket stays open until [`close`](Self::close) or [`forget`](crate::Poller::forget) with
    /// this token.
    pub unsafe fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        token: Token,
        buffer: &mut [MaybeUninit<u8>],
    ) -> io::Result<usize> {
        if let Some(taken) = self.take_received(token, buffer) {
            return taken;
        }
        let source = find(&mut self.sources, token);
        if source.reading != Reading::Not {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // The first bytes of a connection are often there already, and may be the only ones.
        let attempt = recv(socket, buffer, RecvFlags::DONTWAIT).map(|(_, count)| count);
        source.starved &= !self.queue.buffers.any_left();
        if attempt == Err(Errno::AGAIN) && !source.starved {
            source.reading = Reading::Goes;
            self.queue.receive(socket, name(Purpose::Receive, source.generation, token));
        }
        Ok(attempt?)
    }

    /// Takes bytes that have come, and makes the kernel stop receiving by itself. Then `WouldBlock`
    /// means that all bytes have been taken, unless the kernel [has yet to
    /// stop](Ring::is_stopping).
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there are none, and while the kernel has yet to stop. The errors of
    /// `recv(2)`.
    pub fn receive_rest(
        &mut self,
        socket: BorrowedFd<'_>,
        token: Token,
        buffer: &mut [MaybeUninit<u8>],
    ) -> io::Result<usize> {
        if let Some(taken) = self.take_received(token, buffer) {
            return taken;
        }
        let source = find(&mut self.sources, token);
        if source.reading == Reading::Not {
            return Ok(recv(socket, buffer, RecvFlags::DONTWAIT)?.1);
        }
        if source.reading == Reading::Goes {
            source.reading = Reading::Stops;
            self.queue.cancel(name(Purpose::Receive, source.generation, token));
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Whether the kernel was told to stop accepting or receiving, and has not stopped yet. An
    /// event for reading tells when it has stopped.
    pub fn is_stopping(&self, token: Token) -> bool {
        self.sources.get(token.0 as usize).is_some_and(|source| source.reading == Reading::Stops)
    }

    /// Takes bytes that the kernel has received, or else the end of the stream.
    #[inline]
    fn take_received(
        &mut self,
        token: Token,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Option<io::Result<usize>> {
        let source = find(&mut self.sources, token);
        if source.received.count() > 0 {
            return Some(Ok(self.queue.buffers.read(&mut source.received, buffer)));
        }
        let ended = source.ended?;
        // An error is reported once. The next call returns the end.
        source.ended = Some(Ok(()));
        Some(ended.map(|()| 0).map_err(io::Error::from))
    }
}
