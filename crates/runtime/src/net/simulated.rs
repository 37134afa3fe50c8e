//! Sockets of a simulated host: each attempt asks the host's [`Machine`].

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duality_poller::Direction;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::{Shutdown, SocketAddrAny, SocketAddrUnix};

use super::socket::{Access, Channel, Moved, Socket, null};
use crate::drain;
pub(super) use crate::event_loop::current::machine;
use crate::machine::{self, DatagramOption, Machine, SocketId, UnixKind};
use crate::tcp_info::Closed;
use crate::threads::{self, Threads};

/// The interval at which a thread looks for the first bytes of a connection at a drain.
const FIRST_BYTES_LOOK: Duration = Duration::from_millis(1);

/// The channel of a simulated socket.
struct Simulated {
    machine: Arc<dyn Machine>,
    socket: SocketId,
    limits: Arc<Limits>,
}

/// How long a call that receives or sends waits in place, in nanoseconds. 0 is without an end. The
/// duplicates of a socket share them.
#[derive(Default)]
struct Limits {
    receive: AtomicU64,
    send: AtomicU64,
}

/// A call of a simulated kernel thread, which waits in place where a real one would sleep in the
/// kernel.
pub(super) struct Waiting {
    /// `None` if the call does not wait.
    threads: Option<Arc<dyn Threads>>,
    socket: SocketId,
    direction: Direction,
    deadline: Option<Instant>,
}

impl Waiting {
    pub(super) fn of(
        access: &Access<'_>,
        socket: SocketId,
        direction: Direction,
        limit: Option<Duration>,
    ) -> Self {
        let threads = threads::here();
        if let Some(threads) = &threads {
            // A system call.
            threads.give_way();
        }
        let threads = threads.filter(|_| access.waits);
        let deadline = limit.zip(threads.as_ref());
        let deadline = deadline.and_then(|(limit, threads)| threads.now().checked_add(limit));
        Self { threads, socket, direction, deadline }
    }

    /// Calls `call` until it does not say that it would block, or until the limit of the socket.
    pub(super) fn until_done<T>(
        &self,
        machine: &Arc<dyn Machine>,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            let outcome = call();
            let Some(threads) = &self.threads else { return outcome };
            match outcome {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.deadline.is_some_and(|deadline| threads.now() >= deadline) {
                        return Err(error);
                    }
                }
                outcome => return outcome,
            }
            let is_ready = || machine.is_ready(self.socket, self.direction);
            threads::wait(&**threads, "a socket", &is_ready, self.deadline);
        }
    }
}

/// A descriptor for `id`.
fn open_descriptor(machine: &Arc<dyn Machine>, id: SocketId) -> io::Result<OwnedFd> {
    let descriptor = fcntl_dupfd_cloexec(null()?, 0)?;
    machine.opened(descriptor.as_raw_fd(), id);
    Ok(descriptor)
}

/// A socket for `id`, with a descriptor of its own unless the machine's sockets share one.
pub(super) fn socket(machine: &Arc<dyn Machine>, id: SocketId) -> io::Result<Socket> {
    let mut socket = match machine.shares_descriptor() {
        true => {
            null()?;
            Socket::without_descriptor()
        }
        false => Socket::new(open_descriptor(machine, id)?, true),
    };
    let (machine, limits) = (machine.clone(), Arc::default());
    socket.channel = Some(Box::new(Simulated { machine, socket: id, limits }));
    socket.by_system_calls = true;
    Ok(socket)
}

impl Simulated {
    fn waiting(&self, access: &Access<'_>, direction: Direction) -> Waiting {
        let limit = match direction {
            Direction::Read => &self.limits.receive,
            Direction::Write => &self.limits.send,
        };
        let limit = Some(limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0);
        Waiting::of(access, self.socket, direction, limit.map(Duration::from_nanos))
    }

    /// The first bytes of a connection, for as long as a drain waits for them. 0 if none came.
    fn first_bytes(
        &self,
        threads: &dyn Threads,
        buffer: &mut [MaybeUninit<u8>],
    ) -> io::Result<usize> {
        let end = threads.now() + drain::FIRST_BYTES;
        loop {
            let count = self.machine.receive(self.socket, buffer)?;
            let is_over = threads.now() >= end || self.machine.has_closed(self.socket).is_some();
            if count > 0 || is_over {
                return Ok(count);
            }
            // The input has ended, so the socket is ready.
            let next = threads.now() + FIRST_BYTES_LOOK;
            threads::wait(threads, "the first bytes", &|| false, Some(next));
        }
    }
}

impl Channel for Simulated {
    fn is_injected(&self) -> bool {
        true
    }

    fn receive(
        &self,
        network: &Access<'_>,
        buffer: &mut [MaybeUninit<u8>],
    ) -> io::Result<Moved<usize>> {
        let waiting = self.waiting(network, Direction::Read);
        let receive = || self.machine.receive(self.socket, buffer);
        let mut count = waiting.until_done(&self.machine, receive)?;
        if count == 0
            && network.awaits_first_bytes()
            && let Some(threads) = threads::here()
        {
            count = self.first_bytes(&*threads, buffer)?;
        }
        Ok(Moved::all(count))
    }

