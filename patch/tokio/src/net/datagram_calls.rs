//! The calls on sockets for datagrams. On a simulated host, its machine answers them, and otherwise
//! the kernel.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use duality_runtime::net::SimulatedSockets;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, bind, connect,
    recv, recvfrom, sendto, socket_with,
};

use super::calls::uninterrupted;

/// socket(2) and bind(2).
pub(super) fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    if let Some(sockets) = SimulatedSockets::here() {
        return sockets.bind_datagrams(address);
    }
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
    bind(&socket, &address)?;
    Ok(socket)
}

pub(super) fn connect_to(socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    match SimulatedSockets::here() {
        None => Ok(connect(socket, &address)?),
        Some(sockets) => sockets.connect_datagrams(socket, address),
    }
}

#[inline]
pub(super) fn send_to(
    socket: BorrowedFd<'_>,
    datagram: &[u8],
    to: &SocketAddrAny,
) -> io::Result<usize> {
    match SimulatedSockets::here() {
        None => Ok(sendto(socket, datagram, SendFlags::NOSIGNAL, to)?),
        Some(sockets) => uninterrupted(|| sockets.send_datagram(socket, datagram, Some(to))),
    }
}

/// recvfrom(2), into memory that may hold nothing yet.
#[inline]
pub(super) fn receive_from(
    socket: BorrowedFd<'_>,
    room: &mut [MaybeUninit<u8>],
    flags: RecvFlags,
) -> io::Result<(usize, Option<SocketAddrAny>)> {
    let Some(sockets) = SimulatedSockets::here() else {
        let ((filled, _), _, sender) = recvfrom(socket, room, flags)?;
        return Ok((filled.len(), sender));
    };
    let peeks = flags.contains(RecvFlags::PEEK);
    let (datagram, sender) = uninterrupted(|| sockets.receive_datagram(socket, peeks))?;
    let places = room.iter_mut().zip(&datagram);
    let count = places.map(|(place, byte)| place.write(*byte)).count();
    Ok((count, Some(sender)))
}

/// recvfrom(2).
#[inline]
pub(super) fn receive_from_into(
    socket: BorrowedFd<'_>,
    room: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(usize, Option<SocketAddrAny>)> {
    let Some(sockets) = SimulatedSockets::here() else {
        let (count, _, sender) = recvfrom(socket, room, flags)?;
        return Ok((count, sender));
    };
    let peeks = flags.contains(RecvFlags::PEEK);
    let (datagram, sender) = uninterrupted(|| sockets.receive_datagram(socket, peeks))?;
    let count = datagram.len().min(room.len());
    room[..count].copy_from_slice(&datagram[..count]);
    Ok((count, Some(sender)))
}

/// recv(2) with `MSG_PEEK`.
pub(super) fn peek_into(socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<usize> {
    match SimulatedSockets::here() {
        None => Ok(recv(socket, room, RecvFlags::PEEK)?.1),
        Some(_) => Ok(receive_from_into(socket, room, RecvFlags::PEEK)?.0),
    }
}
