//! Notices that too large a share of requests goes wrong, as soon as it is sure enough.
//!
//! A single look proves little: one error of two requests is not a share of 50 %. So each look is
//! evidence for a larger share against the limit, a likelihood ratio. The sum of the logarithms
//! never falls below zero, so a long good time does not hide a present failure. For a server that
//! keeps to the limit, the sum passes `ENOUGH` once in a million requests on average. The method is
//! Page's CUSUM (Shin, Ramdas & Rinaldo, *E-detectors*, 2023).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The larger shares that the guard tests for, as multiples of the limit.
const ALTERNATIVES: [f64; 3] = [2.0, 5.0, 20.0];

/// The logarithm of the evidence that is enough: a million, for each of the alternatives.
const ENOUGH: f64 = 13.8155 + 1.0986;

/// A limit to a share of requests, and the evidence that it is exceeded.
///
/// What goes wrong is often known later than what goes well: a time-out, a late reply. When a load
/// ends, the last requests to be known are all wrong, though their share was small. So whatever the
/// time in which requests went wrong, the good ones of `delay` before it count as well.
///
/// ```text
///   wrong                  ├── some time ──┤ now
///   right        ├─ delay ─┴───────────────┤
/// ```
#[derive(Clone, Debug)]
pub struct Guard {
    limit: f64,
    delay: Duration,
    /// The evidence of what went wrong, and of what went well longer ago than the delay.
    sums: [f64; ALTERNATIVES.len()],
    /// What went well since.
    recent: VecDeque<(Instant, u64)>,
}

impl Guard {
    /// A guard of a limit from 0 to 1. With 0, any event is too much. It may take `delay` longer
    /// until it is known that a request went wrong than that it went well.
    pub fn new(limit: f64, delay: Duration) -> Self {
        let (sums, recent) = ([0.0; ALTERNATIVES.len()], VecDeque::new());
        Self { limit: limit.clamp(0.0, 1.0), delay, sums, recent }
    }

    /// The limit.
    pub fn limit(&self) -> f64 {
        self.limit
    }

    /// Takes note that `wrong` of the `requests` since the last look have gone wrong. Returns
    /// whether the limit is exceeded.
    pub fn is_exceeded(&mut self, now: Instant, wrong: u64, requests: u64) -> bool {
        if self.limit == 0.0 {
            return wrong > 0;
        }
        self.recent.push_back((now, requests.saturating_sub(wrong)));
        let is_old = |at: Instant| now.saturating_duration_since(at) > self.delay;
        let mut old = 0;
        while let Some(&(_, right)) = self.recent.front().filter(|(at, _)| is_old(*at)) {
            self.recent.pop_front();
            old += right;
        }
        let recent: u64 = self.recent.iter().map(|(_, right)| right).sum();
        let (known, still) = (self.evidence(wrong, old), self.evidence(0, recent));
        for (sum, known) in self.sums.iter_mut().zip(known) {
            *sum = (*sum + known).max(0.0);
        }
        self.sums.iter().zip(still).any(|(sum, still)| sum + still > ENOUGH)
    }

    /// The evidence of some requests, for each of the alternatives.
    fn evidence(&self, wrong: u64, right: u64) -> [f64; ALTERNATIVES.len()] {
        ALTERNATIVES.map(|multiple| {
            // With a share of 1, a single right answer would prove the contrary.
            let most = f64::midpoint(1.0, self.limit);
            let share = (multiple * self.limit).min(most);
            let evidence = wrong as f64 * (share / self.limit).ln()
                + right as f64 * ((1.0 - share) / (1.0 - self.limit)).ln();
            // A limit of 1 is never exceeded: 0/0 is no evidence.
            if evidence.is_nan() { 0.0 } else { evidence }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    const LOOK: Duration = Duration::from_millis(250);
    const DELAY: Duration = Duration::from_secs(2);

    /// Whether the limit is exceeded after the last one of some looks.
    fn looks(limit: f64, looks: &[(u64, u64)]) -> bool {
        let (mut guard, start) = (Guard::new(limit, DELAY), Instant::now());
        let look = |(place, (wrong, requests)): (usize, &(u64, u64))| {
            guard.is_exceeded(start + place as u32 * LOOK, *wrong, *requests)
        };
        looks.iter().enumerate().map(look).last().unwrap_or(false)
    }

    /// The number of looks at 100 requests after which the guard reports this share of errors, if
    /// at most `looks`.
    fn noticed(limit: f64, share: f64, looks: u64, seed: u64) -> Option<u64> {
        let (mut guard, mut random) = (Guard::new(limit, DELAY), SplitMix64::new(seed));
        let start = Instant::now();
        let mut wrong = || {
            (0..100).filter(|_| (random.below(1 << 30) as f64) < share * f64::from(1 << 30)).count()
        };
        (1..=looks).find(|look| guard.is_exceeded(start + *look as u32 * LOOK, wrong() as u64, 100))
    }

    #[test]
    fn one_error_is_no_reason() {
        assert!(!looks(0.01, &[(1, 1)]));
        assert!(!looks(0.01, &[(1, 1), (0, 100)]));
    }

    #[test]
    fn a_server_within_the_limit_stays() {
        for seed in 0..50 {
            assert_eq!(noticed(0.01, 0.008, 500, seed), None, "{seed}");
        }
    }

    #[test]
    fn twice_the_limit_is_noticed_and_more_is_noticed_sooner() {
        for seed in 0..20 {
            let (twice, all) = (noticed(0.005, 0.01, 400, seed), noticed(0.005, 0.9, 400, seed));
            assert!(twice.is_some() && all == Some(1), "{twice:?} {all:?}");
        }
    }

    #[test]
    fn a_long_good_time_hides_nothing() {
        let mut all = vec![(0, 10_000_000)];
        all.extend([(0, 0); 10]);
        all.push((20, 40));
        assert!(looks(0.01, &all));
    }

    #[test]
    fn what_goes_wrong_is_known_late() {
        // The load ends, and time-outs come after so many looks.
        let ends = |pause: usize| {
            let mut all = vec![(10, 4_000); 8];
            all.extend(vec![(0, 0); pause]);
            all.push((10, 10));
            all.extend(vec![(0, 0); 20]);
            (all.len() - 21..all.len()).any(|end| looks(0.01, &all[..=end]))
        };
        assert!(!ends(0) && !ends(6) && ends(40));
    }

    #[test]
    fn the_limits_at_the_ends() {
        assert!(looks(0.0, &[(1, 1_000_000)]));
        assert!(!looks(0.0, &[(0, 1_000_000)]));
        assert!(!looks(1.0, &[(100, 100)]));
        assert!(looks(0.5, &[(200, 200)]));
    }
}
