//! What servers do in their sessions besides answering: they grow, stop, or answer a few requests
//! very late. A finding excludes no subject, but a reader must know it.

use super::rows::Row;
use crate::record::Throughout;
use crate::statistics::median;

/// Growth of a session in bytes below which nothing is told: allocators take memory in steps.
const LEAST_GROWTH: f64 = 128.0 * 1024.0;

/// And as much for each connection, which may touch a further page of its stack or its buffers at
/// any time.
const PAGE: f64 = 4096.0;

/// The probability that a server is told to stop although it stops no more often than others.
const BY_CHANCE: f64 = 1e-4;

/// A tail that exceeds that of the others by this factor is told.
const LONG_TAIL: f64 = 3.0;

/// A finding about a subject.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Conduct {
    /// Its memory grows with each request.
    Grows {
        /// The growth in bytes for each request.
        bytes_per_request: f64,
        /// The number of connections at which it grows most.
        concurrency: usize,
    },
    /// At times, no connection gets a reply.
    Stops {
        /// The longest such time in microseconds.
        longest_us: f64,
        /// The slices in which it stopped.
        stops: u64,
        /// All its slices.
        slices: u64,
    },
    /// One request in a thousand waits much longer than with the others.
    Tail {
        /// The 99.9th percentile of latency in microseconds.
        p99_9_us: f64,
        /// The median of the others.
        others_us: f64,
        /// The number of connections.
        concurrency: usize,
    },
}

/// What is told of `subject`. Its rows are among `rows`.
pub fn of(subject: &str, rows: &[&Row]) -> Vec<Conduct> {
    let (own, others): (Vec<&Row>, Vec<&Row>) =
        rows.iter().copied().partition(|row| row.subject == subject);
    let tail = own.iter().rev().find_map(|row| tail(row, &others));
    [grows(&own), stops(&own, &others), tail].into_iter().flatten().collect()
}

fn sessions(row: &Row) -> &[Throughout] {
    row.medians().map_or(&[], |medians| &medians.sessions)
}

/// Growth in most sessions at a number of connections, where it is largest.
fn grows(own: &[&Row]) -> Option<Conduct> {
    let growth = |row: &&Row| {
        let least = LEAST_GROWTH + PAGE * row.concurrency as f64;
        let all = sessions(row).iter();
        let grown: Vec<f64> = all
            .map(|one| one.growth_bytes_per_request)
            .zip(sessions(row).iter().map(|one| one.requests as f64))
            .map(|(growth, requests)| if growth * requests < least { 0.0 } else { growth })
            .collect();
        let bytes_per_request = median(&grown).filter(|bytes| *bytes > 0.0)?;
        Some(Conduct::Grows { bytes_per_request, concurrency: row.concurrency })
    };
    let bytes = |conduct: &Conduct| match conduct {
        Conduct::Grows { bytes_per_request, .. } => *bytes_per_request,
        _ => 0.0,
    };
    own.iter().filter_map(growth).max_by(|one, other| bytes(one).total_cmp(&bytes(other)))
}

/// Stops in two sessions or more, if the subject stops more often than the others.
fn stops(own: &[&Row], others: &[&Row]) -> Option<Conduct> {
    let all = |rows: &[&Row]| -> (u64, u64) {
        let sessions = rows.iter().flat_map(|row| sessions(row));
        sessions.fold((0, 0), |(stops, slices), one| (stops + one.stops, slices + one.slices))
    };
    let (stops, slices) = all(own);
    let in_sessions = own.iter().flat_map(|row| sessions(row)).filter(|one| one.stops > 0).count();
    let (of_others, their_slices) = all(others);
    let usual = (of_others + 1) as f64 / (their_slices + 2) as f64;
    let is_unusual = at_least(stops, slices, usual) < BY_CHANCE;
    let longest = own.iter().flat_map(|row| sessions(row)).map(|one| one.longest_stop_us);
    let longest_us = longest.fold(0.0, f64::max);
    (in_sessions > 1 && is_unusual).then_some(Conduct::Stops { longest_us, stops, slices })
}

/// The probability of at least `count` of `all` independent events of this probability.
fn at_least(count: u64, all: u64, probability: f64) -> f64 {
    let odds = probability / (1.0 - probability);
    let mut term = (1.0 - probability).powf(all as f64);
    let mut below = 0.0;
    for number in 0..count {
        below += term;
        term *= odds * (all - number) as f64 / (number + 1) as f64;
    }
    1.0 - below
}

/// A tail that is longer than that of the others in each session.
fn tail(row: &Row, others: &[&Row]) -> Option<Conduct> {
    let of =
        |row: &Row| -> Vec<f64> { sessions(row).iter().map(|one| one.latency_us.p99_9).collect() };
    let here = others.iter().filter(|other| other.concurrency == row.concurrency);
    let theirs: Vec<f64> = here.filter_map(|other| median(&of(other))).collect();
    let others_us = median(&theirs)?;
    let own = of(row);
    let is_longer = |one: &f64| *one > LONG_TAIL * others_us;
    let p99_9_us = median(&own).filter(|_| own.len() > 1 && own.iter().all(is_longer))?;
    Some(Conduct::Tail { p99_9_us, others_us, concurrency: row.concurrency })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probability_of_events_is_binomial() {
        assert!((at_least(0, 10, 0.1) - 1.0).abs() < 1e-12);
        assert!((at_least(1, 10, 0.1) - (1.0 - 0.9_f64.powi(10))).abs() < 1e-12);
        assert!((at_least(10, 10, 0.5) - 0.5_f64.powi(10)).abs() < 1e-12);
        assert!(at_least(3, 100, 0.001) < 2e-4);
    }
}
