//! Datagrams over Unix sockets.

use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::path::Path;
use std::task::{Context, Poll};

use duality_poller::Direction;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrAny, SocketFlags, SocketType, bind, connect, getpeername,
    getsockname, sendto, socketpair,
};

use super::super::common;
use super::super::socket::Socket;
use super::stream::new_socket;
use super::{SocketAddr, path_address, unix_address};

/// A Unix socket for datagrams. Any number of tasks may use it at once.
#[derive(Debug)]
pub struct UnixDatagram {
    pub(super) socket: Socket,
}

common::of_std!(UnixDatagram, std::os::unix::net::UnixDatagram);
common::readiness!(UnixDatagram);
common::datagrams!(UnixDatagram, SocketAddr, address);

impl UnixDatagram {
    /// A socket at a path, which must not exist.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)`.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        let socket = new_socket(SocketType::DGRAM)?;
        bind(&socket, &path_address(path.as_ref())?)?;
        Ok(Self { socket })
    }

    /// A socket without an address.
    ///
    /// # Errors
    ///
    /// The errors of `socket(2)`.
    pub fn unbound() -> io::Result<Self> {
        Ok(Self { socket: new_socket(SocketType::DGRAM)? })
    }

    /// Two connected sockets.
    ///
    /// # Errors
    ///
    /// If no descriptor is left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        let socket = |socket| Self { socket: Socket::of_nonblocking(socket) };
        Ok((socket(one), socket(other)))
    }

    /// Fixes the peer of [`send`](Self::send) and [`recv`](Self::recv).
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        Ok(connect(&self.socket, &path_address(path.as_ref())?)?)
    }

    /// Sends a datagram to the socket at a path.
    ///
    /// # Errors
    ///
    /// The errors of `sendto(2)`.
    pub async fn send_to<P: AsRef<Path>>(&self, datagram: &[u8], to: P) -> io::Result<usize> {
        poll_fn(|context| self.poll_send_to(context, datagram, to.as_ref())).await
    }

    /// Like [`send_to`](Self::send_to), for a future of one's own.
    pub fn poll_send_to<P: AsRef<Path>>(
        &self,
        context: &mut Context<'_>,
        datagram: &[u8],
        to: P,
    ) -> Poll<io::Result<usize>> {
        self.socket.poll(context, Direction::Write, |_| self.try_send_to(datagram, to.as_ref()))
    }

    /// Sends a datagram without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `sendto(2)`.
    pub fn try_send_to<P: AsRef<Path>>(&self, datagram: &[u8], to: P) -> io::Result<usize> {
        let to = path_address(to.as_ref())?;
        let sent = sendto(&self.socket, datagram, SendFlags::NOSIGNAL, &to);
        self.socket.noted(Direction::Write, sent)
    }

    /// The socket's own address.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        unix_address(getsockname(&self.socket)?)
    }

    /// The address of [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// `NotConnected` where there is none.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        address(getpeername(&self.socket)?)
    }

    /// Ends reading, writing or both.
    ///
    /// # Errors
    ///
    /// The errors of `shutdown(2)`.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }
}

fn address(address: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
    address.map_or_else(|| SocketAddr::of(None), unix_address)
}
