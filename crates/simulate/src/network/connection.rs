//! Connections: their two ends, and the packets between them.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::net::SocketAddr;

use super::{Network, Socket, SocketKind};

/// The first pause before a packet is sent again. Each further pause is twice as long, up to
/// [`LONGEST`] (tcp(7)).
const AGAIN: u64 = 200_000_000;
const LONGEST: u64 = 120_000_000_000;
/// How often a packet is sent again (`tcp_retries2`, `tcp_syn_retries`).
const TRIES: u32 = 15;
const SYN_TRIES: u32 = 6;

pub(super) enum Packet {
    Syn,
    SynAck,
    Refused,
    Data(Vec<u8>),
    /// The peer has taken so many bytes.
    Taken(usize),
    End,
    Reset,
}

impl Packet {
    fn name(&self) -> String {
        match self {
            Self::Syn => "SYN".into(),
            Self::SynAck => "SYN+ACK".into(),
            Self::Refused => "RST: no one listens".into(),
            Self::Data(bytes) => {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
                format!("{} bytes  {text:?}", bytes.len())
            }
            Self::Taken(count) => format!("{count} bytes are read"),
            Self::End => "FIN".into(),
            Self::Reset => "RST".into(),
        }
    }
}

/// One end of a connection.
pub(super) struct Connection {
    pub(super) peer: u64,
    pub(super) peer_host: usize,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) is_open: bool,
    pub(super) received: VecDeque<u8>,
    /// The peer sends no more.
    pub(super) has_ended: bool,
    /// This end sends no more.
    pub(super) has_sent_end: bool,
    /// This end reads no more.
    pub(super) reads_no_more: bool,
    /// The error that the next call gets.
    pub(super) error: Option<i32>,
    /// The connection is gone: reads find the end, writes fail.
    pub(super) is_broken: bool,
    /// Bytes sent that the peer has not read.
    pub(super) outstanding: usize,
    /// Since when the peer has taken nothing of them.
    pub(super) outstanding_since: u64,
    /// Its close is a reset.
    pub(super) breaks_off: bool,
    /// How long the peer may take nothing.
    pub(super) taking_limit: Option<u64>,
    /// No descriptor is left.
    pub(super) is_closed: bool,
    /// The host has crashed since.
    pub(super) is_lost: bool,
    /// When bytes last came, and when bytes were last sent: at first the time of the connection.
    pub(super) last_received: u64,
    pub(super) last_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) packets_sent: u32,
    /// Packets on their way to this end, in order: the time of arrival, and how often it has been
    /// sent again.
    wire: VecDeque<(u64, u32, Packet)>,
}

impl Connection {
    fn new(
        now: u64,
        (peer, peer_host): (u64, usize),
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Self {
        Self {
            peer,
            peer_host,
            local,
            remote,
            is_open: false,
            received: VecDeque::new(),
            has_ended: false,
            has_sent_end: false,
            reads_no_more: false,
            error: None,
            is_broken: false,
            outstanding: 0,
            outstanding_since: 0,
            breaks_off: false,
            taking_limit: None,
            is_closed: false,
            is_lost: false,
            last_received: now,
            last_sent: now,
            bytes_received: 0,
            packets_sent: 0,
            wire: VecDeque::new(),
        }
    }

    pub(super) fn has_input(&self) -> bool {
        !self.received.is_empty()
            || self.has_ended
            || self.reads_no_more
            || self.is_broken
            || self.error.is_some()
    }

    pub(super) fn has_room(&self, window: usize) -> bool {
        self.error.is_some() || self.is_broken || (self.is_open && self.outstanding < window)
    }

    /// Whether bytes are on their way to this end.
    pub(super) fn awaits_bytes(&self) -> bool {
        self.wire.iter().any(|(.., packet)| matches!(packet, Packet::Data(_)))
    }

    fn is_gone(&self) -> bool {
        self.is_closed || self.is_lost
    }
}

impl Network {
    /// The two ends of a new connection: the client's number.
    pub(super) fn begin(
        &mut self,
        from: usize,
        local: SocketAddr,
        to: usize,
        remote: SocketAddr,
    ) -> u64 {
        let (client, server) = (self.next_socket + 1, self.next_socket + 2);
        let of_client = Connection::new(self.now, (server, to), local, remote);
        let of_server = Connection::new(self.now, (client, from), remote, local);
        self.insert(from, SocketKind::Connection(of_client));
        self.insert(to, SocketKind::Connection(of_server));
        self.send_packet(server, Packet::Syn);
        client
    }

    /// Sends a packet to an end, from its peer.
    pub(super) fn send_packet(&mut self, to: u64, packet: Packet) {
        let Some(end) = self.connection(to) else { return };
        let before = end.wire.back().map_or(0, |(time, ..)| *time);
        if !self.hosts[end.peer_host].is_up {
            return; // Nothing that its destructors send leaves a host that has crashed.
        }
        let from = end.peer_host;
        let host = self.sockets.get(&to).map_or(from, |socket| socket.host);
        let latency = self.draw_latency(from, host);
        let sent = self.carried(from, host, &packet);
        let time = (sent + latency).max(before);
        let Some(end) = self.connection_mut(to) else { return };
        end.wire.push_back((time, 0, packet));
        if end.wire.len() == 1 {
            self.schedule(to, time);
        }
    }

