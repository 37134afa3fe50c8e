//! The times at which requests arrive in an open loop. They are a pure function of the number of
//! arrivals so far, the time since the start, and a seeded random generator. This module does not
//! sleep, or read a clock.
//!
//! ```text
//!   constant     │   │   │   │   │   │   │   │   │   │     the k-th at k/R
//!   poisson      ││    │ │      │ ││     │    │    ││     waits are exponential, with mean 1/R
//!   uniform      │  │ │    │  │  │   │ │   │    │  │      waits are anything from MIN to MAX
//!   sinusoidal   │    │   │  │ │││ │  │   │    │    │     waits swing from MAX to MIN and back
//! ```
//!
//! *Poisson* arrivals model many independent users. *Uniform* and *sinusoidal* arrivals are the
//! waits with which Truppel and Abreu load their servers. For these, the user may give the waits
//! instead of the rate.

use std::f64::consts::TAU;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::random::SplitMix64;

/// One kernel thread cannot pace a higher rate, and a lower rate has no use.
const RATES: std::ops::RangeInclusive<f64> = 0.001..=10e6;

/// The process by which requests arrive, whatever the fate of earlier requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Arrivals {
    /// One request every 1/rate seconds.
    Constant {
        /// Requests a second.
        rate: f64,
    },
    /// At random and independently: the waits between requests are exponentially distributed.
    Poisson {
        /// Requests a second, on average.
        rate: f64,
    },
    /// After uniformly distributed waits.
    Uniform {
        /// The shortest wait.
        shortest: Duration,
        /// The longest.
        longest: Duration,
    },
    /// After waits that follow a cosine of the time, from the longest wait to the shortest one and
    /// back.
    Sinusoidal {
        /// The shortest wait. A zero would make time stand still.
        shortest: Duration,
        /// The longest.
        longest: Duration,
        /// The period of the waits.
        period: Duration,
    },
}

impl Arrivals {
    /// Uniform waits, from zero to twice the mean, that make `rate` requests a second on average.
    pub fn uniform(rate: f64) -> Self {
        Arrivals::Uniform { shortest: Duration::ZERO, longest: wait(2.0 / rate) }
    }

    /// Waits that swing, so that the rate swings between half and twice its mean, `rate`.
    pub fn sinusoidal(rate: f64, period: Duration) -> Self {
        Arrivals::Sinusoidal { shortest: wait(0.5 / rate), longest: wait(2.0 / rate), period }
    }

    /// This process with another mean rate, in requests a second.
    #[must_use]
    pub fn at_rate(self, rate: f64) -> Self {
        match self {
            Arrivals::Constant { .. } => Arrivals::Constant { rate },
            Arrivals::Poisson { .. } => Arrivals::Poisson { rate },
            Arrivals::Uniform { shortest, longest } => {
                let scale = self.rate() / rate;
                Arrivals::Uniform {
                    shortest: wait(shortest.as_secs_f64() * scale),
                    longest: wait(longest.as_secs_f64() * scale),
                }
            }
            Arrivals::Sinusoidal { shortest, longest, period } => {
                let scale = self.rate() / rate;
                Arrivals::Sinusoidal {
                    shortest: wait(shortest.as_secs_f64() * scale),
                    longest: wait(longest.as_secs_f64() * scale),
                    period,
                }
            }
        }
    }

    /// The average number of requests in a second.
    ///
    /// For sinusoidal waits w(t), the rate is the mean of 1/w(t) over a period. For a cosine
    /// between a and b that is 1/√(a·b).
    pub fn rate(&self) -> f64 {
        match *self {
            Arrivals::Constant { rate } | Arrivals::Poisson { rate } => rate,
            Arrivals::Uniform { shortest, longest } => 2.0 / (shortest + longest).as_secs_f64(),
            Arrivals::Sinusoidal { shortest, longest, .. } => {
                1.0 / (shortest.as_secs_f64() * longest.as_secs_f64()).sqrt()
            }
        }
    }

