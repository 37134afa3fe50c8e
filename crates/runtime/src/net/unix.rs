//! Unix sockets (unix(7)): connections within this machine, named by paths.
//!
//! A connection is a [`TcpStream`] too, so one service serves both kinds. Functions about addresses
//! and options of TCP return errors on it.
//!
//! ```
//! # use duality_runtime as duality;
//! use duality::net::ListenOptions;
//! use duality::net::unix::{UnixListener, UnixStream};
//! use duality::{block_on, task};
//!
//! # fn main() -> std::io::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("socket");
//! block_on(async {
//!     let mut listener = UnixListener::bind(&path, &ListenOptions::default())?;
//!     let client = task::spawn(async move {
//!         let mut stream = UnixStream::connect_unix(&path).await?;
//!         stream.write_all(b"hello").await
//!     })?;
//!     let mut stream = listener.accept().await?;
//!     let mut greeting = [0; 5];
//!     stream.read_exact(&mut greeting).await?;
//!     assert_eq!(&greeting, b"hello");
//!     client.await.expect("the client does not panic")
//! })
//! # }
//! ```

use std::io;
use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socketpair};

use super::socket::{Socket, nonblocking_here};
use super::{ListenOptions, TcpListener, TcpStream, simulated};
use crate::machine::UnixKind;

/// A connection by a Unix socket. [`connect_unix`](TcpStream::connect_unix) opens one.
pub type UnixStream = TcpStream;

/// A Unix socket that accepts connections.
///
/// The drop of the listener leaves the file of the socket, as with `std`. Remove the file before
/// the next [`bind`](UnixListener::bind).
#[derive(Debug)]
pub struct UnixListener {
    listener: TcpListener,
}

impl UnixListener {
    /// Makes the file `path`, and listens at it. Does not wait, in any world. The option
    /// `reuse_port` has no meaning here.
    ///
    /// # Errors
    ///
    /// `AddrInUse` if the file is there. `InvalidInput` or `ENAMETOOLONG` for a path that is too
    /// long for a socket. The errors of `bind(2)`.
    pub fn bind(path: impl AsRef<Path>, options: &ListenOptions) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path.as_ref())?;
        Ok(Self { listener: TcpListener::bind_unix(&address, options)? })
    }

    /// Accepts a connection.
    ///
    /// # Errors
    ///
    /// The errors of `accept(2)`, such as `EMFILE`. `NotConnected` once the process drains.
    pub async fn accept(&mut self) -> io::Result<UnixStream> {
        let drains = || io::Error::new(io::ErrorKind::NotConnected, "the server drains");
        self.accept_until_drain().await?.ok_or_else(drains)
    }

    /// Accepts a connection. Returns `None` once the process drains and all earlier connections
    /// have been accepted.
    ///
    /// # Errors
    ///
    /// The errors of `accept(2)`, such as `EMFILE`.
    pub async fn accept_until_drain(&mut self) -> io::Result<Option<UnixStream>> {
        self.listener.accept_until_drain().await
    }
}

/// Two connections that are each other's peers (socketpair(2)), without a name.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::net::unix;
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let (mut one, mut other) = unix::pair()?;
///     one.write_all(b"ping").await?;
///     let mut word = [0; 4];
///     other.read_exact(&mut word).await?;
///     assert_eq!(&word, b"ping");
///     Ok(())
/// })
/// # }
/// ```
///
/// # Errors
///
/// `EMFILE`.
pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
    if let Some(machine) = simulated::machine() {
        let [one, other] = machine.pair_unix(UnixKind::Stream)?;
        let stream = |id| simulated::socket(&machine, id).map(TcpStream::from_socket);
        return Ok((stream(one)?, stream(other)?));
    }
    let nonblocking = nonblocking_here();
    let mut flags = SocketFlags::CLOEXEC;
    flags.set(SocketFlags::NONBLOCK, nonblocking);
    let (one, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let stream = |descriptor| TcpStream::from_socket(Socket::new(descriptor, nonblocking));
    Ok((stream(one), stream(other)))
}
