//! Datagrams (UDP): each is on its way alone, may be lost, come twice, or be overtaken.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;

use rustix::net::{SocketAddrAny, SocketAddrUnix};

use super::groups::Groups;
use super::{Network, Socket, SocketKind, address_of, refused};
use crate::decisions::Kind;

/// The most bytes of a datagram.
const MOST: usize = 65_507;
/// A datagram that is overtaken takes so many times longer, at most.
const OVERTAKEN: u64 = 10;

/// A socket for datagrams.
pub(super) struct Datagrams {
    pub(super) local: SocketAddr,
    /// Bound to 127.0.0.1: other hosts do not reach it.
    is_local: bool,
    pub(super) groups: Groups,
    /// The only peer, after connect(2).
    pub(super) peer: Option<SocketAddr>,
    pub(super) received: VecDeque<Datagram>,
    /// The error that the next call gets.
    pub(super) error: Option<i32>,
}

/// A datagram, and its sender.
#[derive(Clone)]
pub(super) struct Datagram {
    bytes: Vec<u8>,
    from: SocketAddr,
}

impl Datagrams {
    /// An address, or that of the own host for a loopback address.
    fn reached(&self, address: SocketAddr) -> SocketAddr {
        match address.ip().is_loopback() {
            true => SocketAddr::new(self.local.ip(), address.port()),
            false => address,
        }
    }
}

/// The datagrams that are on their way, by the time of arrival and an order among equals.
pub(super) type Flying = BTreeMap<(u64, u64), (Datagram, SocketAddr)>;

impl Network {
    pub(super) fn datagrams_mut(&mut self, number: u64) -> io::Result<&mut Datagrams> {
        match self.sockets.get_mut(&number).map(|socket| &mut socket.kind) {
            Some(SocketKind::Datagrams(datagrams)) => Ok(datagrams),
            _ => Err(refused(libc::EBADF)),
        }
    }

    pub(crate) fn bind_datagrams(&mut self, host: usize, address: SocketAddr) -> io::Result<u64> {
        let is_local = address.ip().is_loopback();
        let local = self.free_address(host, address)?;
        if self.bound.contains_key(&local) {
            return Err(refused(libc::EADDRINUSE));
        }
        let (received, error, groups) = (VecDeque::new(), None, Groups::default());
        let datagrams = Datagrams { local, is_local, groups, peer: None, received, error };
        let number = self.insert(host, SocketKind::Datagrams(datagrams));
        self.bound.insert(local, number);
        Ok(number)
    }

    pub(crate) fn connect_datagrams(&mut self, number: u64, peer: SocketAddr) -> io::Result<()> {
        let datagrams = self.datagrams_mut(number)?;
        let peer = datagrams.reached(peer);
        datagrams.peer = Some(peer);
        Ok(())
    }

    pub(crate) fn send_datagram(
        &mut self,
        number: u64,
        bytes: &[u8],
        to: Option<&SocketAddrAny>,
    ) -> io::Result<usize> {
        if let Some(Socket { kind: SocketKind::Unix(_), .. }) = self.sockets.get(&number) {
            let to = to.map(|to| SocketAddrUnix::try_from(to.clone())).transpose()?;
            return self.send_unix_datagram(number, bytes, to.as_ref());
        }
        let to = to.map(|to| SocketAddr::try_from(to.clone())).transpose()?;
        self.interrupt()?;
        let datagrams = self.datagrams_mut(number)?;
        let to = to.map(|to| datagrams.reached(to));
        if let Some(error) = datagrams.error.take() {
            return Err(refused(error));
        }
        let to = to.or(datagrams.peer).ok_or_else(|| refused(libc::EDESTADDRREQ))?;
        if bytes.len() > MOST {
            return Err(refused(libc::EMSGSIZE));
        }
        let from = datagrams.local;
        for to in self.receivers(number, to)? {
            self.send_one(Datagram { bytes: bytes.to_vec(), from }, to);
        }
        Ok(bytes.len())
    }

    fn send_one(&mut self, datagram: Datagram, to: SocketAddr) {
        let from = datagram.from;
        if self.happens(Kind::Datagram, self.profile.loss) {
            self.counts.lost += 1;
            self.tell(|_| format!("! a datagram from {from} to {to} is lost"));
            return;
        }
        if self.happens(Kind::Datagram, self.profile.doubling) {
            self.counts.doubled += 1;
            self.tell(|_| format!("! a datagram from {from} to {to} comes twice"));
            self.fly(datagram.clone(), to);
        }
        self.fly(datagram, to);
    }

