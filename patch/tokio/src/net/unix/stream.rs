//! Connections over Unix sockets.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, getpeername, getsockname,
    socket_with, socketpair, sockopt,
};

use super::super::calls::refuse_simulated;
use super::super::socket::Socket;
use super::super::streams;
use super::{SocketAddr, UCred, path_address, unix_address};
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
        Self::connect_to(new_socket(SocketType::STREAM)?, &address?).await
    }

    /// Opens a connection to an address.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`.
    pub async fn connect_addr(address: &SocketAddr) -> io::Result<Self> {
        Self::connect_to(new_socket(SocketType::STREAM)?, &address.to_rustix()?).await
    }

    pub(super) async fn connect_to(socket: Socket, address: &SocketAddrUnix) -> io::Result<Self> {
        loop {
            match connect(&socket, address) {
                Ok(()) => return Ok(Self { socket }),
                Err(Errno::INTR) => {}
                // No poller reports when the queue has room again.
                Err(Errno::AGAIN) => sleep(QUEUE_FULL).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Two connected streams.
    ///
    /// # Errors
    ///
    /// If no descriptor is left.
    pub fn pair() -> io::Result<(Self, Self)> {
        refuse_simulated("Unix sockets")?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let stream = |socket| Self { socket: Socket::of_nonblocking(socket) };
        Ok((stream(one), stream(other)))
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        unix_address(getsockname(&self.socket)?)
    }

    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// The errors of `getpeername(2)`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        getpeername(&self.socket)?.map_or_else(|| SocketAddr::of(None), unix_address)
    }

    /// The process at the other end.
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn peer_cred(&self) -> io::Result<UCred> {
        let found = sockopt::socket_peercred(&self.socket)?;
        let pid = Some(found.pid.as_raw_nonzero().get());
        Ok(UCred { pid, uid: found.uid.as_raw(), gid: found.gid.as_raw() })
    }
}

pub(super) fn new_socket(kind: SocketType) -> io::Result<Socket> {
    refuse_simulated("Unix sockets")?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(Socket::of_nonblocking(socket_with(AddressFamily::UNIX, kind, flags, None)?))
}
