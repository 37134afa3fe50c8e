//! Captures of packets, as tcpdump writes them: pcap and pcapng, of Ethernet, raw IP, Linux cooked
//! and loopback links. Only headers are read, so `tcpdump -s 128` captures enough.

use std::io::{self, BufRead};

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, LegacyPcapReader, Linktype, PcapBlockOwned, PcapError, PcapNGReader};

use super::{Error, Input, Rejected, too_many};
use crate::gather::Rules;
use crate::packets::{Link as Kind, Packets};
use crate::trace::Trace;

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
    max_size: u64,
    packets: Packets,
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
        Self { max_size: rules.max_size, packets: Packets::new(rules.port, rules.max_size) }
    }

    pub(super) fn read(
        &mut self,
        mut input: Input,
        file: &str,
        rejected: &mut Rejected,
    ) -> Result<(), Error> {
        let damaged = |number: u64, why: &str| {
            let what = format!("packet {number}: {why}; packets before it are sound");
            Error::failed(file, what)
        };
        let unreadable = |error: io::Error| Error::misuse(file, error);
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
            if self.packets.is_full() {
                return Err(too_many(file));
            }
        }
    }

    pub(super) fn finish(self) -> Option<Trace> {
        self.packets.finish("capture of packets", self.max_size)
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
        if let Err(why) = self.packets.add(link.kind.into(), data, length, time) {
            rejected.add(file, format_args!("packet {number}"), why);
        }
    }
}

impl From<Linktype> for Kind {
    fn from(number: Linktype) -> Self {
        match number {
            Linktype::ETHERNET => Self::Ethernet,
            Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => Self::Ip,
            Linktype::NULL | Linktype::LOOP => Self::Loopback,
            Linktype::LINUX_SLL => Self::Cooked,
            Linktype(LINUX_SLL2) => Self::Cooked2,
            _ => Self::Other,
        }
    }
}

/// The number of the newer Linux cooked link, which captures of all interfaces have.
const LINUX_SLL2: i32 = 276;
