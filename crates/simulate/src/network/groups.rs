//! Datagrams to several sockets: broadcasts, and multicasts of IPv4.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use duality_runtime::machine::DatagramOption;

use super::{Network, SocketKind, refused};

/// What a socket for datagrams has been told of broadcasts and multicasts.
pub(super) struct Groups {
    may_broadcast: bool,
    /// Whether its own host gets its multicasts.
    loops: bool,
    joined: Vec<Ipv4Addr>,
}

impl Default for Groups {
    fn default() -> Self {
        Self { may_broadcast: false, loops: true, joined: Vec::new() }
    }
}

/// The group of an address: all hosts, or those that have joined it. `None` for one host.
pub(super) fn group_of(address: SocketAddr) -> Option<Ipv4Addr> {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_multicast() || ip.is_broadcast() => Some(ip),
        _ => None,
    }
}

impl Network {
    pub(crate) fn set_datagram_option(
        &mut self,
        number: u64,
        option: DatagramOption,
    ) -> io::Result<()> {
        let groups = &mut self.datagrams_mut(number)?.groups;
        match option {
            DatagramOption::Broadcast(is_on) => groups.may_broadcast = is_on,
            DatagramOption::Loop(is_on) => groups.loops = is_on,
            DatagramOption::Join(group) if !group.is_multicast() => {
                return Err(refused(libc::EINVAL));
            }
            DatagramOption::Join(group) if groups.joined.contains(&group) => {
                return Err(refused(libc::EADDRINUSE));
            }
            DatagramOption::Join(group) => groups.joined.push(group),
            DatagramOption::Leave(group) => {
                let place = groups.joined.iter().position(|joined| *joined == group);
                groups.joined.remove(place.ok_or_else(|| refused(libc::EADDRNOTAVAIL))?);
            }
        }
        Ok(())
    }

    /// Whether a socket may broadcast, and whether its host gets its multicasts.
    pub(crate) fn datagram_options(&mut self, number: u64) -> io::Result<(bool, bool)> {
        let groups = &self.datagrams_mut(number)?.groups;
        Ok((groups.may_broadcast, groups.loops))
    }

    /// The addresses of the sockets that a datagram of `sender` to `to` is for.
    pub(super) fn receivers(&mut self, sender: u64, to: SocketAddr) -> io::Result<Vec<SocketAddr>> {
        let Some(group) = group_of(to) else { return Ok(vec![to]) };
        let own = self.datagrams_mut(sender)?;
        if group.is_broadcast() && !own.groups.may_broadcast {
            return Err(refused(libc::EACCES));
        }
        let (local, loops) = (own.local, own.groups.loops);
        // In the order of the sockets' numbers.
        let all = self.sockets.values().filter_map(|socket| match &socket.kind {
            SocketKind::Datagrams(other) if other.local.port() == to.port() => Some(other),
            _ => None,
        });
        let hear = all.filter(|other| {
            let has_joined = other.groups.joined.contains(&group);
            let is_told = loops || other.local.ip() != local.ip();
            group.is_broadcast() || has_joined && is_told
        });
        Ok(hear.map(|other| other.local).collect())
    }
}
