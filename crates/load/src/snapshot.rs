//! What a display shows of a load while it runs.
//!
//! The load's own thread copies its counters between requests, ten times a second. So no request
//! takes a lock for it. A load without a display makes no snapshots.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::histogram::histogram;

/// The counters of a load at one moment. All counts are since the start, warm-up included.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// How long the window has been open. `None` before it opens.
    pub window: Option<Duration>,
    /// Requests that have ended, correctly or not.
    pub ended: u64,
    /// Correct replies.
    pub replies: u64,
    /// Requests that have failed.
    pub failed: u64,
    /// The latencies in the window so far, in nanoseconds.
    pub latencies: Histogram<u64>,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self { window: None, ended: 0, replies: 0, failed: 0, latencies: histogram() }
    }
}

impl Snapshot {
    /// The latencies since `earlier`, which is a snapshot of the same load.
    #[must_use]
    pub fn latencies_since(&self, earlier: &Self) -> Histogram<u64> {
        let mut since = self.latencies.clone();
        // A later histogram of the same load has each count of an earlier one. A search for a rate
        // has several loads, and each begins anew.
        match since.subtract(&earlier.latencies) {
            Ok(()) => since,
            Err(_) => self.latencies.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(latencies: &[u64]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        latencies.iter().for_each(|latency| snapshot.latencies.record(*latency).unwrap());
        snapshot
    }

    #[test]
    fn only_what_came_since_is_left() {
        let (earlier, later) = (snapshot(&[1_000, 2_000]), snapshot(&[1_000, 2_000, 3_000]));
        let since = later.latencies_since(&earlier);
        assert_eq!((since.len(), since.count_at(3_000)), (1, 1));
        // The next load of a search has fewer.
        assert_eq!(earlier.latencies_since(&later).len(), 2);
    }
}
