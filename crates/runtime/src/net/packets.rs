//! A filter for packet sockets (packet(7)): the kernel keeps only TCP packets of one port.
//!
//! Without a filter, packets of other ports fill the socket's buffer, and the kernel drops packets
//! of the port that counts. The filter is classic BPF (socket(7)).

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::group::{answer, attach, step};

/// More bytes than any packet has, so a packet passes whole.
const ALL: u32 = 0x4_0000;
/// The byte of a packet's type, and the type of packets that this host sends (packet(7)).
const TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
const OUTGOING: u32 = 4;

/// Gives `socket`, a packet socket without link headers (`SOCK_DGRAM`), only the TCP packets from
/// or to `port`. Packets of IPv6 with extension headers pass, too. With `incoming_only`, packets
/// that this host sends do not: the loopback interface shows each packet twice.
///
/// Packets that came before this call stay in the socket.
///
/// # Errors
///
/// The errors of setsockopt(2).
pub fn only_port(socket: BorrowedFd<'_>, port: u16, incoming_only: bool) -> io::Result<()> {
    attach(socket, libc::SO_ATTACH_FILTER, &program(port, incoming_only))
}

/// Lets no further packet into `socket`, a packet socket. Packets that came before stay.
///
/// # Errors
///
/// The errors of setsockopt(2).
pub fn no_more_packets(socket: BorrowedFd<'_>) -> io::Result<()> {
    attach(socket, libc::SO_ATTACH_FILTER, &[answer(0)])
}

/// The number of packets for which `socket`, a packet socket, had no room since it was opened or
/// since the last call. Packets that its filter refuses do not count.
///
/// # Errors
///
/// The errors of getsockopt(2).
pub fn dropped_packets(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut counts = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the descriptor is open for as long as it is borrowed. `counts` has room for the
    // stated number of bytes, and any bytes are valid numbers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counts).cast::<c_void>(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(counts.tp_drops) } else { Err(io::Error::last_os_error()) }
}

