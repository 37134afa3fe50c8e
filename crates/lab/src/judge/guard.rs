//! Notices that too large a share of requests goes wrong, as soon as it is sure enough.
//!
//! A single look proves little: one error of two requests is not a share of 50 %. So each look is
//! evidence for a larger share against the limit, a likelihood ratio. The sum of the logarithms
//! never falls below zero, so a long good time does not hide a present failure. For a server that
//! keeps to the limit, the sum passes `ENOUGH` once in a million requests on average. The method is
//! Page's CUSUM (Shin, Ramdas & Rinaldo, *E-detectors*, 2023).

/// The larger shares that the guard tests for, as multiples of the limit.
const ALTERNATIVES: [f64; 3] = [2.0, 5.0, 20.0];

/// The logarithm of the evidence that is enough: a million, for each of the alternatives.
const ENOUGH: f64 = 13.8155 + 1.0986;

/// A limit to a share of requests, and the evidence that it is exceeded.
#[derive(Clone, Debug)]
pub struct Guard {
    limit: f64,
    sums: [f64; ALTERNATIVES.len()],
}

impl Guard {
    /// A guard of a limit from 0 to 1. With 0, any event is too much.
    pub fn new(limit: f64) -> Self {
        Self { limit: limit.clamp(0.0, 1.0), sums: [0.0; ALTERNATIVES.len()] }
    }

    /// The limit.
    pub fn limit(&self) -> f64 {
        self.limit
    }

    /// Takes note that `wrong` of the `requests` since the last look have gone wrong. Returns
    /// whether the limit is exceeded.
    pub fn is_exceeded(&mut self, wrong: u64, requests: u64) -> bool {
        if self.limit == 0.0 {
            return wrong > 0;
        }
        let (wrong, right) = (wrong as f64, requests.saturating_sub(wrong) as f64);
        for (sum, multiple) in self.sums.iter_mut().zip(ALTERNATIVES) {
            // With a share of 1, a single right answer would prove the contrary.
            let most = f64::midpoint(1.0, self.limit);
            let share = (multiple * self.limit).min(most);
            let evidence = wrong * (share / self.limit).ln()
                + right * ((1.0 - share) / (1.0 - self.limit)).ln();
            // A limit of 1 is never exceeded: 0/0 is no evidence.
            *sum = if evidence.is_nan() { 0.0 } else { (*sum + evidence).max(0.0) };
        }
        self.sums.iter().any(|sum| *sum > ENOUGH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// The number of looks at 100 requests after which the guard reports this share of errors, if
    /// at most `looks`.
    fn noticed(limit: f64, share: f64, looks: u64, seed: u64) -> Option<u64> {
        let (mut guard, mut random) = (Guard::new(limit), SplitMix64::new(seed));
        let mut wrong = || {
            (0..100).filter(|_| (random.below(1 << 30) as f64) < share * f64::from(1 << 30)).count()
        };
        (1..=looks).find(|_| guard.is_exceeded(wrong() as u64, 100))
    }

    #[test]
    fn one_error_is_no_reason() {
        let mut guard = Guard::new(0.01);
        assert!(!guard.is_exceeded(1, 1));
        assert!(!guard.is_exceeded(0, 100));
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
        let mut guard = Guard::new(0.01);
        assert!(!guard.is_exceeded(0, 10_000_000));
        assert!(guard.is_exceeded(20, 40));
    }

    #[test]
    fn the_limits_at_the_ends() {
        assert!(Guard::new(0.0).is_exceeded(1, 1_000_000));
        assert!(!Guard::new(0.0).is_exceeded(0, 1_000_000));
        assert!(!Guard::new(1.0).is_exceeded(100, 100));
        assert!(Guard::new(0.5).is_exceeded(200, 200));
    }
}
