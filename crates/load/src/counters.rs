//! The kernel's counters of connections that found the accept queue full.
//!
//! They are those of the network namespace, not of one socket: another server on the machine that
//! overflows in the same seconds is counted too.

use std::fs;

/// How often a connection could not be queued for `accept(2)`, since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenCounters {
    /// The accept queue was full (`ListenOverflows`).
    pub(crate) overflows: u64,
    /// A handshake was dropped at a listener, for that or any other reason (`ListenDrops`).
    pub(crate) drops: u64,
}

impl ListenCounters {
    /// What the kernel says now; `None` where `/proc` does not.
    pub(crate) fn read() -> Option<Self> {
        parse(&fs::read_to_string("/proc/net/netstat").ok()?)
    }

    /// How much they have grown since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            overflows: self.overflows.saturating_sub(earlier.overflows),
            drops: self.drops.saturating_sub(earlier.drops),
        }
    }
}

/// Reads the format of `/proc/net/netstat`: for each protocol a line of names and a line of values,
/// both beginning with the protocol's name.
fn parse(text: &str) -> Option<ListenCounters> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| {
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    Some(ListenCounters { overflows: value("ListenOverflows")?, drops: value("ListenDrops")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPHPHits
TcpExt: 1 22 333 4444
IpExt: InNoRoutes ListenDrops
IpExt: 0 9
";

    #[test]
    fn counters_are_found_by_name() {
        assert_eq!(parse(SAMPLE), Some(ListenCounters { overflows: 22, drops: 333 }));
    }

    #[test]
    fn a_kernel_without_them_is_no_zero() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("TcpExt: ListenOverflows ListenDrops\n"), None);
        assert_eq!(parse("TcpExt: ListenOverflows\nTcpExt: 1\n"), None);
        assert_eq!(parse("TcpExt: ListenOverflows ListenDrops\nTcpExt: 1\n"), None);
        assert_eq!(parse("TcpExt: ListenOverflows ListenDrops\nTcpExt: 1 x\n"), None);
    }

    #[test]
    fn a_difference_is_never_negative() {
        let (small, large) =
            (ListenCounters { overflows: 1, drops: 5 }, ListenCounters { overflows: 4, drops: 7 });
        assert_eq!(large.since(small), ListenCounters { overflows: 3, drops: 2 });
        assert_eq!(small.since(large), ListenCounters::default());
    }
}
