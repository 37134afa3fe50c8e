//! What may stand between a service and its socket: TLS, or a client that no network carries.
//!
//! ```text
//!   service ── attempt ──▶ Access ── with a channel ──▶ Channel ── Access without it ──▶ socket
//!                             └───── without one ──────────────────────────────────────▶ socket
//! ```
//!
//! On a simulated host, TLS is a channel above the channel of the simulated socket.
//!
//! A channel holds no wait of its own. An attempt that needs the network waits for it as every
//! other attempt does, in every world.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};
use std::time::Duration;

use duality_poller::Direction;
use rustix::io::Errno;
use rustix::net::Shutdown;

use super::{Access, Done, Moved, Socket, TimeLimit};
use crate::event_loop::current;
use crate::net::injection::Injected;
use crate::tcp_info::Closed;

/// Turns the bytes of a service into those of the network, and back. Each function is one attempt.
/// It returns `WouldBlock` where the attempt on the network does, and is then called again.
pub(crate) trait Channel: Send + Sync {
    /// Whether there is no network beneath.
    fn is_injected(&self) -> bool {
        false
    }

    /// Whether the channel is TLS.
    fn is_encrypted(&self) -> bool {
        false
    }

    /// The protocol that both sides have agreed on, if the channel is TLS.
    #[cfg(feature = "rustls")]
    fn agreed_protocol(&self) -> Option<Vec<u8>> {
        None
    }

    /// Whether the next [`receive`](Channel::receive) has its result without the network.
    fn has_input(&self) -> bool {
        false
    }

    /// A write begins. An earlier one may have been dropped between two attempts.
    fn begin_write(&self) {}

    /// Receives bytes; [`unfinished`] where bytes have come, but none for the service.
    fn receive(
        &self,
        network: &Access<'_>,
        buffer: &mut [MaybeUninit<u8>],
    ) -> io::Result<Moved<usize>>;

    /// Sends some of the bytes of `buffers`.
    fn send(&self, network: &Access<'_>, buffers: &[IoSlice<'_>]) -> io::Result<Moved<usize>>;

    /// Sends some of `bytes`, and the end if that is all of them.
    fn send_last(&self, network: &Access<'_>, bytes: &[u8]) -> io::Result<Moved<usize>>;

    /// Ends our side.
    fn end(&self, network: &Access<'_>) -> io::Result<Moved<()>> {
        network.end()
    }

    /// Has [`close`](Channel::close) say nothing: the peer must not take what it has for the whole.
    fn break_off(&self, socket: BorrowedFd<'_>) {
        let _ = socket;
    }

    // What follows is for channels without a network beneath.

    /// Whether an attempt waits in place where its socket is in blocking mode, as on a network.
    fn waits_in_place(&self) -> bool {
        false
    }

    /// Limits how long an attempt waits in place, to receive or to send.
    fn set_wait_limit(&self, to_receive: bool, limit: Option<Duration>) {
        let _ = (to_receive, limit);
    }

    /// The address of this end and the one of the peer, if the channel has addresses.
    fn addresses(&self, socket: BorrowedFd<'_>) -> Option<(SocketAddr, SocketAddr)> {
        let _ = socket;
        None
    }

    /// Limits how long the peer may take no sent data.
    fn set_taking_limit(&self, socket: BorrowedFd<'_>, limit: Duration) {
        let _ = (socket, limit);
    }

    /// Ends directions at once.
    fn shut_down(&self, socket: BorrowedFd<'_>, how: Shutdown) -> io::Result<()> {
        Ok(rustix::net::shutdown(socket, how)?)
    }

    /// How the peer has ended the connection, if it has.
    fn has_closed(&self, socket: BorrowedFd<'_>) -> Option<Closed> {
        let _ = socket;
        None
    }

    /// Whether nothing has come that has not been received. `None` if the network knows.
    fn is_quiet(&self, socket: BorrowedFd<'_>) -> Option<bool> {
        let _ = socket;
        None
    }

    /// The channel of a duplicate of `socket`. `None` if there can be none.
    fn duplicate(&self, socket: BorrowedFd<'_>, twin: BorrowedFd<'_>) -> Option<Box<dyn Channel>> {
        let _ = (socket, twin);
        None
    }

    /// Tells that the socket goes on with the descriptor `twin`, a duplicate of `socket`, which is
    /// about to be closed.
    fn moves(&self, socket: BorrowedFd<'_>, twin: BorrowedFd<'_>) {
        let _ = (socket, twin);
    }

    /// Sends the last bytes during a drop, without waiting.
    #[cfg_attr(not(feature = "rustls"), expect(dead_code, reason = "only TLS has last bytes"))]
    fn send_at_close(&self, bytes: &[u8]) -> io::Result<usize> {
        let _ = bytes;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Tells the peer of the end without waiting, if it has not been told.
    fn close(&self, socket: BorrowedFd<'_>) {
        let _ = socket;
    }
}

impl Channel for Injected {
    fn is_injected(&self) -> bool {
        true
    }

    fn receive(
        &self,
        _network: &Access<'_>,
        buffer: &mut [MaybeUninit<u8>],
    ) -> io::Result<Moved<usize>> {
        Ok(Moved::all(self.take_input(buffer)))
    }

    fn send(&self, _network: &Access<'_>, buffers: &[IoSlice<'_>]) -> io::Result<Moved<usize>> {
        Ok(Moved::all(self.take(buffers.iter().map(|buffer| buffer.len()).sum())))
    }

    fn send_last(&self, _network: &Access<'_>, bytes: &[u8]) -> io::Result<Moved<usize>> {
        Ok(Moved::all(self.take(bytes.len())))
    }
}

/// The outcome of an attempt that has received, but nothing for the service yet. The wait for the
/// rest is a wait as every other.
#[cfg_attr(not(feature = "rustls"), expect(dead_code, reason = "only TLS has records"))]
pub(in crate::net) fn unfinished() -> io::Error {
    Errno::RESTART.into()
}

impl Socket {
    /// Performs one operation, as [`Socket::poll`] does.
    pub(super) fn poll_channel<T>(
        &mut self,
        context: &Context<'_>,
        direction: Direction,
        time_limit: &mut TimeLimit,
        mut attempt: impl FnMut(Access<'_>) -> io::Result<Moved<T>>,
    ) -> Poll<io::Result<Done<T>>> {
        loop {
            let has_input = self.channel.as_ref().is_some_and(|channel| channel.has_input());
            if has_input && direction == Direction::Read {
                let received = attempt(self.access(None, direction));
                return Poll::Ready(received.map(|moved| Done::Moved(moved.value)));
            }
            match self.poll_network(context, direction, time_limit, &mut attempt) {
                Poll::Ready(Err(error)) if Errno::from_io_error(&error) == Some(Errno::RESTART) => {
                }
                done => return done,
            }
        }
    }

    /// Lets the channel tell its peer of the end, unless a ring has still to send.
    pub(super) fn close_channel(&mut self) {
        let Some(channel) = self.channel.take() else { return };
        let ring_sends = current::with_loop(|core| {
            let ours = core.filter(|core| core.has_ring());
            ours.zip(self.watched).is_some_and(|(core, (watcher, token))| {
                core.id() != watcher || core.with_ring(|ring| ring.all_sent(token)).is_err()
            })
        });
        if !ring_sends {
            channel.close(self.as_fd());
        }
    }
}
