//! Datagrams over Unix sockets.

use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::path::Path;
use std::task::{Context, Poll};

use duality_poller::Direction;
use duality_runtime::machine::UnixKind;
use rustix::net::SocketAddrAny;

use super::super::socket::Socket;
use super::super::{common, datagram_calls};
use super::{SocketAddr, calls, path_address, unix_address};

/// A Unix socket for datagrams. Any number of tasks may use it at once.
#[derive(Debug)]
pub struct UnixDatagram {
    pub(super) socket: Socket,
}

common::as_std!(UnixDatagram, std::os::unix::net::UnixDatagram);
common::readiness!(UnixDatagram);
common::datagrams!(UnixDatagram, SocketAddr, address);

impl UnixDatagram {
    /// A socket at a path, which must not exist.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)`.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        let socket = calls::new_socket(UnixKind::Datagrams)?;
        calls::bind(&socket, &path_address(path.as_ref())?)?;
        Ok(Self { socket })
    }

    /// Takes a socket of `std`, in non-blocking mode. A simulated host opens its own socket at the
    /// address that `std` has bound.
    ///
    /// # Errors
    ///
    /// The errors of `ioctl(2)`, and on a simulated host those of `bind(2)`.
    #[track_caller]
    pub fn from_std(socket: std::os::unix::net::UnixDatagram) -> io::Result<Self> {
        match calls::in_place_of(UnixKind::Datagrams, &socket, || socket.local_addr())? {
            Some(simulated) => Ok(Self { socket: simulated }),
            None => Ok(Self { socket: Socket::new(socket.into())? }),
        }
    }

    /// A socket without an address.
    ///
    /// # Errors
    ///
    /// The errors of `socket(2)`.
    pub fn unbound() -> io::Result<Self> {
        Ok(Self { socket: calls::new_socket(UnixKind::Datagrams)? })
    }

    /// Two connected sockets.
    ///
    /// # Errors
    ///
    /// If no descriptor is left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = calls::new_pair(UnixKind::Datagrams)?;
        Ok((Self { socket: one }, Self { socket: other }))
    }

    /// Fixes the peer of [`send`](Self::send) and [`recv`](Self::recv).
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        calls::connect(&self.socket, &path_address(path.as_ref())?)
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
        let sent = datagram_calls::send_to(self.socket.as_fd(), datagram, &to.into());
        self.socket.noted(Direction::Write, sent)
    }

    /// The socket's own address.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        calls::own_address(&self.socket)
    }

    /// The address of [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// `NotConnected` where there is none.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        calls::peer_address(&self.socket)
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
