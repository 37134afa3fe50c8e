//! Misleading features of a log. Each trap is found while the log is read, and the trace names it.

use std::collections::HashMap;

/// A second, in microseconds.
const SECOND: i64 = 1_000_000;
/// Fewer requests than this show nothing about minutes or addresses.
const ENOUGH: u64 = 100;
/// The number of addresses that are counted. An address with nearly all requests is among the
/// first.
const ADDRESSES: usize = 10_000;

/// What has been seen so far.
pub(crate) struct Traps {
    requests: u64,
    /// Requests by the minute of the hour of their stamp.
    minutes: [u64; 60],
    first: i64,
    last: i64,
    /// Stamps that are before that of an earlier line, and by how many microseconds at most.
    pub(crate) disordered: u64,
    furthest: i64,
    /// The unit of the finest stamp, in microseconds: 1,000,000, 1,000 or 1.
    unit: i64,
    addresses: HashMap<u64, u64>,
    /// Whether the log names connections, so that addresses do not matter.
    names_connections: bool,
    heads: u64,
    partial: u64,
    not_modified: u64,
}

impl Traps {
    pub(crate) fn new() -> Self {
        Self {
            requests: 0,
            minutes: [0; 60],
            first: i64::MAX,
            last: i64::MIN,
            disordered: 0,
            furthest: 0,
            unit: SECOND,
            addresses: HashMap::new(),
            names_connections: false,
            heads: 0,
            partial: 0,
            not_modified: 0,
        }
    }

    /// Looks at a request. Its stamp is in microseconds. The hash of its address is given if the
    /// log does not name connections.
    pub(crate) fn look(&mut self, stamp: i64, address: Option<u64>, is_head: bool, status: u16) {
        self.requests += 1;
        self.minutes[(stamp / SECOND / 60).rem_euclid(60) as usize] += 1;
        if stamp < self.last {
            self.disordered += 1;
            self.furthest = self.furthest.max(self.last - stamp);
        }
        self.first = self.first.min(stamp);
        self.last = self.last.max(stamp);
        while stamp % self.unit != 0 {
            self.unit /= 1000;
        }
        match address {
            None => self.names_connections = true,
            Some(address) if self.addresses.len() < ADDRESSES => {
                *self.addresses.entry(address).or_default() += 1;
            }
            Some(address) => {
                if let Some(count) = self.addresses.get_mut(&address) {
                    *count += 1;
                }
            }
        }
        self.heads += u64::from(is_head);
        self.partial += u64::from(status == 206);
        self.not_modified += u64::from(status == 304);
    }

    /// How finely stamps tell the time, in microseconds: 1,000,000, 1,000 or 1.
    pub(crate) fn unit(&self) -> u64 {
        self.unit as u64
    }

    /// What a reader of the trace should know, a sentence each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let shuffled = self.crowded_minute().map(|(minute, share)| {
            format!(
                "{share:.0} % of all stamps are in minute {minute} of their hour: these times are \
                 not those of arrivals"
            )
        });
        let disordered = (self.disordered > 0).then(|| {
            format!(
                "lines with an earlier stamp than a line before: {}, by up to {} s; they are sorted",
                self.disordered,
                (self.furthest + SECOND - 1) / SECOND,
            )
        });
        let proxy = self.busiest_address().map(|share| {
            format!(
                "one address makes {share:.0} % of all requests: it is a proxy, so connections and \
                 think times are not those of clients; take the log of the proxy"
            )
        });
        let warning = |count: u64, what: &str| (count > 0).then(|| format!("{what}: {count}"));
        [
            shuffled,
            disordered,
            proxy,
            warning(self.heads, "HEAD requests, whose replies have no body"),
            warning(
                self.partial,
                "replies that are parts of a file (206), with the size of the part",
            ),
            warning(self.not_modified, "replies 'not modified' (304), without a body"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The minute of the hour that has most stamps of a log of hours, and its share in percent.
    fn crowded_minute(&self) -> Option<(usize, f64)> {
        let hours = (self.last.saturating_sub(self.first)) / SECOND / 3600;
        if self.requests < ENOUGH || hours < 3 {
            return None;
        }
        let (minute, count) = self.minutes.iter().enumerate().max_by_key(|(_, count)| **count)?;
        (*count * 2 > self.requests).then(|| (minute, percent(*count, self.requests)))
    }

    /// The share of the busiest address in percent, if it has nearly all requests.
    fn busiest_address(&self) -> Option<f64> {
        let count = *self.addresses.values().max()?;
        let is_proxy = self.requests >= ENOUGH && !self.names_connections;
        (is_proxy && count * 10 >= self.requests * 9).then(|| percent(count, self.requests))
    }
}

fn percent(count: u64, of: u64) -> f64 {
    100.0 * count as f64 / of as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(requests: impl Iterator<Item = (i64, u64)>) -> Vec<String> {
        let mut traps = Traps::new();
        for (seconds, address) in requests {
            traps.look(seconds * SECOND, Some(address), false, 200);
        }
        traps.warnings()
    }

    #[test]
    fn minutes_that_are_shuffled_are_seen() {
        let shuffled =
            seen((0..200).map(|number| (number * 3600 + 300 + number % 60, number as u64)));
        assert!(shuffled[0].contains("100 % of all stamps are in minute 5"), "{shuffled:?}");
        assert!(seen((0..200).map(|number| (number * 100, number as u64))).is_empty());
        // A log of ten minutes has its stamps in few minutes.
        assert!(seen((0..200).map(|number| (number, number as u64))).is_empty());
    }

    #[test]
    fn a_proxy_in_front_is_seen() {
        let proxied = seen((0..200).map(|number| (number, number as u64 % 20 / 19)));
        assert!(proxied[0].contains("95 %"), "{proxied:?}");
        assert!(seen((0..200).map(|number| (number, number as u64 % 2))).is_empty());
    }

    #[test]
    fn lines_out_of_order_are_counted() {
        let warnings = seen([(5, 1), (3, 2), (6, 3), (5, 4)].into_iter());
        assert_eq!(warnings.len(), 1);
        assert!(
            warnings[0].contains("before: 2, ") && warnings[0].contains("up to 2 s"),
            "{warnings:?}"
        );
    }

    #[test]
    fn replies_without_a_body_are_counted() {
        let mut traps = Traps::new();
        for (is_head, status) in [(true, 200), (false, 304), (false, 206)] {
            traps.look(0, None, is_head, status);
        }
        assert_eq!(traps.warnings().len(), 3);
    }
}
