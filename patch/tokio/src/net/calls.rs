//! The calls on sockets of TCP. On a simulated host, its machine answers them, and otherwise the
//! kernel.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use duality_runtime::net::SimulatedSockets;
use rustix::net::{
    RecvFlags, SendFlags, SocketFlags, acceptfrom_with, getpeername, getsockname, recv, send,
    shutdown, sockopt,
};

use super::address::internet_address;

/// Refuses a connection that `std` has opened on the machine's network, on a simulated host.
pub(super) fn refuse_foreign(socket: BorrowedFd<'_>) -> io::Result<()> {
    let Some(sockets) = SimulatedSockets::here() else { return Ok(()) };
    if sockets.is_ready(socket, duality_poller::Direction::Read).is_some() {
        return Ok(());
    }
    let problem = "std opened this socket on the machine's network: open it by tokio in a \
                   simulation";
    Err(io::Error::new(io::ErrorKind::Unsupported, problem))
}

/// A call on a simulated socket. No signal interrupts a call that does not wait. So programs on
/// tokio need not call again.
pub(super) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

#[inline]
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    room: &mut [MaybeUninit<u8>],
    flags: RecvFlags,
) -> io::Result<usize> {
    match SimulatedSockets::here() {
        None => Ok(recv(socket, room, flags)?.1),
        Some(sockets) => {
            let peeks = flags.contains(RecvFlags::PEEK);
            uninterrupted(|| sockets.receive(socket, room, peeks))
        }
    }
}

#[inline]
pub(super) fn receive_into(socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<usize> {
    match SimulatedSockets::here() {
        None => Ok(recv(socket, room, RecvFlags::empty())?.1),
        Some(sockets) => uninterrupted(|| sockets.receive_into(socket, room)),
    }
}

pub(super) fn receive_scattered(
    socket: BorrowedFd<'_>,
    buffers: &mut [IoSliceMut<'_>],
) -> io::Result<usize> {
    match SimulatedSockets::here() {
        None => Ok(rustix::io::readv(socket, buffers)?),
        // A short read: the first buffer alone.
        Some(sockets) => match buffers.iter_mut().find(|buffer| !buffer.is_empty()) {
            Some(buffer) => uninterrupted(|| sockets.receive_into(socket, buffer)),
            None => Ok(0),
        },
    }
}

#[inline]
pub(super) fn send_some(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    match SimulatedSockets::here() {
        None => Ok(send(socket, bytes, SendFlags::NOSIGNAL)?),
        Some(sockets) => uninterrupted(|| sockets.send(socket, &[IoSlice::new(bytes)])),
    }
}

#[inline]
pub(super) fn send_gathered(socket: BorrowedFd<'_>, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    match SimulatedSockets::here() {
        None => Ok(rustix::io::writev(socket, buffers)?),
        Some(sockets) => uninterrupted(|| sockets.send(socket, buffers)),
    }
}

pub(super) fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketAddr)> {
    match SimulatedSockets::here() {
        None => {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let (descriptor, peer) = acceptfrom_with(listener, flags)?;
            Ok((descriptor, internet_address(peer)?))
        }
        Some(sockets) => sockets.accept(listener),
    }
}

pub(super) fn shut_down(socket: BorrowedFd<'_>, how: Shutdown) -> io::Result<()> {
    if let Some(sockets) = SimulatedSockets::here() {
        return sockets.shut_down(socket, how);
    }
    let how = match how {
        Shutdown::Read => rustix::net::Shutdown::Read,
        Shutdown::Write => rustix::net::Shutdown::Write,
        Shutdown::Both => rustix::net::Shutdown::Both,
    };
    Ok(shutdown(socket, how)?)
}

pub(super) fn own_address(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    match SimulatedSockets::here() {
        None => internet_address(Some(getsockname(socket)?)),
        Some(sockets) => Ok(sockets.addresses(socket)?.0),
    }
}

pub(super) fn peer_address(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    match SimulatedSockets::here() {
        None => internet_address(getpeername(socket)?),
        Some(sockets) => {
            sockets.addresses(socket)?.1.ok_or_else(|| io::ErrorKind::NotConnected.into())
        }
    }
}

pub(super) fn error(socket: BorrowedFd<'_>) -> io::Result<Option<io::Error>> {
    match SimulatedSockets::here() {
        None => Ok(sockopt::socket_error(socket)?.err().map(io::Error::from)),
        Some(sockets) => sockets.take_error(socket),
    }
}

/// Reads or sets an option by `call`. A simulated socket has the value `simulated`.
pub(super) fn option<T>(
    simulated: T,
    call: impl FnOnce() -> rustix::io::Result<T>,
) -> io::Result<T> {
    match SimulatedSockets::here() {
        None => Ok(call()?),
        Some(_) => Ok(simulated),
    }
}
