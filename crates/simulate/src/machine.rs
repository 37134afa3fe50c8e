//! The machine of a host, as the runtime sees it: its system calls and its poller.

use std::fmt;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duality_poller::{Direction, Event, Poller, Token};
use duality_runtime::machine::{DatagramOption, Machine, Place, SocketId, Traffic, UnixKind};
use duality_runtime::net::Closed;
use rustix::net::{SocketAddrAny, SocketAddrUnix};

use crate::decisions::Kind;
use crate::network::{Network, address_of};

/// A network that the hosts of a simulation share.
pub(crate) type SharedNetwork = Arc<Mutex<Network>>;

pub(crate) fn lock(network: &Mutex<Network>) -> MutexGuard<'_, Network> {
    network.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The longest that a helper thread takes, in nanoseconds.
const OFFLOAD: u64 = 3_000_000;

/// The number of the process that the first host is, less one.
const FIRST_PROCESS: u32 = 1000;

/// The machine and the poller of one host.
#[derive(Clone)]
pub(crate) struct HostMachine {
    pub(crate) network: SharedNetwork,
    pub(crate) host: usize,
    /// The queue of events of its poller.
    pub(crate) queue: usize,
    pub(crate) place: Arc<Place>,
}

impl fmt::Debug for HostMachine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HostMachine").field("host", &self.host).finish_non_exhaustive()
    }
}

impl HostMachine {
    fn network(&self) -> MutexGuard<'_, Network> {
        lock(&self.network)
    }
}

impl Machine for HostMachine {
    fn time_of_day(&self) -> Duration {
        let net = self.network();
        Duration::from_nanos(net.hosts[self.host].clock.time_of_day(net.now))
    }

    fn process_id(&self) -> Option<u32> {
        (self.host > 0).then_some(FIRST_PROCESS + self.host as u32)
    }

    fn offload_time(&self) -> Duration {
        Duration::from_nanos(self.network().draw(Kind::Offload, OFFLOAD))
    }

    fn log(&self, message: &str) {
        self.network().tell(|net| format!("{} logs: {message}", net.name(self.host)));
    }

    fn look_up(&self, host: &str) -> io::Result<Vec<SocketAddr>> {
        let unknown = || {
            let problem = format!("no simulated host is called {host:?}: write NAME:PORT");
            io::Error::new(io::ErrorKind::NotFound, problem)
        };
        let (name, port) = host.rsplit_once(':').ok_or_else(unknown)?;
        let number = self.network().host_named(name).ok_or_else(unknown)?;
        let port = port.parse().map_err(|_| unknown())?;
        Ok(vec![SocketAddr::new(address_of(number), port)])
    }

    fn opened(&self, descriptor: RawFd, socket: SocketId) {
        self.network().opened(descriptor, socket.0);
    }

    fn socket(&self, descriptor: RawFd) -> Option<SocketId> {
        self.network().socket_of(descriptor).map(SocketId)
    }

    fn closed(&self, descriptor: RawFd) {
        self.network().closed(descriptor);
    }

    fn listen(&self, address: SocketAddr, backlog: i32) -> io::Result<SocketId> {
        self.network().listen(self.host, address, backlog).map(SocketId)
    }

    fn accept(&self, listener: SocketId) -> io::Result<SocketId> {
        self.network().accept(listener.0).map(SocketId)
    }

    fn queued(&self, listener: SocketId) -> usize {
        self.network().queued(listener.0)
    }

    fn connect(&self, address: SocketAddr) -> io::Result<SocketId> {
        self.network().connect(self.host, address).map(SocketId)
    }

    fn connected(&self, socket: SocketId) -> io::Result<()> {
        self.network().connected(socket.0)
    }

    fn receive(&self, socket: SocketId, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        let room = buffer.len();
        self.network().receive(socket.0, room, |index, byte| {
            buffer[index].write(byte);
        })
    }

    fn peek(&self, socket: SocketId, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        self.network().peek(socket.0, buffer.len(), |index, byte| {
            buffer[index].write(byte);
        })
    }

    fn is_ready(&self, socket: SocketId, direction: Direction) -> bool {
        self.network().is_ready(socket.0, direction)
    }

