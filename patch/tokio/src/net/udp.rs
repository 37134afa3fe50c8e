//! Datagrams of UDP.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::task::{Context, Poll};

use duality_poller::Direction;
use real::io::ReadBuf;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, getpeername,
    getsockname, recv, recvfrom, sendto, socket_with, sockopt,
};

use super::ToSocketAddrs;
use super::address::{addresses, at_once, first, internet_address};
use super::calls;
use super::common;
use super::socket::Socket;

/// A socket for datagrams. Any number of tasks may use it at once.
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
}

common::of_std!(UdpSocket, std::net::UdpSocket);
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
        calls::refuse_simulated("UDP")?;
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
        bind(&socket, &address)?;
        Ok(Self { socket: Socket::of_nonblocking(socket) })
    }

    /// The socket's own address.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        internet_address(Some(getsockname(&self.socket)?))
    }

    /// The address of [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// `NotConnected` where there is none.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        internet_address(getpeername(&self.socket)?)
    }

    /// Fixes the peer of [`send`](Self::send) and [`recv`](Self::recv).
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`, for the last address.
    pub async fn connect<A: ToSocketAddrs>(&self, address: A) -> io::Result<()> {
        first(address, |address| at_once(connect(&self.socket, &address).map_err(io::Error::from)))
            .await
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
        let sent = sendto(&self.socket, datagram, SendFlags::NOSIGNAL, &to);
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
        Ok(recv(&self.socket, buffer, RecvFlags::PEEK)?.1)
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
        let received = recvfrom(&self.socket, buffer, RecvFlags::PEEK);
        let (count, _, sender) = self.socket.noted(Direction::Read, received)?;
        Ok((count, internet_address(sender)?))
    }
}

macro_rules! options {
    ($($get:ident, $set:ident: $type:ty = $read:ident, $write:ident, $about:literal;)+) => {
        impl UdpSocket {$(
            #[doc = $about]
            ///
            /// # Errors
            ///
            /// The errors of `getsockopt(2)`.
            pub fn $get(&self) -> io::Result<$type> {
                Ok(sockopt::$read(&self.socket)?)
            }

            #[doc = concat!("Sets an option: ", $about)]
            ///
            /// # Errors
            ///
            /// The errors of `setsockopt(2)`.
            pub fn $set(&self, value: $type) -> io::Result<()> {
                Ok(sockopt::$write(&self.socket, value)?)
            }
        )+}
    };
}

options! {
    broadcast, set_broadcast: bool = socket_broadcast, set_socket_broadcast,
        "Whether datagrams may go to all hosts of a network (`SO_BROADCAST`).";
    multicast_loop_v4, set_multicast_loop_v4: bool = ip_multicast_loop, set_ip_multicast_loop,
        "Whether this host gets its own multicast datagrams (`IP_MULTICAST_LOOP`).";
    multicast_ttl_v4, set_multicast_ttl_v4: u32 = ip_multicast_ttl, set_ip_multicast_ttl,
        "The time to live of multicast datagrams (`IP_MULTICAST_TTL`).";
    multicast_loop_v6, set_multicast_loop_v6: bool = ipv6_multicast_loop, set_ipv6_multicast_loop,
        "Whether this host gets its own multicast datagrams (`IPV6_MULTICAST_LOOP`).";
    ttl, set_ttl: u32 = ip_ttl, set_ip_ttl,
        "The time to live of datagrams (`IP_TTL`).";
}

impl UdpSocket {
    /// Joins a multicast group (`IP_ADD_MEMBERSHIP`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        Ok(sockopt::set_ip_add_membership(&self.socket, &group, &interface)?)
    }

    /// Joins a multicast group (`IPV6_ADD_MEMBERSHIP`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        Ok(sockopt::set_ipv6_add_membership(&self.socket, group, interface)?)
    }

    /// Leaves a multicast group (`IP_DROP_MEMBERSHIP`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        Ok(sockopt::set_ip_drop_membership(&self.socket, &group, &interface)?)
    }

    /// Leaves a multicast group (`IPV6_DROP_MEMBERSHIP`).
    ///
    /// # Errors
    ///
    /// The errors of `setsockopt(2)`.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        Ok(sockopt::set_ipv6_drop_membership(&self.socket, group, interface)?)
    }
}
