//! A TCP connection.

mod closed;
mod halves;
mod local;
mod polled;
mod requests;
#[cfg(feature = "rustls")]
mod secure;
mod settings;
mod traits;

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use duality_poller::Direction;
use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, getpeername, socket_with};

pub use closed::Closed;
pub use halves::{ReadHalf, WriteHalf};

use super::injection::Injected;
use super::input::Input;
use super::options::ConnectOptions;
use super::simulated;
use super::socket::{Access, Done, Moved, Socket, TimeLimit, count_written, nonblocking_here};
use crate::drain::DrainTarget;
use crate::fs;
use crate::machine::Machine;
use crate::visibility::{Client, graph};
use crate::world::{self, World};

/// The most bytes of one `sendfile(2)`, so that a large file shares the loop.
const SEND_FILE_CHUNK: u64 = 1 << 20;

/// The bytes of a file that are copied at a time where sendfile(2) would go past TLS.
const COPIED_CHUNK: u64 = 64 << 10;

/// A TCP connection, which closes when it is dropped.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::net::{ListenOptions, TcpListener, TcpStream};
/// use duality::{block_on, task};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let any_port = ([127, 0, 0, 1], 0).into();
///     let mut listener = TcpListener::bind(any_port, &ListenOptions::default())?;
///     let address = listener.local_addr()?;
///     let client = task::spawn(async move {
///         let mut stream = TcpStream::connect(address).await?;
///         stream.write_all(b"hello").await
///     })?;
///     let (mut stream, _peer) = listener.accept().await?;
///     let mut greeting = [0; 5];
///     stream.read_exact(&mut greeting).await?;
///     assert_eq!(&greeting, b"hello");
///     client.await.expect("the client does not panic")
/// })
/// # }
/// ```
pub struct TcpStream {
    socket: Socket,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
    /// The record of requests of an accepted connection, if requests are recorded.
    client: Option<Box<Client>>,
    /// The time limits of waits by the poll-style methods.
    limits: Option<Box<polled::Limits>>,
}

// Each idle connection has one.
const _: () = assert!(size_of::<TcpStream>() <= 128);

impl fmt::Debug for TcpStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TcpStream")
            .field("local", &self.local_addr().ok())
            .field("peer", &self.peer_addr().ok())
            .finish_non_exhaustive()
    }
}

impl TcpStream {
    pub(super) fn accepted(descriptor: OwnedFd, nonblocking: bool) -> Self {
        let socket = Socket::new(descriptor, nonblocking).ending_at_drain(DrainTarget::Connection);
        Self { client: Client::comes(), ..Self::from_socket(socket) }
    }

    /// A connection to an `injected` client. None of its operations block.
    pub(super) fn injected(descriptor: OwnedFd, injected: Box<Injected>) -> Self {
        let mut stream = Self::accepted(descriptor, world::here() != World::Block);
        stream.socket.channel = Some(injected);
        // A ring cannot use this stream.
        stream.socket.by_system_calls = true;
        stream
    }

    /// A connection that a simulated host has accepted.
    pub(super) fn accepted_simulated(socket: Socket) -> Self {
        let socket = socket.ending_at_drain(DrainTarget::Connection);
        Self { client: Client::comes(), ..Self::from_socket(socket) }
    }

