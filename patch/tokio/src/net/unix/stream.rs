//! Connections over Unix sockets.

use std::io;
use std::path::Path;
use std::time::Duration;

use duality_runtime::machine::UnixKind;
use rustix::net::SocketAddrUnix;

use super::super::socket::Socket;
use super::super::streams;
use super::{SocketAddr, UCred, calls, path_address};
use crate::time::sleep;

/// The interval between attempts to connect to a full accept queue.
const QUEUE_FULL: Duration = Duration::from_millis(1);

/// A connection over a Unix socket.
pub struct UnixStream {
    pub(super) socket: Socket,
}

streams::stream!(UnixStream, std::os::unix::net::UnixStream, SocketAddr);

impl UnixStream {
    /// Opens a connection to the socket at a path. While the accept queue of the server is full,
    /// this waits.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`.
    pub async fn connect<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        let address = path_address(path.as_ref());
        drop(path);
        Self::connect_to(calls::new_socket(UnixKind::Stream)?, &address?).await
    }

    /// Opens a connection to an address.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`.
    pub async fn connect_addr(address: &SocketAddr) -> io::Result<Self> {
        Self::connect_to(calls::new_socket(UnixKind::Stream)?, &address.to_rustix()?).await
    }

    pub(super) async fn connect_to(socket: Socket, address: &SocketAddrUnix) -> io::Result<Self> {
        loop {
            match calls::connect(&socket, address) {
                Ok(()) => return Ok(Self { socket }),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    // No poller reports when the queue has room again.
                    io::ErrorKind::WouldBlock => sleep(QUEUE_FULL).await,
                    _ => return Err(error),
                },
            }
        }
    }

    /// Two connected streams.
    ///
    /// # Errors
    ///
    /// If no descriptor is left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = calls::new_pair(UnixKind::Stream)?;
        Ok((Self { socket: one }, Self { socket: other }))
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        calls::own_address(&self.socket)
    }

    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// The errors of `getpeername(2)`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        calls::peer_address(&self.socket)
    }

    /// The process at the other end.
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn peer_cred(&self) -> io::Result<UCred> {
        calls::peer_credentials(&self.socket)
    }
}
