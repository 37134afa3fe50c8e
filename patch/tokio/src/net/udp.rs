//! Datagrams of UDP.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::task::{Context, Poll};

use duality_poller::Direction;
use duality_runtime::machine::DatagramOption;
use duality_runtime::net::SimulatedSockets;
use real::io::ReadBuf;
use rustix::net::{RecvFlags, sockopt};

use super::ToSocketAddrs;
use super::address::{addresses, at_once, first, internet_address};
use super::calls;
use super::common;
use super::datagram_calls::{self, connect_to, receive_from_into};
use super::socket::Socket;
use crate::watched::refuse_simulated;

/// A socket for datagrams. Any number of tasks may use it at once.
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
}

common::as_std!(UdpSocket, std::net::UdpSocket);
common::readiness!(UdpSocket);
common::datagrams!(UdpSocket, SocketAddr, internet_address);

impl UdpSocket {
    /// A socket at the first of the addresses that can be had. Port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)`, for the last address.
    pub async fn bind<A: ToSocketAddrs>(address: A) -> io::Result<Self> {
        first(address, |address| at_once(Self::bind_to(address))).await
    }

    fn bind_to(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { socket: Socket::of_nonblocking(datagram_calls::bound(address)?) })
    }

    /// Takes a socket of `std`, in non-blocking mode. A simulated host opens its own socket at the
    /// address that `std` has bound.
    ///
    /// # Errors
    ///
    /// The errors of `ioctl(2)`, and on a simulated host those of `bind(2)`.
    #[track_caller]
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<Self> {
        let is_foreign = calls::refuse_foreign(socket.as_fd()).is_err();
        if is_foreign {
            return Self::bind_to(socket.local_addr()?);
        }
        Ok(Self { socket: Socket::new(socket.into())? })
    }

    /// The socket's own address.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        calls::own_address(self.socket.as_fd())
    }

    /// The address of [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// `NotConnected` where there is none.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        calls::peer_address(self.socket.as_fd())
    }

    /// Fixes the peer of [`send`](Self::send) and [`recv`](Self::recv).
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`, for the last address.
    pub async fn connect<A: ToSocketAddrs>(&self, address: A) -> io::Result<()> {
        first(address, |address| at_once(connect_to(self.socket.as_fd(), address))).await
    }

    /// Sends a datagram to the first of the addresses.
    ///
    /// # Errors
    ///
    /// The errors of `sendto(2)`.
    pub async fn send_to<A: ToSocketAddrs>(&self, datagram: &[u8], to: A) -> io::Result<usize> {
        let found = addresses(&to);
        drop(to);
        let to = found.await?.into_iter().next();
        let none = || io::Error::new(io::ErrorKind::InvalidInput, "no addresses to send data to");
        let to = to.ok_or_else(none)?;
        poll_fn(|context| self.poll_send_to(context, datagram, to)).await
    }

    /// Like [`send_to`](Self::send_to), for a future of one's own.
    pub fn poll_send_to(
        &self,
        context: &mut Context<'_>,
        datagram: &[u8],
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.socket.poll(context, Direction::Write, |_| self.try_send_to(datagram, to))
    }

    /// Sends a datagram without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `sendto(2)`.
    pub fn try_send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<usize> {
        let sent = datagram_calls::send_to(self.socket.as_fd(), datagram, &to.into());
        self.socket.noted(Direction::Write, sent)
    }

    /// Waits for a datagram, and copies it without taking it.
    ///
    /// # Errors
    ///
    /// The errors of `recv(2)`.
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.wait(Direction::Read, |_| self.try_peek(buffer)).await
    }

    /// Like [`peek`](Self::peek), for a future of one's own.
    pub fn poll_peek(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.socket.poll_peek(context, buffer).map_ok(drop)
    }

    /// Copies a datagram without taking it and without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `recv(2)`.
    pub fn try_peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        datagram_calls::peek_into(self.socket.as_fd(), buffer)
    }

    /// Waits for a datagram, and copies it without taking it. Returns its length and its sender.
    ///
    /// # Errors
    ///
    /// The errors of `recvfrom(2)`.
    pub async fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.wait(Direction::Read, |_| self.try_peek_from(buffer)).await
    }

    /// Like [`peek_from`](Self::peek_from), for a future of one's own.
    pub fn poll_peek_from(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let sender = self.poll_from(context, buffer, RecvFlags::PEEK);
        sender.map(|sender| internet_address(sender?))
    }

    /// Copies a datagram without taking it and without waiting. Returns its length and its sender.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `recvfrom(2)`.
    pub fn try_peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let received = receive_from_into(self.socket.as_fd(), buffer, RecvFlags::PEEK);
        let (count, sender) = self.socket.noted(Direction::Read, received)?;
        Ok((count, internet_address(sender)?))
    }
}

macro_rules! options {
    ($($get:ident, $set:ident: $type:ty = $read:ident, $write:ident, $simulated:literal,
        $about:literal;)+) => {
        impl UdpSocket {$(
            #[doc = $about]
            ///
            /// # Errors
            ///
            /// The errors of `getsockopt(2)`.
            pub fn $get(&self) -> io::Result<$type> {
                calls::option($simulated, || sockopt::$read(&self.socket))
            }

            #[doc = concat!("Sets an option: ", $about)]
            ///
            /// # Errors
            ///
            /// The errors of `setsockopt(2)`.
            pub fn $set(&self, value: $type) -> io::Result<()> {
                calls::option((), || sockopt::$write(&self.socket, value))
            }
        )+}
    };
}

options! {
    multicast_ttl_v4, set_multicast_ttl_v4: u32 = ip_multicast_ttl, set_ip_multicast_ttl, 1,
        "The time to live of multicast datagrams (`IP_MULTICAST_TTL`).";
    multicast_loop_v6, set_multicast_loop_v6: bool = ipv6_multicast_loop, set_ipv6_multicast_loop, true,
        "Whether this host gets its own multicast datagrams (`IPV6_MULTICAST_LOOP`).";
    ttl, set_ttl: u32 = ip_ttl, set_ip_ttl, 64,
        "The time to live of datagrams (`IP_TTL`).";
}

impl UdpSocket {
    /// Whether datagrams may go to all hosts of a network (`SO_BROADCAST`).
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn broadcast(&self) -> io::Result<bool> {
        match SimulatedSockets::here() {
            None => Ok(sockopt::socket_broadcast(&self.socket)?),
            Some(sockets) => Ok(sockets.datagram_options(self.socket.as_fd())?.0),
        }
    }

    /// Sets whether datagrams may go to all hosts of a network (`SO_BROADCAST`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_broadcast(&self, value: bool) -> io::Result<()> {
        self.option(DatagramOption::Broadcast(value), |socket| {
            sockopt::set_socket_broadcast(socket, value)
        })
    }

    /// Whether this host gets its own multicast datagrams (`IP_MULTICAST_LOOP`).
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        match SimulatedSockets::here() {
            None => Ok(sockopt::ip_multicast_loop(&self.socket)?),
            Some(sockets) => Ok(sockets.datagram_options(self.socket.as_fd())?.1),
        }
    }

    /// Sets whether this host gets its own multicast datagrams (`IP_MULTICAST_LOOP`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn set_multicast_loop_v4(&self, value: bool) -> io::Result<()> {
        self.option(DatagramOption::Loop(value), |socket| {
            sockopt::set_ip_multicast_loop(socket, value)
        })
    }

    /// Sets an option by `call`. On a simulated host, its machine has the option.
    fn option(
        &self,
        option: DatagramOption,
        call: impl FnOnce(&Socket) -> rustix::io::Result<()>,
    ) -> io::Result<()> {
        match SimulatedSockets::here() {
            None => Ok(call(&self.socket)?),
            Some(sockets) => sockets.set_datagram_option(self.socket.as_fd(), option),
        }
    }

    /// Joins a multicast group (`IP_ADD_MEMBERSHIP`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.option(DatagramOption::Join(group), |socket| {
            sockopt::set_ip_add_membership(socket, &group, &interface)
        })
    }

    /// Joins a multicast group (`IPV6_ADD_MEMBERSHIP`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        refuse_simulated("multicast of IPv6")?;
        Ok(sockopt::set_ipv6_add_membership(&self.socket, group, interface)?)
    }

    /// Leaves a multicast group (`IP_DROP_MEMBERSHIP`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.option(DatagramOption::Leave(group), |socket| {
            sockopt::set_ip_drop_membership(socket, &group, &interface)
        })
    }

    /// Leaves a multicast group (`IPV6_DROP_MEMBERSHIP`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        refuse_simulated("multicast of IPv6")?;
        Ok(sockopt::set_ipv6_drop_membership(&self.socket, group, interface)?)
    }
}
