//! Listeners at Unix sockets.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::task::{Context, Poll, ready};

use duality_poller::Direction;
use rustix::net::{SocketFlags, SocketType, accept_with, bind, getsockname, listen};

use super::super::common;
use super::super::socket::Socket;
use super::stream::new_socket;
use super::{SocketAddr, UnixStream, path_address, unix_address};

const BACKLOG: i32 = 1024;

/// A Unix socket that accepts connections.
#[derive(Debug)]
pub struct UnixListener {
    socket: Socket,
}

common::of_std!(UnixListener, std::os::unix::net::UnixListener);

impl UnixListener {
    /// Listens at a path, which must not exist.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)`.
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        let socket = new_socket(SocketType::STREAM)?;
        bind(&socket, &path_address(path.as_ref())?)?;
        Self::listening(socket, BACKLOG)
    }

    /// Listens at an address.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)`.
    #[track_caller]
    pub fn bind_addr(address: &SocketAddr) -> io::Result<Self> {
        let socket = new_socket(SocketType::STREAM)?;
        bind(&socket, &address.to_rustix()?)?;
        Self::listening(socket, BACKLOG)
    }

    pub(super) fn listening(socket: Socket, backlog: i32) -> io::Result<Self> {
        listen(&socket, backlog)?;
        Ok(Self { socket })
    }

    /// The address at which it listens.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        unix_address(getsockname(&self.socket)?)
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
        let descriptor = ready!(self.socket.poll(context, Direction::Read, |listener| {
            Ok(accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?)
        }))?;
        let stream = UnixStream { socket: Socket::accepted(descriptor) };
        let peer = stream.peer_addr()?;
        Poll::Ready(Ok((stream, peer)))
    }
}
