//! Limits for each client address: how many connections it has, and how fast it opens them.
//!
//! ```text
//!   address ─▶ hash ─▶ 16 places ─┬─ its place: count or time within the limit ─▶ served
//!                                 ├─ its place: beyond the limit ───────────────▶ refused
//!                                 ├─ a free place: becomes its place ───────────▶ served
//!                                 └─ none is free ──────────────────────────────▶ served
//! ```
//!
//! Each limit has a table of a fixed size: 65,536 places of 8 bytes. The tables are memory that
//! child processes share, so all processes of a server count together. A place changes by
//! compare-and-swap. The hash has a random key, so a client cannot aim at the place of another.
//!
//! An IPv6 client has a whole /64, so the first 64 bits count as its address. Two kernel threads
//! that meet a new address at the same moment may give it two places. The address then has up to
//! twice the limit.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use duality_runtime::net::TcpStream;
use duality_runtime::shared;
use duality_runtime::time::{self, Instant};
use rustix::process::{Pid, getpid};

use super::options::Options;
use super::refusals::{self, Reason};

/// Places of a table.
const PLACES: usize = 1 << 16;

/// Places that an address may have.
const PROBES: usize = 16;

type Table = &'static [AtomicU64; PLACES];

/// The limits of a server. All its loops and processes share them.
#[derive(Clone, Copy, Debug)]
pub struct Addresses(Option<&'static Limits>);

#[derive(Debug)]
struct Limits {
    key: RandomState,
    open: Option<OpenLimit>,
    rate: Option<RateLimit>,
}

/// Counts a connection until the process that has accepted it drops this value.
#[derive(Debug)]
pub struct Counted {
    place: &'static AtomicU64,
    tag: u64,
    process: Pid,
}

impl Addresses {
    /// No limits.
    pub const UNLIMITED: Self = Self(None);

    /// The limits that `options` ask for. Their tables are never freed. Call it before processes
    /// are forked.
    pub(crate) fn limited_by(options: &Options) -> Self {
        let open = options.max_per_address.map(|most| OpenLimit::new(most as u64));
        let rate = options.rate_per_address.map(|rate| RateLimit::new(rate as u64));
        if open.is_none() && rate.is_none() {
            return Self::UNLIMITED;
        }
        Self(Some(Box::leak(Box::new(Limits { key: RandomState::new(), open, rate }))))
    }

    /// Counts the accepted `stream` until it is closed, or counts a refusal and gives the stream
    /// back as an error.
    pub(crate) fn admit(self, mut stream: TcpStream) -> Result<TcpStream, TcpStream> {
        if self.0.is_none() {
            return Ok(stream);
        }
        // A client that has reset the connection no longer has an address.
        let Ok(peer) = stream.peer_addr() else { return Ok(stream) };
        match self.count(peer.ip()) {
            Err(reason) => {
                refusals::count(reason);
                Err(stream)
            }
            Ok(counted) => {
                if let Some(counted) = counted {
                    stream.hold(Box::new(counted));
                }
                Ok(stream)
            }
        }
    }

    /// Whether there are limits.
    #[must_use]
    pub fn are_limited(self) -> bool {
        self.0.is_some()
    }

    /// Counts a connection from `address`.
    ///
    /// # Errors
    ///
    /// The reason why the connection is refused.
    pub fn count(self, address: IpAddr) -> Result<Option<Counted>, Reason> {
        let Some(limits) = self.0 else { return Ok(None) };
        let hash = limits.key.hash_one(client(address));
        // A connection beyond the number does not count for the rate.
        let counted = match &limits.open {
            None => None,
            Some(open) => open.enter(hash)?,
        };
        if let Some(rate) = &limits.rate
            && !rate.allows(hash)
        {
            return Err(Reason::Rate);
        }
        Ok(counted)
    }
}

/// The part of an address that belongs to one client.
fn client(address: IpAddr) -> (bool, u64) {
    match address.to_canonical() {
        IpAddr::V4(address) => (false, address.to_bits().into()),
        IpAddr::V6(address) => (true, (address.to_bits() >> 64) as u64),
    }
}

/// The places that the hash of an address leads to.
fn places(table: Table, hash: u64) -> impl Iterator<Item = &'static AtomicU64> + Clone {
    (0..PROBES).map(move |step| &table[(hash as usize).wrapping_add(step) % PLACES])
}

/// Replaces the content of a place by the result of `change`, if there is one.
fn update(place: &AtomicU64, change: impl FnMut(u64) -> Option<u64>) -> bool {
    place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).is_ok()
}

/// The most connections of an address. A place holds a tag and the address's number of connections.
/// A place without connections is free.
#[derive(Debug)]
struct OpenLimit {
    most: u64,
    table: Table,
}

impl OpenLimit {
    const COUNT_BITS: u32 = 24;
    const COUNT: u64 = (1 << Self::COUNT_BITS) - 1;

    fn new(most: u64) -> Self {
        Self { most: most.min(Self::COUNT), table: shared::words() }
    }

    fn enter(&self, hash: u64) -> Result<Option<Counted>, Reason> {
        let tag = hash & !Self::COUNT;
        let places = places(self.table, hash);
        for place in places.clone() {
            let mut held = place.load(Ordering::Relaxed);
            while held & !Self::COUNT == tag && held & Self::COUNT > 0 {
                if held & Self::COUNT >= self.most {
                    return Err(Reason::Address);
                }
                let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
                match place.compare_exchange_weak(held, held + 1, success, failure) {
                    Ok(_) => return Ok(Some(Counted { place, tag, process: getpid() })),
                    Err(now) => held = now,
                }
            }
        }
        let is_free = |held: u64| held & Self::COUNT == 0;
        let mut free = places;
        let taken = free.find(|place| update(place, |held| is_free(held).then_some(tag | 1)));
        Ok(taken.map(|place| Counted { place, tag, process: getpid() }))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // A child has copies of its parent's values, which must not count again.
        if self.process != getpid() {
            return;
        }
        let is_its =
            |held: u64| held & !OpenLimit::COUNT == self.tag && held & OpenLimit::COUNT > 0;
        update(self.place, |held| is_its(held).then(|| held - 1));
    }
}

