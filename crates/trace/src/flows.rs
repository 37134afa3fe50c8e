//! Makes connections from TCP segments, by their headers alone. So TLS is no hindrance, and no
//! payload is read.
//!
//! ```text
//!   SYN ─► a flow begins ─► bytes by their sequence numbers, each counted once ─► FIN, RST: it ends
//! ```
//!
//! The end that sends SYN is the client. If a connection began before the capture, its server is
//! the end with the lower port.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::classes::Classes;
use crate::sessions::Opened;
use crate::turns::Turns;

/// The silence, in microseconds, after which a flow is over.
const SILENT: i64 = 3_600_000_000;
/// The number of segments after which silent flows are ended.
const SWEEP: u64 = 1 << 18;
/// Servers on these ports speak TLS. The first turn of TLS is a handshake.
const TLS: [u16; 2] = [443, 8443];

/// The header of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// Microseconds since 1970.
    pub(crate) time: i64,
    pub(crate) from: (IpAddr, u16),
    pub(crate) to: (IpAddr, u16),
    pub(crate) sequence: u32,
    pub(crate) is_syn: bool,
    pub(crate) is_ack: bool,
    pub(crate) is_fin: bool,
    pub(crate) is_rst: bool,
    /// Bytes of payload.
    pub(crate) bytes: u32,
}

/// A client and a server.
type Ends = [(IpAddr, u16); 2];

/// A connection under observation.
struct Flow {
    turns: Turns,
    /// The next sequence number of the client, and of the server.
    next: [Option<u32>; 2],
    /// Which ends sent FIN, and when the first FIN came.
    is_closed: [bool; 2],
    closed: Option<i64>,
    last: i64,
}

/// Connections from segments.
#[derive(Default)]
pub(crate) struct Flows {
    /// The only port that counts, if there is one.
    port: Option<u16>,
    flows: HashMap<Ends, Flow>,
    /// Connections that ended, with the port of their server.
    ended: Vec<(u16, Opened)>,
    segments: u64,
    /// When the last segment came.
    last: i64,
    /// Connections that began before the capture.
    pub(crate) headless: u64,
    /// Whether a handshake was left out.
    pub(crate) has_tls: bool,
}

impl Flows {
    /// Only connections to `port` count, if it is given.
    pub(crate) fn new(port: Option<u16>) -> Self {
        Self { port, ..Self::default() }
    }

    /// Adds a segment.
    pub(crate) fn add(&mut self, segment: &Segment, classes: &mut Classes) {
        let ports = [segment.from.1, segment.to.1];
        if self.port.is_some_and(|port| !ports.contains(&port)) {
            return;
        }
        self.segments += 1;
        self.last = self.last.max(segment.time);
        if self.segments.is_multiple_of(SWEEP) {
            self.sweep(classes);
        }
        let Some((ends, is_client)) = self.ends(segment, classes) else { return };
        let Some(flow) = self.flows.get_mut(&ends) else { return };
        flow.add(segment, usize::from(!is_client), classes);
        if segment.is_rst || flow.is_closed == [true; 2] {
            self.end(ends, segment.time, classes);
        }
    }

    /// All connections to the port with the most connections, the number of connections to other
    /// ports, and the time of the last segment.
    pub(crate) fn finish(mut self, classes: &mut Classes) -> (Vec<Opened>, usize, i64) {
        let rest: Vec<Ends> = self.flows.keys().copied().collect();
        for ends in rest {
            self.end(ends, self.last, classes);
        }
        let mut counts: HashMap<u16, usize> = HashMap::new();
        for (port, _) in &self.ended {
            *counts.entry(*port).or_default() += 1;
        }
        let busiest = counts.iter().max_by_key(|(port, count)| (**count, **port));
        let port = self.port.or(busiest.map(|(port, _)| *port)).unwrap_or_default();
        let all = self.ended.len();
        let opened: Vec<Opened> = self
            .ended
            .into_iter()
            .filter(|(to, _)| *to == port)
            .map(|(_, opened)| opened)
            .collect();
        let others = all - opened.len();
        (opened, others, self.last)
    }

    /// The flow that a segment belongs to, and whether its client sent it. Begins one for a SYN, or
    /// for bytes of a connection that is not known.
    fn ends(&mut self, segment: &Segment, classes: &mut Classes) -> Option<(Ends, bool)> {
        let (forth, back) = ([segment.from, segment.to], [segment.to, segment.from]);
        if segment.is_syn && !segment.is_ack {
            let is_repeated = self
                .flows
                .get(&forth)
                .is_some_and(|flow| flow.next[0] == Some(segment.sequence.wrapping_add(1)));
            if !is_repeated {
                // The ports of an earlier connection are used again.
                self.end(forth, segment.time, classes);
                self.begin(forth, segment.time);
            }
            return Some((forth, true));
        }
        if self.flows.contains_key(&forth) {
            return Some((forth, true));
        }
        if self.flows.contains_key(&back) {
            return Some((back, false));
        }
        if segment.bytes == 0 || segment.is_fin || segment.is_rst {
            return None;
        }
        self.headless += 1;
        let is_client = match self.port {
            Some(port) => segment.to.1 == port,
            None => segment.to.1 <= segment.from.1,
        };
        let ends = if is_client { forth } else { back };
        self.begin(ends, segment.time);
        Some((ends, is_client))
    }

