//! Listeners at Unix sockets.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::task::{Context, Poll, ready};

use duality_poller::Direction;
use duality_runtime::machine::UnixKind;

use super::super::common;
use super::super::socket::Socket;
use super::{SocketAddr, UnixStream, calls, path_address};

const BACKLOG: i32 = 1024;

/// A Unix socket that accepts connections.
#[derive(Debug)]
pub struct UnixListener {
    socket: Socket,
}

common::as_std!(UnixListener, std::os::unix::net::UnixListener);

impl UnixListener {
    /// Listens at a path, which must not exist.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)`.
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        let socket = calls::new_socket(UnixKind::Stream)?;
        calls::bind(&socket, &path_address(path.as_ref())?)?;
        Self::listening(socket, BACKLOG)
    }

    /// Listens at an address.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)`.
    #[track_caller]
    pub fn bind_addr(address: &SocketAddr) -> io::Result<Self> {
        let socket = calls::new_socket(UnixKind::Stream)?;
        calls::bind(&socket, &address.to_rustix()?)?;
        Self::listening(socket, BACKLOG)
    }

    /// Takes a socket of `std`, in non-blocking mode. A simulated host opens its own socket at the
    /// address that `std` has bound.
    ///
    /// # Errors
    ///
    /// The errors of `ioctl(2)`, and on a simulated host those of `bind(2)`.
    #[track_caller]
    pub fn from_std(socket: std::os::unix::net::UnixListener) -> io::Result<Self> {
        match calls::in_place_of(UnixKind::Stream, &socket, || socket.local_addr())? {
            Some(simulated) => Self::listening(simulated, BACKLOG),
            None => Ok(Self { socket: Socket::new(socket.into())? }),
        }
    }

    pub(super) fn listening(socket: Socket, backlog: i32) -> io::Result<Self> {
        calls::listen(&socket, backlog)?;
        Ok(Self { socket })
    }

    /// The address at which it listens.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        calls::own_address(&self.socket)
    }

    /// The error that the socket has kept, if it has one.
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }

    /// Accepts a connection.
    ///
    /// # Errors
    ///
    /// The errors of `accept(2)`.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// Like [`accept`](Self::accept), for a future of one's own.
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        let descriptor = ready!(self.socket.poll(context, Direction::Read, calls::accept))?;
        let stream = UnixStream { socket: Socket::accepted(descriptor) };
        let peer = stream.peer_addr()?;
        Poll::Ready(Ok((stream, peer)))
    }
}
