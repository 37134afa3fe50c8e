//! Unix sockets (unix(7)): connections and datagrams within one host, without latency or loss.
//!
//! ```text
//!   bind ─▶ a socket file ─ its inode ─┐             connect ─▶ a new end in the accept queue
//!   bind ─▶ an abstract name ──────────┴▶ socket     send ─▶ received by the peer, at once
//! ```
//!
//! A bind makes a real socket file, so that the rest of a program finds the file, renames it and
//! removes it. As on Linux, the file stays when the socket is closed, and a connect finds a socket
//! by the inode of the file.

mod bytes;
mod datagrams;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use duality_runtime::machine::UnixKind;
use rustix::fs::{Access, CWD, FileType, Mode, OFlags};
use rustix::fs::{access, fstat, mknodat, openat, stat, unlink};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;

use super::{Network, Socket, SocketKind, refused};

/// What socket(2) and accept(2) may fail with.
const NO_SOCKET: [i32; 4] = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];

/// What a name stands for. The file of a socket is known by its device and inode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    File(u64, u64),
    /// Each kind of socket has its own.
    Abstract(bool, Vec<u8>),
}

/// A Unix socket.
pub(super) struct Unix {
    kind: UnixKind,
    address: SocketAddrUnix,
    bound: Option<Bound>,
    listening: Option<Listening>,
    peer: Option<Peer>,
    /// What a stream has received.
    bytes: VecDeque<u8>,
    datagrams: VecDeque<Datagram>,
    /// Bytes sent that the peer has not read.
    outstanding: usize,
    reads_no_more: bool,
    sends_no_more: bool,
    /// The error that the next call gets.
    error: Option<i32>,
}

/// A name that a socket has. The file is held, so that no other file gets its inode.
struct Bound {
    name: Name,
    _file: Option<OwnedFd>,
}

struct Listening {
    backlog: usize,
    queue: VecDeque<u64>,
}

/// The other end of a connection, or the socket of connect(2) for datagrams. It may be closed.
struct Peer {
    number: u64,
    address: SocketAddrUnix,
}

/// A datagram that has come.
struct Datagram {
    bytes: Vec<u8>,
    from: Peer,
}

impl Unix {
    fn new(kind: UnixKind) -> Self {
        Self {
            kind,
            address: SocketAddrUnix::new_unnamed(),
            bound: None,
            listening: None,
            peer: None,
            bytes: VecDeque::new(),
            datagrams: VecDeque::new(),
            outstanding: 0,
            reads_no_more: false,
            sends_no_more: false,
            error: None,
        }
    }

    fn connected(peer: u64, address: SocketAddrUnix, kind: UnixKind) -> Self {
        Self { peer: Some(Peer { number: peer, address }), ..Self::new(kind) }
    }

    pub(super) fn is_stream(&self) -> bool {
        self.kind == UnixKind::Stream
    }

    fn peer_number(&self) -> Option<u64> {
        self.peer.as_ref().map(|peer| peer.number)
    }

    pub(super) fn has_input(&self) -> bool {
        let has_more = !self.bytes.is_empty() || !self.datagrams.is_empty() || self.queued() > 0;
        has_more || self.reads_no_more || self.is_over()
    }

    /// Whether poll(2) reports an error, or that nothing more can happen.
    fn is_over(&self) -> bool {
        let is_alone = self.is_stream() && self.peer.is_none() && self.listening.is_none();
        let has_ended = self.reads_no_more && self.sends_no_more;
        self.error.is_some() || has_ended || is_alone
    }

    /// Whether the peer sends no more, and whether this end does not either.
    pub(super) fn ends(&self) -> (bool, bool) {
        (self.reads_no_more, self.sends_no_more)
    }

    pub(super) fn take_error(&mut self) -> Option<i32> {
        self.error.take()
    }

    pub(super) fn queued(&self) -> usize {
        self.listening.as_ref().map_or(0, |listening| listening.queue.len())
    }
}

impl Network {
    fn unix(&self, number: u64) -> io::Result<&Unix> {
        match self.sockets.get(&number) {
            Some(Socket { kind: SocketKind::Unix(unix), .. }) => Ok(unix),
            _ => Err(refused(libc::EBADF)),
        }
    }

    fn unix_mut(&mut self, number: u64) -> io::Result<&mut Unix> {
        match self.sockets.get_mut(&number) {
            Some(Socket { kind: SocketKind::Unix(unix), .. }) => Ok(unix),
            _ => Err(refused(libc::EBADF)),
        }
    }

    fn host_of(&self, number: u64) -> usize {
        self.sockets.get(&number).map_or(0, |socket| socket.host)
    }

