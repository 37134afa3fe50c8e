//! A listening socket.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use duality_poller::Direction;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with, sockopt,
};
use rustix::process::getpid;

use super::TcpStream;
use super::injection::{self, Injections, Injector};
use super::simulated;
use super::socket::{Access, Done, Moved, Rest, Socket, TimeLimit, nonblocking_here};
use crate::drain::{self, DrainTarget};
use crate::machine::{Machine, SocketId, UnixKind};
use crate::visibility;
use crate::world::{self, World};

/// The options of a new listener.
///
/// Begin with the default, and change some options: `ListenOptions::default().backlog(128)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenOptions {
    /// The length of the accept queue. The kernel caps it at `net.core.somaxconn`.
    pub backlog: i32,
    /// Several listeners share the address, and the kernel spreads connections over these listeners
    /// (`SO_REUSEPORT`).
    pub reuse_port: bool,
}

impl ListenOptions {
    /// Sets how many connections may wait to be accepted.
    #[must_use]
    pub const fn backlog(mut self, backlog: i32) -> Self {
        self.backlog = backlog;
        self
    }

    /// Sets whether several listeners share the address.
    #[must_use]
    pub const fn reuse_port(mut self, reuse_port: bool) -> Self {
        self.reuse_port = reuse_port;
        self
    }
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { backlog: 4096, reuse_port: false }
    }
}

/// A TCP socket that accepts connections. Accepted connections have `TCP_NODELAY` set: services
/// write replies whole, and Nagle's algorithm would only delay the last segment.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::net::{ListenOptions, TcpListener, TcpStream};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let any_port = ([127, 0, 0, 1], 0).into();
///     let mut listener = TcpListener::bind(any_port, &ListenOptions::default())?;
///     // The kernel completes the connection before it is accepted.
///     let client = TcpStream::connect(listener.local_addr()?).await?;
///     let (stream, peer) = listener.accept().await?;
///     assert_eq!(peer, client.local_addr()?);
///     assert_eq!(stream.peer_addr()?, client.local_addr()?);
///     Ok(())
/// })
/// # }
/// ```
pub struct TcpListener {
    socket: Socket,
    rest: Rest,
    source: Source,
}

/// Where a listener's connections come from.
#[derive(Clone)]
enum Source {
    Network,
    /// A generator within the process.
    Injections(Arc<Injections>),
    /// The network of a simulation.
    Machine(Arc<dyn Machine>, SocketId),
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TcpListener")
            .field("address", &self.local_addr().ok())
            .finish_non_exhaustive()
    }
}

impl TcpListener {
    /// Binds and listens. Does not wait, in any world.
    ///
    /// # Errors
    ///
    /// `AddrInUse`, `PermissionDenied` (a port below 1024), and the errors of `socket(2)`.
    pub fn bind(address: SocketAddr, options: &ListenOptions) -> io::Result<Self> {
        if let Some(machine) = simulated::machine() {
            return Self::bind_simulated(machine, address, options);
        }
        let descriptor = bound(address, options.reuse_port)?;
        // Accepted sockets inherit the option on Linux, which saves a system call for each.
        sockopt::set_tcp_nodelay(&descriptor, true)?;
        listen(&descriptor, options.backlog)?;
        let input = DrainTarget::Listener(getpid());
        let socket = Socket::new(descriptor, false).ending_at_drain(input);
        Ok(Self { socket, rest: Rest::default(), source: Source::Network })
    }

