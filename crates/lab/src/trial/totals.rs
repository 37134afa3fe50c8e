//! What a candidate's servers have counted.

use super::event::Measured;
use super::silence::Progress;

/// Counts of a server up to a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) cpu_us: u64,
    pub(super) answered: u64,
    /// What has come of requests, if the service defines them.
    pub(super) progress: Progress,
    pub(super) late: u64,
    pub(super) failed: u64,
    pub(super) refused: u64,
    pub(super) buckets: Vec<u64>,
    pub(super) open: u64,
    /// Connections that the server has taken from its queue.
    pub(super) accepted: u64,
    pub(super) peak_bytes: u64,
}

impl Totals {
    /// The sum of these counts and those of a later server.
    pub(super) fn and(&self, later: &Self) -> Self {
        let longer = self.buckets.len().max(later.buckets.len());
        let bucket = |of: &Self, place: usize| of.buckets.get(place).copied().unwrap_or(0);
        Self {
            cpu_us: self.cpu_us + later.cpu_us,
            answered: self.answered + later.answered,
            progress: self.progress.and(later.progress),
            late: self.late + later.late,
            failed: self.failed + later.failed,
            refused: self.refused + later.refused,
            buckets: (0..longer).map(|place| bucket(self, place) + bucket(later, place)).collect(),
            open: later.open,
            accepted: self.accepted + later.accepted,
            peak_bytes: self.peak_bytes.max(later.peak_bytes),
        }
    }

    /// What has come of requests.
    pub(super) fn progress(&self) -> Progress {
        self.progress
    }

    /// The counts since `before`.
    pub(super) fn since(&self, before: &Self) -> Measured {
        let of = |place: usize| before.buckets.get(place).copied().unwrap_or(0);
        let buckets: Vec<u64> = self
            .buckets
            .iter()
            .enumerate()
            .map(|(place, count)| count.saturating_sub(of(place)))
            .collect();
        Measured {
            requests: self.answered.saturating_sub(before.answered),
            cpu_us: self.cpu_us.saturating_sub(before.cpu_us),
            failed: self.failed.saturating_sub(before.failed),
            refused: self.refused.saturating_sub(before.refused),
            late: self.late.saturating_sub(before.late),
            connections_open: self.open,
            p50_us: quantile(&buckets, 0.5),
            p99_us: quantile(&buckets, 0.99),
            memory_bytes: self.peak_bytes,
        }
    }
}

/// The upper end of the bucket with this quantile, in microseconds. The buckets end at 1, 2, 4 …
/// µs, and the last bucket has no end.
fn quantile(buckets: &[u64], quantile: f64) -> Option<f64> {
    let all: u64 = buckets.iter().sum();
    let wanted = (quantile * all as f64).ceil() as u64;
    let mut below = 0;
    let place = buckets.iter().position(|count| {
        below += count;
        all > 0 && below >= wanted
    })?;
    (place + 1 < buckets.len()).then(|| 2_f64.powi(place as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_end_of_its_bucket() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[0, 0, 0], 0.5), None);
        assert_eq!(quantile(&[5, 5, 0, 0], 0.5), Some(1.0));
        assert_eq!(quantile(&[5, 5, 0, 0], 0.99), Some(2.0));
        assert_eq!(quantile(&[0, 0, 1, 0], 0.99), Some(4.0));
        assert_eq!(quantile(&[0, 0, 0, 1], 0.99), None, "the last bucket has no end");
    }

    #[test]
    fn counts_go_on_over_a_restart() {
        let one = Totals { answered: 10, buckets: vec![10], open: 3, ..Totals::default() };
        let next = Totals { answered: 5, buckets: vec![4, 1], open: 1, ..Totals::default() };
        let both = one.and(&next);
        assert_eq!((both.answered, both.open, &both.buckets[..]), (15, 1, &[14, 1][..]));
        let since = both.since(&one);
        assert_eq!((since.requests, since.p50_us), (5, Some(1.0)));
    }
}
