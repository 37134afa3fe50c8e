//! Datagrams between Unix sockets. None is lost.

use std::io;

use rustix::net::{SocketAddrAny, SocketAddrUnix};

use super::{Datagram, Peer, Unix};
use crate::network::{Network, SocketKind, refused};

/// The most datagrams that wait at a socket, less one (`net.unix.max_dgram_qlen`).
const QUEUE: usize = 10;
/// The most that wait between two sockets that are connected to one another. There, Linux counts
/// the memory alone.
const OF_PEER: usize = 200;
/// The most bytes of a datagram (`net.core.wmem_default`, less what Linux keeps of it).
const MOST: usize = 212_992 - 32;

impl Network {
    pub(super) fn connect_unix_datagrams(
        &mut self,
        number: u64,
        address: &SocketAddrUnix,
    ) -> io::Result<()> {
        let at = self.unix_at(number, address)?;
        if !self.hears(at, number) {
            return Err(refused(libc::EPERM));
        }
        let peer = Peer { number: at, address: self.unix(at)?.address.clone() };
        let before = self.unix_mut(number)?.peer.replace(peer);
        if let Some(before) = before.filter(|before| before.number != at) {
            self.disconnect(number, before.number);
        }
        self.look(number);
        Ok(())
    }

    /// What the peer of before has sent is lost. If it is connected to this socket, it learns so.
    fn disconnect(&mut self, number: u64, before: u64) {
        let Ok(own) = self.unix_mut(number) else { return };
        if own.datagrams.is_empty() {
            return;
        }
        own.datagrams.clear();
        self.look_at_senders(number);
        if let Ok(peer) = self.unix_mut(before)
            && peer.peer_number() == Some(number)
        {
            peer.error = Some(libc::ECONNRESET);
            self.look(before);
        }
    }

    /// Whether a socket takes datagrams of another one: it is connected to none, or to this one.
    fn hears(&self, number: u64, from: u64) -> bool {
        let peer = self.unix(number).ok().and_then(Unix::peer_number);
        peer.is_none_or(|peer| peer == from)
    }

    /// Whether a socket has no room for a datagram of another one.
    pub(super) fn is_crowded(&self, number: u64, from: u64) -> bool {
        self.unix(number).is_ok_and(|own| {
            let most = if own.peer_number() == Some(from) { OF_PEER } else { QUEUE };
            own.datagrams.len() > most
        })
    }

    pub(in crate::network) fn send_unix_datagram(
        &mut self,
        number: u64,
        bytes: &[u8],
        to: Option<&SocketAddrUnix>,
    ) -> io::Result<usize> {
        let own = self.unix(number)?;
        if own.is_stream() {
            return match to {
                None => self.send_unix(number, bytes),
                Some(_) if own.peer.is_some() => Err(refused(libc::EISCONN)),
                Some(_) => Err(refused(libc::EOPNOTSUPP)),
            };
        }
        self.interrupt()?;
        if bytes.len() > MOST {
            return Err(refused(libc::EMSGSIZE));
        }
        let own = self.unix_mut(number)?;
        if let Some(error) = own.error.take() {
            return Err(refused(error));
        }
        if own.sends_no_more {
            return Err(refused(libc::EPIPE));
        }
        let (from, peer) = (own.address.clone(), own.peer_number());
        let at = match to {
            Some(to) => self.unix_at(number, to)?,
            None => peer.ok_or_else(|| refused(libc::ENOTCONN))?,
        };
        let Ok(receiver) = self.unix(at) else {
            // The peer has closed its socket. The next call finds none.
            self.unix_mut(number)?.peer = None;
            self.disconnect(number, at);
            return Err(refused(libc::ECONNREFUSED));
        };
        if !self.hears(at, number) {
            return Err(refused(libc::EPERM));
        }
        if receiver.reads_no_more {
            return Err(refused(libc::EPIPE));
        }
        if at != number && self.is_crowded(at, number) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.counts.datagrams += 1;
        self.decisions.note(at);
        self.decisions.note_bytes(bytes);
        let from = Peer { number, address: from };
        self.unix_mut(at)?.datagrams.push_back(Datagram { bytes: bytes.to_vec(), from });
        self.look(at);
        Ok(bytes.len())
    }

    pub(in crate::network) fn receive_unix_datagram(
        &mut self,
        number: u64,
    ) -> io::Result<(Vec<u8>, SocketAddrAny)> {
        self.interrupt()?;
        let own = self.datagrams_of(number)?;
        let was_full = own.datagrams.len() > QUEUE;
        let taken = own.datagrams.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        if was_full {
            self.look_at_senders(number);
        }
        Ok((taken.bytes, taken.from.address.into()))
    }

    pub(in crate::network) fn peek_unix_datagram(
        &mut self,
        number: u64,
    ) -> io::Result<(Vec<u8>, SocketAddrAny)> {
        let next = self.datagrams_of(number)?.datagrams.front().ok_or(io::ErrorKind::WouldBlock)?;
        Ok((next.bytes.clone(), next.from.address.clone().into()))
    }

    /// A socket for datagrams, unless it has kept an error.
    fn datagrams_of(&mut self, number: u64) -> io::Result<&mut Unix> {
        let own = self.unix_mut(number)?;
        match own.error.take() {
            _ if own.is_stream() => Err(refused(libc::EOPNOTSUPP)),
            Some(error) => Err(refused(error)),
            None => Ok(own),
        }
    }

    /// The sockets that are connected to this one may send again.
    pub(super) fn look_at_senders(&mut self, number: u64) {
        let is_sender = |kind: &SocketKind| match kind {
            SocketKind::Unix(unix) => unix.peer_number() == Some(number),
            _ => false,
        };
        let senders = self.sockets.iter().filter(|(_, socket)| is_sender(&socket.kind));
        let senders: Vec<u64> = senders.map(|(number, _)| *number).collect();
        senders.into_iter().for_each(|sender| self.look(sender));
    }
}
