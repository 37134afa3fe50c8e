//! The settings of a stream: addresses, time-outs, options of its socket.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::net::sockopt::Timeout;

use super::TcpStream;
use crate::world::{self, World};

impl TcpStream {
    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the peer has reset the connection.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.direct().peer_address()
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.direct().local_address()
    }

    /// Whether the peer has neither sent nor closed since the last read, so that an idle connection
    /// can be used again. A look, without a wait.
    ///
    /// With io_uring, bytes that come are the ring's. The look finds those that had come at the
    /// last round of the loop.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.socket.is_quiet()
    }

    /// Sets whether small writes go out at once (`TCP_NODELAY`). By default they do.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.socket.direct().set_nodelay(on)
    }

    /// Whether small writes go out at once.
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.direct().nodelay()
    }

    /// Limits how long one read waits. `None`, the default, means no limit. Setting the same limit
    /// again costs nothing.
    ///
    /// On a loop, the limit counts from the round in which the wait began.
    ///
    /// A read of an accepted connection may end earlier, as at the end of input. This happens at a
    /// [drain](crate::drain), and when other clients wait for the connection's thread
    /// ([`places`](crate::places)).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a limit of zero. The errors of `setsockopt(2)`.
    pub fn set_read_timeout(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.set_timeout(Timeout::Recv, limit)
    }

    /// Limits how long one write waits, like [`set_read_timeout`](TcpStream::set_read_timeout).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a limit of zero. The errors of `setsockopt(2)`.
    pub fn set_write_timeout(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.set_timeout(Timeout::Send, limit)
    }

    /// Limits how long the peer may take no sent data. The peer's window may have been closed for
    /// this time, or no acknowledgement may have come. Then the kernel ends the connection, and the
    /// first operation fails with `TimedOut` (`TCP_USER_TIMEOUT` of `tcp(7)`).
    ///
    /// A write time-out alone does not notice such a peer, because the socket's buffer grows. Each
    /// write that finds a little room in the buffer begins a new wait.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_taking_limit(&self, limit: Duration) -> io::Result<()> {
        self.socket.direct().set_taking_limit(limit)
    }

    /// Whether the connection has TLS.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.socket.channel.as_ref().is_some_and(|channel| channel.is_encrypted())
    }

    /// Whether a [drain](crate::drain) leaves the input of this accepted connection open, because
    /// the rest of a message is still coming. By default, a drain ends the input.
    ///
    /// The poll-style methods, such as [`poll_read`](TcpStream::poll_read), leave it open too. Then
    /// it stays open until this method is called with `false`.
    pub fn set_outlives_drain(&mut self, outlives: bool) {
        self.socket.set_outlives_drain(outlives);
    }

    /// Makes the close a reset: unsent bytes are discarded, and the peer sees an error (`SO_LINGER`
    /// of zero). With TLS, the peer gets no close_notify, which would say that it has everything.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_linger_reset(&self) -> io::Result<()> {
        self.socket.direct().set_linger_reset()
    }

    fn set_timeout(&mut self, which: Timeout, limit: Option<Duration>) -> io::Result<()> {
        let kept = match which {
            Timeout::Recv => &mut self.read_timeout,
            Timeout::Send => &mut self.write_timeout,
        };
        if *kept == limit {
            return Ok(());
        }
        if limit == Some(Duration::ZERO) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a time-out of zero"));
        }
        *kept = limit;
        // Only in the block world does the kernel watch the time.
        if world::here() != World::Block || !self.socket.waits_in_place() {
            return Ok(());
        }
        if which == Timeout::Recv {
            return self.socket.limit_reads(limit);
        }
        self.socket.set_wait_limit(which, limit)
    }
}
