//! A socket of TCP that is not connected yet, for its options.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::time::Duration;

use duality_runtime::net::SimulatedSockets;
use rustix::io::ioctl_fionbio;
use rustix::net::{bind, getsockname, sockopt};

use super::address::internet_address;
use super::tcp::new_socket;
use super::{TcpListener, TcpStream};

/// A socket of TCP that is not connected yet.
#[derive(Debug)]
pub struct TcpSocket {
    socket: OwnedFd,
    /// The error of a conversion that cannot fail.
    problem: Option<rustix::io::Errno>,
    /// The address of [`bind`](Self::bind) on a simulated host.
    bound: OnceLock<SocketAddr>,
}

macro_rules! options {
    ($($get:ident, $set:ident: $type:ty = $read:ident, $write:ident, $about:literal;)+) => {
        impl TcpSocket {$(
            #[doc = $about]
            ///
            /// # Errors
            ///
            /// The errors of `getsockopt(2)`.
            pub fn $get(&self) -> io::Result<$type> {
                Ok(sockopt::$read(&self.socket)? as $type)
            }

            #[doc = concat!("Sets an option: ", $about)]
            ///
            /// # Errors
            ///
            /// The errors of `setsockopt(2)`.
            pub fn $set(&self, value: $type) -> io::Result<()> {
                Ok(sockopt::$write(&self.socket, value as _)?)
            }
        )+}
    };
}

options! {
    keepalive, set_keepalive: bool = socket_keepalive, set_socket_keepalive,
        "Whether the kernel probes idle connections (`SO_KEEPALIVE`).";
    reuseaddr, set_reuseaddr: bool = socket_reuseaddr, set_socket_reuseaddr,
        "Whether the address may be taken again at once (`SO_REUSEADDR`).";
    reuseport, set_reuseport: bool = socket_reuseport, set_socket_reuseport,
        "Whether several listeners share the address (`SO_REUSEPORT`).";
    send_buffer_size, set_send_buffer_size: u32 = socket_send_buffer_size, set_socket_send_buffer_size,
        "The size of the send buffer, in bytes (`SO_SNDBUF`).";
    recv_buffer_size, set_recv_buffer_size: u32 = socket_recv_buffer_size, set_socket_recv_buffer_size,
        "The size of the receive buffer, in bytes (`SO_RCVBUF`).";
    nodelay, set_nodelay: bool = tcp_nodelay, set_tcp_nodelay,
        "Whether small writes go out at once (`TCP_NODELAY`).";
}

impl TcpSocket {
    /// A socket for IPv4.
    ///
    /// # Errors
    ///
    /// The errors of `socket(2)`.
    pub fn new_v4() -> io::Result<Self> {
        Ok(Self { socket: new_socket(true)?, problem: None, bound: OnceLock::new() })
    }

    /// A socket for IPv6.
    ///
    /// # Errors
    ///
    /// The errors of `socket(2)`.
    pub fn new_v6() -> io::Result<Self> {
        Ok(Self { socket: new_socket(false)?, problem: None, bound: OnceLock::new() })
    }

    /// How long a close waits for unsent bytes (`SO_LINGER`).
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(sockopt::socket_linger(&self.socket)?)
    }

    /// Sets how long a close waits for unsent bytes (`SO_LINGER`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_linger(&self, duration: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(&self.socket, duration)?)
    }

    /// Makes the close a reset.
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        internet_address(Some(getsockname(&self.socket)?))
    }

    /// The error that the socket has kept, if it has one.
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(sockopt::socket_error(&self.socket)?.err().map(io::Error::from))
    }

    /// Gives the socket an address of this machine.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)`.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        if SimulatedSockets::here().is_some() {
            let again = |_| io::ErrorKind::InvalidInput.into();
            return self.bound.set(address).map_err(again);
        }
        Ok(bind(&self.socket, &address)?)
    }

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`.
    pub async fn connect(self, address: SocketAddr) -> io::Result<TcpStream> {
        self.check()?;
        if let Some(sockets) = SimulatedSockets::here() {
            return TcpStream::connect_simulated(sockets, address).await;
        }
        TcpStream::connect_by(self.socket, address).await
    }

    /// Listens, with an accept queue of this length.
    ///
    /// # Errors
    ///
    /// The errors of `listen(2)`.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        self.check()?;
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        match SimulatedSockets::here() {
            None => TcpListener::listening(self.socket, backlog),
            Some(sockets) => {
                let any = std::net::Ipv4Addr::UNSPECIFIED.into();
                let bound = self.bound.into_inner();
                let address = bound.unwrap_or(SocketAddr::new(any, 0));
                TcpListener::simulated(&sockets, address, backlog)
            }
        }
    }

    /// Takes a socket of `std` that is not connected yet, in non-blocking mode.
    #[must_use]
    pub fn from_std_stream(stream: std::net::TcpStream) -> Self {
        let socket = OwnedFd::from(stream);
        let problem = ioctl_fionbio(&socket, true).err();
        Self { socket, problem, bound: OnceLock::new() }
    }

    fn check(&self) -> io::Result<()> {
        self.problem.map_or(Ok(()), |error| Err(error.into()))
    }
}

impl AsFd for TcpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for TcpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl IntoRawFd for TcpSocket {
    fn into_raw_fd(self) -> RawFd {
        self.socket.into_raw_fd()
    }
}