/// The most new connections of an address in a second: the generic cell rate algorithm (ATM Forum
/// 1996). A place holds a tag and the time at which the address has its full allowance again. A
/// place is free after that time.
#[derive(Debug)]
struct RateLimit {
    /// Ticks that a connection uses up.
    interval: u64,
    table: Table,
    start: Instant,
}

impl RateLimit {
    /// A tick has 10 µs, so five years fit into a place.
    const TICKS_PER_SECOND: u64 = 100_000;
    const TIME_BITS: u32 = 44;
    const TIME: u64 = (1 << Self::TIME_BITS) - 1;

    fn new(rate: u64) -> Self {
        let interval = (Self::TICKS_PER_SECOND / rate.max(1)).max(1);
        Self { interval, table: shared::words(), start: time::now() }
    }

    fn allows(&self, hash: u64) -> bool {
        let now = time::since(self.start).as_micros() as u64 / 10 + 1;
        self.allows_at(hash, now & Self::TIME)
    }

    /// Allows the connections of one second at once.
    fn allows_at(&self, hash: u64, now: u64) -> bool {
        let tag = hash & !Self::TIME;
        let latest = now + Self::TICKS_PER_SECOND - self.interval;
        let used_until = |held: u64| (held & Self::TIME).max(now);
        let places = places(self.table, hash);
        for place in places.clone() {
            let held = place.load(Ordering::Relaxed);
            if held == 0 || held & !Self::TIME != tag {
                continue;
            }
            return update(place, |held| {
                let used = used_until(held);
                let is_its = held & !Self::TIME == tag;
                (is_its && used <= latest).then(|| tag | (used + self.interval) & Self::TIME)
            });
        }
        let is_free = |held: u64| held & Self::TIME <= now;
        let mut free = places;
        let first = tag | (now + self.interval) & Self::TIME;
        // If no place is free, there were more addresses within a second than places.
        let _ = free.find(|place| update(place, |held| is_free(held).then_some(first)));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::sync::Barrier;

    use super::*;

    fn limited(most: Option<usize>, rate: Option<usize>) -> Addresses {
        let options = Options::default().max_per_address(most).rate_per_address(rate);
        Addresses::limited_by(&options)
    }

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn an_address_has_as_many_connections_as_it_may_have() {
        let addresses = limited(Some(2), None);
        let one = addresses.count(address(1)).unwrap();
        let two = addresses.count(address(1)).unwrap();
        assert!(one.is_some() && two.is_some());
        assert_eq!(addresses.count(address(1)).unwrap_err(), Reason::Address);
        let other = addresses.count(address(2)).unwrap();
        drop(one);
        let again = addresses.count(address(1)).unwrap();
        assert!(again.is_some());
        assert_eq!(addresses.count(address(1)).unwrap_err(), Reason::Address);
        drop((two, other, again));
    }

    #[test]
    fn a_second_has_as_many_connections_as_it_may_have() {
        let limit = RateLimit::new(10);
        let allowed =
            |now: u64| (0..100).filter(|_| limit.allows_at(0xABCD_0000_0000_1234, now)).count();
        assert_eq!(allowed(1), 10, "a second's connections at once");
        assert_eq!(allowed(1), 0);
        assert_eq!(allowed(10_001), 1, "a tenth of a second later");
        assert_eq!(allowed(200_000), 10, "after a pause");
        assert!(limit.allows_at(0x1234_0000_0000_1234, 200_000), "another address");
    }

    #[test]
    fn a_client_of_ipv6_is_a_64() {
        let host =
            |low: u64| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(low)));
        assert_eq!(client(host(1)), client(host(u64::MAX)));
        assert_ne!(client(host(1)), client("2001:db9::1".parse().unwrap()));
        assert_eq!(client("::ffff:10.0.0.1".parse().unwrap()), client("10.0.0.1".parse().unwrap()));
    }

    /// With more addresses than places, all are served, and the memory does not grow.
    #[test]
    fn a_full_table_refuses_no_address() {
        let addresses = limited(Some(1), Some(1));
        let held: Vec<_> =
            (0..2 * PLACES as u32).map(|number| addresses.count(address(number))).collect();
        let refused = held.iter().filter(|counted| counted.is_err()).count();
        assert!(refused < 10, "{refused} shared a tag");
        let counted = held.iter().flatten().flatten().count();
        assert!(counted > PLACES / 2 && counted <= PLACES, "{counted}");
    }

    #[test]
    fn threads_count_together() {
        let addresses = limited(Some(1000), None);
        // Makes sure that the address has a place.
        let first = addresses.count(address(9)).unwrap();
        let all_have_asked = Barrier::new(4);
        let served: usize = std::thread::scope(|scope| {
            let count = || {
                let held: Vec<_> =
                    (0..500).filter_map(|_| addresses.count(address(9)).ok()).collect();
                all_have_asked.wait();
                held.len()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(served, 999);
        drop(first);
        let held: Vec<_> = (0..1001).map(|_| addresses.count(address(9))).collect();
        assert_eq!(held.iter().filter(|counted| counted.is_ok()).count(), 1000);
    }
}
