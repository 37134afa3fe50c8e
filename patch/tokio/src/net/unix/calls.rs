//! The calls on Unix sockets. On a simulated host, its machine answers them, and otherwise the
//! kernel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use duality_runtime::machine::UnixKind;
use duality_runtime::net::SimulatedSockets;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, getpeername, getsockname,
    socket_with, socketpair, sockopt,
};

use super::super::socket::Socket;
use super::{SocketAddr, UCred, unix_address};

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn type_of(kind: UnixKind) -> SocketType {
    match kind {
        UnixKind::Stream => SocketType::STREAM,
        UnixKind::Datagrams => SocketType::DGRAM,
    }
}

pub(super) fn new_socket(kind: UnixKind) -> io::Result<Socket> {
    let descriptor = match SimulatedSockets::here() {
        None => socket_with(AddressFamily::UNIX, type_of(kind), FLAGS, None)?,
        Some(sockets) => sockets.open_unix(kind)?,
    };
    Ok(Socket::of_nonblocking(descriptor))
}

pub(super) fn new_pair(kind: UnixKind) -> io::Result<(Socket, Socket)> {
    let (one, other) = match SimulatedSockets::here() {
        None => socketpair(AddressFamily::UNIX, type_of(kind), FLAGS, None)?,
        Some(sockets) => sockets.pair_unix(kind)?,
    };
    Ok((Socket::of_nonblocking(one), Socket::of_nonblocking(other)))
}

pub(super) fn bind(socket: &Socket, address: &SocketAddrUnix) -> io::Result<()> {
    match SimulatedSockets::here() {
        None => Ok(rustix::net::bind(socket, address)?),
        Some(sockets) => sockets.bind_unix(socket.as_fd(), address),
    }
}

pub(super) fn listen(socket: &Socket, backlog: i32) -> io::Result<()> {
    match SimulatedSockets::here() {
        None => Ok(rustix::net::listen(socket, backlog)?),
        Some(sockets) => sockets.listen_unix(socket.as_fd(), backlog),
    }
}

pub(super) fn connect(socket: &Socket, address: &SocketAddrUnix) -> io::Result<()> {
    match SimulatedSockets::here() {
        None => Ok(rustix::net::connect(socket, address)?),
        Some(sockets) => sockets.connect_unix(socket.as_fd(), address),
    }
}

pub(super) fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    match SimulatedSockets::here() {
        None => Ok(accept_with(listener, FLAGS)?),
        Some(sockets) => sockets.accept_unix(listener),
    }
}

pub(super) fn own_address(socket: &Socket) -> io::Result<SocketAddr> {
    match SimulatedSockets::here() {
        None => unix_address(getsockname(socket)?),
        Some(sockets) => SocketAddr::of(Some(sockets.unix_addresses(socket.as_fd())?.0)),
    }
}

pub(super) fn peer_address(socket: &Socket) -> io::Result<SocketAddr> {
    match SimulatedSockets::here() {
        None => getpeername(socket)?.map_or_else(|| SocketAddr::of(None), unix_address),
        Some(sockets) => match sockets.unix_addresses(socket.as_fd())?.1 {
            Some(peer) => SocketAddr::of(Some(peer)),
            None => Err(io::ErrorKind::NotConnected.into()),
        },
    }
}

/// The process at the other end. Simulated Unix sockets reach the own host alone, which is this
/// process.
pub(super) fn peer_credentials(socket: &Socket) -> io::Result<UCred> {
    if SimulatedSockets::here().is_some() {
        peer_address(socket)?;
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let pid = i32::try_from(std::process::id()).ok();
        return Ok(UCred { pid, uid: uid.as_raw(), gid: gid.as_raw() });
    }
    let found = sockopt::socket_peercred(socket)?;
    let pid = Some(found.pid.as_raw_nonzero().get());
    Ok(UCred { pid, uid: found.uid.as_raw(), gid: found.gid.as_raw() })
}

/// On a simulated host, opens a socket at the address of one of `std`, which ends. The file of
/// `std`'s socket makes way.
pub(super) fn in_place_of(
    kind: UnixKind,
    socket: &impl AsFd,
    address: impl FnOnce() -> io::Result<std::os::unix::net::SocketAddr>,
) -> io::Result<Option<Socket>> {
    let Some(sockets) = SimulatedSockets::here() else { return Ok(None) };
    if sockets.unix_addresses(socket.as_fd()).is_ok() {
        return Ok(None);
    }
    let opened = new_socket(kind)?;
    // A name that `duality-outside` has noted is known to `std` alone.
    let address = SocketAddr::from(address()?);
    if let Some(path) = address.as_pathname() {
        rustix::fs::unlink(path)?;
    }
    if !address.is_unnamed() {
        sockets.bind_unix(opened.as_fd(), &address.to_rustix()?)?;
    }
    Ok(Some(opened))
}
