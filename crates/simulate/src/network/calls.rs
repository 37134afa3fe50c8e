//! The system calls of a host on its sockets.

use std::cmp::Reverse;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::RawFd;
use std::time::Duration;

use duality_runtime::machine::Traffic;
use duality_runtime::net::Closed;

use super::connection::{Connection, Packet};
use super::{File, Listener, Network, SocketKind, address_of, refused};
use crate::decisions::Kind;
use crate::faults::nanoseconds;

/// What accept(2) may fail with, though a connection waits. The last one takes the connection.
const ACCEPT: [i32; 5] =
    [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::ECONNABORTED];
/// What socket(2) and connect(2) may fail with.
const CONNECT: [i32; 4] = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::EADDRNOTAVAIL];

impl Network {
    /// Whether the kernel refuses the next call, and how.
    pub(super) fn refusal(&mut self, host: usize, call: &str, errors: &[i32]) -> Option<i32> {
        if !self.happens(Kind::Refusal, self.profile.refusal) {
            return None;
        }
        let error = errors[self.draw(Kind::Refusal, errors.len() as u64) as usize];
        self.counts.refusals += 1;
        self.tell(|net| format!("! {call} of {} fails: {}", net.name(host), refused(error)));
        Some(error)
    }

    pub(super) fn interrupt(&mut self) -> io::Result<()> {
        if self.happens(Kind::Interrupt, self.profile.interrupt) {
            self.counts.interrupts += 1;
            return Err(refused(libc::EINTR));
        }
        Ok(())
    }

    pub(super) fn has_file_left(&self, host: usize) -> io::Result<()> {
        match self.hosts[host].files < self.hosts[host].most_files {
            true => Ok(()),
            false => Err(refused(libc::EMFILE)),
        }
    }

    pub(crate) fn opened(&mut self, descriptor: RawFd, number: u64) {
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        socket.files.push(File { descriptor, armed: Default::default() });
        self.hosts[socket.host].files += 1;
        self.files.insert(descriptor, number);
    }

    pub(crate) fn socket_of(&self, descriptor: RawFd) -> Option<u64> {
        self.files.get(&descriptor).copied()
    }

    pub(crate) fn closed(&mut self, descriptor: RawFd) {
        let Some(number) = self.files.remove(&descriptor) else { return };
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        socket.files.retain(|file| file.descriptor != descriptor);
        let (host, is_last) = (socket.host, socket.files.is_empty());
        self.hosts[host].files = self.hosts[host].files.saturating_sub(1);
        // Nothing is told of a closed descriptor. The next one may have its number.
        for due in &mut self.hosts[host].due {
            due.retain(|(.., other)| *other != descriptor);
        }
        if !is_last {
            return;
        }
        match &mut socket.kind {
            SocketKind::Connection(_) => self.close_connection(number),
            SocketKind::Datagrams(_) => self.lose(number),
            SocketKind::Unix(_) => self.close_unix(number),
            SocketKind::Listener(listener) => {
                let queue = std::mem::take(&mut listener.queue);
                self.lose(number);
                for waiting in queue {
                    let Some(end) = self.connection(waiting) else { continue };
                    let peer = end.peer;
                    self.send_packet(peer, Packet::Reset);
                    self.lose(waiting);
                }
            }
        }
    }

    pub(crate) fn listen(
        &mut self,
        host: usize,
        address: SocketAddr,
        backlog: i32,
    ) -> io::Result<u64> {
        let is_local = address.ip().is_loopback();
        let address = self.free_address(host, address)?;
        let port = address.port();
        if self.listeners.contains_key(&address) {
            return Err(refused(libc::EADDRINUSE));
        }
        let backlog = usize::try_from(backlog).unwrap_or(0).max(1);
        let queue = Default::default();
        let listener = Listener { address, is_local, backlog, queue, is_shut: false };
        let number = self.insert(host, SocketKind::Listener(listener));
        self.listeners.insert(address, number);
        self.tell(|net| format!("{} listens at port {port}", net.name(host)));
        Ok(number)
    }