    fn send(&self, network: &Access<'_>, buffers: &[IoSlice<'_>]) -> io::Result<Moved<usize>> {
        let waiting = self.waiting(network, Direction::Write);
        let send = || self.machine.send(self.socket, buffers);
        Ok(Moved::all(waiting.until_done(&self.machine, send)?))
    }

    fn waits_in_place(&self) -> bool {
        threads::here().is_some()
    }

    fn set_wait_limit(&self, to_receive: bool, limit: Option<Duration>) {
        let limits = &self.limits;
        let own = if to_receive { &limits.receive } else { &limits.send };
        let limit = limit.map_or(0, |limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        own.store(limit, Ordering::Relaxed);
    }

    fn send_last(&self, network: &Access<'_>, bytes: &[u8]) -> io::Result<Moved<usize>> {
        let count = self.send(network, &[IoSlice::new(bytes)])?.value;
        if count == bytes.len() {
            self.end(network)?;
        }
        Ok(Moved::all(count))
    }

    fn end(&self, _network: &Access<'_>) -> io::Result<Moved<()>> {
        Ok(Moved::all(self.machine.shut_down(self.socket, std::net::Shutdown::Write)?))
    }

    fn send_at_close(&self, bytes: &[u8]) -> io::Result<usize> {
        self.machine.send(self.socket, &[IoSlice::new(bytes)])
    }

    fn close(&self, socket: BorrowedFd<'_>) {
        match self.machine.shares_descriptor() {
            true => self.machine.close(self.socket),
            false => self.machine.closed(socket.as_raw_fd()),
        }
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

    fn moves(&self, socket: BorrowedFd<'_>, twin: BorrowedFd<'_>) {
        self.machine.opened(twin.as_raw_fd(), self.socket);
        self.machine.closed(socket.as_raw_fd());
    }

    fn duplicate(&self, _socket: BorrowedFd<'_>, twin: BorrowedFd<'_>) -> Option<Box<dyn Channel>> {
        if self.machine.shares_descriptor() {
            return None;
        }
        self.machine.opened(twin.as_raw_fd(), self.socket);
        let (machine, limits) = (self.machine.clone(), self.limits.clone());
        Some(Box::new(Self { machine, socket: self.socket, limits }))
    }
}

/// The sockets of the simulated host that runs on this kernel thread, for crates that give
/// Duality's worlds another library's interface. A socket is known by its descriptor.
///
/// Functions have the errors of their system calls.
#[allow(clippy::missing_errors_doc)]
#[derive(Debug)]
pub struct SimulatedSockets(Arc<dyn Machine>);

impl SimulatedSockets {
    /// `None` outside of simulations.
    #[inline]
    #[must_use]
    pub fn here() -> Option<Self> {
        machine::here().map(Self)
    }

    fn id(&self, socket: BorrowedFd<'_>) -> io::Result<SocketId> {
        self.0.socket(socket.as_raw_fd()).ok_or_else(|| {
            let problem = "this socket is not of the simulated host: open it within the simulation";
            io::Error::new(io::ErrorKind::NotConnected, problem)
        })
    }

    /// The addresses of `NAME:PORT`.
    pub fn look_up(&self, host: &str) -> io::Result<Vec<SocketAddr>> {
        self.0.look_up(host)
    }

    /// socket(2), bind(2) and listen(2).
    pub fn listen(&self, address: SocketAddr, backlog: i32) -> io::Result<OwnedFd> {
        open_descriptor(&self.0, self.0.listen(address, backlog)?)
    }

    /// accept(2).
    pub fn accept(&self, listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketAddr)> {
        let id = self.0.accept(self.id(listener)?)?;
        let descriptor = open_descriptor(&self.0, id)?;
        let peer = self.0.addresses(id).and_then(|(_, peer)| peer);
        Ok((descriptor, peer.ok_or(io::ErrorKind::NotConnected)?))
    }

    /// socket(2), and the beginning of a connect(2).
    pub fn connect(&self, address: SocketAddr) -> io::Result<OwnedFd> {
        open_descriptor(&self.0, self.0.connect(address)?)
    }

    /// The outcome of a connect(2), `WouldBlock` while it is under way.
    pub fn connected(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.0.connected(self.id(socket)?)
    }

    /// recv(2), with `MSG_PEEK` if it `peeks`.
    pub fn receive(
        &self,
        socket: BorrowedFd<'_>,
        room: &mut [MaybeUninit<u8>],
        peeks: bool,
    ) -> io::Result<usize> {
        let id = self.id(socket)?;
        if peeks { self.0.peek(id, room) } else { self.0.receive(id, room) }
    }

    /// recv(2).
    pub fn receive_into(&self, socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<usize> {
        let mut copy = vec![MaybeUninit::uninit(); room.len()];
        let count = self.receive(socket, &mut copy, false)?;
        for (byte, received) in room.iter_mut().zip(&copy[..count]) {
            // SAFETY: a receive has written as many bytes as it says.
            *byte = unsafe { received.assume_init() };
        }
        Ok(count)
    }

    /// sendmsg(2).
    pub fn send(&self, socket: BorrowedFd<'_>, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send(self.id(socket)?, buffers)
    }

    /// socket(2) and bind(2) for datagrams.
    pub fn bind_datagrams(&self, address: SocketAddr) -> io::Result<OwnedFd> {
        open_descriptor(&self.0, self.0.bind_datagrams(address)?)
    }

    /// connect(2) for datagrams.
    pub fn connect_datagrams(&self, socket: BorrowedFd<'_>, peer: SocketAddr) -> io::Result<()> {
        self.0.connect_datagrams(self.id(socket)?, peer)
    }

    /// sendto(2), or send(2) without a peer.
    pub fn send_datagram(
        &self,
        socket: BorrowedFd<'_>,
        datagram: &[u8],
        peer: Option<&SocketAddrAny>,
    ) -> io::Result<usize> {
        self.0.send_datagram(self.id(socket)?, datagram, peer)
    }

    /// recvfrom(2), with `MSG_PEEK` if it `peeks`: a whole datagram, and its sender.
    pub fn receive_datagram(
        &self,
        socket: BorrowedFd<'_>,
        peeks: bool,
    ) -> io::Result<(Vec<u8>, SocketAddrAny)> {
        let id = self.id(socket)?;
        if peeks { self.0.peek_datagram(id) } else { self.0.receive_datagram(id) }
    }

    /// setsockopt(2) of a socket for datagrams.
    pub fn set_datagram_option(
        &self,
        socket: BorrowedFd<'_>,
        option: DatagramOption,
    ) -> io::Result<()> {
        self.0.set_datagram_option(self.id(socket)?, option)
    }

    /// Whether a socket may broadcast, and whether its own host gets its multicasts.
    pub fn datagram_options(&self, socket: BorrowedFd<'_>) -> io::Result<(bool, bool)> {
        self.0.datagram_options(self.id(socket)?)
    }

    /// shutdown(2).
    pub fn shut_down(&self, socket: BorrowedFd<'_>, how: std::net::Shutdown) -> io::Result<()> {
        self.0.shut_down(self.id(socket)?, how)
    }

    /// getsockname(2) and getpeername(2).
    pub fn addresses(
        &self,
        socket: BorrowedFd<'_>,
    ) -> io::Result<(SocketAddr, Option<SocketAddr>)> {
        let addresses = self.0.addresses(self.id(socket)?);
        addresses.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Takes the error that the socket has kept (`SO_ERROR`).
    pub fn take_error(&self, socket: BorrowedFd<'_>) -> io::Result<Option<io::Error>> {
        Ok(self.0.take_error(self.id(socket)?))
    }

    /// Whether an attempt would not block. `None` for a descriptor that is no simulated socket.
    #[must_use]
    pub fn is_ready(&self, socket: BorrowedFd<'_>, direction: Direction) -> Option<bool> {
        Some(self.0.is_ready(self.0.socket(socket.as_raw_fd())?, direction))
    }

    /// A descriptor is about to be closed.
    pub(super) fn closes(&self, descriptor: BorrowedFd<'_>) {
        self.0.closed(descriptor.as_raw_fd());
    }
}

/// Unix sockets.
#[allow(clippy::missing_errors_doc)]
impl SimulatedSockets {
    /// socket(2).
    pub fn open_unix(&self, kind: UnixKind) -> io::Result<OwnedFd> {
        open_descriptor(&self.0, self.0.open_unix(kind)?)
    }

    /// socketpair(2).
    pub fn pair_unix(&self, kind: UnixKind) -> io::Result<(OwnedFd, OwnedFd)> {
        let [one, other] = self.0.pair_unix(kind)?;
        Ok((open_descriptor(&self.0, one)?, open_descriptor(&self.0, other)?))
    }

    /// bind(2). A path becomes a file.
    pub fn bind_unix(&self, socket: BorrowedFd<'_>, address: &SocketAddrUnix) -> io::Result<()> {
        self.0.bind_unix(self.id(socket)?, address)
    }

    /// listen(2).
    pub fn listen_unix(&self, socket: BorrowedFd<'_>, backlog: i32) -> io::Result<()> {
        self.0.listen_unix(self.id(socket)?, backlog)
    }

    /// connect(2). `WouldBlock` while the accept queue is full.
    pub fn connect_unix(&self, socket: BorrowedFd<'_>, address: &SocketAddrUnix) -> io::Result<()> {
        self.0.connect_unix(self.id(socket)?, address)
    }

    /// accept(2).
    pub fn accept_unix(&self, listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        open_descriptor(&self.0, self.0.accept(self.id(listener)?)?)
    }

    /// getsockname(2) and getpeername(2).
    pub fn unix_addresses(
        &self,
        socket: BorrowedFd<'_>,
    ) -> io::Result<(SocketAddrUnix, Option<SocketAddrUnix>)> {
        let addresses = self.0.unix_addresses(self.id(socket)?);
        addresses.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}