fn program(port: u16, incoming_only: bool) -> Vec<libc::sock_filter> {
    const BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    const HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
    const HALF_BEHIND: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const ANY: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    const TCP: u32 = 6;
    const UDP: u32 = 17;
    const ICMP: u32 = 58;
    let port = u32::from(port);
    // The places of the two answers, counted from the first instruction of `body`.
    let (keep, drop) = (21, 22);
    let to = |place: u8, from: u8| place - from - 1;
    let body = [
        // 0: the version of IP.
        step(BYTE, 0, 0, 0),
        step(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 4, 0, 0),
        step(EQUAL, 6, to(13, 2), 0),
        step(EQUAL, 4, 0, to(drop, 3)),
        // 4: of version 4, TCP in no later fragment, behind a header of any length.
        step(BYTE, 9, 0, 0),
        step(EQUAL, TCP, 0, to(drop, 5)),
        step(HALF, 6, 0, 0),
        step(ANY, 0x1fff, to(drop, 7), 0),
        step(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0),
        step(HALF_BEHIND, 0, 0, 0),
        step(EQUAL, port, to(keep, 10), 0),
        step(HALF_BEHIND, 2, 0, 0),
        step(EQUAL, port, to(keep, 12), to(drop, 12)),
        // 13: of version 6, TCP, or an extension header. UDP and ICMP are neither.
        step(BYTE, 6, 0, 0),
        step(EQUAL, TCP, to(17, 14), 0),
        step(EQUAL, UDP, to(drop, 15), 0),
        step(EQUAL, ICMP, to(drop, 16), to(keep, 16)),
        step(HALF, 40, 0, 0),
        step(EQUAL, port, to(keep, 18), 0),
        step(HALF, 42, 0, 0),
        step(EQUAL, port, to(keep, 20), to(drop, 20)),
        answer(ALL),
        answer(0),
    ];
    let mut program = Vec::new();
    if incoming_only {
        program.push(step(BYTE, TYPE, 0, 0));
        program.push(step(EQUAL, OUTGOING, to(drop + 2, 1), 0));
    }
    program.extend(body);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would answer: the bytes that it keeps.
    fn run(program: &[libc::sock_filter], packet: &[u8], kind: u32) -> u32 {
        let (mut a, mut x, mut at) = (0_u32, 0_u32, 0_usize);
        let byte = |place: u32| packet.get(place as usize).copied().map(u32::from);
        loop {
            let one = &program[at];
            at += 1;
            let code = u32::from(one.code);
            let loaded = match code {
                code if code == libc::BPF_LD | libc::BPF_B | libc::BPF_ABS && one.k == TYPE => {
                    Some(kind)
                }
                code if code == libc::BPF_LD | libc::BPF_B | libc::BPF_ABS => byte(one.k),
                code if code == libc::BPF_LD | libc::BPF_H | libc::BPF_ABS => {
                    byte(one.k).zip(byte(one.k + 1)).map(|(high, low)| high << 8 | low)
                }
                code if code == libc::BPF_LD | libc::BPF_H | libc::BPF_IND => {
                    byte(x + one.k).zip(byte(x + one.k + 1)).map(|(high, low)| high << 8 | low)
                }
                code if code == libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH => {
                    x = 4 * (byte(one.k).unwrap_or(0) & 0xf);
                    Some(a)
                }
                code if code == libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K => Some(a >> one.k),
                code if code == libc::BPF_RET | libc::BPF_K => return one.k,
                code if code & 0xf0 == libc::BPF_JSET => {
                    at += usize::from(if a & one.k != 0 { one.jt } else { one.jf });
                    Some(a)
                }
                _ => {
                    at += usize::from(if a == one.k { one.jt } else { one.jf });
                    Some(a)
                }
            };
            // A load beyond the packet drops it.
            let Some(value) = loaded else { return 0 };
            a = value;
        }
    }

    fn version_4(protocol: u8, options: usize, ports: [u16; 2], fragment: u16) -> Vec<u8> {
        let mut packet = vec![0; 20 + 4 * options];
        packet[0] = 0x45 + options as u8;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        ports.iter().for_each(|port| packet.extend(port.to_be_bytes()));
        packet
    }

    fn version_6(next: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x60;
        packet[6] = next;
        ports.iter().for_each(|port| packet.extend(port.to_be_bytes()));
        packet
    }

    /// Needs CAP_NET_RAW, which root has.
    #[test]
    fn what_had_no_room_is_counted_and_a_closed_socket_takes_nothing() {
        use std::io::Write;
        use std::os::fd::AsFd;

        use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType, recv, socket, sockopt};

        // All protocols, in the order of the network (packet(7)).
        let all = Protocol::from_raw(std::num::NonZeroU32::new(0x0300).unwrap());
        let opened = match socket(AddressFamily::PACKET, SocketType::DGRAM, Some(all)) {
            Err(error @ (rustix::io::Errno::PERM | rustix::io::Errno::ACCESS)) => {
                // `eprintln!` would go into the test's own output.
                let _ = writeln!(std::io::stderr(), "skipped: a packet socket: {error}");
                return;
            }
            opened => opened.unwrap(),
        };
        sockopt::set_socket_recv_buffer_size(&opened, 1).unwrap();
        let send = || {
            let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let to = sender.local_addr().unwrap();
            (0..200).for_each(|_| assert_eq!(sender.send_to(&[0; 1000], to).unwrap(), 1000));
        };
        send();
        assert!(dropped_packets(opened.as_fd()).unwrap() > 100);
        no_more_packets(opened.as_fd()).unwrap();
        while recv(&opened, &mut [0; 1], RecvFlags::DONTWAIT).is_ok() {}
        dropped_packets(opened.as_fd()).unwrap();
        send();
        assert_eq!(dropped_packets(opened.as_fd()).unwrap(), 0);
        assert!(recv(&opened, &mut [0; 1], RecvFlags::DONTWAIT).is_err());
    }

    #[test]
    fn packets_of_the_port_alone_are_kept() {
        for (packet, is_kept) in [
            (version_4(6, 0, [80, 5000], 0), true),
            (version_4(6, 5, [5000, 80], 0), true),
            (version_4(6, 0, [81, 5000], 0), false),
            (version_4(17, 0, [80, 80], 0), false),
            (version_4(6, 0, [80, 80], 7), false),
            (version_4(6, 0, [80, 80], 0x4000), true),
            (version_6(6, [80, 5000]), true),
            (version_6(6, [5000, 80]), true),
            (version_6(6, [81, 81]), false),
            (version_6(17, [80, 80]), false),
            (version_6(58, [80, 80]), false),
            (version_6(43, [0, 0]), true),
            (version_6(60, [0, 0]), true),
            (vec![0x45], false),
            (vec![], false),
            (vec![0x10; 60], false),
        ] {
            for incoming_only in [false, true] {
                let program = program(80, incoming_only);
                let context = format!("{packet:?}, {incoming_only}");
                assert_eq!(run(&program, &packet, 0) > 0, is_kept, "{context}");
                let outgoing = run(&program, &packet, OUTGOING) > 0;
                assert_eq!(outgoing, is_kept && !incoming_only, "{context}");
            }
        }
    }
}
