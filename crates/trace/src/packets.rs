//! Makes a trace from the headers of packets, from a capture or live.

use std::net::IpAddr;
use std::time::Duration;

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};

use crate::classes::Classes;
use crate::flows::{Flows, Segment};
use crate::gather::{MOST, assemble, size_warnings};
use crate::recorder::turns;
use crate::trace::{Head, Inferred, Sizes, Trace};

/// The header in front of a packet of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The header of Ethernet.
    Ethernet,
    /// Nothing.
    Ip,
    /// The four bytes of a loopback link of BSD.
    Loopback,
    /// The header of Linux cooked captures, and of newer ones.
    Cooked,
    /// See [`Cooked`](Link::Cooked).
    Cooked2,
    /// An unknown header.
    Other,
}

/// Packets that become a trace. No payload is read, and none is kept.
pub struct Packets {
    classes: Classes,
    flows: Flows,
}

impl Packets {
    /// Counts connections to `port`, or else to the port with the most connections. Larger replies
    /// count as `max_size` bytes.
    #[must_use]
    pub fn new(port: Option<u16>, max_size: u64) -> Self {
        Self { classes: Classes::new(false, max_size), flows: Flows::new(port) }
    }

    /// Adds a packet: its captured bytes, its whole `length` in bytes, and the time at which it
    /// passed, in microseconds since 1970.
    ///
    /// # Errors
    ///
    /// The packet is left out: it is no TCP, or its headers were cut off.
    pub fn add(
        &mut self,
        link: Link,
        data: &[u8],
        length: u32,
        time: i64,
    ) -> Result<(), &'static str> {
        self.flows.add(&segment(link, data, length, time)?, &mut self.classes);
        Ok(())
    }

    /// Whether a trace can have no more requests.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.classes.requests > MOST
    }

    /// The trace; `None` without a request.
    #[must_use]
    pub fn finish(mut self, source: &str, max_size: u64) -> Option<Trace> {
        let (has_tls, headless) = (self.flows.has_tls, self.flows.headless);
        let (opened, others, last) = self.flows.finish(&mut self.classes);
        let mut warnings: Vec<String> = size_warnings(&self.classes, max_size).collect();
        if others > 0 {
            warnings
                .push(format!("connections to other ports, which are left out (--port): {others}"));
        }
        if headless > 0 {
            warnings.push(format!("connections that began before the capture: {headless}"));
        }
        let head = Head {
            source: source.to_owned(),
            sizes: Sizes::Wire,
            resolution: Duration::from_micros(1),
            inferred: inferred(has_tls),
            warnings,
            ..Head::default()
        };
        assemble(head, self.classes, opened, last)
    }
}

/// The figures that a capture lacks.
fn inferred(has_tls: bool) -> Vec<Inferred> {
    let tls = has_tls.then(|| Inferred {
        what: "TLS".to_owned(),
        value: "the first turn is the handshake".to_owned(),
        why: "the port is that of https".to_owned(),
    });
    [turns()].into_iter().chain(tls).collect()
}

/// The header of a packet's segment, or why it has none. `length` is that of the packet before it
/// was cut.
fn segment(link: Link, data: &[u8], length: u32, time: i64) -> Result<Segment, &'static str> {
    let rest = |skip: usize| data.get(skip..).ok_or("cut off within the link's header");
    let packet = match link {
        Link::Ethernet => LaxSlicedPacket::from_ethernet(data).ok(),
        Link::Ip => LaxSlicedPacket::from_ip(data).ok(),
        Link::Loopback => LaxSlicedPacket::from_ip(rest(4)?).ok(),
        Link::Cooked => of_type(data.get(14..16), rest(16)?),
        Link::Cooked2 => of_type(data.get(..2), rest(20)?),
        Link::Other => return Err("of a link that is not Ethernet, IP, Linux cooked or loopback"),
    };
    let packet = packet.ok_or("cut off within a header")?;
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return Err("no TCP") };
    // Bytes that were cut off are no payload, and neither is the padding of a short Ethernet frame.
    let cut = (length as usize).saturating_sub(data.len());
    let (from, to, bytes) = match packet.net.as_ref().ok_or("no IP")? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let length = usize::from(header.total_len()).checked_sub(header.slice().len());
            let ends = [header.source_addr(), header.destination_addr()].map(IpAddr::V4);
            // An offloading network card leaves the length of a long packet at zero.
            let bytes = length.unwrap_or_else(|| ip.payload().payload.len() + cut);
            (ends[0], ends[1], bytes)
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let extensions = ip.extensions().slice().len();
            let length = usize::from(header.payload_length()).checked_sub(extensions);
            let ends = [header.source_addr(), header.destination_addr()].map(IpAddr::V6);
            let bytes = length.filter(|length| *length > 0);
            (ends[0], ends[1], bytes.unwrap_or_else(|| ip.payload().payload.len() + cut))
        }
        _ => return Err("no IP"),
    };
    let bytes = bytes.saturating_sub(tcp.header_slice().len());
    Ok(Segment {
        time,
        from: (from, tcp.source_port()),
        to: (to, tcp.destination_port()),
        sequence: tcp.sequence_number(),
        is_syn: tcp.syn(),
        is_ack: tcp.ack(),
        is_fin: tcp.fin(),
        is_rst: tcp.rst(),
        bytes: u32::try_from(bytes).unwrap_or(u32::MAX).min(1 << 30),
    })
}

/// A packet with its type in two bytes of the link's header.
fn of_type<'p>(kind: Option<&[u8]>, packet: &'p [u8]) -> Option<LaxSlicedPacket<'p>> {
    let kind = u16::from_be_bytes(*kind?.first_chunk()?);
    Some(LaxSlicedPacket::from_ether_type(EtherType(kind), packet))
}