    pub(crate) fn open_unix(&mut self, host: usize, kind: UnixKind) -> io::Result<u64> {
        self.has_file_left(host)?;
        if let Some(error) = self.refusal(host, "socket", &NO_SOCKET) {
            return Err(refused(error));
        }
        Ok(self.insert(host, SocketKind::Unix(Unix::new(kind))))
    }

    pub(crate) fn pair_unix(&mut self, host: usize, kind: UnixKind) -> io::Result<[u64; 2]> {
        let one = self.open_unix(host, kind)?;
        let end = Unix::connected(one, SocketAddrUnix::new_unnamed(), kind);
        let other = self.insert(host, SocketKind::Unix(end));
        let peer = Peer { number: other, address: SocketAddrUnix::new_unnamed() };
        self.unix_mut(one)?.peer = Some(peer);
        Ok([one, other])
    }

    pub(crate) fn bind_unix(&mut self, number: u64, address: &SocketAddrUnix) -> io::Result<()> {
        let host = self.host_of(number);
        let own = self.unix(number)?;
        let (kind, is_bound) = (own.is_stream(), own.bound.is_some());
        let bound = match (address.path_bytes(), address.abstract_name()) {
            // As on Linux, a name that is there comes before a socket that has a name.
            (Some(path), _) => make_file(path, is_bound)?,
            (None, Some(name)) if !is_bound => {
                Bound { name: Name::Abstract(kind, name.to_vec()), _file: None }
            }
            (None, _) => return Err(refused(libc::EINVAL)),
        };
        let key = (host, bound.name.clone());
        if self.unix_names.contains_key(&key) {
            return Err(refused(libc::EADDRINUSE));
        }
        self.unix_names.insert(key, number);
        let own = self.unix_mut(number)?;
        (own.bound, own.address) = (Some(bound), address.clone());
        self.tell_name(number, address);
        self.tell(|net| format!("{} is bound to {address:?}", net.name(host)));
        Ok(())
    }

    /// Peers of a socket, and receivers of its datagrams, see its new name.
    fn tell_name(&mut self, number: u64, address: &SocketAddrUnix) {
        for socket in self.sockets.values_mut() {
            let SocketKind::Unix(unix) = &mut socket.kind else { continue };
            let senders = unix.datagrams.iter_mut().map(|datagram| &mut datagram.from);
            for peer in senders.chain(&mut unix.peer).filter(|peer| peer.number == number) {
                peer.address = address.clone();
            }
        }
    }

    pub(crate) fn listen_unix(&mut self, number: u64, backlog: i32) -> io::Result<()> {
        let own = self.unix_mut(number)?;
        if !own.is_stream() {
            return Err(refused(libc::EOPNOTSUPP));
        }
        if own.bound.is_none() || own.peer.is_some() {
            return Err(refused(libc::EINVAL));
        }
        let backlog = usize::try_from(backlog).unwrap_or(usize::MAX);
        let none = Listening { backlog, queue: VecDeque::new() };
        own.listening.get_or_insert(none).backlog = backlog;
        Ok(())
    }

    /// The socket at an address, as connect(2) and sendto(2) find it.
    fn unix_at(&self, from: u64, address: &SocketAddrUnix) -> io::Result<u64> {
        let name = match (address.path_bytes(), address.abstract_name()) {
            (Some(path), _) => find_file(path)?,
            (None, Some(name)) => Name::Abstract(self.unix(from)?.is_stream(), name.to_vec()),
            (None, None) => return Err(refused(libc::EINVAL)),
        };
        let found = self.unix_names.get(&(self.host_of(from), name)).copied();
        let number = found.ok_or_else(|| refused(libc::ECONNREFUSED))?;
        match self.unix(number)?.kind == self.unix(from)?.kind {
            true => Ok(number),
            false => Err(refused(libc::EPROTOTYPE)),
        }
    }

    pub(crate) fn connect_unix(&mut self, number: u64, address: &SocketAddrUnix) -> io::Result<()> {
        if !self.unix(number)?.is_stream() {
            return self.connect_unix_datagrams(number, address);
        }
        let at = self.unix_at(number, address)?;
        let listener = self.unix(at)?;
        let its_address = listener.address.clone();
        match &listener.listening {
            Some(listening) if !listener.reads_no_more => {
                if listening.queue.len() > listening.backlog {
                    return Err(refused(libc::EAGAIN));
                }
            }
            _ => return Err(refused(libc::ECONNREFUSED)),
        }
        let own = self.unix(number)?;
        if own.peer.is_some() {
            return Err(refused(libc::EISCONN));
        }
        if own.listening.is_some() {
            return Err(refused(libc::EINVAL));
        }
        let own_address = own.address.clone();
        let host = self.host_of(number);
        let mut end = Unix::connected(number, own_address, UnixKind::Stream);
        end.address = its_address.clone();
        let end = self.insert(host, SocketKind::Unix(end));
        self.unix_mut(number)?.peer = Some(Peer { number: end, address: its_address });
        if let Some(listening) = &mut self.unix_mut(at)?.listening {
            listening.queue.push_back(end);
        }
        self.counts.connections += 1;
        self.decisions.note(number ^ (end << 32));
        self.tell(|net| format!("{} connects to {address:?}", net.name(host)));
        self.look(number);
        self.look(at);
        Ok(())
    }

