//! Unix sockets and pipes.

mod calls;
pub(super) mod datagram;
pub(super) mod listener;
pub mod pipe;
pub(super) mod socket;
pub(super) mod stream;

use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::path::Path;

use rustix::net::SocketAddrUnix;

pub use self::datagram::UnixDatagram;
pub use self::listener::UnixListener;
pub use self::socket::UnixSocket;
pub use self::stream::{
    OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, UnixStream, WriteHalf,
};

/// The number of a user.
#[expect(non_camel_case_types, reason = "it is tokio's name")]
pub type uid_t = u32;
/// The number of a group.
#[expect(non_camel_case_types, reason = "it is tokio's name")]
pub type gid_t = u32;
/// The number of a process.
#[expect(non_camel_case_types, reason = "it is tokio's name")]
pub type pid_t = i32;

/// The address of a Unix socket.
#[derive(Clone)]
pub struct SocketAddr(std::os::unix::net::SocketAddr);

impl SocketAddr {
    /// Whether the socket has no address.
    #[must_use]
    pub fn is_unnamed(&self) -> bool {
        self.0.is_unnamed()
    }

    /// The path of the socket, if it has one.
    #[must_use]
    pub fn as_pathname(&self) -> Option<&Path> {
        self.0.as_pathname()
    }

    /// The abstract name of the socket, if it has one.
    #[must_use]
    pub fn as_abstract_name(&self) -> Option<&[u8]> {
        self.0.as_abstract_name()
    }

    /// The address that the kernel returned. A client's socket has none.
    fn of(address: Option<SocketAddrUnix>) -> io::Result<Self> {
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::net::SocketAddr as Address;
        let address = match &address {
            Some(address) if address.abstract_name().is_some() => {
                Address::from_abstract_name(address.abstract_name().unwrap_or_default())
            }
            address => {
                let path = address.as_ref().and_then(SocketAddrUnix::path_bytes);
                Address::from_pathname(std::ffi::OsStr::from_bytes(path.unwrap_or_default()))
            }
        };
        Ok(Self(address?))
    }

    fn to_rustix(&self) -> io::Result<SocketAddrUnix> {
        match (self.as_pathname(), self.as_abstract_name()) {
            (Some(path), _) => Ok(path_address(path)?),
            (None, Some(name)) => Ok(SocketAddrUnix::new_abstract_name(name)?),
            (None, None) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

/// The address of a path. A path that begins with a zero byte is an abstract name.
fn path_address(path: &Path) -> io::Result<SocketAddrUnix> {
    use std::os::unix::ffi::OsStrExt;
    match path.as_os_str().as_bytes().strip_prefix(b"\0") {
        Some(name) => Ok(SocketAddrUnix::new_abstract_name(name)?),
        None => Ok(SocketAddrUnix::new(path)?),
    }
}

fn unix_address(address: rustix::net::SocketAddrAny) -> io::Result<SocketAddr> {
    SocketAddr::of(SocketAddrUnix::try_from(address).ok())
}

impl fmt::Debug for SocketAddr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl From<std::os::unix::net::SocketAddr> for SocketAddr {
    fn from(address: std::os::unix::net::SocketAddr) -> Self {
        Self(address)
    }
}

impl From<SocketAddr> for std::os::unix::net::SocketAddr {
    fn from(address: SocketAddr) -> Self {
        address.0
    }
}

/// The process at the other end of a Unix socket, as it was when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UCred {
    pid: Option<pid_t>,
    uid: uid_t,
    gid: gid_t,
}

impl UCred {
    /// The user of the process.
    #[must_use]
    pub fn uid(&self) -> uid_t {
        self.uid
    }

    /// The group of the process.
    #[must_use]
    pub fn gid(&self) -> gid_t {
        self.gid
    }

    /// The number of the process.
    #[must_use]
    pub fn pid(&self) -> Option<pid_t> {
        self.pid
    }
}