    /// The name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Arrivals::Constant { .. } => "constant",
            Arrivals::Poisson { .. } => "poisson",
            Arrivals::Uniform { .. } => "uniform",
            Arrivals::Sinusoidal { .. } => "sinusoidal",
        }
    }

    /// The mistake in these values, if there is one.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        match *self {
            Arrivals::Uniform { shortest, longest } if shortest > longest => Some(
                "the shortest wait is longer than the longest: give it first, as in 100us..2ms",
            ),
            Arrivals::Sinusoidal { shortest, longest, period }
                if shortest.is_zero() || shortest > longest || period.is_zero() =>
            {
                Some(
                    "sinusoidal waits go from more than nothing to the longest over a period, as in 100us..2ms over 10s",
                )
            }
            _ if RATES.contains(&self.rate()) => None,
            _ => Some("requests arrive at 0.001 to 10 million a second, on average"),
        }
    }

    /// The times of the arrivals, beginning at zero, without an end.
    pub(crate) fn schedule(self, seed: u64) -> Schedule {
        Schedule { arrivals: self, count: 0, elapsed: 0.0, random: SplitMix64::new(seed) }
    }

    /// The time of the next arrival, in seconds. `count` arrivals came before, the last one at
    /// `elapsed`.
    fn next(&self, count: u64, elapsed: f64, random: &mut SplitMix64) -> f64 {
        match *self {
            // A product: a sum of waits would add up their rounding errors.
            Arrivals::Constant { rate } => count as f64 / rate,
            Arrivals::Poisson { rate } => elapsed + random.exponential() / rate,
            Arrivals::Uniform { shortest, longest } => {
                let (shortest, longest) = (shortest.as_secs_f64(), longest.as_secs_f64());
                elapsed + shortest + random.fraction() * (longest - shortest)
            }
            Arrivals::Sinusoidal { shortest, longest, period } => {
                let (shortest, longest) = (shortest.as_secs_f64(), longest.as_secs_f64());
                let (middle, swing) = ((longest + shortest) / 2.0, (longest - shortest) / 2.0);
                elapsed + middle + swing * (TAU * elapsed / period.as_secs_f64()).cos()
            }
        }
    }
}

/// The times of arrivals, counted from the beginning.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    arrivals: Arrivals,
    count: u64,
    /// The time of the last arrival, in seconds.
    elapsed: f64,
    random: SplitMix64,
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.elapsed = self.arrivals.next(self.count, self.elapsed, &mut self.random);
        self.count += 1;
        Some(wait(self.elapsed))
    }
}