    pub(super) fn accept_unix(&mut self, number: u64) -> io::Result<u64> {
        let host = self.host_of(number);
        self.interrupt()?;
        let own = self.unix(number)?;
        if !own.is_stream() {
            return Err(refused(libc::EOPNOTSUPP));
        }
        if own.listening.is_none() {
            return Err(refused(libc::EINVAL));
        }
        if own.queued() == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.has_file_left(host)?;
        if let Some(error) = self.refusal(host, "accept", &NO_SOCKET) {
            return Err(refused(error));
        }
        let listening = self.unix_mut(number)?.listening.as_mut();
        let first = listening.and_then(|listening| listening.queue.pop_front());
        first.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    pub(super) fn unix_has_room(&self, number: u64) -> bool {
        let Ok(own) = self.unix(number) else { return true };
        if own.is_over() {
            return true;
        }
        // Linux says so even of a listener that was shut down for writing before.
        if own.listening.is_some() {
            return false;
        }
        if own.sends_no_more {
            return true;
        }
        if own.is_stream() {
            return own.outstanding < self.profile.window;
        }
        let peer = own.peer_number().filter(|peer| *peer != number);
        !peer.is_some_and(|peer| self.is_crowded(peer, number))
    }

    /// The last descriptor has been closed.
    pub(super) fn close_unix(&mut self, number: u64) {
        let Some(mut own) = self.remove_unix(number) else { return };
        for waiting in own.listening.take().into_iter().flat_map(|listening| listening.queue) {
            let Some(waiting) = self.remove_unix(waiting) else { continue };
            self.part(&waiting, true);
        }
        match own.kind {
            UnixKind::Stream => self.part(&own, !own.bytes.is_empty()),
            UnixKind::Datagrams => self.look_at_senders(number),
        }
    }

    /// An end is gone: its peer learns so.
    fn part(&mut self, gone: &Unix, is_reset: bool) {
        let Some(number) = gone.peer_number() else { return };
        let Ok(peer) = self.unix_mut(number) else { return };
        (peer.reads_no_more, peer.sends_no_more) = (true, true);
        if is_reset {
            peer.error = Some(libc::ECONNRESET);
            self.counts.resets += 1;
        }
        self.look(number);
    }

    /// Takes a socket out, without a word.
    pub(super) fn remove_unix(&mut self, number: u64) -> Option<Unix> {
        let host = self.host_of(number);
        self.unix(number).ok()?;
        let SocketKind::Unix(own) = self.sockets.remove(&number)?.kind else { return None };
        if let Some(bound) = &own.bound {
            self.unix_names.remove(&(host, bound.name.clone()));
        }
        Some(own)
    }

    pub(crate) fn unix_addresses(
        &self,
        number: u64,
    ) -> Option<(SocketAddrUnix, Option<SocketAddrUnix>)> {
        let own = self.unix(number).ok()?;
        Some((own.address.clone(), own.peer.as_ref().map(|peer| peer.address.clone())))
    }
}

/// Makes the file of a socket. A socket that `is_bound` already only finds out whether it could.
fn make_file(path: &[u8], is_bound: bool) -> io::Result<Bound> {
    let mode = Mode::from_raw_mode(0o777);
    match mknodat(CWD, path, FileType::Socket, mode, 0) {
        Err(Errno::EXIST) => return Err(refused(libc::EADDRINUSE)),
        made => made?,
    }
    if is_bound {
        unlink(path)?;
        return Err(refused(libc::EINVAL));
    }
    let file = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let status = fstat(&file)?;
    Ok(Bound { name: Name::File(status.st_dev, status.st_ino), _file: Some(file) })
}

/// The file of a socket that may be written.
fn find_file(path: &[u8]) -> io::Result<Name> {
    access(path, Access::WRITE_OK)?;
    let status = stat(path)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Socket => Ok(Name::File(status.st_dev, status.st_ino)),
        _ => Err(refused(libc::ECONNREFUSED)),
    }
}
