//! Headers of packets as they pass an interface, by a packet socket (packet(7)). Nothing stands in
//! the way of the traffic.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duality_runtime::log;
use duality_runtime::net::{dropped_packets, no_more_packets, only_port};
use duality_trace::packets::{Link, Packets};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind,
    recv, recvmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeSpec, TimeVal};

use super::proxy::now;
use crate::cli::{Blame, Failure, Party};

/// What is kept of a packet: enough for all headers of IPv6 and TCP.
const HEADERS: usize = 192;
/// How often the end of the recording is looked for, if no packet comes.
const TICK: i64 = 50_000;
/// What the kernel keeps of packets that were not read yet.
const BUFFER: usize = 32 << 20;

/// Notes packets from and to `port` of an interface until `interrupted` or for `duration`. Returns
/// how many the kernel had to drop, too.
pub(super) fn run(
    interface: &str,
    port: u16,
    duration: Option<Duration>,
    max_size: u64,
    interrupted: &Arc<AtomicBool>,
) -> Result<(Packets, u32), Failure> {
    let link = address(interface)?;
    // The loopback interface shows each packet twice, as it leaves and as it comes.
    let is_loopback = link.addr().is_none_or(|address| address == [0; 6]);
    let socket = open(&link, port, is_loopback)?;
    log::tell(format_args!(
        "recording packets of port {port} on {interface}; Ctrl-C or SIGTERM ends it"
    ));
    let mut packets = Packets::new(Some(port), max_size);
    let end = duration.and_then(|duration| Instant::now().checked_add(duration));
    let mut headers = [0; HEADERS];
    let mut control = nix::cmsg_space!(TimeSpec);
    let is_over =
        || interrupted.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end);
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(Party::Machine, format!("{interface}: {error}"))
    };
    // After the end, what had passed until then is still read. The stamps of packets do not tell
    // it: soon after the kernel was asked for stamps, packets have that of their reading.
    let mut is_ending = false;
    while !packets.is_full() {
        if !is_ending && is_over() {
            no_more_packets(socket.as_fd()).map_err(|error| failed(&error))?;
            is_ending = true;
        }
        let mut flags = MsgFlags::MSG_TRUNC;
        flags.set(MsgFlags::MSG_DONTWAIT, is_ending);
        let mut parts = [IoSliceMut::new(&mut headers)];
        let received =
            recvmsg::<LinkAddr>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags);
        let message = match received {
            Ok(message) => message,
            Err(Errno::EAGAIN) if is_ending => break,
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            Err(error) => return Err(failed(&error)),
        };
        let length = message.bytes;
        let mut time = None;
        for control in message.cmsgs().into_iter().flatten() {
            if let ControlMessageOwned::ScmTimestampns(stamp) = control {
                time = Some(stamp.tv_sec() * 1_000_000 + stamp.tv_nsec() / 1000);
            }
        }
        let time = time.unwrap_or_else(now);
        let kept = &headers[..length.min(HEADERS)];
        // Packets with extension headers of IPv6 pass here, too.
        let _ = packets.add(Link::Ip, kept, u32::try_from(length).unwrap_or(u32::MAX), time);
    }
    let dropped = dropped_packets(socket.as_fd()).map_err(|error| failed(&error))?;
    Ok((packets, dropped))
}

/// The address of an interface, by its name.
fn address(interface: &str) -> Result<LinkAddr, Failure> {
    let all = getifaddrs().blame_at(Party::Machine, "cannot list the interfaces")?;
    let links: Vec<(String, LinkAddr)> = all
        .filter_map(|one| {
            let link = *one.address.as_ref()?.as_link_addr()?;
            Some((one.interface_name, link))
        })
        .collect();
    let found = links.iter().find(|(name, _)| name == interface);
    found.map(|(_, link)| *link).ok_or_else(|| {
        let names: Vec<&str> = links.iter().map(|(name, _)| name.as_str()).collect();
        Failure::misuse(format!(
            "--interface: there is no {interface}; choose from {}",
            names.join(", ")
        ))
    })
}

/// A socket that gets each packet of the interface from its network header on, with the time at
/// which it passed.
fn open(link: &LinkAddr, port: u16, is_loopback: bool) -> Result<OwnedFd, Failure> {
    let refused = |error: Errno| match error {
        Errno::EPERM | Errno::EACCES => Failure::new(
            Party::Machine,
            "recording packets takes CAP_NET_RAW: run the command as root, or as a proxy by \
             --listen and --to",
        ),
        error => Failure::new(Party::Machine, format!("cannot record packets: {error}")),
    };
    let made = socket(
        AddressFamily::Packet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::EthAll,
    )
    .map_err(refused)?;
    // From here on, packets of other ports take no room in the socket's buffer.
    only_port(made.as_fd(), port, is_loopback).blame_at(Party::Machine, "cannot filter packets")?;
    bind(made.as_raw_fd(), link).map_err(refused)?;
    // Packets of any port and interface, which came before the filter.
    while recv(made.as_raw_fd(), &mut [0; 1], MsgFlags::MSG_DONTWAIT).is_ok() {}
    let _ = dropped_packets(made.as_fd());
    setsockopt(&made, sockopt::ReceiveTimestampns, &true).map_err(refused)?;
    setsockopt(&made, sockopt::ReceiveTimeout, &TimeVal::new(0, TICK)).map_err(refused)?;
    // Without the privilege, the limit of the system holds.
    if setsockopt(&made, sockopt::RcvBufForce, &BUFFER).is_err() {
        let _ = setsockopt(&made, sockopt::RcvBuf, &BUFFER);
    }
    Ok(made)
}
