//! The same generated calls on Unix sockets of Linux and of a simulated host.

use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use duality_poller::Direction;
use duality_runtime::machine::UnixKind;
use duality_runtime::net::{SharedDescriptor, SimulatedSockets};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType,
};

use super::{shown, simulated};

/// The names of sockets: two files, one in a folder that is absent, and an abstract one.
const NAMES: usize = 4;

/// One call. A socket is named by a number, of those that have been opened.
#[derive(Clone, Debug)]
enum Call {
    Open(UnixKind),
    Pair(UnixKind),
    Bind(usize, usize),
    Listen(usize, i32),
    Connect(usize, usize),
    Accept(usize),
    Send(usize, usize),
    SendTo(usize, usize, usize),
    Receive(usize, usize),
    ReceiveFrom(usize, bool),
    Peek(usize, usize),
    ShutDown(usize, Shutdown),
    Close(usize),
    TakeError(usize),
    Addresses(usize),
    IsReady(usize),
    Remove(usize),
    Rename(usize, usize),
    WriteFile(usize),
}

fn call() -> impl Strategy<Value = Call> {
    use Call::*;
    let kind = prop_oneof![3 => Just(UnixKind::Stream), 2 => Just(UnixKind::Datagrams)];
    let how = prop_oneof![Just(Shutdown::Read), Just(Shutdown::Write), Just(Shutdown::Both)];
    let (socket, name) = (0..12_usize, 0..NAMES);
    prop_oneof![
        4 => kind.clone().prop_map(Open),
        2 => kind.prop_map(Pair),
        5 => (socket.clone(), name.clone()).prop_map(|(socket, name)| Bind(socket, name)),
        4 => (socket.clone(), 0..3_i32).prop_map(|(socket, backlog)| Listen(socket, backlog)),
        6 => (socket.clone(), name.clone()).prop_map(|(socket, name)| Connect(socket, name)),
        4 => socket.clone().prop_map(Accept),
        6 => (socket.clone(), 0..40_usize).prop_map(|(socket, length)| Send(socket, length)),
        3 => (socket.clone(), name.clone(), 0..40_usize)
            .prop_map(|(socket, name, length)| SendTo(socket, name, length)),
        5 => (socket.clone(), 0..30_usize).prop_map(|(socket, room)| Receive(socket, room)),
        3 => (socket.clone(), any::<bool>()).prop_map(|(socket, peeks)| ReceiveFrom(socket, peeks)),
        2 => (socket.clone(), 1..30_usize).prop_map(|(socket, room)| Peek(socket, room)),
        2 => (socket.clone(), how).prop_map(|(socket, how)| ShutDown(socket, how)),
        3 => socket.clone().prop_map(Close),
        1 => socket.clone().prop_map(TakeError),
        2 => socket.clone().prop_map(Addresses),
        3 => socket.prop_map(IsReady),
        1 => name.clone().prop_map(Remove),
        1 => (name.clone(), name.clone()).prop_map(|(from, to)| Rename(from, to)),
        1 => name.prop_map(WriteFile),
    ]
}

/// Either kernel.
enum System {
    Linux,
    Simulated(SimulatedSockets),
}

use System::{Linux, Simulated};

impl System {
    fn open(&self, kind: UnixKind) -> io::Result<OwnedFd> {
        match self {
            Linux => Ok(rustix::net::socket_with(AddressFamily::UNIX, type_of(kind), FLAGS, None)?),
            Simulated(sockets) => sockets.open_unix(kind),
        }
    }

    fn pair(&self, kind: UnixKind) -> io::Result<(OwnedFd, OwnedFd)> {
        match self {
            Linux => Ok(rustix::net::socketpair(AddressFamily::UNIX, type_of(kind), FLAGS, None)?),
            Simulated(sockets) => sockets.pair_unix(kind),
        }
    }

    fn bind(&self, socket: BorrowedFd<'_>, address: &SocketAddrUnix) -> io::Result<()> {
        match self {
            Linux => Ok(rustix::net::bind(socket, address)?),
            Simulated(sockets) => sockets.bind_unix(socket, address),
        }
    }

    fn listen(&self, socket: BorrowedFd<'_>, backlog: i32) -> io::Result<()> {
        match self {
            Linux => Ok(rustix::net::listen(socket, backlog)?),
            Simulated(sockets) => sockets.listen_unix(socket, backlog),
        }
    }

    fn connect(&self, socket: BorrowedFd<'_>, address: &SocketAddrUnix) -> io::Result<()> {
        match self {
            Linux => Ok(rustix::net::connect(socket, address)?),
            Simulated(sockets) => sockets.connect_unix(socket, address),
        }
    }

    fn accept(&self, listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        match self {
            Linux => Ok(rustix::net::accept_with(listener, FLAGS)?),
            Simulated(sockets) => sockets.accept_unix(listener),
        }
    }

