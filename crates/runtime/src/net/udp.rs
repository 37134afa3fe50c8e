//! Datagrams, with the names and shapes of `std::net::UdpSocket` (udp(7)).

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::Location;

use duality_poller::Direction;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, getpeername, recv,
    recvfrom, send, sendto, socket_with,
};

use super::internet_address;
use super::simulated::{self, SimulatedSockets};
use super::socket::{Access, Done, Socket, TimeLimit, nonblocking_here};
use crate::visibility::graph;

/// A socket for datagrams, for clients of servers such as a name server or statsd. On a loop with a
/// ring, the ring says when the socket is ready, and system calls move the datagrams.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::net::UdpSocket;
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let any_port = ([127, 0, 0, 1], 0).into();
///     let mut server = UdpSocket::bind(any_port)?;
///     let mut client = UdpSocket::bind(any_port)?;
///     client.send_to(b"hello", server.local_addr()?).await?;
///     let mut buffer = [0; 64];
///     let (length, peer) = server.recv_from(&mut buffer).await?;
///     assert_eq!(&buffer[..length], b"hello");
///     assert_eq!(peer, client.local_addr()?);
///     Ok(())
/// })
/// # }
/// ```
pub struct UdpSocket {
    socket: Socket,
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("UdpSocket").field("local", &self.local_addr().ok()).finish()
    }
}

impl UdpSocket {
    /// A socket that receives what is sent to `address`. Port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// The errors of `socket(2)` and `bind(2)`: the address is taken, or not of this machine.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        if let Some(machine) = simulated::machine() {
            let id = machine.bind_datagrams(address)?;
            return Ok(Self { socket: simulated::socket(&machine, id)? });
        }
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let nonblocking = nonblocking_here();
        let mut flags = SocketFlags::CLOEXEC;
        flags.set(SocketFlags::NONBLOCK, nonblocking);
        let descriptor = socket_with(family, SocketType::DGRAM, flags, None)?;
        bind(&descriptor, &address)?;
        let mut socket = Socket::new(descriptor, nonblocking);
        socket.make_system_calls();
        Ok(Self { socket })
    }

    /// Fixes the peer for [`send`](UdpSocket::send) and [`recv`](UdpSocket::recv). Datagrams of
    /// other senders are dropped from now on.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`. It does not wait: nothing is sent.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        match SimulatedSockets::here() {
            None => Ok(connect(self.as_fd(), &peer)?),
            Some(sockets) => sockets.connect_datagrams(self.as_fd(), peer),
        }
    }

    /// Sends one datagram to `peer`, and returns its length.
    ///
    /// # Errors
    ///
    /// The errors of `sendto(2)`: `EMSGSIZE` for more than 65,507 bytes.
    #[track_caller]
    pub fn send_to<'s>(
        &'s mut self,
        datagram: &'s [u8],
        peer: SocketAddr,
    ) -> impl Future<Output = io::Result<usize>> + Send + 's {
        self.operate(Direction::Write, move |socket| match SimulatedSockets::here() {
            None => Ok(sendto(socket, datagram, SendFlags::NOSIGNAL, &peer)?),
            Some(sockets) => sockets.send_datagram(socket, datagram, Some(&peer.into())),
        })
    }

    /// Sends one datagram to the peer of [`connect`](UdpSocket::connect), and returns its length.
    ///
    /// # Errors
    ///
    /// The errors of `send(2)`. `ECONNREFUSED` when the peer's host has told that nothing receives
    /// there.
    #[track_caller]
    pub fn send<'s>(
        &'s mut self,
        datagram: &'s [u8],
    ) -> impl Future<Output = io::Result<usize>> + Send + 's {
        self.operate(Direction::Write, move |socket| match SimulatedSockets::here() {
            None => Ok(send(socket, datagram, SendFlags::NOSIGNAL)?),
            Some(sockets) => sockets.send_datagram(socket, datagram, None),
        })
    }

    /// Waits for a datagram. Returns its length and its sender. What does not fit into `buffer` is
    /// lost.
    ///
    /// # Errors
    ///
    /// The errors of `recvfrom(2)`.
    #[track_caller]
    pub fn recv_from<'s>(
        &'s mut self,
        buffer: &'s mut [u8],
    ) -> impl Future<Output = io::Result<(usize, SocketAddr)>> + Send + 's {
        self.operate(Direction::Read, |socket| match SimulatedSockets::here() {
            None => {
                let (length, _, sender) = recvfrom(socket, &mut *buffer, RecvFlags::empty())?;
                Ok((length, internet_address(sender)?))
            }
            Some(sockets) => receive_simulated(&sockets, socket, buffer),
        })
    }

    /// Waits for a datagram of the peer of [`connect`](UdpSocket::connect), and returns its length.
    /// What does not fit into `buffer` is lost.
    ///
    /// # Errors
    ///
    /// The errors of `recv(2)`. `ECONNREFUSED` when the peer's host has told that nothing receives
    /// there.
    #[track_caller]
    pub fn recv<'s>(
        &'s mut self,
        buffer: &'s mut [u8],
    ) -> impl Future<Output = io::Result<usize>> + Send + 's {
        self.operate(Direction::Read, |socket| match SimulatedSockets::here() {
            None => Ok(recv(socket, &mut *buffer, RecvFlags::empty())?.1),
            Some(sockets) => Ok(receive_simulated(&sockets, socket, buffer)?.0),
        })
    }

    /// The socket's own address.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.direct().local_address()
    }

    /// The address of [`connect`](UdpSocket::connect).
    ///
    /// # Errors
    ///
    /// `NotConnected` where there is none.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match SimulatedSockets::here() {
            None => internet_address(getpeername(self.as_fd())?),
            Some(sockets) => {
                let peer = sockets.addresses(self.as_fd())?.1;
                peer.ok_or_else(|| io::ErrorKind::NotConnected.into())
            }
        }
    }

    #[track_caller]
    fn operate<'s, T: 's>(
        &'s mut self,
        direction: Direction,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<T> + Send + 's,
    ) -> impl Future<Output = io::Result<T>> + Send + 's {
        let kind = match direction {
            Direction::Read => "receive",
            Direction::Write => "send",
        };
        graph::arrive(kind, Location::caller());
        let mut unlimited = TimeLimit::new(None);
        poll_fn(move |context| {
            let attempt = |socket: Access<'_>| socket.call(&mut call);
            let done = self.socket.poll(context, direction, &mut unlimited, attempt);
            if done.is_ready() {
                graph::depart();
            }
            done.map_ok(|done| match done {
                Done::Moved(value) => value,
                Done::Drained => unreachable!("a drain ends accepted connections alone"),
            })
        })
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// recvfrom(2) of a simulated socket.
fn receive_simulated(
    sockets: &SimulatedSockets,
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, SocketAddr)> {
    let (datagram, sender) = sockets.receive_datagram(socket, false)?;
    let count = datagram.len().min(buffer.len());
    buffer[..count].copy_from_slice(&datagram[..count]);
    Ok((count, internet_address(Some(sender))?))
}
