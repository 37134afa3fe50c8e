//! Captures of packets, as tcpdump writes them: pcap and pcapng, of Ethernet, raw IP, Linux cooked
//! and loopback links. Only headers are looked at, so `tcpdump -s 128` captures enough.

use std::io::BufRead;
use std::net::IpAddr;
use std::time::Duration;

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, LegacyPcapReader, Linktype, PcapBlockOwned, PcapError, PcapNGReader};

use super::{Error, Input, Rejected};
use crate::classes::Classes;
use crate::flows::{Flows, Segment};
use crate::gather::{MOST, Rules, assemble, size_warnings};
use crate::recorder::turns;
use crate::trace::{Head, Inferred, Sizes, Trace};

/// The first bytes of pcap, of microseconds and of nanoseconds, in either byte order; of pcapng.
const MAGIC: [[u8; 4]; 5] = [
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    PCAPNG,
];
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The reader's buffer, in bytes: larger than any packet.
const BUFFER: usize = 1 << 20;
/// Most interfaces of a pcapng.
const INTERFACES: usize = 1 << 10;

/// Whether a file that begins with these bytes is a capture.
pub(super) fn begins(start: &[u8]) -> bool {
    start.first_chunk().is_some_and(|first| MAGIC.contains(first))
}

/// Reads captures into one trace.
pub(super) struct Reader {
    rules: Rules,
    classes: Classes,
    flows: Flows,
}

/// How packets of an interface are to be read.
#[derive(Clone, Copy)]
struct Link {
    kind: Linktype,
    /// Units of its stamps in a second, and seconds that are added to them.
    resolution: u64,
    offset: i64,
}

impl Reader {
    pub(super) fn new(rules: &Rules) -> Self {
        Self {
            classes: Classes::new(false, rules.max_size),
            flows: Flows::new(rules.port),
            rules: rules.clone(),
        }
    }

    pub(super) fn read(
        &mut self,
        mut input: Input,
        file: &str,
        rejected: &mut Rejected,
    ) -> Result<(), Error> {
        let damaged = |number: u64, why: &str| {
            let what = format!("packet {number}: {why}; packets before it are sound");
            Error::Damaged { file: file.to_owned(), what }
        };
        let unreadable = |error| Error::Unreadable { file: file.to_owned(), error };
        let is_pcapng = input.fill_buf().map_err(unreadable)?.starts_with(&PCAPNG);
        let mut packets: Box<dyn PcapReaderIterator + Send> = match is_pcapng {
            true => Box::new(
                PcapNGReader::new(BUFFER, input).map_err(|_| damaged(0, "no pcapng header"))?,
            ),
            false => Box::new(
                LegacyPcapReader::new(BUFFER, input).map_err(|_| damaged(0, "no pcap header"))?,
            ),
        };
        let mut links = Vec::new();
        let mut number = 0;
        loop {
            match packets.next() {
                Ok((consumed, block)) => {
                    self.take(&block, &mut links, &mut number, file, rejected);
                    packets.consume(consumed);
                }
                Err(PcapError::Eof) => return Ok(()),
                Err(PcapError::Incomplete(_)) => {
                    // The first refill without bytes shows that there are no more.
                    let is_over = packets.reader_exhausted();
                    if packets.refill().is_err() || is_over {
                        return Err(damaged(number + 1, "the capture ends within it"));
                    }
                }
                Err(PcapError::UnexpectedEof) => {
                    return Err(damaged(number + 1, "the capture ends within it"));
                }
                Err(_) => return Err(damaged(number + 1, "it is damaged")),
            }
            if self.classes.requests > MOST {
                return Err(Error::TooMany { file: file.to_owned() });
            }
        }
    }

    pub(super) fn finish(mut self) -> Option<Trace> {
        let (has_tls, headless) = (self.flows.has_tls, self.flows.headless);
        let (opened, others, last) = self.flows.finish(&mut self.classes);
        let mut warnings: Vec<String> = size_warnings(&self.classes, self.rules.max_size).collect();
        if others > 0 {
            warnings
                .push(format!("connections to other ports, which are left out (--port): {others}"));
        }
        if headless > 0 {
            warnings.push(format!("connections that began before the capture: {headless}"));
        }
        let head = Head {
            source: "capture of packets".to_owned(),
            sizes: Sizes::Wire,
            resolution: Duration::from_micros(1),
            inferred: inferred(has_tls),
            warnings,
            ..Head::default()
        };
        assemble(head, self.classes, opened, last)
    }