    fn send(&self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Linux => Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?),
            Simulated(sockets) => sockets.send(socket, &[IoSlice::new(bytes)]),
        }
    }

    fn send_to(
        &self,
        socket: BorrowedFd<'_>,
        bytes: &[u8],
        to: &SocketAddrUnix,
    ) -> io::Result<usize> {
        match self {
            Linux => Ok(rustix::net::sendto(socket, bytes, SendFlags::NOSIGNAL, to)?),
            Simulated(sockets) => sockets.send_datagram(socket, bytes, Some(&to.clone().into())),
        }
    }

    fn receive(&self, socket: BorrowedFd<'_>, room: usize, peeks: bool) -> io::Result<Vec<u8>> {
        let mut room = vec![MaybeUninit::uninit(); room];
        let count = match self {
            Linux => {
                let flags = if peeks { RecvFlags::PEEK } else { RecvFlags::empty() };
                let (_, count) = rustix::net::recv(socket, &mut *room, flags)?;
                count.min(room.len())
            }
            Simulated(sockets) => sockets.receive(socket, &mut room, peeks)?,
        };
        // SAFETY: either kernel has written as many bytes as it says.
        Ok(room[..count].iter().map(|byte| unsafe { byte.assume_init() }).collect())
    }

    fn receive_from(
        &self,
        socket: BorrowedFd<'_>,
        peeks: bool,
    ) -> io::Result<(Vec<u8>, Option<SocketAddrAny>)> {
        match self {
            Linux => {
                let mut room = [0; 64];
                let flags = if peeks { RecvFlags::PEEK } else { RecvFlags::empty() };
                let (count, _, sender) = rustix::net::recvfrom(socket, &mut room, flags)?;
                Ok((room[..count].to_vec(), sender))
            }
            Simulated(sockets) => {
                let (bytes, sender) = sockets.receive_datagram(socket, peeks)?;
                Ok((bytes, Some(sender)))
            }
        }
    }

    fn shut_down(&self, socket: BorrowedFd<'_>, how: Shutdown) -> io::Result<()> {
        match self {
            Linux => Ok(rustix::net::shutdown(
                socket,
                match how {
                    Shutdown::Read => rustix::net::Shutdown::Read,
                    Shutdown::Write => rustix::net::Shutdown::Write,
                    Shutdown::Both => rustix::net::Shutdown::Both,
                },
            )?),
            Simulated(sockets) => sockets.shut_down(socket, how),
        }
    }

    fn take_error(&self, socket: BorrowedFd<'_>) -> io::Result<Option<i32>> {
        let error = match self {
            Linux => rustix::net::sockopt::socket_error(socket)?.err().map(io::Error::from),
            Simulated(sockets) => sockets.take_error(socket)?,
        };
        Ok(error.and_then(|error| error.raw_os_error()))
    }

    fn addresses(
        &self,
        socket: BorrowedFd<'_>,
    ) -> io::Result<(Option<SocketAddrAny>, Option<Option<SocketAddrAny>>)> {
        match self {
            Linux => {
                let peer = rustix::net::getpeername(socket).ok();
                Ok((Some(rustix::net::getsockname(socket)?), peer))
            }
            Simulated(sockets) => {
                let (own, peer) = sockets.unix_addresses(socket)?;
                Ok((Some(own.into()), peer.map(|peer| Some(peer.into()))))
            }
        }
    }

    fn is_ready(&self, socket: BorrowedFd<'_>) -> [Option<bool>; 2] {
        [Direction::Read, Direction::Write].map(|direction| match self {
            Linux => {
                let asked = match direction {
                    Direction::Read => PollFlags::IN | PollFlags::RDHUP,
                    Direction::Write => PollFlags::OUT,
                };
                let mut polled = [PollFd::from_borrowed_fd(socket, asked)];
                rustix::event::poll(&mut polled, Some(&Timespec::default())).unwrap();
                Some(!polled[0].revents().is_empty())
            }
            Simulated(sockets) => sockets.is_ready(socket, direction),
        })
    }
}

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn type_of(kind: UnixKind) -> SocketType {
    match kind {
        UnixKind::Stream => SocketType::STREAM,
        UnixKind::Datagrams => SocketType::DGRAM,
    }
}

/// Sockets of either kernel, and their names.
struct World {
    system: System,
    folder: tempfile::TempDir,
    sockets: Vec<(UnixKind, Option<SharedDescriptor>)>,
    sent: u8,
}

impl World {
    fn new(system: System) -> Self {
        Self { system, folder: tempfile::tempdir().unwrap(), sockets: Vec::new(), sent: 0 }
    }

    fn path(&self, name: usize) -> PathBuf {
        self.folder.path().join(["one", "two", "absent/three", "four"][name])
    }

    fn address(&self, name: usize) -> SocketAddrUnix {
        let path = self.path(name);
        match name {
            3 => SocketAddrUnix::new_abstract_name(path.as_os_str().as_bytes()).unwrap(),
            _ => SocketAddrUnix::new(&path).unwrap(),
        }
    }

    /// Which of the names an address is.
    fn name_of(&self, address: Option<SocketAddrAny>) -> String {
        let address = address.and_then(|address| SocketAddrUnix::try_from(address).ok());
        let Some(address) = address else { return "unnamed".to_owned() };
        match (0..NAMES).find(|name| self.address(*name) == address) {
            Some(name) => format!("name {name}"),
            None if address.path_bytes().is_none() => "unnamed".to_owned(),
            None => format!("{address:?}"),
        }
    }

