//! Facts about the listeners at an address, by sock_diag(7): the lengths of their accept queues,
//! and their drops.
//!
//! `ListenOverflows` of /proc/net/netstat counts all servers of the network namespace. A listener's
//! own drops are in its socket (`ss -tlm` shows them as `d`), so that no server is blamed for
//! another one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

/// The listeners of one address together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listeners {
    /// The number of listeners.
    pub count: u64,
    /// The number of connections that their queues can hold: the backlog, limited by
    /// `net.core.somaxconn`.
    pub queue: u64,
    /// The number of connection requests that the listeners have dropped since their creation,
    /// mostly at a full queue.
    pub drops: u64,
}

impl Listeners {
    /// The listeners at `address`, including those that listen at all addresses. `None` for a
    /// server on another machine, or in another network namespace.
    ///
    /// # Errors
    ///
    /// If the kernel does not report listeners.
    pub fn at(address: SocketAddr) -> io::Result<Self> {
        let mut all = Self::default();
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            all.add_answer(&ask(family, address.port())?, address);
        }
        Ok(all)
    }

    /// Adds the listeners of an answer.
    fn add_answer(&mut self, mut messages: &[u8], address: SocketAddr) {
        while let Some(length) = number(messages, 0).map(|length| length as usize)
            && (HEADER..=messages.len()).contains(&length)
        {
            self.add(&messages[..length], address);
            messages = messages.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        }
    }

    fn add(&mut self, message: &[u8], address: SocketAddr) {
        let is_listener = message[4..6] == BY_FAMILY.to_ne_bytes()
            && message.get(PORT..PORT + 2) == Some(&address.port().to_be_bytes());
        let serves = local(message).is_some_and(|local| {
            local.is_unspecified() || local.to_canonical() == address.ip().to_canonical()
        });
        if is_listener && serves {
            self.count += 1;
            self.queue += u64::from(number(message, QUEUE).unwrap_or(0));
            self.drops += u64::from(drops(message).unwrap_or(0));
        }
    }
}

/// A request for the listeners of a port, and the length of its parts.
const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h, as a message's type.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
const TCP: u8 = 6;
/// A mask of states: `TCP_LISTEN` is 10.
const LISTENING: u32 = 1 << 10;
/// `INET_DIAG_SKMEMINFO` of linux/inet_diag.h, an attribute. A request has a mask of attributes,
/// from 1.
const MEMORY: u16 = 7;
/// The index of the drops among that attribute's numbers: `SK_MEMINFO_DROPS`.
const DROPS: usize = 8;
/// The offsets of the parts of an answer: the family, the port, the address, and the length of the
/// queue. `ss -l` shows the length as Send-Q. Attributes follow.
const FAMILY: usize = HEADER;
const PORT: usize = HEADER + 4;
const ADDRESS: usize = HEADER + 8;
const QUEUE: usize = HEADER + 60;
const ATTRIBUTES: usize = HEADER + 72;

