//! The source addresses of a load's connections.
//!
//! A source address has some 28,000 ephemeral ports (`net.ipv4.ip_local_port_range`), which bounds
//! the connections from it to one server. Long before that, connect(2) becomes slow. The call first
//! tries every other port from a starting point on, and the rest only when those are taken
//! (`__inet_hash_connect` in the kernel). The following was measured with `duality load --close -c
//! N` on Linux 6.18. A request costs the client 30 to 33 µs up to N = 14,000. The cost is 105 to
//! 118 µs at N = 15,000, beyond the half of 14,116 ports. With two or more addresses, the cost is
//! 30 µs again.
//!
//! On the loopback device, all of 127.0.0.0/8 is available. So a load takes as many addresses as it
//! needs. The server sees other peers, and nothing else differs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duality_runtime::net::{ConnectOptions, TcpStream};
use duality_runtime::time;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::place::Place;
use crate::tls::Handshakes;

/// The number of connections for each address, well below half of its ports.
const SHARE: usize = 10_000;

/// The factor of addresses if each request has its own connection. If the client closes first, its
/// port rests for a second or longer (TIME_WAIT). One core can use up 45,000 ports in that time.
/// Half of the ports of 15 addresses is more than the kernel lets rest
/// (`net.ipv4.tcp_max_tw_buckets`, often 131,072).
const FOR_THOSE_AT_REST: usize = 15;

/// The most addresses of a load: all addresses above 127.0.0.0 in its /16, except the last.
const MOST: u32 = 65_534;

/// The number of source addresses of a load's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sources {
    /// One address. If the server is on the loopback device (127.0.0.0/8), as many addresses as the
    /// connections need.
    #[default]
    Automatic,
    /// This many addresses: 127.0.0.1 and its successors, at most 65,534. More than one address
    /// needs a server on the loopback device.
    Count(NonZeroU32),
}

impl Sources {
    /// The number of source addresses for `connections` connections to `place`.
    pub(crate) fn count(self, place: &Place, connections: usize, keep_alive: bool) -> u32 {
        match self {
            Sources::Count(count) => count.get(),
            Sources::Automatic if !place.has_many_sources() => 1,
            Sources::Automatic => {
                let more = if keep_alive { 0 } else { FOR_THOSE_AT_REST };
                let count = connections.div_ceil(SHARE).saturating_add(more);
                u32::try_from(count).unwrap_or(MOST).clamp(1, MOST)
            }
        }
    }

    /// The mistake in the sources for a server at `place`, if there is one.
    pub(crate) fn problem(self, place: &Place) -> Option<&'static str> {
        let Sources::Count(count) = self else { return None };
        if count.get() > MOST {
            Some("at most 65534 source addresses can be had: give fewer")
        } else if count.get() > 1 && !place.has_many_sources() {
            Some(
                "only a server on 127.0.0.0/8 can be loaded from several addresses: leave out --sources, or \
                 run a `duality load` on each of several machines",
            )
        } else {
            None
        }
    }
}

/// The way to a server: its place, and the addresses from which connections go there in turn.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    place: Place,
    sources: u32,
    /// The handshakes of its connections, if the server speaks TLS.
    handshakes: Option<Handshakes>,
}

/// The next turn. All loads of a process share it, since any order will do.
static TURN: AtomicU32 = AtomicU32::new(0);

impl Route {
    pub(crate) fn new(place: impl Into<Place>, sources: u32) -> Self {
        Self { place: place.into(), sources, handshakes: None }
    }

    /// The same way, with TLS if there are `handshakes`.
    pub(crate) fn with(self, handshakes: Option<Handshakes>) -> Self {
        Self { handshakes, ..self }
    }

    /// The server's place.
    pub(crate) fn place(&self) -> &Place {
        &self.place
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
        let connected = match &self.place {
            Place::Internet(address) => {
                options.source = self.next_source();
                time::timeout(limit, TcpStream::connect_with(*address, &options)).await
            }
            Place::Unix(path) => time::timeout(limit, TcpStream::connect_unix(path)).await,
        };
        let connected = connected.map_err(|_| Failure::ConnectTimeout)?;
        let mut stream = connected.map_err(Failure::from_connect)?;
        if let Some(handshakes) = &self.handshakes {
            stream = Box::pin(handshakes.make(stream, limit)).await.map_err(Failure::Handshake)?;
        }
        stream.set_read_timeout(Some(limit)).map_err(Failure::Io)?;
        stream.set_write_timeout(Some(limit)).map_err(Failure::Io)?;
        Ok(stream)
    }

    /// The next source in turn. A single source is left to the kernel, which saves a bind(2).
    fn next_source(&self) -> Option<IpAddr> {
        if self.sources == 1 {
            return None;
        }
        let turn = TURN.fetch_add(1, Ordering::Relaxed) % self.sources;
        Some(IpAddr::V4(Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + turn)))
    }
}

/// Opens a connection to `address` on which no wait is longer than `limit`. The kernel chooses the
/// source address.
pub(crate) async fn connect(address: SocketAddr, limit: Duration) -> Result<TcpStream, Failure> {
    Route::new(address, 1).connect(limit).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        text.parse::<SocketAddr>().unwrap().into()
    }

    fn count(number: u32) -> Sources {
        Sources::Count(NonZeroU32::new(number).unwrap())
    }

    #[test]
    fn there_are_as_many_as_the_connections_need() {
        let here = place("127.0.0.1:80");
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
            assert_eq!(Sources::Automatic.count(&here, connections, keep_alive), expected);
        }
        assert_eq!(count(3).count(&here, 1_000_000, false), 3);
    }

    #[test]
    fn elsewhere_there_is_one() {
        let socket = Place::unix("/tmp/server.sock".as_ref()).unwrap();
        for there in [place("192.0.2.1:80"), place("[::1]:80"), socket] {
            assert_eq!(Sources::Automatic.count(&there, 100_000, false), 1);
            assert_eq!(count(1).problem(&there), None);
            assert!(count(2).problem(&there).unwrap().contains("--sources"));
        }
        assert_eq!(count(MOST).problem(&place("127.1.2.3:80")), None);
        assert!(count(MOST + 1).problem(&place("127.1.2.3:80")).is_some());
    }

    #[test]
    fn every_source_has_its_turn() {
        let route = Route::new(place("127.0.0.1:80"), 300);
        let sources: std::collections::HashSet<_> =
            (0..300).map(|_| route.next_source().unwrap()).collect();
        assert!(sources.iter().all(IpAddr::is_loopback));
        // Other tests may take turns meanwhile.
        assert!(sources.len() > 100, "{}", sources.len());
        assert_eq!(Route::new(place("127.0.0.1:80"), 1).next_source(), None);
    }
}