    /// The hosts of two addresses.
    fn link_of(&self, from: SocketAddr, to: SocketAddr) -> Option<(usize, usize)> {
        let host_of = |address: SocketAddr| {
            (0..self.hosts.len()).find(|host| address_of(*host) == address.ip())
        };
        Some((host_of(from)?, host_of(to)?))
    }

    fn fly(&mut self, datagram: Datagram, to: SocketAddr) {
        let link = self.link_of(datagram.from, to);
        // The host is not there: any latency will do.
        let (from, host) = link.unwrap_or((0, 0));
        let mut latency = self.draw_latency(from, host);
        if self.happens(Kind::Datagram, self.profile.overtaking) {
            self.counts.overtaken += 1;
            let (_, most) = self.latency_of(from, host);
            latency += self.draw(Kind::Latency, most * OVERTAKEN);
        }
        self.next_arrival += 1;
        self.flying.insert((self.now + latency, self.next_arrival), (datagram, to));
    }

    /// Has the datagrams arrive that are due.
    pub(super) fn deliver_datagrams(&mut self) {
        while let Some(entry) = self.flying.first_entry()
            && entry.key().0 <= self.now
        {
            let (datagram, to) = entry.remove();
            self.arrive_datagram(datagram, to);
        }
    }

    fn arrive_datagram(&mut self, datagram: Datagram, to: SocketAddr) {
        let Some((sender, host)) = self.link_of(datagram.from, to) else { return };
        if self.holds_datagram((sender, host), &datagram, to) {
            return;
        }
        if self.is_cut(sender, host) || !self.hosts[host].is_up {
            self.counts.lost += 1;
            return;
        }
        self.counts.datagrams += 1;
        self.decisions.note(self.now ^ (u64::from(to.port()) << 40));
        self.decisions.note_bytes(&datagram.bytes);
        let from = datagram.from;
        self.tell(|net| {
            let text = String::from_utf8_lossy(&datagram.bytes[..datagram.bytes.len().min(60)]);
            let (name, length) = (net.name(host), datagram.bytes.len());
            format!("{from} → {name}  [{}] datagram of {length} bytes  {text:?}", to.port())
        });
        let Some(number) = self.bound.get(&to).copied() else {
            return self.tell_unreachable(from, to);
        };
        let window = self.profile.window.max(MOST);
        let Ok(receiver) = self.datagrams_mut(number) else { return };
        let is_foreign = receiver.is_local && sender != host;
        if is_foreign || receiver.peer.is_some_and(|peer| peer != from) {
            return self.tell_unreachable(from, to);
        }
        let waiting: usize = receiver.received.iter().map(|one| one.bytes.len()).sum();
        if waiting >= window {
            self.counts.lost += 1;
            return;
        }
        receiver.received.push_back(datagram);
        self.look(number);
    }

    /// ICMP tells a sender that nothing receives there. A socket without a peer is not told.
    fn tell_unreachable(&mut self, sender: SocketAddr, to: SocketAddr) {
        let Some(number) = self.bound.get(&sender).copied() else { return };
        if let Ok(datagrams) = self.datagrams_mut(number)
            && datagrams.peer == Some(to)
        {
            datagrams.error = Some(libc::ECONNREFUSED);
            self.look(number);
        }
    }

    /// Takes a datagram.
    pub(crate) fn receive_datagram(&mut self, number: u64) -> io::Result<(Vec<u8>, SocketAddrAny)> {
        if let Some(Socket { kind: SocketKind::Unix(_), .. }) = self.sockets.get(&number) {
            return self.receive_unix_datagram(number);
        }
        self.interrupt()?;
        let datagrams = self.datagrams_mut(number)?;
        if let Some(error) = datagrams.error.take() {
            return Err(refused(error));
        }
        let taken = datagrams.received.pop_front();
        let Datagram { bytes, from } = taken.ok_or(io::ErrorKind::WouldBlock)?;
        Ok((bytes, from.into()))
    }

    /// Copies the next datagram.
    pub(crate) fn peek_datagram(&mut self, number: u64) -> io::Result<(Vec<u8>, SocketAddrAny)> {
        if let Some(Socket { kind: SocketKind::Unix(_), .. }) = self.sockets.get(&number) {
            return self.peek_unix_datagram(number);
        }
        let datagrams = self.datagrams_mut(number)?;
        if let Some(error) = datagrams.error.take() {
            return Err(refused(error));
        }
        let Datagram { bytes, from } =
            datagrams.received.front().ok_or(io::ErrorKind::WouldBlock)?;
        Ok((bytes.clone(), (*from).into()))
    }
}