    /// When the link between two hosts has carried the packet.
    fn carried(&mut self, from: usize, host: usize, packet: &Packet) -> u64 {
        let Packet::Data(bytes) = packet else { return self.now };
        if self.profile.bandwidth == 0 || host == from {
            return self.now;
        }
        let takes = bytes.len() as u64 * 1_000_000_000 / self.profile.bandwidth;
        let now = self.now;
        let busy = self.busy.entry((from, host)).or_default();
        self.counts.queued += u64::from(*busy > now);
        *busy = (*busy).max(now) + takes;
        *busy
    }

    pub(super) fn schedule(&mut self, to: u64, time: u64) {
        self.next_arrival += 1;
        self.arrivals.push(Reverse((time, self.next_arrival, to)));
    }

    pub(crate) fn next_arrival(&self) -> Option<u64> {
        let arrival = self.arrivals.peek().map(|Reverse((time, ..))| *time);
        let look = self.looks.peek().map(|Reverse((time, _))| *time);
        let datagram = self.flying.keys().next().map(|(time, _)| *time);
        [arrival, look, datagram].into_iter().flatten().min()
    }

    /// Looks whether a peer takes nothing for too long (`TCP_USER_TIMEOUT`).
    fn look_at_peers(&mut self) {
        while let Some(Reverse((time, number))) = self.looks.peek().copied()
            && time <= self.now
        {
            self.looks.pop();
            let (now, window) = (self.now, self.profile.window);
            let Some(end) = self.connection(number) else { continue };
            let Some(limit) = end.taking_limit.filter(|_| end.outstanding >= window) else {
                continue;
            };
            match now.saturating_sub(end.outstanding_since) >= limit {
                true => {
                    self.counts.timeouts += 1;
                    self.fail(number, libc::ETIMEDOUT);
                }
                false => {
                    let at = end.outstanding_since + limit;
                    self.looks.push(Reverse((at, number)));
                }
            }
        }
    }

    /// Has the packets arrive that are due.
    pub(crate) fn deliver(&mut self) {
        while let Some(Reverse((time, _, to))) = self.arrivals.peek().copied()
            && time <= self.now
        {
            self.arrivals.pop();
            self.deliver_to(to);
        }
        self.deliver_datagrams();
        self.look_at_peers();
    }

    fn deliver_to(&mut self, to: u64) {
        let Some(Socket { host, .. }) = self.sockets.get(&to) else { return };
        let host = *host;
        let Some(end) = self.connection(to) else { return };
        let Some((_, tries, packet)) = end.wire.front() else { return };
        let is_syn = matches!(packet, Packet::Syn);
        let (tries, peer, from) = (tries + 1, end.peer, end.peer_host);
        if self.holds_wire(from, host, to) {
            return;
        }
        let Some(end) = self.connection(to) else { return };
        let is_full = is_syn && self.is_full(end.local);
        if self.is_cut(from, host) || !self.hosts[host].is_up || is_full {
            let pause = ((if is_syn { 5 * AGAIN } else { AGAIN }) << tries.min(10)).min(LONGEST);
            let time = self.now + pause;
            let limit = self.connection(peer).and_then(|end| end.taking_limit);
            let since = self.connection(peer).map_or(0, |end| end.outstanding_since);
            let is_late = limit.is_some_and(|limit| self.now.saturating_sub(since) >= limit);
            if tries > if is_syn { SYN_TRIES } else { TRIES } || is_late {
                self.give_up(to, peer);
                return;
            }
            self.counts.again += 1;
            let Some(end) = self.connection_mut(to) else { return };
            if let Some((at, count, _)) = end.wire.front_mut() {
                (*at, *count) = (time, tries);
            }
            self.schedule(to, time);
            return;
        }
        let now = self.now;
        let Some(end) = self.connection_mut(to) else { return };
        let Some((_, _, packet)) = end.wire.pop_front() else { return };
        if let Some((time, ..)) = end.wire.front() {
            let time = (*time).max(now);
            self.schedule(to, time);
        }
        self.arrive(to, peer, packet);
        self.clean_up(to);
    }

    fn is_full(&self, address: SocketAddr) -> bool {
        let listener = self.listeners.get(&address).and_then(|number| self.sockets.get(number));
        match listener.map(|socket| &socket.kind) {
            Some(SocketKind::Listener(listener)) => listener.queue.len() >= listener.backlog,
            _ => false,
        }
    }

    /// The sender's kernel gives up: the packets to this end never arrive.
    fn give_up(&mut self, to: u64, sender: u64) {
        self.counts.timeouts += 1;
        self.tell(|net| net.line(to, "is lost for good"));
        if let Some(end) = self.connection_mut(to) {
            end.wire.clear();
        }
        self.fail(sender, libc::ETIMEDOUT);
    }

    pub(super) fn fail(&mut self, number: u64, error: i32) {
        if let Some(end) = self.connection_mut(number)
            && !end.is_broken
        {
            end.error = Some(error);
            end.is_broken = true;
            self.look(number);
        }
    }