    fn begin(&mut self, ends: Ends, time: i64) {
        let is_tls = TLS.contains(&ends[1].1);
        self.has_tls |= is_tls;
        let turns = Turns::new(u32::from(is_tls));
        let flow = Flow { turns, next: [None; 2], is_closed: [false; 2], closed: None, last: time };
        self.flows.insert(ends, flow);
    }

    fn end(&mut self, ends: Ends, time: i64, classes: &mut Classes) {
        let Some(flow) = self.flows.remove(&ends) else { return };
        if let Some(opened) = flow.turns.close(flow.closed.unwrap_or(time), classes) {
            self.ended.push((ends[1].1, opened));
        }
    }

    /// Ends flows that have been silent for long: their ends were lost.
    fn sweep(&mut self, classes: &mut Classes) {
        let is_silent = |flow: &Flow| self.last.saturating_sub(flow.last) > SILENT;
        let silent: Vec<(Ends, i64)> = self
            .flows
            .iter()
            .filter(|(_, flow)| is_silent(flow))
            .map(|(ends, flow)| (*ends, flow.last))
            .collect();
        for (ends, last) in silent {
            self.end(ends, last, classes);
        }
    }
}

impl Flow {
    /// Adds a segment of the client, 0, or the server, 1.
    fn add(&mut self, segment: &Segment, end: usize, classes: &mut Classes) {
        self.last = segment.time;
        if segment.is_rst {
            // Its sequence number may be anything.
            return;
        }
        // A SYN takes a sequence number of its own.
        let begin = segment.sequence.wrapping_add(u32::from(segment.is_syn));
        let after = begin.wrapping_add(segment.bytes);
        // Not more than nothing: they were seen before.
        let fresh = after.wrapping_sub(self.next[end].unwrap_or(begin)) as i32;
        if self.next[end].is_none() || fresh > 0 {
            self.next[end] = Some(after);
        }
        if let Ok(bytes @ 1..) = u64::try_from(fresh) {
            match end {
                0 => self.turns.client(segment.time, bytes, classes),
                _ => self.turns.server(segment.time, bytes),
            }
        }
        if segment.is_fin {
            self.is_closed[end] = true;
            self.closed.get_or_insert(segment.time);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const CLIENT: u8 = 1;
    const SERVER: u8 = 2;

    /// A segment between port 50000 of the client and port 80 of the server.
    fn segment(from: u8, time: i64, sequence: u32, bytes: u32) -> Segment {
        let end = |number: u8| {
            let port = if number == SERVER { 80 } else { 50_000 };
            (IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)), port)
        };
        let to = if from == CLIENT { SERVER } else { CLIENT };
        Segment {
            time,
            from: end(from),
            to: end(to),
            sequence,
            is_syn: false,
            is_ack: true,
            is_fin: false,
            is_rst: false,
            bytes,
        }
    }

    fn opened(segments: &[Segment]) -> Vec<Opened> {
        let (mut flows, mut classes) = (Flows::new(None), Classes::new(false, 1 << 20));
        segments.iter().for_each(|segment| flows.add(segment, &mut classes));
        flows.finish(&mut classes).0
    }

    fn two_requests() -> Vec<Segment> {
        let syn = |segment| Segment { is_syn: true, ..segment };
        let fin = |segment| Segment { is_fin: true, ..segment };
        vec![
            Segment { is_ack: false, ..syn(segment(CLIENT, 0, u32::MAX - 50, 0)) },
            syn(segment(SERVER, 10, 1000, 0)),
            // The numbers of the client pass their end.
            segment(CLIENT, 20, u32::MAX - 49, 100),
            segment(SERVER, 30, 1001, 500),
            segment(SERVER, 40, 1501, 500),
            segment(CLIENT, 100, 50, 100),
            segment(SERVER, 130, 2001, 1000),
            fin(segment(SERVER, 230, 3001, 0)),
            fin(segment(CLIENT, 240, 150, 0)),
            // A late acknowledgement begins no connection.
            segment(SERVER, 250, 3002, 0),
        ]
    }

    #[test]
    fn segments_become_requests() {
        let opened = opened(&two_requests());
        assert_eq!(opened.len(), 1);
        let connection = &opened[0].connection;
        let thinks: Vec<u128> =
            connection.steps.iter().map(|step| step.think.as_micros()).collect();
        assert_eq!((opened[0].start, thinks), (20, vec![0, 60]));
        assert_eq!(connection.open_after.as_micros(), 100);
        assert_eq!(connection.steps[0].class, connection.steps[1].class);
    }

    #[test]
    fn segments_that_come_twice_count_once() {
        let mut segments = two_requests();
        for place in [8, 6, 4, 2, 0] {
            segments.insert(place + 1, segments[place]);
        }
        let (once, twice) = (opened(&two_requests()), opened(&segments));
        assert_eq!(twice.len(), 1);
        assert_eq!(once[0].connection, twice[0].connection);
    }

    #[test]
    fn a_connection_from_before_has_its_server_at_the_lower_port() {
        let late = two_requests().split_off(4);
        let opened = opened(&late);
        assert_eq!((opened.len(), opened[0].connection.steps.len()), (1, 1));
    }

    #[test]
    fn connections_to_other_servers_do_not_count() {
        let mut segments = two_requests();
        let mut other = segments[5];
        other.to.1 = 22;
        other.from.1 = 40_000;
        segments.push(other);
        assert_eq!(opened(&segments).len(), 1);
    }
}
