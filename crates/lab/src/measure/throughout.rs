//! Gathers what a server does in all slices of a session: latencies, stops, and memory.

use std::time::Duration;

use duality_load::Latencies;

use crate::record::Throughout;

/// A time without any reply that is this long is a stop of the server.
const STOP: Duration = Duration::from_millis(50);

/// What one server has done so far.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    requests: u64,
    slices: u64,
    latencies: Latencies,
    stops: u64,
    longest_stop_us: f64,
    /// Requests so far, and the memory then.
    memory: Vec<(u64, u64)>,
}

impl Gathered {
    /// Adds a slice.
    pub(super) fn add(&mut self, slice: &duality_load::Slice) {
        self.requests += slice.requests;
        self.slices += 1;
        // Slices of another program have no latencies.
        let _ = self.latencies.add(&slice.histograms);
        self.stops += u64::from(slice.longest_stop_us >= 1e6 * STOP.as_secs_f64());
        self.longest_stop_us = self.longest_stop_us.max(slice.longest_stop_us);
    }

    /// Notes the memory of the server, in bytes.
    pub(super) fn remember(&mut self, bytes: u64) {
        self.memory.push((self.requests, bytes));
    }

    /// The figures of the session. `None` without slices.
    pub(super) fn summary(&self) -> Option<Throughout> {
        (self.slices > 0).then(|| Throughout {
            requests: self.requests,
            slices: self.slices,
            latency_us: self.latencies.summary(),
            stops: self.stops,
            longest_stop_us: self.longest_stop_us,
            growth_bytes_per_request: growth(&self.memory),
        })
    }
}

/// The bytes by which memory grew for each request, in the slower half of the session. A buffer
/// that was made once grows in one half only.
fn growth(memory: &[(u64, u64)]) -> f64 {
    let slope = |part: &[(u64, u64)]| {
        let (first, last) = (part.first()?, part.last()?);
        let requests = last.0.checked_sub(first.0).filter(|requests| *requests > 0)?;
        Some(last.1.saturating_sub(first.1) as f64 / requests as f64)
    };
    let (middle, last) = (memory.len() / 2, memory.len().saturating_sub(1));
    if middle == 0 || middle == last {
        return 0.0;
    }
    let halves = slope(&memory[..=middle]).zip(slope(&memory[middle..]));
    halves.map_or(0.0, |(one, other)| one.min(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_what_goes_on_and_not_what_was_made_once() {
        let of = |bytes: &[u64]| {
            let memory: Vec<(u64, u64)> =
                (0..).map(|at| 100 * at).zip(bytes.iter().copied()).collect();
            growth(&memory)
        };
        assert_eq!(of(&[]), 0.0);
        assert_eq!(of(&[7]), 0.0);
        assert_eq!(of(&[0, 400_000, 800_000, 1_200_000, 1_600_000]), 4000.0);
        assert_eq!(of(&[0, 900_000, 900_000, 900_000, 900_000]), 0.0);
        assert_eq!(of(&[900_000, 800_000, 700_000]), 0.0);
    }

    #[test]
    fn a_stop_counts_once_for_its_slice() {
        let mut gathered = Gathered::default();
        assert_eq!(gathered.summary(), None);
        for longest_stop_us in [200_000.0, 900.0, 60_000.0] {
            let slice = duality_load::Slice { requests: 5, longest_stop_us, ..Default::default() };
            gathered.add(&slice);
        }
        let found = gathered.summary().unwrap();
        assert_eq!((found.stops, found.longest_stop_us, found.requests), (2, 200_000.0, 15));
    }
}