    fn send(&self, socket: SocketId, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        match buffers {
            [bytes] => self.network().send(socket.0, bytes),
            _ => {
                let bytes: Vec<u8> =
                    buffers.iter().flat_map(|bytes| bytes.iter().copied()).collect();
                self.network().send(socket.0, &bytes)
            }
        }
    }

    fn bind_datagrams(&self, address: SocketAddr) -> io::Result<SocketId> {
        self.network().bind_datagrams(self.host, address).map(SocketId)
    }

    fn connect_datagrams(&self, socket: SocketId, peer: SocketAddr) -> io::Result<()> {
        self.network().connect_datagrams(socket.0, peer)
    }

    fn send_datagram(
        &self,
        socket: SocketId,
        datagram: &[u8],
        peer: Option<&SocketAddrAny>,
    ) -> io::Result<usize> {
        self.network().send_datagram(socket.0, datagram, peer)
    }

    fn receive_datagram(&self, socket: SocketId) -> io::Result<(Vec<u8>, SocketAddrAny)> {
        self.network().receive_datagram(socket.0)
    }

    fn peek_datagram(&self, socket: SocketId) -> io::Result<(Vec<u8>, SocketAddrAny)> {
        self.network().peek_datagram(socket.0)
    }

    fn set_datagram_option(&self, socket: SocketId, option: DatagramOption) -> io::Result<()> {
        self.network().set_datagram_option(socket.0, option)
    }

    fn datagram_options(&self, socket: SocketId) -> io::Result<(bool, bool)> {
        self.network().datagram_options(socket.0)
    }

    fn shut_down(&self, socket: SocketId, how: Shutdown) -> io::Result<()> {
        self.network().shut_down(socket.0, how)
    }

    fn break_off(&self, socket: SocketId) {
        self.network().break_off(socket.0);
    }

    fn set_taking_limit(&self, socket: SocketId, limit: Duration) {
        self.network().set_taking_limit(socket.0, limit);
    }

    fn has_closed(&self, socket: SocketId) -> Option<Closed> {
        self.network().has_closed(socket.0)
    }

    fn is_quiet(&self, socket: SocketId) -> bool {
        self.network().is_quiet(socket.0)
    }

    fn addresses(&self, socket: SocketId) -> Option<(SocketAddr, Option<SocketAddr>)> {
        self.network().addresses(socket.0)
    }

    fn traffic(&self, socket: SocketId) -> Option<Traffic> {
        self.network().traffic(socket.0)
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn take_error(&self, socket: SocketId) -> Option<io::Error> {
        self.network().take_error(socket.0)
    }

    fn open_unix(&self, kind: UnixKind) -> io::Result<SocketId> {
        self.network().open_unix(self.host, kind).map(SocketId)
    }

    fn pair_unix(&self, kind: UnixKind) -> io::Result<[SocketId; 2]> {
        Ok(self.network().pair_unix(self.host, kind)?.map(SocketId))
    }

    fn bind_unix(&self, socket: SocketId, address: &SocketAddrUnix) -> io::Result<()> {
        self.network().bind_unix(socket.0, address)
    }

    fn listen_unix(&self, socket: SocketId, backlog: i32) -> io::Result<()> {
        self.network().listen_unix(socket.0, backlog)
    }

    fn connect_unix(&self, socket: SocketId, address: &SocketAddrUnix) -> io::Result<()> {
        self.network().connect_unix(socket.0, address)
    }

    fn unix_addresses(&self, socket: SocketId) -> Option<(SocketAddrUnix, Option<SocketAddrUnix>)> {
        self.network().unix_addresses(socket.0)
    }
}

impl Poller for HostMachine {
    fn arm(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        direction: Direction,
    ) -> io::Result<()> {
        self.network().arm(descriptor.as_raw_fd(), self.queue, token, direction);
        Ok(())
    }

    fn forget(&mut self, descriptor: BorrowedFd<'_>, token: Token) {
        let mut net = self.network();
        net.disarm(descriptor.as_raw_fd(), self.queue, token);
        net.forget(self.host, self.queue, token);
    }

    /// Never sleeps: the driver moves the time.
    fn wait(&mut self, _timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        self.network().events(self.host, self.queue, events);
        Ok(())
    }
}
