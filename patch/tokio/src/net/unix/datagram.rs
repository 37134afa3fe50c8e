//! Datagrams over Unix sockets.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use std::task::{Context, Poll};

use bytes::BufMut;
use duality_poller::Direction;
use real::io::ReadBuf;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, bind, connect,
    getpeername, getsockname, recv, recvfrom, send, sendto, socketpair,
};

use super::super::socket::Socket;
use super::stream::new_socket;
use super::{SocketAddr, path_address, unix_address};
use crate::buffer;
use crate::io::{Interest, Ready};

/// A Unix socket for datagrams. Any number of tasks may use it at once.
#[derive(Debug)]
pub struct UnixDatagram {
    pub(super) socket: Socket,
}

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

    /// Takes a socket of `std`, in non-blocking mode.
    ///
    /// # Errors
    ///
    /// The errors of `fcntl(2)`.
    pub fn from_std(socket: std::os::unix::net::UnixDatagram) -> io::Result<Self> {
        Ok(Self { socket: Socket::new(socket.into())? })
    }

    /// The socket of `std`, which stays in non-blocking mode.
    ///
    /// # Errors
    ///
    /// If no descriptor is left.
    pub fn into_std(self) -> io::Result<std::os::unix::net::UnixDatagram> {
        Ok(self.socket.into_descriptor()?.into())
    }

    /// Fixes the peer of [`send`](Self::send) and [`recv`](Self::recv).
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        Ok(connect(&self.socket, &path_address(path.as_ref())?)?)
    }

    /// Waits until one of the interests comes true.
    ///
    /// # Errors
    ///
    /// The errors of `poll(2)`.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.socket.ready(interest).await
    }

    /// Waits until a send does not wait.
    ///
    /// # Errors
    ///
    /// The errors of `poll(2)`.
    pub async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Waits until a receive does not wait.
    ///
    /// # Errors
    ///
    /// The errors of `poll(2)`.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Like [`writable`](Self::writable), for a future of one's own.
    pub fn poll_send_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_ready(context, Direction::Write)
    }

    /// Like [`readable`](Self::readable), for a future of one's own.
    pub fn poll_recv_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_ready(context, Direction::Read)
    }

    /// Sends a datagram to the peer of [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// The errors of `send(2)`.
    pub async fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        poll_fn(|context| self.poll_send(context, datagram)).await
    }

    /// Like [`send`](Self::send), for a future of one's own.
    pub fn poll_send(&self, context: &mut Context<'_>, datagram: &[u8]) -> Poll<io::Result<usize>> {
        self.socket.poll(context, Direction::Write, |_| self.try_send(datagram))
    }

    /// Sends a datagram without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `send(2)`.
    pub fn try_send(&self, datagram: &[u8]) -> io::Result<usize> {
        Ok(send(&self.socket, datagram, SendFlags::NOSIGNAL)?)
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
        Ok(sendto(&self.socket, datagram, SendFlags::NOSIGNAL, &to)?)
    }

    /// Waits for a datagram, and returns its length.
    ///
    /// # Errors
    ///
    /// The errors of `recv(2)`.
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.wait(Direction::Read, |_| self.try_recv(buffer)).await
    }

    /// Like [`recv`](Self::recv), for a future of one's own.
    pub fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.socket.poll(context, Direction::Read, |_| {
            buffer::fill(buffer, |room| Ok((self.receive(room)?.0, ())))
        })
    }

    /// Receives a datagram without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `recv(2)`.
    pub fn try_recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.socket, buffer, RecvFlags::empty())?.1)
    }

    /// Receives a datagram and its sender into a buffer of the crate bytes without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `recvfrom(2)`.
    pub fn try_recv_buf_from<B: BufMut>(&self, buffer: &mut B) -> io::Result<(usize, SocketAddr)> {
        let (count, sender) = buffer::fill_bytes(buffer, |room| self.receive(room))?;
        Ok((count, address(sender)?))
    }

    /// Waits for a datagram and its sender, in a buffer of the crate bytes.
    ///
    /// # Errors
    ///
    /// The errors of `recvfrom(2)`.
    pub async fn recv_buf_from<B: BufMut>(
        &self,
        buffer: &mut B,
    ) -> io::Result<(usize, SocketAddr)> {
        self.socket.wait(Direction::Read, |_| self.try_recv_buf_from(buffer)).await
    }

    /// Receives a datagram into a buffer of the crate bytes without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `recv(2)`.
    pub fn try_recv_buf<B: BufMut>(&self, buffer: &mut B) -> io::Result<usize> {
        Ok(buffer::fill_bytes(buffer, |room| self.receive(room))?.0)
    }

    /// Waits for a datagram, in a buffer of the crate bytes.
    ///
    /// # Errors
    ///
    /// The errors of `recv(2)`.
    pub async fn recv_buf<B: BufMut>(&self, buffer: &mut B) -> io::Result<usize> {
        self.socket.wait(Direction::Read, |_| self.try_recv_buf(buffer)).await
    }

    /// Waits for a datagram. Returns its length and its sender.
    ///
    /// # Errors
    ///
    /// The errors of `recvfrom(2)`.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.wait(Direction::Read, |_| self.try_recv_from(buffer)).await
    }

    /// Like [`recv_from`](Self::recv_from), for a future of one's own.
    pub fn poll_recv_from(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        self.socket.poll(context, Direction::Read, |_| {
            address(buffer::fill(buffer, |room| self.receive(room))?)
        })
    }

    /// Receives a datagram and its sender without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and the errors of `recvfrom(2)`.
    pub fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (count, _, sender) = recvfrom(&self.socket, buffer, RecvFlags::empty())?;
        Ok((count, address(sender)?))
    }

    fn receive(&self, room: &mut [MaybeUninit<u8>]) -> io::Result<(usize, Option<SocketAddrAny>)> {
        let ((filled, _), _, sender) = recvfrom(&self.socket, room, RecvFlags::empty())?;
        Ok((filled.len(), sender))
    }

    /// Calls `operation` once.
    ///
    /// # Errors
    ///
    /// The errors of `operation`.
    pub fn try_io<R>(
        &self,
        _: Interest,
        operation: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        operation()
    }

    /// Calls `operation` until it does not return `WouldBlock`. Waits for the interest before each
    /// further call.
    ///
    /// # Errors
    ///
    /// The errors of `operation`.
    pub async fn async_io<R>(
        &self,
        interest: Interest,
        operation: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        self.socket.async_io(interest, operation).await
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

    /// The error that the socket has kept, if it has one.
    ///
    /// # Errors
    ///
    /// The errors of `getsockopt(2)`.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
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

impl TryFrom<std::os::unix::net::UnixDatagram> for UnixDatagram {
    type Error = io::Error;

    fn try_from(socket: std::os::unix::net::UnixDatagram) -> io::Result<Self> {
        Self::from_std(socket)
    }
}

impl AsFd for UnixDatagram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for UnixDatagram {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
