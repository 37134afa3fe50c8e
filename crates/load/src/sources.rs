//! The source addresses of a load's connections.
//!
//! A source address has some 28,000 ephemeral ports (`net.ipv4.ip_local_port_range`), which bounds
//! the connections from it to one server. Long before that, connect(2) becomes slow. It first tries
//! every other port from a starting point on, and the rest only when those are taken
//! (`__inet_hash_connect` in the kernel). This was measured with `duality load --close -c N` on
//! Linux 6.18. A request costs the client 30 to 33 µs up to N = 14,000. It costs 105 to 118 µs at N
//! = 15,000, beyond the half of 14,116 ports. From two or more addresses it is 30 µs again.
//!
//! On the loopback device all of 127.0.0.0/8 is ours. A load that needs more addresses takes more:
//! the server sees other peers, and nothing else is different.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duality_runtime::net::{ConnectOptions, TcpStream};
use duality_runtime::time;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The number of connections of an address, well below half of its ports.
const SHARE: usize = 10_000;

/// The factor of addresses if each request has its own connection. If the client closes first, its
/// port rests for a second or longer (TIME_WAIT). One core can use up 45,000 ports in that time.
/// Half of the ports of 15 addresses is more than the kernel lets rest
/// (`net.ipv4.tcp_max_tw_buckets`, often 131,072).
const FOR_THOSE_AT_REST: usize = 15;

/// The most addresses of a load: all above 127.0.0.0 in its /16, except the last.
const MOST: u32 = 65_534;

/// The number of addresses that a load's connections come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sources {
    /// One address. If the server is on the loopback device (127.0.0.0/8), as many addresses as the
    /// connections need.
    #[default]
    Automatic,
    /// So many addresses: 127.0.0.1 and its successors, at most 65,534. More than one needs a
    /// server on the loopback device.
    Count(NonZeroU32),
}

impl Sources {
    /// The number of addresses that `connections` connections to `address` come from.
    pub(crate) fn count(self, address: SocketAddr, connections: usize, keep_alive: bool) -> u32 {
        match self {
            Sources::Count(count) => count.get(),
            Sources::Automatic if !has_many(address) => 1,
            Sources::Automatic => {
                let more = if keep_alive { 0 } else { FOR_THOSE_AT_REST };
                let count = connections.div_ceil(SHARE).saturating_add(more);
                u32::try_from(count).unwrap_or(MOST).clamp(1, MOST)
            }
        }
    }

    /// The mistake in the addresses, for a server at `address`.
    pub(crate) fn problem(self, address: SocketAddr) -> Option<&'static str> {
        let Sources::Count(count) = self else { return None };
        if count.get() > MOST {
            Some("at most 65534 source addresses can be had: give fewer")
        } else if count.get() > 1 && !has_many(address) {
            Some(
                "only a server on 127.0.0.0/8 can be loaded from several addresses: leave out --sources, or \
                 run a `duality load` on each of several machines",
            )
        } else {
            None
        }
    }
}

/// Whether a server at `address` can be reached from many: IPv6 has but one of the loopback device.
fn has_many(address: SocketAddr) -> bool {
    address.is_ipv4() && address.ip().is_loopback()
}

/// The way to a server: its address, and those from which connections go there in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    address: SocketAddr,
    sources: u32,
}

/// The next turn. All loads of a process share it, since any order will do.
static TURN: AtomicU32 = AtomicU32::new(0);

impl Route {
    pub(crate) fn new(address: SocketAddr, sources: u32) -> Self {
        Self { address, sources }
    }

    /// Where it leads.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of addresses at the start.
    pub(crate) fn sources(&self) -> u32 {
        self.sources
    }

    /// Opens a connection on which no wait is longer than `limit`.
    pub(crate) async fn connect(&self, limit: Duration) -> Result<TcpStream, Failure> {
        self.connect_with(limit, ConnectOptions::default()).await
    }

    /// The source address of a special connection.
    pub(crate) async fn connect_with(
        &self,
        limit: Duration,
        mut options: ConnectOptions,
    ) -> Result<TcpStream, Failure> {
        options.source = self.next_source();
        let connecting = TcpStream::connect_with(self.address, &options);
        let connected = time::timeout(limit, connecting).await;
        let connected = connected.map_err(|_| Failure::ConnectTimeout)?;
        let mut stream = connected.map_err(Failure::from_connect)?;
        stream.set_read_timeout(Some(limit)).map_err(Failure::Io)?;
        stream.set_write_timeout(Some(limit)).map_err(Failure::Io)?;
        Ok(stream)
    }

    /// The next source in turn; a single one is left to the kernel, which needs no bind(2) for it.
    fn next_source(&self) -> Option<IpAddr> {
        if self.sources == 1 {
            return None;
        }
        let turn = TURN.fetch_add(1, Ordering::Relaxed) % self.sources;
        Some(IpAddr::V4(Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + turn)))
    }
}

impl From<SocketAddr> for Route {
    /// The kernel chooses the source address.
    fn from(address: SocketAddr) -> Self {
        Self::new(address, 1)
    }
}

/// Opens a connection on which no wait is longer than `limit`.
pub(crate) async fn connect(
    address: impl Into<Route>,
    limit: Duration,
) -> Result<TcpStream, Failure> {
    address.into().connect(limit).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn count(number: u32) -> Sources {
        Sources::Count(NonZeroU32::new(number).unwrap())
    }

    #[test]
    fn there_are_as_many_as_the_connections_need() {
        let here = address("127.0.0.1:80");
        for (connections, keep_alive, expected) in [
            (1, true, 1),
            (10_000, true, 1),
            (10_001, true, 2),
            (1_000_000, true, 100),
            (usize::MAX, true, MOST),
            (1, false, 16),
            (15_000, false, 17),
            (usize::MAX, false, MOST),
        ] {
            assert_eq!(Sources::Automatic.count(here, connections, keep_alive), expected);
        }
        assert_eq!(count(3).count(here, 1_000_000, false), 3);
    }

    #[test]
    fn elsewhere_there_is_one() {
        for text in ["192.0.2.1:80", "[::1]:80"] {
            let there = address(text);
            assert_eq!(Sources::Automatic.count(there, 100_000, false), 1);
            assert_eq!(count(1).problem(there), None);
            assert!(count(2).problem(there).unwrap().contains("--sources"));
        }
        assert_eq!(count(MOST).problem(address("127.1.2.3:80")), None);
        assert!(count(MOST + 1).problem(address("127.1.2.3:80")).is_some());
    }

    #[test]
    fn every_source_has_its_turn() {
        let route = Route::new(address("127.0.0.1:80"), 300);
        let sources: std::collections::HashSet<_> =
            (0..300).map(|_| route.next_source().unwrap()).collect();
        assert!(sources.iter().all(IpAddr::is_loopback));
        // Other tests may take turns meanwhile.
        assert!(sources.len() > 100, "{}", sources.len());
        assert_eq!(Route::from(address("127.0.0.1:80")).next_source(), None);
    }
}
