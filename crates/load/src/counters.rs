//! The kernel's counters around a load: connections that found the accept queue full, and exhausted
//! quotas.

use std::fs;
use std::net::SocketAddr;

use crate::listeners::Listeners;
use crate::quota::{Exhausted, Quotas};

/// The counters at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    listen: Option<ListenCounters>,
    quotas: Quotas,
}

/// The number of connections that did not fit into the queue for `accept(2)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenCounters {
    /// The accept queue was full: `ListenOverflows`, of all servers of the network namespace.
    pub(crate) overflows: u64,
    /// The listener dropped a handshake, for that or another reason.
    pub(crate) drops: u64,
}

/// The events during a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Meanwhile {
    /// The counts of the server's own listeners. The counts are zero if the kernel does not report
    /// them, and for a server on another machine.
    pub(crate) listen: ListenCounters,
    /// The exhausted quota, if there is one.
    pub(crate) exhausted: Option<Exhausted>,
}

impl Counters {
    /// The kernel's counts now, for a server at this address. `None` is a Unix socket.
    pub(crate) fn read(address: Option<SocketAddr>) -> Self {
        let listen = || {
            let overflows = overflows(&fs::read_to_string("/proc/net/netstat").ok()?)?;
            let listeners = Listeners::at(address?).ok().filter(|found| found.count > 0)?;
            Some(ListenCounters { overflows, drops: listeners.drops })
        };
        Self { listen: listen(), quotas: Quotas::read() }
    }

    /// The events since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Meanwhile {
        let listen = self.listen.zip(earlier.listen).map(|(now, earlier)| now.since(earlier));
        Meanwhile {
            listen: listen.unwrap_or_default(),
            exhausted: self.quotas.exhausted_since(&earlier.quotas),
        }
    }
}

impl ListenCounters {
    /// The growth of the counters since `earlier`. `overflows` includes other servers' events, so
    /// the drops of this listener limit it.
    fn since(self, earlier: Self) -> Self {
        let drops = self.drops.saturating_sub(earlier.drops);
        Self { overflows: self.overflows.saturating_sub(earlier.overflows).min(drops), drops }
    }
}

/// `ListenOverflows` in the format of `/proc/net/netstat`: for each protocol, a line of names and a
/// line of values, each with the protocol's name first.
fn overflows(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(name, _)| *name == "ListenOverflows")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPHPHits
TcpExt: 1 22 333 4444
IpExt: InNoRoutes ListenOverflows
IpExt: 0 9
";

    #[test]
    fn a_counter_is_found_by_its_name() {
        assert_eq!(overflows(SAMPLE), Some(22));
    }

    #[test]
    fn a_kernel_without_it_is_no_zero() {
        assert_eq!(overflows(""), None);
        assert_eq!(overflows("TcpExt: ListenOverflows ListenDrops\n"), None);
        assert_eq!(overflows("TcpExt: ListenOverflows\nTcpExt:\n"), None);
        assert_eq!(overflows("TcpExt: ListenDrops ListenOverflows\nTcpExt: 1 x\n"), None);
    }

    #[test]
    fn a_difference_is_never_negative() {
        let (small, large) =
            (ListenCounters { overflows: 1, drops: 5 }, ListenCounters { overflows: 4, drops: 7 });
        // One of the three overflows was another server's.
        assert_eq!(large.since(small), ListenCounters { overflows: 2, drops: 2 });
        assert_eq!(small.since(large), ListenCounters::default());
    }
}