    fn line(&self, to: u64, what: &str) -> String {
        let (Some(socket), Some(end)) = (self.sockets.get(&to), self.connection(to)) else {
            return what.to_owned();
        };
        let (from, port) = (self.name(end.peer_host), end.remote.port().max(end.local.port()));
        format!("{from} → {}  [{port}] {what}", self.name(socket.host))
    }

    fn arrive(&mut self, to: u64, peer: u64, packet: Packet) {
        self.counts.packets += 1;
        self.decisions.note(self.now ^ (to << 40));
        if let Packet::Data(bytes) = &packet {
            self.decisions.note_bytes(bytes);
        }
        if !matches!(packet, Packet::Taken(_)) {
            self.tell(|net| net.line(to, &packet.name()));
        }
        let now = self.now;
        let Some(end) = self.connection_mut(to) else { return };
        if end.is_lost && !matches!(packet, Packet::Reset | Packet::Refused) {
            return self.send_packet(peer, Packet::Reset);
        }
        match packet {
            Packet::Syn => return self.syn(to, peer),
            Packet::SynAck => end.is_open = true,
            Packet::Refused => return self.fail(to, libc::ECONNREFUSED),
            Packet::Data(_) if end.is_closed || end.reads_no_more && end.is_broken => {
                return self.send_packet(peer, Packet::Reset);
            }
            Packet::Data(bytes) => {
                end.last_received = now;
                end.bytes_received += bytes.len() as u64;
                end.received.extend(bytes);
            }
            Packet::Taken(count) => {
                end.outstanding = end.outstanding.saturating_sub(count);
                end.outstanding_since = now;
            }
            Packet::End => end.has_ended = true,
            Packet::Reset => {
                self.counts.resets += 1;
                let sent_all =
                    self.connection(to).is_some_and(|end| end.has_ended && end.has_sent_end);
                if !sent_all {
                    let is_open = self.connection(to).is_some_and(|end| end.is_open);
                    let error = if is_open { libc::ECONNRESET } else { libc::ECONNREFUSED };
                    self.fail(to, error);
                }
            }
        }
        self.look(to);
    }

    fn syn(&mut self, to: u64, peer: u64) {
        let Some(Socket { host, .. }) = self.sockets.get(&to) else { return };
        let host = *host;
        let Some(end) = self.connection_mut(to) else { return };
        end.is_open = true;
        let (local, is_loopback) = (end.local, end.peer_host == host);
        let listener = self.listeners.get(&local).copied();
        match listener.and_then(|number| self.listener_mut(number)) {
            Some(listening) if is_loopback || !listening.is_local => {
                listening.queue.push_back(to);
                self.counts.connections += 1;
                self.send_packet(peer, Packet::SynAck);
                self.look(listener.unwrap_or(0));
            }
            _ => {
                self.send_packet(peer, Packet::Refused);
                self.lose(to);
            }
        }
    }

    /// The network resets a connection, for both ends.
    pub(super) fn reset(&mut self, number: u64) {
        let Some(end) = self.connection(number) else { return };
        let peer = end.peer;
        self.tell(|net| net.line(number, "is reset by the network"));
        self.send_packet(peer, Packet::Reset);
        self.send_packet(number, Packet::Reset);
    }

    /// The last descriptor of a connection has been closed.
    pub(super) fn close_connection(&mut self, number: u64) {
        let Some(end) = self.connection_mut(number) else { return };
        end.is_closed = true;
        let peer = end.peer;
        let is_reset = !end.received.is_empty() || end.breaks_off;
        let was_ended = end.has_sent_end || end.is_broken;
        if is_reset && !end.is_broken {
            self.send_packet(peer, Packet::Reset);
        } else if !was_ended {
            self.send_packet(peer, Packet::End);
        }
        self.clean_up(number);
    }

    /// The socket is gone, without a word.
    pub(super) fn lose(&mut self, number: u64) {
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        for file in std::mem::take(&mut socket.files) {
            self.files.remove(&file.descriptor);
        }
        match &mut socket.kind {
            SocketKind::Connection(end) => {
                end.is_lost = true;
                self.clean_up(number);
            }
            SocketKind::Listener(listener) => {
                let address = listener.address;
                self.listeners.remove(&address);
                self.sockets.remove(&number);
            }
            SocketKind::Datagrams(datagrams) => {
                let address = datagrams.local;
                self.bound.remove(&address);
                self.sockets.remove(&number);
            }
            SocketKind::Unix(_) => _ = self.remove_unix(number),
        }
    }

    /// Forgets a connection of which both ends are gone and nothing is under way.
    fn clean_up(&mut self, number: u64) {
        let Some(end) = self.connection(number) else { return };
        let peer = end.peer;
        let is_over = end.is_gone() && (end.is_lost || end.wire.is_empty());
        let peer_is_over = self
            .connection(peer)
            .is_none_or(|end| end.is_gone() && (end.is_lost || end.wire.is_empty()));
        if is_over && peer_is_over {
            self.sockets.remove(&number);
            self.sockets.remove(&peer);
        }
    }
}
