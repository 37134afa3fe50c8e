//! Sockets of a simulated host: each attempt asks the host's [`Machine`].

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::Shutdown;

use super::socket::{Access, Channel, Moved, Socket};
pub(super) use crate::event_loop::current::machine;
use crate::machine::{Machine, SocketId};
use crate::tcp_info::Closed;

/// The channel of a simulated socket.
struct Simulated {
    machine: Arc<dyn Machine>,
    socket: SocketId,
}

/// A socket for `id`, with a descriptor of its own.
pub(super) fn socket(machine: &Arc<dyn Machine>, id: SocketId) -> io::Result<Socket> {
    static NULL: OnceLock<OwnedFd> = OnceLock::new();
    let null = match NULL.get() {
        Some(null) => null,
        None => {
            let opened = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
            NULL.get_or_init(|| opened)
        }
    };
    let descriptor = fcntl_dupfd_cloexec(null, 0)?;
    machine.opened(descriptor.as_raw_fd(), id);
    let mut socket = Socket::new(descriptor, true);
    socket.channel = Some(Box::new(Simulated { machine: machine.clone(), socket: id }));
    socket.by_system_calls = true;
    Ok(socket)
}

impl Channel for Simulated {
    fn is_injected(&self) -> bool {
        true
    }

    fn receive(
        &self,
        _network: &Access<'_>,
        buffer: &mut [MaybeUninit<u8>],
    ) -> io::Result<Moved<usize>> {
        Ok(Moved::all(self.machine.receive(self.socket, buffer)?))
    }

    fn send(&self, _network: &Access<'_>, buffers: &[IoSlice<'_>]) -> io::Result<Moved<usize>> {
        Ok(Moved::all(self.machine.send(self.socket, buffers)?))
    }

    fn send_last(&self, network: &Access<'_>, bytes: &[u8]) -> io::Result<Moved<usize>> {
        let count = self.machine.send(self.socket, &[IoSlice::new(bytes)])?;
        if count == bytes.len() {
            self.end(network)?;
        }
        Ok(Moved::all(count))
    }

    fn end(&self, _network: &Access<'_>) -> io::Result<Moved<()>> {
        Ok(Moved::all(self.machine.shut_down(self.socket, std::net::Shutdown::Write)?))
    }

    fn close(&self, socket: BorrowedFd<'_>) {
        self.machine.closed(socket.as_raw_fd());
    }

    fn break_off(&self, _socket: BorrowedFd<'_>) {
        self.machine.break_off(self.socket);
    }

    fn addresses(&self, _socket: BorrowedFd<'_>) -> Option<(SocketAddr, SocketAddr)> {
        let (own, peer) = self.machine.addresses(self.socket)?;
        Some((own, peer.unwrap_or(own)))
    }

    fn set_taking_limit(&self, _socket: BorrowedFd<'_>, limit: Duration) {
        self.machine.set_taking_limit(self.socket, limit);
    }

    fn shut_down(&self, _socket: BorrowedFd<'_>, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => std::net::Shutdown::Read,
            Shutdown::Write => std::net::Shutdown::Write,
            Shutdown::Both => std::net::Shutdown::Both,
        };
        self.machine.shut_down(self.socket, how)
    }

    fn has_closed(&self, _socket: BorrowedFd<'_>) -> Option<Closed> {
        self.machine.has_closed(self.socket)
    }

    fn is_quiet(&self, _socket: BorrowedFd<'_>) -> Option<bool> {
        Some(self.machine.is_quiet(self.socket))
    }

    fn duplicate(&self, _socket: BorrowedFd<'_>, twin: BorrowedFd<'_>) -> Option<Box<dyn Channel>> {
        self.machine.opened(twin.as_raw_fd(), self.socket);
        Some(Box::new(Self { machine: self.machine.clone(), socket: self.socket }))
    }
}
