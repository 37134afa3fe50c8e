//! Connections of TCP, and listeners.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use duality_poller::Direction;
use duality_runtime::net::SimulatedSockets;
use real::io::ReadBuf;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, getpeername, listen, socket_with,
    sockopt,
};

use super::address::{at_once, first};
use super::calls;
use super::socket::Socket;
use super::{ToSocketAddrs, common, streams};

/// The backlog of [`TcpListener::bind`].
const BACKLOG: i32 = 1024;

/// A socket that accepts connections.
#[derive(Debug)]
pub struct TcpListener {
    socket: Socket,
}

common::as_std!(TcpListener, std::net::TcpListener);

impl TcpListener {
    /// Listens at the first of the addresses that can be had. Port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)`, for the last address.
    pub async fn bind<A: ToSocketAddrs>(address: A) -> io::Result<Self> {
        first(address, |address| at_once(Self::bind_to(address))).await
    }

    fn bind_to(address: SocketAddr) -> io::Result<Self> {
        if let Some(sockets) = SimulatedSockets::here() {
            return Self::simulated(&sockets, address, BACKLOG);
        }
        let socket = new_socket(address.is_ipv4())?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &address)?;
        Self::listening(socket, BACKLOG)
    }

    /// Takes a socket of `std`, in non-blocking mode. On a simulated host, it listens at the
    /// address that `std` has bound.
    ///
    /// # Errors
    ///
    /// The errors of `ioctl(2)`, and on a simulated host those of `bind(2)`.
    #[track_caller]
    pub fn from_std(socket: std::net::TcpListener) -> io::Result<Self> {
        if let Some(sockets) = SimulatedSockets::here()
            && sockets.addresses(socket.as_fd()).is_err()
        {
            return Self::simulated(&sockets, socket.local_addr()?, BACKLOG);
        }
        Ok(Self { socket: Socket::new(socket.into())? })
    }

    pub(super) fn simulated(
        sockets: &SimulatedSockets,
        address: SocketAddr,
        backlog: i32,
    ) -> io::Result<Self> {
        Ok(Self { socket: Socket::of_nonblocking(sockets.listen(address, backlog)?) })
    }

    pub(super) fn listening(socket: OwnedFd, backlog: i32) -> io::Result<Self> {
        listen(&socket, backlog)?;
        Ok(Self { socket: Socket::of_nonblocking(socket) })
    }

    /// Accepts a connection.
    ///
    /// # Errors
    ///
    /// The errors of `accept(2)`.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// Like [`accept`](Self::accept), for a future of one's own.
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = ready!(
            self.socket.poll(context, Direction::Read, |listener| { calls::accept(listener) })
        )?;
        let (descriptor, peer) = accepted;
        let stream = TcpStream { socket: Socket::accepted(descriptor) };
        Poll::Ready(Ok((stream, peer)))
    }

    /// The address at which it listens.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        calls::own_address(self.socket.as_fd())
    }

    /// The time to live of packets (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn ttl(&self) -> io::Result<u32> {
        calls::option(64, || sockopt::ip_ttl(&self.socket))
    }

    /// Sets the time to live of packets (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        calls::option((), || sockopt::set_ip_ttl(&self.socket, ttl))
    }
}

/// A connection.
pub struct TcpStream {
    socket: Socket,
}

streams::stream!(TcpStream, std::net::TcpStream, SocketAddr);

impl TcpStream {
    /// Opens a connection to the first of the addresses that answers.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`, for the last address.
    pub async fn connect<A: ToSocketAddrs>(address: A) -> io::Result<Self> {
        first(address, |address| async move {
            match SimulatedSockets::here() {
                None => Self::connect_by(new_socket(address.is_ipv4())?, address).await,
                Some(sockets) => Self::connect_simulated(sockets, address).await,
            }
        })
        .await
    }

    pub(super) async fn connect_simulated(
        sockets: SimulatedSockets,
        address: SocketAddr,
    ) -> io::Result<Self> {
        let socket = Socket::of_nonblocking(sockets.connect(address)?);
        socket.wait(Direction::Write, |socket| sockets.connected(socket)).await?;
        Ok(Self { socket })
    }

    /// Connects a non-blocking socket.
    pub(super) async fn connect_by(socket: OwnedFd, address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::of_nonblocking(socket);
        match connect(&socket, &address) {
            Ok(()) => return Ok(Self { socket }),
            Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        socket
            .wait(Direction::Write, |socket| {
                sockopt::socket_error(socket)??;
                // The socket is not ready yet, if the task was woken in vain.
                match getpeername(socket) {
                    Err(Errno::NOTCONN) => Err(io::ErrorKind::WouldBlock.into()),
                    other => Ok(other.map(drop)?),
                }
            })
            .await?;
        Ok(Self { socket })
    }

    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the peer has reset the connection.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        calls::peer_address(self.socket.as_fd())
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        calls::own_address(self.socket.as_fd())
    }

    /// Waits for bytes, and copies them without taking them.
    ///
    /// # Errors
    ///
    /// The errors of `recv(2)`.
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        poll_fn(|context| self.poll_peek(context, &mut buffer)).await
    }

    /// Like [`peek`](Self::peek), for a future of one's own.
    pub fn poll_peek(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_peek(context, buffer)
    }

    /// Whether small writes go out at once (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn nodelay(&self) -> io::Result<bool> {
        calls::option(true, || sockopt::tcp_nodelay(&self.socket))
    }

    /// Sets whether small writes go out at once (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_nodelay(&self, is: bool) -> io::Result<()> {
        calls::option((), || sockopt::set_tcp_nodelay(&self.socket, is))
    }

    /// Whether acknowledgements go out at once (`TCP_QUICKACK`).
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn quickack(&self) -> io::Result<bool> {
        calls::option(true, || sockopt::tcp_quickack(&self.socket))
    }

    /// Sets whether acknowledgements go out at once (`TCP_QUICKACK`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_quickack(&self, is: bool) -> io::Result<()> {
        calls::option((), || sockopt::set_tcp_quickack(&self.socket, is))
    }

    /// How long a close waits for unsent bytes (`SO_LINGER`).
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        calls::option(None, || sockopt::socket_linger(&self.socket))
    }

    /// Sets how long a close waits for unsent bytes (`SO_LINGER`). A close that waits blocks its
    /// kernel thread.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_linger(&self, duration: Option<Duration>) -> io::Result<()> {
        calls::option((), || sockopt::set_socket_linger(&self.socket, duration))
    }

    /// Makes the close a reset.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// The time to live of packets (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn ttl(&self) -> io::Result<u32> {
        calls::option(64, || sockopt::ip_ttl(&self.socket))
    }

    /// Sets the time to live of packets (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        calls::option((), || sockopt::set_ip_ttl(&self.socket, ttl))
    }
}

impl ReadHalf<'_> {
    /// As on the stream.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn peek(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream().peek(buffer).await
    }

    /// As on the stream.
    pub fn poll_peek(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_peek(context, buffer)
    }
}

impl OwnedReadHalf {
    /// As on the stream.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn peek(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream().peek(buffer).await
    }

    /// As on the stream.
    pub fn poll_peek(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_peek(context, buffer)
    }
}

/// A non-blocking socket of TCP.
pub(super) fn new_socket(is_v4: bool) -> io::Result<OwnedFd> {
    let family = if is_v4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}
