//! The same generated calls on sockets of UDP at Linux's loopback and on a simulated host.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use duality_runtime::net::{SharedDescriptor, SimulatedSockets};
use duality_runtime::time::sleep;
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::{shown, simulated};

#[derive(Clone, Debug)]
enum Call {
    Bind,
    Connect(usize, usize),
    Send(usize, usize),
    SendTo(usize, usize, usize),
    Receive(usize, usize, bool),
    TakeError(usize),
    Addresses(usize),
    Close(usize),
}

fn call() -> impl Strategy<Value = Call> {
    use Call::*;
    let (socket, peer) = (0..5_usize, 0..5_usize);
    let length = prop_oneof![8 => 0..40_usize, 1 => 65_505..65_510_usize];
    prop_oneof![
        3 => Just(Bind),
        3 => (socket.clone(), peer.clone()).prop_map(|(socket, peer)| Connect(socket, peer)),
        5 => (socket.clone(), length.clone()).prop_map(|(socket, length)| Send(socket, length)),
        6 => (socket.clone(), peer, length)
            .prop_map(|(socket, peer, length)| SendTo(socket, peer, length)),
        8 => (socket.clone(), 0..50_usize, any::<bool>())
            .prop_map(|(socket, room, peeks)| Receive(socket, room, peeks)),
        1 => socket.clone().prop_map(TakeError),
        2 => socket.clone().prop_map(Addresses),
        1 => socket.prop_map(Close),
    ]
}

/// Sockets, and their addresses, also of those that are closed.
#[derive(Default)]
struct World {
    sockets: Vec<(Option<SharedDescriptor>, SocketAddr)>,
    sent: u8,
}

