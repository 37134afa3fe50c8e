//! A Unix socket that is not connected yet.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::Path;

use duality_runtime::machine::UnixKind;

use super::super::socket::Socket;
use super::{UnixDatagram, UnixListener, UnixStream, calls, path_address};

/// A Unix socket that is not connected yet.
#[derive(Debug)]
pub struct UnixSocket {
    socket: Socket,
    kind: UnixKind,
}

impl UnixSocket {
    /// A socket for datagrams.
    ///
    /// # Errors
    ///
    /// The errors of `socket(2)`.
    pub fn new_datagram() -> io::Result<Self> {
        Ok(Self { socket: calls::new_socket(UnixKind::Datagrams)?, kind: UnixKind::Datagrams })
    }

    /// A socket for connections.
    ///
    /// # Errors
    ///
    /// The errors of `socket(2)`.
    pub fn new_stream() -> io::Result<Self> {
        Ok(Self { socket: calls::new_socket(UnixKind::Stream)?, kind: UnixKind::Stream })
    }

    /// Gives the socket a path.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)`.
    pub fn bind(&self, path: impl AsRef<Path>) -> io::Result<()> {
        calls::bind(&self.socket, &path_address(path.as_ref())?)
    }

    /// Listens, with an accept queue of this length.
    ///
    /// # Errors
    ///
    /// The errors of `listen(2)`.
    pub fn listen(self, backlog: u32) -> io::Result<UnixListener> {
        self.expect(UnixKind::Stream, "listen cannot be called on a datagram socket")?;
        UnixListener::listening(self.socket, i32::try_from(backlog).unwrap_or(i32::MAX))
    }

    /// Opens a connection to the socket at a path.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`.
    pub async fn connect(self, path: impl AsRef<Path>) -> io::Result<UnixStream> {
        self.expect(UnixKind::Stream, "connect cannot be called on a datagram socket")?;
        let address = path_address(path.as_ref())?;
        drop(path);
        UnixStream::connect_to(self.socket, &address).await
    }

    /// The socket, for datagrams.
    ///
    /// # Errors
    ///
    /// If it is a socket for connections.
    pub fn datagram(self) -> io::Result<UnixDatagram> {
        self.expect(UnixKind::Datagrams, "datagram cannot be called on a stream socket")?;
        Ok(UnixDatagram { socket: self.socket })
    }

    fn expect(&self, kind: UnixKind, problem: &'static str) -> io::Result<()> {
        match self.kind == kind {
            true => Ok(()),
            false => Err(io::Error::other(problem)),
        }
    }
}

impl AsFd for UnixSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for UnixSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