    /// The address that bind(2) gives.
    pub(super) fn free_address(
        &mut self,
        host: usize,
        address: SocketAddr,
    ) -> io::Result<SocketAddr> {
        let ip = match address.ip() {
            ip if ip.is_unspecified() || ip.is_loopback() => address_of(host),
            ip => ip,
        };
        if ip != address_of(host) {
            return Err(refused(libc::EADDRNOTAVAIL));
        }
        self.has_file_left(host)?;
        let port = match address.port() {
            0 => self.take_port(host),
            port => port,
        };
        Ok(SocketAddr::new(ip, port))
    }

    pub(crate) fn accept(&mut self, number: u64) -> io::Result<u64> {
        if let Some(SocketKind::Unix(_)) = self.kind(number) {
            return self.accept_unix(number);
        }
        let host = self.sockets.get(&number).ok_or_else(|| refused(libc::EBADF))?.host;
        self.interrupt()?;
        let listener = self.listener_mut(number).ok_or_else(|| refused(libc::EINVAL))?;
        if listener.queue.is_empty() {
            return Err(match listener.is_shut {
                true => refused(libc::EINVAL),
                false => io::ErrorKind::WouldBlock.into(),
            });
        }
        self.has_file_left(host)?;
        let refusal = self.refusal(host, "accept", &ACCEPT);
        match refusal {
            Some(libc::ECONNABORTED) => {
                let aborted =
                    self.listener_mut(number).and_then(|listener| listener.queue.pop_front());
                let Some(aborted) = aborted else { return Err(io::ErrorKind::WouldBlock.into()) };
                if let Some(end) = self.connection(aborted) {
                    let peer = end.peer;
                    self.send_packet(peer, Packet::Reset);
                }
                self.lose(aborted);
                Err(refused(libc::ECONNABORTED))
            }
            Some(error) => Err(refused(error)),
            None => {
                let listener = self.listener_mut(number).ok_or_else(|| refused(libc::EINVAL))?;
                listener.queue.pop_front().ok_or_else(|| io::ErrorKind::WouldBlock.into())
            }
        }
    }

    pub(crate) fn queued(&self, number: u64) -> usize {
        match self.sockets.get(&number).map(|socket| &socket.kind) {
            Some(SocketKind::Listener(listener)) => listener.queue.len(),
            Some(SocketKind::Unix(unix)) => unix.queued(),
            _ => 0,
        }
    }

    pub(crate) fn connect(&mut self, host: usize, address: SocketAddr) -> io::Result<u64> {
        self.has_file_left(host)?;
        if let Some(error) = self.refusal(host, "connect", &CONNECT) {
            return Err(refused(error));
        }
        let ip = if address.ip().is_loopback() { address_of(host) } else { address.ip() };
        let to = (0..self.hosts.len()).find(|host| address_of(*host) == ip);
        let to = to.ok_or_else(|| refused(libc::EHOSTUNREACH))?;
        let local = SocketAddr::new(address_of(host), self.take_port(host));
        Ok(self.begin(host, local, to, SocketAddr::new(ip, address.port())))
    }