fn ask(family: AddressFamily, port: u16) -> io::Result<Vec<u8>> {
    let netlink = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(netlink::SOCK_DIAG),
    )?;
    let mut request = [0; REQUEST];
    request[0..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    request[HEADER] = family.as_raw() as u8;
    request[HEADER + 1] = TCP;
    request[HEADER + 2] = 1 << (MEMORY - 1);
    request[HEADER + 4..HEADER + 8].copy_from_slice(&LISTENING.to_ne_bytes());
    request[HEADER + 8..HEADER + 10].copy_from_slice(&port.to_be_bytes());
    sendto(&netlink, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut reply = vec![0; 16384];
    // The kernel answers before sendto returns. Some hundred listeners on one port would fill more
    // than one answer, but the first answer is enough.
    let (received, _) = recv(&netlink, &mut reply[..], RecvFlags::empty())?;
    reply.truncate(received);
    Ok(reply)
}

/// The address that a message's socket is bound to.
fn local(message: &[u8]) -> Option<IpAddr> {
    let bytes: [u8; 16] = message.get(ADDRESS..ADDRESS + 16)?.try_into().ok()?;
    if u16::from(*message.get(FAMILY)?) == AddressFamily::INET6.as_raw() {
        return Some(Ipv6Addr::from(bytes).into());
    }
    Some(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into())
}

/// The drops among a message's attributes. Each attribute has its length, its kind, and its
/// content.
fn drops(message: &[u8]) -> Option<u32> {
    let mut attributes = message.get(ATTRIBUTES..)?;
    loop {
        let length = usize::from(u16::from_ne_bytes(attributes.get(0..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
        let attribute = attributes.get(..length).filter(|_| length >= 4)?;
        if kind == MEMORY {
            return number(attribute, 4 + 4 * DROPS);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn number(message: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(message.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    fn listener(backlog: i32) -> (OwnedFd, SocketAddr) {
        let listener =
            socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .unwrap();
        rustix::net::bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        rustix::net::listen(&listener, backlog).unwrap();
        let address = rustix::net::getsockname(&listener).unwrap().try_into().unwrap();
        (listener, address)
    }

    /// Begins a connection that no process accepts.
    fn knock(address: SocketAddr) -> OwnedFd {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let client = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        // The connection is under way, or dropped.
        let _ = rustix::net::connect(&client, &address);
        client
    }

    #[test]
    fn a_listener_is_told_its_own_drops_and_not_those_of_another() {
        let ((crowded, its_address), (calm, other_address)) = (listener(2), listener(10));
        let Ok(before) = Listeners::at(its_address) else {
            eprintln!("not tried: no sock_diag here");
            return;
        };
        assert_eq!(before, Listeners { count: 1, queue: 2, drops: 0 });
        let clients: Vec<OwnedFd> = (0..8).map(|_| knock(its_address)).collect();
        let clients: Vec<OwnedFd> =
            clients.into_iter().chain((0..8).map(|_| knock(other_address))).collect();
        // Three of eight found a place. A busy kernel handles the others later.
        let begun = Instant::now();
        while Listeners::at(its_address).unwrap().drops < 5 {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing was dropped");
            thread::yield_now();
        }
        assert_eq!(
            Listeners::at(other_address).unwrap(),
            Listeners { count: 1, queue: 10, drops: 0 }
        );
        let elsewhere = SocketAddr::from(([127, 0, 0, 2], its_address.port()));
        assert_eq!(Listeners::at(elsewhere).unwrap().count, 0);
        drop((clients, crowded, calm));
        assert_eq!(Listeners::at(its_address).unwrap().count, 0);
    }

    #[test]
    fn answers_that_are_cut_short_are_no_obstacle() {
        let mut message = [0; 128];
        message[0..4].copy_from_slice(&128u32.to_ne_bytes());
        message[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        message[FAMILY] = AddressFamily::INET.as_raw() as u8;
        message[PORT..PORT + 2].copy_from_slice(&80u16.to_be_bytes());
        message[QUEUE..QUEUE + 4].copy_from_slice(&10u32.to_ne_bytes());
        message[ATTRIBUTES..ATTRIBUTES + 2].copy_from_slice(&40u16.to_ne_bytes());
        message[ATTRIBUTES + 2..ATTRIBUTES + 4].copy_from_slice(&MEMORY.to_ne_bytes());
        message[ATTRIBUTES + 36..ATTRIBUTES + 40].copy_from_slice(&5u32.to_ne_bytes());
        let two = message.repeat(2);
        let found = |messages: &[u8], port| {
            let mut all = Listeners::default();
            all.add_answer(messages, SocketAddr::from(([127, 0, 0, 1], port)));
            all
        };
        assert_eq!(found(&two, 80), Listeners { count: 2, queue: 20, drops: 10 });
        assert_eq!(found(&two, 81), Listeners::default());
        for end in 0..two.len() {
            assert!(found(&two[..end], 80).queue <= 10);
        }
        assert_eq!(found(&[0; 100], 80), Listeners::default());
        assert_eq!(found(&[255; 100], 80), Listeners::default());
    }
}
