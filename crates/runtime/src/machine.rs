//! What the loop of a simulated host asks of its machine, instead of the kernel.
//!
//! The crate `duality-simulate` implements a machine. A host is an
//! [event loop](crate::event_loop::Host) with a machine. The loop's poller and the channels of its
//! sockets ask the machine. The loop's clock stands where the simulation puts it. So the code of a
//! service, and the code of its waits, is the code that ships.
//!
//! ```text
//!   service ─ attempt ─▶ Access ─▶ Channel (net/simulated.rs) ─▶ Machine
//!      │                                                           ▲
//!      └─ wait ─▶ event loop ─▶ Poller ────────────────────────────┘
//! ```
//!
//! A socket keeps a descriptor (of `/dev/null`), so that it stays what the rest of the runtime
//! takes it for. The machine knows the socket by a number of its own. So nothing that it decides
//! depends on numbers that the kernel gives out.

use std::any::Any;
use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duality_poller::Direction;
use rustix::net::{SocketAddrAny, SocketAddrUnix};

use crate::drain;
use crate::event_loop::current;
use crate::tcp_info::Closed;

/// A socket of a machine. A number is never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);

/// What a Unix socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnixKind {
    /// Bytes of a connection (`SOCK_STREAM`).
    Stream,
    /// Datagrams (`SOCK_DGRAM`).
    Datagrams,
}

/// What a socket for datagrams is told of broadcasts and multicasts of IPv4 (ip(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramOption {
    /// Whether it may broadcast (`SO_BROADCAST`).
    Broadcast(bool),
    /// Whether its own host gets its multicasts (`IP_MULTICAST_LOOP`).
    Loop(bool),
    /// It joins a group (`IP_ADD_MEMBERSHIP`).
    Join(Ipv4Addr),
    /// It leaves a group (`IP_DROP_MEMBERSHIP`).
    Leave(Ipv4Addr),
}

/// The machine of a simulated host. No function waits: an attempt that would wait fails with
/// `WouldBlock`, as a system call in non-blocking mode does.
pub trait Machine: Debug + Send + Sync {
    /// The time since 1970.
    fn time_of_day(&self) -> Duration;

    /// The number of the process (getpid(2)). `None` for the real one.
    fn process_id(&self) -> Option<u32> {
        None
    }

    /// How long a helper thread would take for the next offloaded work, its queue included.
    fn offload_time(&self) -> Duration;

    /// A message to the operator of the host.
    fn log(&self, message: &str);

    /// The addresses of a host that is not an address itself: `NAME:PORT`.
    ///
    /// # Errors
    ///
    /// If there is no such host.
    fn look_up(&self, host: &str) -> io::Result<Vec<SocketAddr>>;

    /// A descriptor now names the socket.
    fn opened(&self, descriptor: RawFd, socket: SocketId);

    /// The socket that a descriptor names.
    fn socket(&self, descriptor: RawFd) -> Option<SocketId>;

    /// A descriptor names its socket no more. The last one closes it.
    fn closed(&self, descriptor: RawFd);

    /// socket(2), bind(2) and listen(2).
    ///
    /// # Errors
    ///
    /// Theirs.
    fn listen(&self, address: SocketAddr, backlog: i32) -> io::Result<SocketId>;

    /// Takes a connection out of the accept queue.
    ///
    /// # Errors
    ///
    /// Those of accept(2).
    fn accept(&self, listener: SocketId) -> io::Result<SocketId>;

    /// The number of connections in the accept queue.
    fn queued(&self, listener: SocketId) -> usize;

    /// socket(2), and the beginning of a connect(2).
    ///
    /// # Errors
    ///
    /// Theirs.
    fn connect(&self, address: SocketAddr) -> io::Result<SocketId>;

    /// The outcome of a connect(2).
    ///
    /// # Errors
    ///
    /// Its own, and `WouldBlock` while it is under way.
    fn connected(&self, socket: SocketId) -> io::Result<()>;

