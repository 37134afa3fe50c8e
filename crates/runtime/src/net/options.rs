//! The options of a new connection, which are set on its socket before connect(2).

use std::ffi::{c_int, c_void};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::{bind, sockopt};

/// The options of a new connection. `None` leaves a choice to the kernel.
///
/// Begin with the default, and change some options:
/// `ConnectOptions::default().receive_buffer(4096)`.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::net::{ConnectOptions, ListenOptions, TcpListener, TcpStream};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let any_port = ([127, 0, 0, 1], 0).into();
///     let listener = TcpListener::bind(any_port, &ListenOptions::default())?;
///     let options = ConnectOptions::default().source([127, 0, 0, 2].into());
///     let stream = TcpStream::connect_with(listener.local_addr()?, &options).await?;
///     assert_eq!(stream.local_addr()?.ip().to_string(), "127.0.0.2");
///     Ok(())
/// })
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The address of this machine that the connection comes from, with a port that the kernel
    /// chooses.
    ///
    /// Each source address has its own ephemeral ports (`net.ipv4.ip_local_port_range`, ip(7)).
    /// With several addresses, a client can hold more connections to one server than there are
    /// ports.
    pub source: Option<IpAddr>,
    /// The most unread bytes that the kernel keeps (`SO_RCVBUF`, socket(7)). The peer is never
    /// offered a wider window. The kernel's minimum is some 2 KiB.
    pub receive_buffer: Option<u32>,
    /// The most bytes that the peer may put into one segment, 88 to 32,767 (`TCP_MAXSEG`, tcp(7)).
    /// The peer's kernel also derives from this number how much it accepts from the peer ahead of
    /// us. On a loopback device, with segments of 64 KiB, this is more than a megabyte.
    pub largest_segment: Option<u16>,
}

impl ConnectOptions {
    /// Sets the address of this machine that the connection comes from.
    #[must_use]
    pub const fn source(mut self, source: IpAddr) -> Self {
        self.source = Some(source);
        self
    }

    /// Sets the most unread bytes that the kernel keeps.
    #[must_use]
    pub const fn receive_buffer(mut self, bytes: u32) -> Self {
        self.receive_buffer = Some(bytes);
        self
    }

    /// Sets the most bytes that the peer may put into one segment.
    #[must_use]
    pub const fn largest_segment(mut self, bytes: u16) -> Self {
        self.largest_segment = Some(bytes);
        self
    }

    /// Prepares a socket that is not connected yet.
    pub(super) fn apply(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if let Some(bytes) = self.receive_buffer {
            sockopt::set_socket_recv_buffer_size(socket, bytes as usize)?;
        }
        if let Some(bytes) = self.largest_segment {
            set(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, bytes.into())?;
        }
        if let Some(source) = self.source {
            // bind(2) alone would choose the port at once, without knowing the peer. So no two
            // sockets of the address could have the same port. The option is of level IP for IPv6
            // too.
            set(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
            bind(socket, &SocketAddr::new(source, 0))?;
        }
        Ok(())
    }
}

/// Sets a socket option for which rustix has no function.
fn set(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as it is borrowed. The value is an int, of an
    // int's length. The value outlives the call, which only reads it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast::<c_void>(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