    /// A listener at the Unix socket `address`.
    pub(super) fn bind_unix(address: &SocketAddrUnix, options: &ListenOptions) -> io::Result<Self> {
        let input = DrainTarget::Listener(getpid());
        if let Some(machine) = simulated::machine() {
            let id = machine.open_unix(UnixKind::Stream)?;
            let socket = simulated::socket(&machine, id)?.ending_at_drain(input);
            machine.bind_unix(id, address)?;
            machine.listen_unix(id, options.backlog)?;
            let source = Source::Machine(machine, id);
            return Ok(Self { socket, rest: Rest::default(), source });
        }
        let flags = SocketFlags::CLOEXEC;
        let descriptor = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&descriptor, address)?;
        listen(&descriptor, options.backlog)?;
        let socket = Socket::new(descriptor, false).ending_at_drain(input);
        Ok(Self { socket, rest: Rest::default(), source: Source::Network })
    }

    /// A listener that other processes share, and that they may put into another mode. A drain of
    /// this process leaves the listener and its queue to the other processes.
    pub(super) fn of_inherited(descriptor: OwnedFd) -> Self {
        let mut socket =
            Socket::new(descriptor, false).ending_at_drain(DrainTarget::Inherited(None));
        // A ring needs the listener in blocking mode.
        socket.make_system_calls();
        Self { socket, rest: Rest::default(), source: Source::Network }
    }

    /// A listener that gets its connections from the injector and not from a network, for load
    /// without TCP. [`accept_until_drain`](Self::accept_until_drain) returns `None` when it has
    /// accepted all and the injector is gone.
    ///
    /// # Errors
    ///
    /// If no descriptor is left.
    pub fn injected() -> io::Result<(Self, Injector)> {
        let (pipe, injections, injector) = injection::source()?;
        let mut socket = Socket::new(pipe, false).ending_at_drain(DrainTarget::Listener(getpid()));
        socket.make_system_calls();
        let source = Source::Injections(injections);
        Ok((Self { socket, rest: Rest::default(), source }, injector))
    }

    /// Checks that [`bind`](Self::bind) without `reuse_port` would succeed, without listening.
    ///
    /// # Errors
    ///
    /// The errors of [`bind`](Self::bind).
    #[doc(hidden)]
    pub fn try_address(address: SocketAddr) -> io::Result<()> {
        bound(address, false).map(drop)
    }

    /// Leaves each connection in the kernel's accept queue until a call of [`accept`](Self::accept)
    /// takes it.
    ///
    /// Every listener without a ring (io_uring) does the same. The ring's accept takes all
    /// connections of the queue at once, and each later one, whether or not a task waits. On a loop
    /// with a ring, this mode costs the system call for each connection that the ring saves.
    /// Connections that the ring has already taken come first.
    #[doc(hidden)]
    pub fn accept_on_demand(&mut self) {
        self.socket.make_system_calls();
    }

    /// Another handle to the same socket, from which another kernel thread or process can accept.
    ///
    /// # Errors
    ///
    /// `EMFILE`.
    pub fn try_clone(&self) -> io::Result<Self> {
        let source = self.source.clone();
        let mut socket = match &source {
            Source::Machine(machine, id) => simulated::socket(machine, *id)?,
            _ => Socket::new(rustix::io::fcntl_dupfd_cloexec(&self.socket, 0)?, false),
        };
        socket.ends_at_drain = self.socket.ends_at_drain;
        socket.by_system_calls = self.socket.by_system_calls;
        Ok(Self { socket, rest: Rest::default(), source })
    }

    /// Tells other kernel threads whether connections wait to be accepted. The result holds a
    /// descriptor.
    ///
    /// # Errors
    ///
    /// `EMFILE`.
    #[doc(hidden)]
    pub fn backlog(&self) -> io::Result<Backlog> {
        let descriptor = rustix::io::fcntl_dupfd_cloexec(&self.socket, 0)?;
        Ok(Backlog { descriptor, source: self.source.clone() })
    }

    /// Accepts a connection.
    ///
    /// # Errors
    ///
    /// The errors of `accept(2)`, such as `EMFILE`. `NotConnected` once the process drains.
    pub async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let accepted = self.accept_until_drain().await?;
        let drains = || io::Error::new(io::ErrorKind::NotConnected, "the server drains");
        let stream = accepted.ok_or_else(drains)?;
        let peer = stream.peer_addr()?;
        Ok((stream, peer))
    }

    /// Accepts a connection. Returns `None` once the process drains and all earlier connections
    /// have been accepted.
    ///
    /// # Errors
    ///
    /// The errors of `accept(2)`, such as `EMFILE`.
    pub async fn accept_until_drain(&mut self) -> io::Result<Option<TcpStream>> {
        let nonblocking = nonblocking_here();
        let mut flags = SocketFlags::CLOEXEC;
        flags.set(SocketFlags::NONBLOCK, nonblocking);
        let mut time_limit = TimeLimit::new(None);
        match self.source.clone() {
            Source::Network => {}
            Source::Injections(from) => return self.accept_injected(&from).await,
            Source::Machine(machine, id) => return self.accept_simulated(&machine, id).await,
        }
        loop {
            let Self { socket, rest, .. } = self;
            // A wait with a deadline checks before it accepts, and would not find out that nothing
            // is left. The drain may have found connections in the queue that have been accepted
            // since.
            let is_inherited = matches!(socket.ends_at_drain, Some(DrainTarget::Inherited(_)));
            let is_blocking = world::here() == World::Block;
            if is_blocking && drain::requested() && (is_inherited || rest.is_over(socket.as_fd())) {
                socket.end_listener();
                return Ok(None);
            }
            let accepted = poll_fn(|context| {
                let accept = |listener: Access<'_>| listener.accept(flags, rest);
                socket.poll(context, Direction::Read, &mut time_limit, accept)
            })
            .await;
            return match accepted {
                Ok(Done::Moved(descriptor)) => {
                    visibility::count(|counters| counters.connections_accepted.add(1));
                    Ok(Some(TcpStream::accepted(descriptor, nonblocking)))
                }
                // A ring may have taken some connections that it has not reported, and left others.
                Ok(Done::Drained) if socket.make_system_calls() => continue,
                Ok(Done::Drained) => Ok(None),
                // Another process has put the listener into non-blocking mode.
                Err(error)
                    if is_inherited
                        && is_blocking
                        && error.kind() == io::ErrorKind::TimedOut
                        && !drain::requested() =>
                {
                    wait_for_a_connection(socket.as_fd());
                    continue;
                }
                // In the block world a drain makes accept(2) fail.
                Err(error) if drain::requested() && is_the_end(&error) => {
                    socket.end_listener();
                    Ok(None)
                }
                Err(error) => Err(error),
            };
        }
    }

    /// Calls `accept`, which accepts a connection in its own way. At a drain, this function only
    /// accepts connections that came before.
    ///
    /// # Errors
    ///
    /// `WouldBlock` once all of these have been accepted. The errors of `accept`.
    #[doc(hidden)]
    pub fn accept_before_drain<T>(
        &mut self,
        accept: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.rest.take(self.socket.as_fd(), accept)
    }

    async fn accept_injected(&mut self, from: &Injections) -> io::Result<Option<TcpStream>> {
        let mut time_limit = TimeLimit::new(None);
        let accepted = poll_fn(|context| {
            let accept = |listener: Access<'_>| listener.accept_injected(from);
            self.socket.poll(context, Direction::Read, &mut time_limit, accept)
        });
        let Done::Moved(Some(descriptor)) = accepted.await? else { return Ok(None) };
        visibility::count(|counters| counters.connections_accepted.add(1));
        Ok(Some(TcpStream::injected(descriptor, from.client())))
    }

    fn bind_simulated(
        machine: Arc<dyn Machine>,
        address: SocketAddr,
        options: &ListenOptions,
    ) -> io::Result<Self> {
        let id = machine.listen(address, options.backlog)?;
        let input = DrainTarget::Listener(getpid());
        let socket = simulated::socket(&machine, id)?.ending_at_drain(input);
        Ok(Self { socket, rest: Rest::default(), source: Source::Machine(machine, id) })
    }

    async fn accept_simulated(
        &mut self,
        machine: &Arc<dyn Machine>,
        listener: SocketId,
    ) -> io::Result<Option<TcpStream>> {
        let Self { socket, rest, .. } = self;
        let queued = || machine.queued(listener);
        if world::here() == World::Block && drain::requested() && rest.is_over_of(queued) {
            socket.end_listener();
            return Ok(None);
        }
        let mut time_limit = TimeLimit::new(None);
        let accepted = poll_fn(|context| {
            let mut accept = |access: Access<'_>| {
                let accept = || {
                    let wait = simulated::Waiting::of(&access, listener, Direction::Read, None);
                    wait.until_done(machine, || machine.accept(listener))
                };
                rest.take_of(queued, accept).map(Moved::all)
            };
            socket.poll(context, Direction::Read, &mut time_limit, &mut accept)
        });
        let id = match accepted.await {
            Ok(Done::Moved(id)) => id,
            Ok(Done::Drained) => return Ok(None),
            // In the block world a drain makes accept(2) fail.
            Err(error) if drain::requested() && is_the_end(&error) => {
                socket.end_listener();
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        visibility::count(|counters| counters.connections_accepted.add(1));
        Ok(Some(TcpStream::accepted_simulated(simulated::socket(machine, id)?)))
    }

    /// The address at which it listens.
    ///
    /// # Errors
    ///
    /// The errors of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.direct().local_address()
    }
}