    async fn connect_simulated(machine: Arc<dyn Machine>, address: SocketAddr) -> io::Result<Self> {
        let id = machine.connect(address)?;
        let mut stream = Self::from_socket(simulated::socket(&machine, id)?);
        let attempt = |access: Access<'_>| {
            let wait = simulated::Waiting::of(&access, id, Direction::Write, None);
            Ok(Moved::all(wait.until_done(&machine, || machine.connected(id))?))
        };
        stream.operate(Direction::Write, attempt).await?;
        Ok(stream)
    }

    pub(super) fn from_socket(socket: Socket) -> Self {
        Self { socket, read_timeout: None, write_timeout: None, client: None, limits: None }
    }

    /// Opens a connection. `TCP_NODELAY` is set.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::connect_with(address, &ConnectOptions::default()).await
    }

    /// Opens a connection from `source`, one of this machine's addresses: see
    /// [`ConnectOptions::source`].
    ///
    /// # Errors
    ///
    /// The errors of [`connect_with`](TcpStream::connect_with).
    pub async fn connect_from(source: IpAddr, address: SocketAddr) -> io::Result<Self> {
        let options = ConnectOptions::default().source(source);
        Self::connect_with(address, &options).await
    }

    /// Opens a connection with `options`. `TCP_NODELAY` is set.
    ///
    /// # Errors
    ///
    /// The errors of [`connect`](TcpStream::connect) and of `setsockopt(2)`. `AddrNotAvailable` if
    /// the source is not an address of this machine, or has no port left. An error of `bind(2)` if
    /// the source is not of `address`'s family.
    pub async fn connect_with(address: SocketAddr, options: &ConnectOptions) -> io::Result<Self> {
        if let Some(machine) = simulated::machine() {
            return Box::pin(Self::connect_simulated(machine, address)).await;
        }
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let nonblocking = nonblocking_here();
        let mut flags = SocketFlags::CLOEXEC;
        flags.set(SocketFlags::NONBLOCK, nonblocking);
        let descriptor = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&descriptor, true)?;
        options.apply(descriptor.as_fd())?;
        let mut stream = Self::from_socket(Socket::new(descriptor, nonblocking));
        let mut started = false;
        let mut attempt = |descriptor: BorrowedFd<'_>| {
            // A connect that would block is under way. The second attempt asks for its result.
            if started {
                sockopt::socket_error(descriptor)??;
                // The socket is ready for writing after an error or a success, or the task was
                // woken in vain.
                return match getpeername(descriptor) {
                    Err(Errno::NOTCONN) => Err(Errno::WOULDBLOCK),
                    _ => Ok(()),
                };
            }
            started = true;
            match connect(descriptor, &address) {
                Err(Errno::INPROGRESS | Errno::INTR) => Err(Errno::WOULDBLOCK),
                other => other,
            }
        };
        stream
            .operate(Direction::Write, |socket| socket.call(|descriptor| Ok(attempt(descriptor)?)))
            .await?;
        Ok(stream)
    }

    /// Reads available bytes into `buffer`, and waits for at least one byte. 0 means the end.
    ///
    /// # Errors
    ///
    /// The errors of `recv(2)`, and `TimedOut`.
    #[inline]
    #[track_caller]
    pub fn read<'s>(
        &'s mut self,
        buffer: &'s mut [u8],
    ) -> impl Future<Output = io::Result<usize>> + Send + 's {
        self.operate(Direction::Read, |socket| socket.receive(buffer))
    }

    /// Reads available bytes into the room of `input`, and waits for at least one byte. The result
    /// 0 means the end of input, or that there is no room, or no memory for it. Where tasks share a
    /// kernel thread, an empty input has no memory during the wait.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](TcpStream::read).
    #[inline]
    #[track_caller]
    pub fn fill<'s>(
        &'s mut self,
        input: &'s mut Input,
    ) -> impl Future<Output = io::Result<usize>> + Send + 's {
        self.operate(Direction::Read, |socket| {
            let received = socket.receive(input.room());
            if let Ok(moved) = &received {
                input.filled(moved.value);
            }
            input.release_if_empty();
            received
        })
    }

    /// Fills `buffer`. The drop of the future before its end loses the bytes read so far.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](TcpStream::read), and `UnexpectedEof`.
    #[track_caller]
    pub fn read_exact<'s>(
        &'s mut self,
        buffer: &'s mut [u8],
    ) -> impl Future<Output = io::Result<()>> + Send + 's {
        graph::arrive("read", Location::caller());
        async {
            let mut filled = 0;
            while filled < buffer.len() {
                let rest = &mut buffer[filled..];
                let read = |socket: Access<'_>| socket.receive(rest);
                match self.operate_within(Direction::Read, read).await? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => filled += count,
                }
            }
            Ok(())
        }
    }

    /// Writes some of `bytes`. Returns how many bytes it wrote.
    ///
    /// # Errors
    ///
    /// The errors of `send(2)`, and `TimedOut`.
    #[inline]
    #[track_caller]
    pub fn write<'s>(
        &'s mut self,
        bytes: &'s [u8],
    ) -> impl Future<Output = io::Result<usize>> + Send + 's {
        self.operate(Direction::Write, |socket| socket.send(bytes))
    }

    /// Writes all of `bytes`. After a drop before the end, some of them may be on their way.
    ///
    /// # Errors
    ///
    /// The errors of [`write`](TcpStream::write).
    #[inline]
    #[track_caller]
    pub fn write_all<'s>(
        &'s mut self,
        mut bytes: &'s [u8],
    ) -> impl Future<Output = io::Result<()>> + Send + 's {
        if !bytes.is_empty() {
            graph::arrive("write", Location::caller());
        }
        async move {
            while !bytes.is_empty() {
                let write = |socket: Access<'_>| socket.send(bytes);
                let count = self.operate_within(Direction::Write, write).await?;
                bytes = &bytes[count..];
            }
            Ok(())
        }
    }

    /// Writes some of `bytes`. Returns how many bytes it wrote. If these are all bytes, writing
    /// ends then, as by [`shutdown`](TcpStream::shutdown). So the last bytes and the end leave in
    /// one packet instead of two.
    ///
    /// The stream may be dropped at once. Unread input makes the close a reset. But the reset
    /// follows the bytes and the end, instead of replacing them.
    ///
    /// # Errors
    ///
    /// The errors of [`write`](TcpStream::write). `NotConnected` if the peer has reset the
    /// connection.
    #[inline]
    #[track_caller]
    pub fn write_last<'s>(
        &'s mut self,
        bytes: &'s [u8],
    ) -> impl Future<Output = io::Result<usize>> + Send + 's {
        self.operate(Direction::Write, |socket| socket.send_last(bytes))
    }

    /// Writes some of the bytes of `buffers`, in order. Returns how many bytes it wrote.
    ///
    /// # Errors
    ///
    /// The errors of `writev(2)`, and `TimedOut`.
    #[track_caller]
    pub fn write_vectored<'s>(
        &'s mut self,
        buffers: &'s [IoSlice<'s>],
    ) -> impl Future<Output = io::Result<usize>> + Send + 's {
        self.operate(Direction::Write, |socket| socket.send_vectored(buffers))
    }

    /// Writes all the bytes of `buffers`, in order.
    ///
    /// # Errors
    ///
    /// The errors of [`write_vectored`](TcpStream::write_vectored).
    #[track_caller]
    pub fn write_all_vectored<'s>(
        &'s mut self,
        mut buffers: &'s mut [IoSlice<'s>],
    ) -> impl Future<Output = io::Result<()>> + Send + 's {
        graph::arrive("write", Location::caller());
        async move {
            // An advance of zero drops empty slices at the front.
            IoSlice::advance_slices(&mut buffers, 0);
            while !buffers.is_empty() {
                let write = |socket: Access<'_>| socket.send_vectored(buffers);
                let count = self.operate_within(Direction::Write, write).await?;
                IoSlice::advance_slices(&mut buffers, count);
            }
            Ok(())
        }
    }

    /// Sends `length` bytes of `file` from `offset` on, without copying them through this process
    /// (`sendfile(2)`).
    ///
    /// # Errors
    ///
    /// The errors of `sendfile(2)`, `TimedOut`, and `UnexpectedEof` if the file has shrunk.
    pub async fn send_file(&mut self, file: &fs::File, offset: u64, length: u64) -> io::Result<()> {
        let (mut position, end) = (offset, offset.saturating_add(length));
        if self.socket.channel.is_some() {
            return Box::pin(self.send_copied(file, position, end)).await;
        }
        while position < end {
            let chunk = (end - position).min(SEND_FILE_CHUNK) as usize;
            let count = self
                .operate(Direction::Write, |socket| {
                    // If less than the chunk was sent, the file or the room may have ended. The
                    // next attempt finds out.
                    socket.call(|descriptor| {
                        Ok(sendfile(descriptor, file, Some(&mut position), chunk)?)
                    })
                })
                .await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            count_written(count);
        }
        Ok(())
    }

    /// Sends a part of `file` through what stands between the service and the socket.
    async fn send_copied(
        &mut self,
        file: &fs::File,
        mut position: u64,
        end: u64,
    ) -> io::Result<()> {
        while position < end {
            let chunk = (end - position).min(COPIED_CHUNK) as usize;
            let bytes = file.read_at(position, chunk).await?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.write_all(&bytes).await?;
            position += bytes.len() as u64;
        }
        Ok(())
    }

    /// Shuts down reading, writing or both (`shutdown(2)`). [`Shutdown::Write`] ends writing after
    /// the written bytes. [`Shutdown::Both`] ends both directions at once.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the peer has reset the connection, and `TimedOut`.
    pub async fn shutdown(&mut self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => rustix::net::Shutdown::Read,
            Shutdown::Both => rustix::net::Shutdown::Both,
            Shutdown::Write => {
                return self.operate(Direction::Write, |socket| socket.end()).await;
            }
        };
        self.socket.direct().shut_down(how)
    }

    /// Another handle to the same connection, as in `std`. One task can read while another writes.
    /// The connection closes when both handles are dropped. Each handle has its own time-outs.
    ///
    /// Both handles must belong to tasks of one world: whether waits block is a property of the
    /// connection.
    ///
    /// # Errors
    ///
    /// If no descriptor is left. `Unsupported` on a connection with TLS.
    pub fn try_clone(&mut self) -> io::Result<Self> {
        Ok(Self::from_socket(self.socket.try_clone()?))
    }

    /// This function and the operations built on it are not `async fn`s, because an `async fn`
    /// stores each argument twice. An idle connection consists of one of these futures.
    #[inline]
    #[track_caller]
    fn operate<'s, T: Default>(
        &'s mut self,
        direction: Direction,
        attempt: impl FnMut(Access<'_>) -> io::Result<Moved<T>> + Send + 's,
    ) -> impl Future<Output = io::Result<T>> + Send + 's {
        let kind = match direction {
            Direction::Read => "read",
            Direction::Write => "write",
        };
        graph::arrive(kind, Location::caller());
        self.operate_within(direction, attempt)
    }

    /// The operation as a part of a larger operation that has been noted.
    #[inline]
    fn operate_within<'s, T: Default>(
        &'s mut self,
        direction: Direction,
        mut attempt: impl FnMut(Access<'_>) -> io::Result<Moved<T>> + Send + 's,
    ) -> impl Future<Output = io::Result<T>> + Send + 's {
        let mut time_limit = TimeLimit::new(match direction {
            Direction::Read => self.read_timeout,
            Direction::Write => self.write_timeout,
        });
        let socket = &mut self.socket;
        if direction == Direction::Write
            && let Some(channel) = &socket.channel
        {
            channel.begin_write();
        }
        poll_fn(move |context| {
            let done = socket.poll(context, direction, &mut time_limit, &mut attempt);
            if done.is_ready() {
                graph::depart();
            }
            done.map_ok(|done| match done {
                Done::Moved(value) => value,
                // For a read: no bytes, and no more will come.
                Done::Drained => T::default(),
            })
        })
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