    pub(crate) fn connected(&mut self, number: u64) -> io::Result<()> {
        let end = self.connection_mut(number).ok_or_else(|| refused(libc::ECONNRESET))?;
        match end.error.take() {
            Some(error) => Err(refused(error)),
            None if end.is_open || end.is_broken => Ok(()),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// How many of `most` bytes a call moves.
    pub(super) fn moved(&mut self, most: usize) -> usize {
        if most > 1 && self.happens(Kind::ShortMove, self.profile.short) {
            self.counts.short += 1;
            // The whole is the tame choice, one byte the wildest.
            return most - self.draw(Kind::Bytes, most as u64) as usize;
        }
        most
    }

    fn kind(&self, number: u64) -> Option<&SocketKind> {
        self.sockets.get(&number).map(|socket| &socket.kind)
    }

    /// Receives into a buffer, of which `take` has each byte.
    pub(crate) fn receive(
        &mut self,
        number: u64,
        room: usize,
        mut take: impl FnMut(usize, u8),
    ) -> io::Result<usize> {
        match self.kind(number) {
            Some(SocketKind::Unix(unix)) if unix.is_stream() => {
                return self.receive_unix(number, room, take);
            }
            Some(SocketKind::Unix(_) | SocketKind::Datagrams(_)) => {
                let (datagram, _) = self.receive_datagram(number)?;
                return Ok(fill(room, &datagram, take));
            }
            _ => self.interrupt()?,
        }
        let end = self.connection_mut(number).ok_or_else(|| refused(libc::ENOTCONN))?;
        if end.received.is_empty() || room == 0 {
            return match end.error.take() {
                Some(error) => Err(refused(error)),
                None if end.has_ended || end.is_broken || end.reads_no_more || room == 0 => Ok(0),
                None => Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        let most = room.min(end.received.len());
        let count = self.moved(most);
        let host = self.sockets.get(&number).map_or(0, |socket| socket.host);
        if count < most {
            self.tell(|net| format!("! {} reads {count} of {most} bytes", net.name(host)));
        }
        let end = self.connection_mut(number).ok_or_else(|| refused(libc::ENOTCONN))?;
        end.received.drain(..count).enumerate().for_each(|(index, byte)| take(index, byte));
        let peer = end.peer;
        self.send_packet(peer, Packet::Taken(count));
        Ok(count)
    }

    /// Copies what has come into a buffer, of which `take` has each byte.
    pub(crate) fn peek(
        &mut self,
        number: u64,
        room: usize,
        mut take: impl FnMut(usize, u8),
    ) -> io::Result<usize> {
        match self.kind(number) {
            Some(SocketKind::Unix(unix)) if unix.is_stream() => {
                return self.peek_unix(number, room, take);
            }
            Some(SocketKind::Unix(_) | SocketKind::Datagrams(_)) => {
                let (datagram, _) = self.peek_datagram(number)?;
                return Ok(fill(room, &datagram, take));
            }
            _ => {}
        }
        let end = self.connection_mut(number).ok_or_else(|| refused(libc::ENOTCONN))?;
        if end.received.is_empty() {
            return self.receive(number, room, take);
        }
        let most = room.min(end.received.len());
        end.received.iter().take(most).enumerate().for_each(|(index, byte)| take(index, *byte));
        Ok(most)
    }

    pub(crate) fn send(&mut self, number: u64, bytes: &[u8]) -> io::Result<usize> {
        match self.kind(number) {
            Some(SocketKind::Unix(unix)) if unix.is_stream() => {
                return self.send_unix(number, bytes);
            }
            Some(SocketKind::Unix(_) | SocketKind::Datagrams(_)) => {
                return self.send_datagram(number, bytes, None);
            }
            _ => self.interrupt()?,
        }
        let (window, now) = (self.profile.window, self.now);
        let end = self.connection_mut(number).ok_or_else(|| refused(libc::ENOTCONN))?;
        if let Some(error) = end.error.take() {
            return Err(refused(error));
        }
        if end.has_sent_end || end.is_broken {
            return Err(refused(libc::EPIPE));
        }
        let room = window.saturating_sub(end.outstanding);
        let most = bytes.len().min(room);
        if most == 0 && !bytes.is_empty() {
            if let Some(limit) = end.taking_limit {
                let at = (end.outstanding_since + limit).max(now);
                self.looks.push(Reverse((at, number)));
            }
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.moved(most);
        let host = self.sockets.get(&number).map_or(0, |socket| socket.host);
        if count < bytes.len() {
            let all = bytes.len();
            self.tell(|net| format!("! {} writes {count} of {all} bytes", net.name(host)));
        }
        let end = self.connection_mut(number).ok_or_else(|| refused(libc::ENOTCONN))?;
        if end.outstanding == 0 {
            end.outstanding_since = now;
        }
        end.outstanding += count;
        (end.last_sent, end.packets_sent) = (now, end.packets_sent + 1);
        let peer = end.peer;
        self.send_packet(peer, Packet::Data(bytes[..count].to_vec()));
        if self.happens(Kind::Reset, self.profile.reset) {
            self.reset(number);
        }
        Ok(count)
    }

    pub(crate) fn shut_down(&mut self, number: u64, how: Shutdown) -> io::Result<()> {
        if let Some(SocketKind::Unix(_)) = self.kind(number) {
            return self.shut_down_unix(number, how);
        }
        if let Some(listener) = self.listener_mut(number) {
            listener.is_shut = true;
            self.look(number);
            return Ok(());
        }
        let end = self.connection_mut(number).ok_or_else(|| refused(libc::ENOTCONN))?;
        if end.is_broken {
            return Err(refused(libc::ENOTCONN));
        }
        let peer = end.peer;
        if how != Shutdown::Write {
            end.reads_no_more = true;
        }
        if how != Shutdown::Read && !std::mem::replace(&mut end.has_sent_end, true) {
            self.send_packet(peer, Packet::End);
        }
        self.look(number);
        Ok(())
    }

    pub(crate) fn break_off(&mut self, number: u64) {
        if let Some(end) = self.connection_mut(number) {
            end.breaks_off = true;
        }
    }

    pub(crate) fn set_taking_limit(&mut self, number: u64, limit: Duration) {
        if let Some(end) = self.connection_mut(number) {
            end.taking_limit = (!limit.is_zero()).then(|| nanoseconds(limit));
        }
    }

    pub(crate) fn has_closed(&self, number: u64) -> Option<Closed> {
        let (has_ended, has_sent_end) = match self.kind(number) {
            Some(SocketKind::Connection(end)) if !end.is_broken => {
                (end.has_ended, end.has_sent_end)
            }
            Some(SocketKind::Unix(unix)) => unix.ends(),
            _ => return Some(Closed::Both),
        };
        match (has_ended, has_sent_end) {
            (true, true) => Some(Closed::Both),
            (true, false) => Some(Closed::Sending),
            (false, _) => None,
        }
    }

    /// The error that a socket has kept.
    pub(crate) fn take_error(&mut self, number: u64) -> Option<io::Error> {
        let error = match &mut self.sockets.get_mut(&number)?.kind {
            SocketKind::Connection(end) => end.error.take(),
            SocketKind::Datagrams(datagrams) => datagrams.error.take(),
            SocketKind::Unix(unix) => unix.take_error(),
            SocketKind::Listener(_) => None,
        };
        error.map(refused)
    }

    /// What the kernel knows of a connection's traffic.
    pub(crate) fn traffic(&self, number: u64) -> Option<Traffic> {
        let end = self.connection(number)?;
        let since = |time: u64| Duration::from_nanos(self.now.saturating_sub(time));
        Some(Traffic {
            is_under_way: self.connection(end.peer).is_some_and(Connection::awaits_bytes),
            received: since(end.last_received),
            sent: since(end.last_sent),
            bytes_received: end.bytes_received,
            packets_sent: end.packets_sent,
        })
    }

    pub(crate) fn is_quiet(&self, number: u64) -> bool {
        match self.kind(number) {
            Some(SocketKind::Connection(end)) => !end.has_input(),
            Some(SocketKind::Unix(unix)) => !unix.has_input(),
            _ => false,
        }
    }

    pub(crate) fn addresses(&self, number: u64) -> Option<(SocketAddr, Option<SocketAddr>)> {
        match &self.sockets.get(&number)?.kind {
            SocketKind::Listener(listener) => Some((listener.address, None)),
            SocketKind::Connection(end) => Some((end.local, Some(end.remote))),
            SocketKind::Datagrams(datagrams) => Some((datagrams.local, datagrams.peer)),
            SocketKind::Unix(_) => None,
        }
    }
}

/// Copies what fits of a datagram. The rest is lost.
fn fill(room: usize, datagram: &[u8], mut take: impl FnMut(usize, u8)) -> usize {
    let fitting = datagram.iter().take(room);
    fitting.enumerate().map(|(index, byte)| take(index, *byte)).count()
}