/// The accept queue of a listener, seen from outside.
#[doc(hidden)]
pub struct Backlog {
    descriptor: OwnedFd,
    source: Source,
}

impl fmt::Debug for Backlog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Backlog").finish_non_exhaustive()
    }
}

impl Backlog {
    /// Whether connections wait in the accept queue.
    pub fn has_connections(&self) -> bool {
        if let Source::Machine(machine, id) = &self.source {
            return machine.queued(*id) > 0;
        }
        let mut queue = [PollFd::new(&self.descriptor, PollFlags::IN)];
        poll(&mut queue, Some(&Timespec::default())).is_ok() && queue[0].revents() == PollFlags::IN
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Waits for a connection, or for a tenth of a second, because a drain may have been requested. A
/// signal ends the wait too.
fn wait_for_a_connection(listener: BorrowedFd<'_>) {
    const LIMIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let _ = poll(&mut [PollFd::from_borrowed_fd(listener, PollFlags::IN)], Some(&LIMIT));
}

/// Whether accept(2) failed because a listener in the block world has accepted all connections, or
/// accepts no more.
fn is_the_end(error: &io::Error) -> bool {
    // In the block world, a call that would block is an expired time-out.
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::InvalidInput)
}

/// A TCP socket that has the address.
pub(super) fn bound(address: SocketAddr, reuse_port: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let descriptor = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&descriptor, true)?;
    if reuse_port {
        sockopt::set_socket_reuseport(&descriptor, true)?;
    }
    bind(&descriptor, &address)?;
    Ok(descriptor)
}