    /// recv(2).
    ///
    /// # Errors
    ///
    /// Its own.
    fn receive(&self, socket: SocketId, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize>;

    /// recv(2) with `MSG_PEEK`.
    ///
    /// # Errors
    ///
    /// Its own.
    fn peek(&self, socket: SocketId, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize>;

    /// Whether an attempt in this direction would not block.
    fn is_ready(&self, socket: SocketId, direction: Direction) -> bool;

    /// sendmsg(2).
    ///
    /// # Errors
    ///
    /// Its own.
    fn send(&self, socket: SocketId, buffers: &[IoSlice<'_>]) -> io::Result<usize>;

    /// socket(2) and bind(2) for datagrams.
    ///
    /// # Errors
    ///
    /// Theirs.
    fn bind_datagrams(&self, address: SocketAddr) -> io::Result<SocketId>;

    /// connect(2) for datagrams.
    ///
    /// # Errors
    ///
    /// Its own.
    fn connect_datagrams(&self, socket: SocketId, peer: SocketAddr) -> io::Result<()>;

    /// sendto(2), or send(2) without a peer.
    ///
    /// # Errors
    ///
    /// Theirs.
    fn send_datagram(
        &self,
        socket: SocketId,
        datagram: &[u8],
        peer: Option<&SocketAddrAny>,
    ) -> io::Result<usize>;

    /// recvfrom(2): a whole datagram, and its sender.
    ///
    /// # Errors
    ///
    /// Its own.
    fn receive_datagram(&self, socket: SocketId) -> io::Result<(Vec<u8>, SocketAddrAny)>;

    /// recvfrom(2) with `MSG_PEEK`.
    ///
    /// # Errors
    ///
    /// Its own.
    fn peek_datagram(&self, socket: SocketId) -> io::Result<(Vec<u8>, SocketAddrAny)>;

    /// setsockopt(2) of a socket for datagrams.
    ///
    /// # Errors
    ///
    /// Its own.
    fn set_datagram_option(&self, socket: SocketId, option: DatagramOption) -> io::Result<()> {
        let _ = (socket, option);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether a socket may broadcast, and whether its own host gets its multicasts.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    fn datagram_options(&self, socket: SocketId) -> io::Result<(bool, bool)> {
        let _ = socket;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// shutdown(2).
    ///
    /// # Errors
    ///
    /// Its own.
    fn shut_down(&self, socket: SocketId, how: Shutdown) -> io::Result<()>;

    /// Has the close reset the connection (`SO_LINGER` of zero).
    fn break_off(&self, socket: SocketId);

    /// Limits how long the peer may take nothing (`TCP_USER_TIMEOUT`).
    fn set_taking_limit(&self, socket: SocketId, limit: Duration);

    /// How the peer has ended the connection, if it has.
    fn has_closed(&self, socket: SocketId) -> Option<Closed>;

    /// Whether nothing has come that has not been received.
    fn is_quiet(&self, socket: SocketId) -> bool;

    /// The address of the socket, and of its peer if it has one.
    fn addresses(&self, socket: SocketId) -> Option<(SocketAddr, Option<SocketAddr>)>;

    /// What a connection's kernel knows of its traffic (`TCP_INFO`).
    fn traffic(&self, socket: SocketId) -> Option<Traffic> {
        let _ = socket;
        None
    }

    /// A place for what another crate keeps for the host, until the host ends or crashes.
    fn place(&self) -> &Place;

    /// Whether all sockets share one descriptor, so that more can be open than a process may have
    /// descriptors. Such a machine hears nothing of [`opened`](Self::opened) and
    /// [`closed`](Self::closed). Its poller learns which socket waits from the attempt that would
    /// block, because the wait follows the attempt at once.
    fn shares_descriptor(&self) -> bool {
        false
    }

    /// A socket without a descriptor of its own is closed.
    fn close(&self, _socket: SocketId) {}

    /// Takes the error that the socket has kept (`SO_ERROR`).
    fn take_error(&self, socket: SocketId) -> Option<io::Error>;

    // Unix sockets (unix(7)), which reach the own host alone. What is not here, such as accept(2),
    // is as for other sockets.

    /// socket(2).
    ///
    /// # Errors
    ///
    /// Its own.
    fn open_unix(&self, kind: UnixKind) -> io::Result<SocketId>;

    /// socketpair(2).
    ///
    /// # Errors
    ///
    /// Its own.
    fn pair_unix(&self, kind: UnixKind) -> io::Result<[SocketId; 2]>;

    /// bind(2). A path becomes a file.
    ///
    /// # Errors
    ///
    /// Its own.
    fn bind_unix(&self, socket: SocketId, address: &SocketAddrUnix) -> io::Result<()>;

    /// listen(2).
    ///
    /// # Errors
    ///
    /// Its own.
    fn listen_unix(&self, socket: SocketId, backlog: i32) -> io::Result<()>;

    /// connect(2).
    ///
    /// # Errors
    ///
    /// Its own: `WouldBlock` while the accept queue is full.
    fn connect_unix(&self, socket: SocketId, address: &SocketAddrUnix) -> io::Result<()>;

    /// The address of a Unix socket, and of its peer if it has one.
    fn unix_addresses(&self, socket: SocketId) -> Option<(SocketAddrUnix, Option<SocketAddrUnix>)>;
}

/// The traffic of a connection. Times count from the start of a connection without traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Whether bytes are on their way to the peer.
    pub is_under_way: bool,
    /// The time since the last bytes came.
    pub received: Duration,
    /// The time since bytes were last sent.
    pub sent: Duration,
    /// How many bytes have come.
    pub bytes_received: u64,
    /// How many packets with bytes were sent.
    pub packets_sent: u32,
}

/// See [`Machine::place`].
pub type Place = Mutex<Option<Box<dyn Any + Send>>>;

/// Whether a host has ever been started in this process.
static SIMULATES: AtomicBool = AtomicBool::new(false);

pub(crate) fn note_simulation() {
    SIMULATES.store(true, Ordering::Relaxed);
    drain::simulate_by(end_inputs);
}

/// What [`drain::simulate_by`] leaves to a simulation.
fn end_inputs(numbers: &[RawFd]) -> bool {
    let Some(machine) = here() else { return false };
    let mut sockets: Vec<_> = numbers.iter().filter_map(|number| machine.socket(*number)).collect();
    sockets.sort_unstable();
    for socket in sockets {
        let _ = machine.shut_down(socket, Shutdown::Read);
    }
    true
}

/// The machine of the simulated host that runs on this kernel thread. In a process without
/// simulations, the answer costs one load.
#[inline]
pub(crate) fn here() -> Option<Arc<dyn Machine>> {
    if SIMULATES.load(Ordering::Relaxed) { current::machine() } else { None }
}

/// The [number of the process](Machine::process_id) that the simulated host of this kernel thread
/// is.
#[must_use]
pub fn process_id() -> Option<u32> {
    here()?.process_id()
}

/// Runs `body` on this kernel thread, as a thread of the simulated host with `machine`.
pub fn enter<R>(machine: &Arc<dyn Machine>, body: impl FnOnce() -> R) -> R {
    note_simulation();
    current::enter_machine(machine, body)
}

/// Calls `operation` with the [place](Machine::place) of the simulated host that runs on this
/// kernel thread. The operation must not call this function again.
#[inline]
pub fn with_place<R>(operation: impl FnOnce(&mut Option<Box<dyn Any + Send>>) -> R) -> Option<R> {
    let machine = here()?;
    let mut place = machine.place().lock().unwrap_or_else(PoisonError::into_inner);
    Some(operation(&mut place))
}
