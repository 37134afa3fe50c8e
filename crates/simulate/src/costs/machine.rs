//! The machine and the poller of a loop in a model: the calls that have a meaning without faults.

use std::fmt;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duality_poller::{Direction, Event, Poller, Token};
use duality_runtime::machine::{Machine, Place, SocketId, UnixKind};
use duality_runtime::net::Closed;
use rustix::net::{SocketAddrAny, SocketAddrUnix};

use super::network::Network;
use crate::network::EPOCH;

/// The machine and the poller of one loop.
#[derive(Clone)]
pub(super) struct LoopMachine {
    pub(super) network: Arc<Mutex<Network>>,
    pub(super) index: usize,
    pub(super) place: Arc<Place>,
}

pub(super) fn lock(network: &Mutex<Network>) -> MutexGuard<'_, Network> {
    network.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The port of every server.
pub(super) const PORT: u16 = 80;

/// What a model has no costs for.
fn unknown<T>(what: &str) -> io::Result<T> {
    let problem = format!("a model of costs has no {what}: leave out --costs");
    Err(io::Error::new(io::ErrorKind::Unsupported, problem))
}

impl fmt::Debug for LoopMachine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LoopMachine").field("index", &self.index).finish_non_exhaustive()
    }
}

impl LoopMachine {
    fn network(&self) -> MutexGuard<'_, Network> {
        lock(&self.network)
    }

    fn read(
        &self,
        socket: SocketId,
        room: &mut [MaybeUninit<u8>],
        takes: bool,
    ) -> io::Result<usize> {
        let count = room.len();
        self.network().receive(socket.0, count, takes, |bytes| {
            for (to, from) in room.iter_mut().zip(bytes) {
                to.write(*from);
            }
        })
    }
}

impl Machine for LoopMachine {
    fn time_of_day(&self) -> Duration {
        Duration::from_nanos(EPOCH + self.network().now)
    }

    fn offload_time(&self) -> Duration {
        Duration::ZERO
    }

    fn log(&self, _message: &str) {}

    fn look_up(&self, _host: &str) -> io::Result<Vec<SocketAddr>> {
        unknown("names of hosts")
    }

    fn opened(&self, _descriptor: RawFd, _socket: SocketId) {}

    fn socket(&self, _descriptor: RawFd) -> Option<SocketId> {
        None
    }

    fn closed(&self, _descriptor: RawFd) {}

    fn listen(&self, _address: SocketAddr, _backlog: i32) -> io::Result<SocketId> {
        Ok(SocketId(Network::listener(self.index)))
    }

    fn accept(&self, _listener: SocketId) -> io::Result<SocketId> {
        self.network().accept(self.index).map(SocketId)
    }

    fn queued(&self, _listener: SocketId) -> usize {
        self.network().queued(self.index)
    }

    fn connect(&self, _address: SocketAddr) -> io::Result<SocketId> {
        unknown("connections of servers to others")
    }

    fn connected(&self, _socket: SocketId) -> io::Result<()> {
        unknown("connections of servers to others")
    }

    fn receive(&self, socket: SocketId, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        self.read(socket, buffer, true)
    }

    fn peek(&self, socket: SocketId, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        self.read(socket, buffer, false)
    }

    fn is_ready(&self, socket: SocketId, direction: Direction) -> bool {
        direction == Direction::Write || self.network().has_input(socket.0)
    }

    fn send(&self, socket: SocketId, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        match buffers {
            [bytes] => self.network().send(socket.0, bytes),
            _ => {
                let all: Vec<&[u8]> = buffers.iter().map(|bytes| &**bytes).collect();
                self.network().send(socket.0, &all.concat())
            }
        }
    }

    fn bind_datagrams(&self, _address: SocketAddr) -> io::Result<SocketId> {
        unknown("datagrams")
    }

    fn connect_datagrams(&self, _socket: SocketId, _peer: SocketAddr) -> io::Result<()> {
        unknown("datagrams")
    }

    fn send_datagram(
        &self,
        _socket: SocketId,
        _datagram: &[u8],
        _peer: Option<&SocketAddrAny>,
    ) -> io::Result<usize> {
        unknown("datagrams")
    }

    fn receive_datagram(&self, _socket: SocketId) -> io::Result<(Vec<u8>, SocketAddrAny)> {
        unknown("datagrams")
    }

    fn peek_datagram(&self, _socket: SocketId) -> io::Result<(Vec<u8>, SocketAddrAny)> {
        unknown("datagrams")
    }

    fn shut_down(&self, socket: SocketId, how: Shutdown) -> io::Result<()> {
        if how != Shutdown::Read {
            self.network().say_end(socket.0);
        }
        Ok(())
    }

    fn break_off(&self, _socket: SocketId) {}

    fn set_taking_limit(&self, _socket: SocketId, _limit: Duration) {}

    fn has_closed(&self, socket: SocketId) -> Option<Closed> {
        self.network().has_ended(socket.0).then_some(Closed::Sending)
    }

    fn is_quiet(&self, socket: SocketId) -> bool {
        !self.network().has_input(socket.0)
    }

    fn addresses(&self, socket: SocketId) -> Option<(SocketAddr, Option<SocketAddr>)> {
        let own = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        let client = self.network().client(socket.0);
        let address = |client: u32| IpAddr::from((0x0A00_0000 | client).to_be_bytes());
        Some((own, client.map(|client| SocketAddr::new(address(client), PORT))))
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn shares_descriptor(&self) -> bool {
        true
    }

    fn close(&self, socket: SocketId) {
        self.network().close(socket.0);
    }

    fn take_error(&self, _socket: SocketId) -> Option<io::Error> {
        None
    }

    fn open_unix(&self, _kind: UnixKind) -> io::Result<SocketId> {
        unknown("Unix sockets")
    }

    fn pair_unix(&self, _kind: UnixKind) -> io::Result<[SocketId; 2]> {
        unknown("Unix sockets")
    }

    fn bind_unix(&self, _socket: SocketId, _address: &SocketAddrUnix) -> io::Result<()> {
        unknown("Unix sockets")
    }

    fn listen_unix(&self, _socket: SocketId, _backlog: i32) -> io::Result<()> {
        unknown("Unix sockets")
    }

    fn connect_unix(&self, _socket: SocketId, _address: &SocketAddrUnix) -> io::Result<()> {
        unknown("Unix sockets")
    }

    fn unix_addresses(
        &self,
        _socket: SocketId,
    ) -> Option<(SocketAddrUnix, Option<SocketAddrUnix>)> {
        None
    }
}

impl Poller for LoopMachine {
    fn arm(
        &mut self,
        _descriptor: BorrowedFd<'_>,
        token: Token,
        direction: Direction,
    ) -> io::Result<()> {
        self.network().arm(self.index, token, direction);
        Ok(())
    }

    fn forget(&mut self, _descriptor: BorrowedFd<'_>, _token: Token) {}

    /// Never sleeps: the driver moves the time.
    fn wait(&mut self, _timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        self.network().events(self.index, events);
        Ok(())
    }
}