/// Either kernel.
trait System {
    fn bind(&self) -> io::Result<(OwnedFd, SocketAddr)>;
    fn connect(&self, socket: BorrowedFd<'_>, peer: SocketAddr) -> io::Result<()>;
    fn send(
        &self,
        socket: BorrowedFd<'_>,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> io::Result<usize>;
    fn receive(
        &self,
        socket: BorrowedFd<'_>,
        room: usize,
        peeks: bool,
    ) -> io::Result<(Vec<u8>, SocketAddr)>;
    fn take_error(&self, socket: BorrowedFd<'_>) -> io::Result<Option<i32>>;
    fn addresses(&self, socket: BorrowedFd<'_>) -> (SocketAddr, Option<SocketAddr>);
}

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

struct Linux;

impl System for Linux {
    fn bind(&self) -> io::Result<(OwnedFd, SocketAddr)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let family = AddressFamily::INET;
        let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
        rustix::net::bind(&socket, &ANY)?;
        let own = self.addresses(socket.as_fd()).0;
        Ok((socket, own))
    }

    fn connect(&self, socket: BorrowedFd<'_>, peer: SocketAddr) -> io::Result<()> {
        Ok(rustix::net::connect(socket, &peer)?)
    }

    fn send(
        &self,
        socket: BorrowedFd<'_>,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL;
        Ok(match to {
            None => rustix::net::send(socket, bytes, flags)?,
            Some(to) => rustix::net::sendto(socket, bytes, flags, &to)?,
        })
    }

    fn receive(
        &self,
        socket: BorrowedFd<'_>,
        room: usize,
        peeks: bool,
    ) -> io::Result<(Vec<u8>, SocketAddr)> {
        let mut bytes = vec![0; room];
        let flags = if peeks { RecvFlags::PEEK } else { RecvFlags::empty() };
        let (count, _, sender) = rustix::net::recvfrom(socket, &mut *bytes, flags)?;
        bytes.truncate(count);
        let sender = sender.ok_or(io::ErrorKind::InvalidData)?;
        Ok((bytes, SocketAddr::try_from(sender)?))
    }

    fn take_error(&self, socket: BorrowedFd<'_>) -> io::Result<Option<i32>> {
        let error = rustix::net::sockopt::socket_error(socket)?;
        Ok(error.err().map(rustix::io::Errno::raw_os_error))
    }

    fn addresses(&self, socket: BorrowedFd<'_>) -> (SocketAddr, Option<SocketAddr>) {
        let address = |address: rustix::net::SocketAddrAny| SocketAddr::try_from(address).unwrap();
        let peer = rustix::net::getpeername(socket).ok().flatten();
        (address(rustix::net::getsockname(socket).unwrap()), peer.map(address))
    }
}

impl System for SimulatedSockets {
    fn bind(&self) -> io::Result<(OwnedFd, SocketAddr)> {
        let socket = self.bind_datagrams(ANY)?;
        let own = System::addresses(self, socket.as_fd()).0;
        Ok((socket, own))
    }

    fn connect(&self, socket: BorrowedFd<'_>, peer: SocketAddr) -> io::Result<()> {
        self.connect_datagrams(socket, peer)
    }

    fn send(
        &self,
        socket: BorrowedFd<'_>,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> io::Result<usize> {
        self.send_datagram(socket, bytes, to.map(Into::into).as_ref())
    }

    fn receive(
        &self,
        socket: BorrowedFd<'_>,
        room: usize,
        peeks: bool,
    ) -> io::Result<(Vec<u8>, SocketAddr)> {
        let (mut bytes, sender) = self.receive_datagram(socket, peeks)?;
        bytes.truncate(room);
        Ok((bytes, SocketAddr::try_from(sender)?))
    }

    fn take_error(&self, socket: BorrowedFd<'_>) -> io::Result<Option<i32>> {
        Ok(self.take_error(socket)?.and_then(|error| error.raw_os_error()))
    }

    fn addresses(&self, socket: BorrowedFd<'_>) -> (SocketAddr, Option<SocketAddr>) {
        self.addresses(socket).unwrap()
    }
}

impl World {
    fn name_of(&self, address: SocketAddr) -> Option<usize> {
        self.sockets.iter().position(|(_, own)| *own == address)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        self.sent = self.sent.wrapping_add(1);
        (0..length).map(|index| self.sent ^ index as u8).collect()
    }

    /// The socket of a call, if it is open.
    fn socket(&self, call: &Call) -> Option<BorrowedFd<'_>> {
        use Call::*;
        let (Connect(number, _)
        | Send(number, _)
        | SendTo(number, ..)
        | Receive(number, ..)
        | TakeError(number)
        | Addresses(number)
        | Close(number)) = *call
        else {
            return None;
        };
        Some(self.sockets.get(number)?.0.as_ref()?.as_fd())
    }

    fn call(&mut self, system: &impl System, call: &Call) -> String {
        let bytes = match *call {
            Call::Send(_, length) | Call::SendTo(_, _, length) => self.bytes(length),
            _ => Vec::new(),
        };
        let peer = |number: usize| self.sockets.get(number).map(|(_, address)| *address);
        let named = |address| self.name_of(address);
        match (call, self.socket(call)) {
            (Call::Bind, _) => {
                let bound = system.bind();
                shown(bound.map(|(socket, address)| {
                    let socket = SharedDescriptor::of_nonblocking(socket);
                    self.sockets.push((Some(socket), address));
                }))
            }
            (_, None) => "no socket".to_owned(),
            (Call::Connect(_, to), Some(socket)) => match peer(*to) {
                None => "no peer".to_owned(),
                Some(peer) => shown(system.connect(socket, peer)),
            },
            (Call::Send(..), Some(socket)) => shown(system.send(socket, &bytes, None)),
            (Call::SendTo(_, to, _), Some(socket)) => match peer(*to) {
                None => "no peer".to_owned(),
                to => shown(system.send(socket, &bytes, to)),
            },
            (Call::Receive(_, room, peeks), Some(socket)) => {
                let received = system.receive(socket, *room, *peeks);
                shown(received.map(|(bytes, sender)| (bytes, named(sender))))
            }
            (Call::TakeError(_), Some(socket)) => shown(system.take_error(socket)),
            (Call::Addresses(_), Some(socket)) => {
                let (own, peer) = system.addresses(socket);
                format!("{:?} {:?}", named(own), peer.map(named))
            }
            (Call::Close(number), Some(_)) => {
                self.sockets[*number].0 = None;
                "closed".to_owned()
            }
        }
    }

    /// Waits for what the next call finds, since a busy kernel may deliver late.
    fn wait_for(&self, call: &Call, expected: &str) {
        const LIMIT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
        let awaited = match call {
            Call::Receive(..) if expected != "EAGAIN" => PollFlags::IN,
            Call::Send(..) | Call::SendTo(..) | Call::TakeError(_)
                if expected.contains("Connection refused")
                    || expected == format!("Some({})", libc::ECONNREFUSED) =>
            {
                PollFlags::ERR
            }
            _ => return,
        };
        if let Some(socket) = self.socket(call) {
            let _ =
                rustix::event::poll(&mut [PollFd::from_borrowed_fd(socket, awaited)], Some(&LIMIT));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn datagrams_are_those_of_linux(calls in prop::collection::vec(call(), 0..50)) {
        let of_simulation = calls.clone();
        let simulated = simulated(|| async move {
            let sockets = SimulatedSockets::here().expect("the test is a host");
            let (mut world, mut outcomes) = (World::default(), Vec::new());
            for call in &of_simulation {
                outcomes.push(world.call(&sockets, call));
                // Longer than a datagram takes.
                sleep(Duration::from_millis(50)).await;
            }
            outcomes
        });
        let mut world = World::default();
        for (index, call) in calls.iter().enumerate() {
            world.wait_for(call, &simulated[index]);
            let real = world.call(&Linux, call);
            prop_assert_eq!(&simulated[index], &real, "{:?} at {}", call, index);
        }
    }
}