    /// Takes a block of the file, which may be a packet.
    fn take(
        &mut self,
        block: &PcapBlockOwned<'_>,
        links: &mut Vec<Link>,
        number: &mut u64,
        file: &str,
        rejected: &mut Rejected,
    ) {
        let (link, data, length, time) = match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let resolution =
                    if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                *links = vec![Link { kind: header.network, resolution, offset: 0 }];
                return;
            }
            PcapBlockOwned::Legacy(packet) => {
                let Some(link) = links.first() else { return };
                let units = u64::from(packet.ts_sec) * link.resolution + u64::from(packet.ts_usec);
                (*link, packet.data, packet.origlen, units)
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => return links.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                if links.len() < INTERFACES {
                    links.push(Link {
                        kind: interface.linktype,
                        resolution: interface.ts_resolution().unwrap_or(1_000_000).max(1),
                        offset: interface.ts_offset(),
                    });
                }
                return;
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let link = links.get(packet.if_id as usize);
                let Some(link) = link else {
                    *number += 1;
                    return rejected.add(file, format_args!("packet {number}"), "no interface");
                };
                (*link, packet.data, packet.origlen, units)
            }
            PcapBlockOwned::NG(_) => return,
        };
        *number += 1;
        let micros = u128::from(time) * 1_000_000 / u128::from(link.resolution);
        let time = i64::try_from(micros).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
        let time = time.saturating_add(link.offset.saturating_mul(1_000_000)).max(0);
        match segment(link.kind, data, length, time) {
            Ok(segment) => self.flows.add(&segment, &mut self.classes),
            Err(why) => rejected.add(file, format_args!("packet {number}"), why),
        }
    }
}

/// What a capture does not tell.
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
fn segment(kind: Linktype, data: &[u8], length: u32, time: i64) -> Result<Segment, &'static str> {
    let rest = |skip: usize| data.get(skip..).ok_or("cut off within the link's header");
    let packet = match kind {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => LaxSlicedPacket::from_ip(data).ok(),
        Linktype::NULL | Linktype::LOOP => LaxSlicedPacket::from_ip(rest(4)?).ok(),
        Linktype::LINUX_SLL => of_type(data.get(14..16), rest(16)?),
        Linktype(LINUX_SLL2) => of_type(data.get(..2), rest(20)?),
        _ => return Err("of a link that is not Ethernet, IP, Linux cooked or loopback"),
    };
    let packet = packet.ok_or("cut off within a header")?;
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return Err("no TCP") };
    // What was cut off, and, if it is short, the padding of Ethernet, are no payload.
    let cut = (length as usize).saturating_sub(data.len());
    let (from, to, bytes) = match packet.net.as_ref().ok_or("no IP")? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let told = usize::from(header.total_len()).checked_sub(header.slice().len());
            let ends = [header.source_addr(), header.destination_addr()].map(IpAddr::V4);
            // An offloading network card leaves the length of a long packet at zero.
            let bytes = told.unwrap_or_else(|| ip.payload().payload.len() + cut);
            (ends[0], ends[1], bytes)
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let extensions = ip.extensions().slice().len();
            let told = usize::from(header.payload_length()).checked_sub(extensions);
            let ends = [header.source_addr(), header.destination_addr()].map(IpAddr::V6);
            let bytes = told.filter(|told| *told > 0);
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

/// The number of the newer Linux cooked link, which captures of all interfaces have.
const LINUX_SLL2: i32 = 276;

/// A packet with its type in two bytes of the link's header.
fn of_type<'p>(kind: Option<&[u8]>, packet: &'p [u8]) -> Option<LaxSlicedPacket<'p>> {
    let kind = u16::from_be_bytes(*kind?.first_chunk()?);
    Some(LaxSlicedPacket::from_ether_type(EtherType(kind), packet))
}