    fn keep(&mut self, kind: UnixKind, opened: io::Result<OwnedFd>) -> String {
        shown(opened.map(|socket| {
            self.sockets.push((kind, Some(SharedDescriptor::of_nonblocking(socket))));
        }))
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        self.sent = self.sent.wrapping_add(1);
        (0..length).map(|index| self.sent ^ index as u8).collect()
    }

    fn socket_of(call: &Call) -> Option<usize> {
        use Call::*;
        match *call {
            Open(_) | Pair(_) | Remove(_) | Rename(..) | WriteFile(_) => None,
            Bind(socket, _)
            | Listen(socket, _)
            | Connect(socket, _)
            | Accept(socket)
            | Send(socket, _)
            | SendTo(socket, ..)
            | Receive(socket, _)
            | ReceiveFrom(socket, _)
            | Peek(socket, _)
            | ShutDown(socket, _)
            | Close(socket)
            | TakeError(socket)
            | Addresses(socket)
            | IsReady(socket) => Some(socket),
        }
    }

    fn call(&mut self, call: &Call) -> String {
        match Self::socket_of(call) {
            None => self.call_without_socket(call),
            Some(_) if self.sockets.is_empty() => "no socket".to_owned(),
            Some(number) => {
                let number = number % self.sockets.len();
                let kind = self.sockets[number].0;
                match self.sockets[number].1.take() {
                    None => "closed".to_owned(),
                    Some(socket) => {
                        let outcome = self.call_of(call, kind, socket.as_fd());
                        if !matches!(call, Call::Close(_)) {
                            self.sockets[number].1 = Some(socket);
                        }
                        outcome
                    }
                }
            }
        }
    }

    fn call_without_socket(&mut self, call: &Call) -> String {
        match *call {
            Call::Open(kind) => {
                let opened = self.system.open(kind);
                self.keep(kind, opened)
            }
            Call::Pair(kind) => match self.system.pair(kind) {
                Ok((one, other)) => self.keep(kind, Ok(one)) + &self.keep(kind, Ok(other)),
                Err(error) => self.keep(kind, Err(error)),
            },
            Call::Remove(name) => shown(fs::remove_file(self.path(name))),
            Call::Rename(from, to) => shown(fs::rename(self.path(from), self.path(to))),
            _ => {
                let Call::WriteFile(name) = *call else { unreachable!("{call:?} has a socket") };
                shown(fs::File::create_new(self.path(name)).map(drop))
            }
        }
    }

    fn call_of(&mut self, call: &Call, kind: UnixKind, socket: BorrowedFd<'_>) -> String {
        match *call {
            Call::Bind(_, name) => shown(self.system.bind(socket, &self.address(name))),
            Call::Listen(_, backlog) => shown(self.system.listen(socket, backlog)),
            Call::Connect(_, name) => shown(self.system.connect(socket, &self.address(name))),
            Call::Accept(_) => {
                let accepted = self.system.accept(socket);
                self.keep(UnixKind::Stream, accepted)
            }
            Call::Send(_, length) => {
                let bytes = self.bytes(length);
                shown(self.system.send(socket, &bytes))
            }
            Call::SendTo(_, name, length) => {
                let bytes = self.bytes(length);
                shown(self.system.send_to(socket, &bytes, &self.address(name)))
            }
            Call::Receive(_, room) => shown(self.system.receive(socket, room, false)),
            Call::Peek(_, room) => shown(self.system.receive(socket, room, true)),
            // No caller asks a connection for the sender of its bytes.
            Call::ReceiveFrom(..) if kind == UnixKind::Stream => "a connection".to_owned(),
            Call::ReceiveFrom(_, peeks) => {
                let received = self.system.receive_from(socket, peeks);
                shown(received.map(|(bytes, sender)| (bytes, self.name_of(sender))))
            }
            Call::ShutDown(_, how) => shown(self.system.shut_down(socket, how)),
            Call::TakeError(_) => shown(self.system.take_error(socket)),
            Call::Addresses(_) => shown(
                self.system
                    .addresses(socket)
                    .map(|(own, peer)| (self.name_of(own), peer.map(|peer| self.name_of(peer)))),
            ),
            Call::IsReady(_) => format!("{:?}", self.system.is_ready(socket)),
            _ => format!("{} is closed", socket.as_raw_fd() >= 0),
        }
    }

    fn run(mut self, calls: &[Call]) -> Vec<String> {
        calls.iter().map(|call| self.call(call)).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn unix_sockets_are_those_of_linux(calls in prop::collection::vec(call(), 0..60)) {
        let of_simulation = calls.clone();
        let simulated = simulated(|| async move {
            let sockets = SimulatedSockets::here().expect("the test is a host");
            World::new(Simulated(sockets)).run(&of_simulation)
        });
        let real = World::new(Linux).run(&calls);
        for (index, call) in calls.iter().enumerate() {
            prop_assert_eq!(&simulated[index], &real[index], "{:?} at {}", call, index);
        }
    }
}
