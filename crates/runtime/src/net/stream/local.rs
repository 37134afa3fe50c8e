//! A stream over a Unix socket (unix(7)), for clients of servers on this machine.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::super::simulated;
use super::super::socket::{Socket, nonblocking_here};
use super::TcpStream;
use crate::machine::{Machine, UnixKind};
use crate::time::sleep;

/// The interval between attempts to connect to a full accept queue.
const QUEUE_FULL: Duration = Duration::from_millis(1);

impl TcpStream {
    /// Opens a connection to the server that listens at the Unix socket `path`.
    ///
    /// Reads, writes and their time-outs are those of a TCP connection. Such a stream has no
    /// addresses and no options of TCP: these functions return errors. While the server's accept
    /// queue is full, this call waits.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`, among them `NotFound`. `InvalidInput` or `ENAMETOOLONG` for a
    /// path that is too long for a socket, such as one of more than 107 bytes.
    pub async fn connect_unix(path: &Path) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        if let Some(machine) = simulated::machine() {
            return Self::connect_unix_simulated(machine, &address).await;
        }
        let nonblocking = nonblocking_here();
        let mut flags = SocketFlags::CLOEXEC;
        flags.set(SocketFlags::NONBLOCK, nonblocking);
        let descriptor = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        loop {
            match connect(&descriptor, &address) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                // No poller reports when the queue has room again.
                Err(Errno::AGAIN) if nonblocking => sleep(QUEUE_FULL).await,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self::from_socket(Socket::new(descriptor, nonblocking)))
    }

    async fn connect_unix_simulated(
        machine: Arc<dyn Machine>,
        address: &SocketAddrUnix,
    ) -> io::Result<Self> {
        let id = machine.open_unix(UnixKind::Stream)?;
        let stream = Self::from_socket(simulated::socket(&machine, id)?);
        loop {
            match machine.connect_unix(id, address) {
                Ok(()) => return Ok(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(QUEUE_FULL).await,
                Err(error) => return Err(error),
            }
        }
    }
}