/// Seconds as a duration. Too many seconds become the longest duration.
fn wait(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any process of about `rate` requests a second.
    fn any_arrivals() -> impl Strategy<Value = Arrivals> {
        let rate = 1.0..100_000.0_f64;
        (rate, 0..4, 0.01..0.99_f64).prop_map(|(rate, kind, share)| match kind {
            0 => Arrivals::Constant { rate },
            1 => Arrivals::Poisson { rate },
            2 => Arrivals::Uniform { shortest: wait(share / rate), longest: wait(2.0 / rate) },
            // The waits are much shorter than the period, as the mean rate presumes.
            _ => Arrivals::Sinusoidal {
                shortest: wait(share / rate),
                longest: wait(2.0 / rate),
                period: wait(500.0 / rate),
            },
        })
    }

    fn waits(schedule: Schedule, count: usize) -> Vec<f64> {
        let times: Vec<f64> = schedule.take(count + 1).map(|at| at.as_secs_f64()).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    proptest! {
        #[test]
        fn time_never_goes_back(arrivals in any_arrivals(), seed: u64) {
            prop_assert!(arrivals.problem().is_none());
            prop_assert!(waits(arrivals.schedule(seed), 2_000).iter().all(|wait| *wait >= 0.0));
        }

        #[test]
        fn the_mean_rate_is_the_one_that_is_told(arrivals in any_arrivals(), seed: u64) {
            // Whole periods, if there are periods.
            let length = match arrivals {
                Arrivals::Sinusoidal { period, .. } => 10 * period,
                other => wait(20_000.0 / other.rate()),
            };
            let count = arrivals.schedule(seed).take_while(|at| *at < length).count();
            // The error of a mean of n exponential waits is 1/√n of the mean, and 5 such errors
            // never happen.
            let error = (count as f64 / length.as_secs_f64() / arrivals.rate() - 1.0).abs();
            prop_assert!(error < 0.036, "{} off for {arrivals:?}", error);
        }

        #[test]
        fn waits_stay_within_their_bounds(arrivals in any_arrivals(), seed: u64) {
            if let Arrivals::Uniform { shortest, longest }
                | Arrivals::Sinusoidal { shortest, longest, .. } = arrivals
            {
                // Times are rounded to nanoseconds.
                let shortest = shortest.as_secs_f64() - 2e-9;
                let longest = longest.as_secs_f64() + 2e-9;
                for wait in waits(arrivals.schedule(seed), 2_000) {
                    prop_assert!((shortest..=longest).contains(&wait), "{}", wait);
                }
            }
        }

        #[test]
        fn the_same_seed_gives_the_same_arrivals(arrivals in any_arrivals(), seed: u64) {
            let times = || arrivals.schedule(seed).take(100);
            prop_assert!(times().eq(times()));
        }

        #[test]
        fn another_rate_is_the_same_process(arrivals in any_arrivals(), rate in 1.0..100_000.0_f64) {
            let other = arrivals.at_rate(rate);
            prop_assert_eq!(other.name(), arrivals.name());
            prop_assert!((other.rate() / rate - 1.0).abs() < 0.001);
        }
    }

    #[test]
    fn a_constant_rate_does_not_drift() {
        let late = Arrivals::Constant { rate: 3.0 }.schedule(0).nth(3_000_000).unwrap();
        assert_eq!(late, Duration::from_secs(1_000_000));
    }

    #[test]
    fn a_poisson_process_has_as_much_variance_as_mean() {
        let mut counts = vec![0.0_f64; 1_000];
        for at in (Arrivals::Poisson { rate: 20.0 }).schedule(3) {
            match counts.get_mut(at.as_secs() as usize) {
                Some(count) => *count += 1.0,
                None => break,
            }
        }
        let mean = counts.iter().sum::<f64>() / 1_000.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 999.0;
        assert!((variance / mean - 1.0).abs() < 0.2, "{variance} / {mean}");
    }

    #[test]
    fn sinusoidal_waits_reach_both_bounds() {
        let second = Duration::from_secs(1);
        let (shortest, longest) = (Duration::from_micros(100), Duration::from_micros(900));
        let arrivals = Arrivals::Sinusoidal { shortest, longest, period: second };
        let waits = waits(arrivals.schedule(0), 10_000);
        let low = waits.iter().copied().fold(f64::MAX, f64::min);
        let high = waits.iter().copied().fold(0.0, f64::max);
        assert!((low / 100e-6 - 1.0).abs() < 0.01 && (high / 900e-6 - 1.0).abs() < 0.01);
    }

    #[test]
    fn arrivals_without_sense_are_told() {
        let (short, long) = (Duration::from_micros(1), Duration::from_millis(1));
        for wrong in [
            Arrivals::Constant { rate: 0.0 },
            Arrivals::Poisson { rate: -1.0 },
            Arrivals::Poisson { rate: f64::NAN },
            Arrivals::Constant { rate: f64::INFINITY },
            Arrivals::Uniform { shortest: long, longest: short },
            Arrivals::Uniform { shortest: Duration::ZERO, longest: Duration::ZERO },
            Arrivals::Sinusoidal { shortest: Duration::ZERO, longest: long, period: long },
            Arrivals::Sinusoidal { shortest: short, longest: long, period: Duration::ZERO },
        ] {
            assert!(wrong.problem().is_some(), "{wrong:?}");
        }
        assert_eq!(Arrivals::uniform(100.0).problem(), None);
        assert_eq!(Arrivals::sinusoidal(100.0, Duration::from_secs(10)).problem(), None);
    }
}
