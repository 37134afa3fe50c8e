//! Planned against sent: whether a replay made the intended load.
//!
//! A request is planned for its due time: a time of the recording, or its think time after the
//! reply before. So a slow server delays the plan, and only the generator delays the sending. The
//! distances are those of Kolmogorov and Smirnov: the largest difference between two distribution
//! functions, from 0 to 1.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest distance of the times between two requests.
const MOST_OF_GAPS: f64 = 0.05;

/// The largest distance of the numbers of requests on a connection.
const MOST_OF_REQUESTS: f64 = 0.01;

/// The longest lag of 99 % of the requests.
const LONGEST_LAG: Duration = Duration::from_millis(1);

/// With fewer requests, distances depend on chance and not on the generator.
const FEWEST: usize = 100;

/// With fewer parts, a piece does not show how requests cluster.
const FEWEST_PARTS: usize = 5;

/// Planned against sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fidelity {
    /// Requests that were due in the window.
    pub planned: usize,
    /// The number of these requests that were sent in the window.
    pub sent: usize,
    /// The distance between planned and sent times between two requests.
    pub gaps_distance: f64,
    /// The distance between planned and sent numbers of requests on a connection.
    pub requests_distance: f64,
    /// The time from a request's due time until it was sent, in microseconds: 99 % are no longer.
    pub lag_p99_us: f64,
    /// Variance over mean of the requests in a second. Independent requests have 1. `None` if the
    /// window is too short.
    pub planned_dispersion_1s: Option<f64>,
    /// The same ratio for the sent requests.
    pub sent_dispersion_1s: Option<f64>,
    /// The ratio of the planned requests in ten seconds.
    pub planned_dispersion_10s: Option<f64>,
    /// The ratio of the sent requests in ten seconds.
    pub sent_dispersion_10s: Option<f64>,
}

/// A replay in its report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replayed {
    /// The multiple of the recording's users.
    pub users: usize,
    /// The factor of the recording's speed.
    pub speed: f64,
    /// The number of users that come at the same time. `None` as recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bunch: Option<usize>,
    /// The most bytes a second that a client takes. `None` as recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_rate: Option<u64>,
    /// The place in the recording. `None` for any place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The seed of random choices.
    pub seed: u64,
    /// The connections of the piece, and the number of them that were open before it began.
    pub connections: usize,
    /// See `connections`.
    pub open_before: usize,
    /// The number of earlier connections without a reply when the piece began, because the server
    /// let them wait.
    pub left_waiting: usize,
    /// The number of requests of the piece, if the server answers all.
    pub requests: usize,
    /// The properties that the recording lacked, and their substitutes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inferred: Vec<String>,
    /// The reason why the generator had no real-time priority, if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_real_time: Option<String>,
    /// Planned against sent.
    pub fidelity: Fidelity,
}

/// The events on a connection in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// The number of due requests, and the number of sent ones.
    pub(crate) due: u32,
    pub(crate) sent: u32,
}

/// Whether a request that was due at this time, and was not sent until the window closed, is
/// missing. A request may be sent a little late, and the window may close in this time.
pub(crate) fn is_missing(due: Instant, closed: Instant) -> bool {
    due + LONGEST_LAG < closed
}

impl Fidelity {
    /// Compares the due times of requests with their sending times, since the window opened, for
    /// sent requests. `carried` has the connections with something to send.
    pub(crate) fn of(
        requests: &[(Duration, Duration)],
        carried: &[Carried],
        window: Duration,
    ) -> Self {
        let times = |of: fn(&(Duration, Duration)) -> Duration| {
            let mut times: Vec<f64> = requests.iter().map(|both| of(both).as_secs_f64()).collect();
            times.sort_by(f64::total_cmp);
            times
        };
        let (planned, sent) = (times(|both| both.0), times(|both| both.1));
        let counts = |of: fn(&Carried) -> u32| carried.iter().map(move |one| f64::from(of(one)));
        let mut lags: Vec<f64> = requests
            .iter()
            .map(|(due, sent)| 1e6 * sent.saturating_sub(*due).as_secs_f64())
            .collect();
        lags.sort_by(f64::total_cmp);
        let at_99 = (lags.len() * 99).div_ceil(100).saturating_sub(1);
        let dispersed = |times: &[f64], seconds| dispersion(times, seconds, window.as_secs_f64());
        Self {
            planned: counts(|one| one.due).sum::<f64>() as usize,
            sent: requests.len(),
            gaps_distance: distance(&gaps(&planned), &gaps(&sent)),
            requests_distance: distance(
                &counts(|one| one.due).collect::<Vec<_>>(),
                &counts(|one| one.sent).collect::<Vec<_>>(),
            ),
            lag_p99_us: lags.get(at_99).copied().unwrap_or(0.0),
            planned_dispersion_1s: dispersed(&planned, 1.0),
            sent_dispersion_1s: dispersed(&sent, 1.0),
            planned_dispersion_10s: dispersed(&planned, 10.0),
            sent_dispersion_10s: dispersed(&sent, 10.0),
        }
    }

    /// Whether the replay is a faithful one.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.problem().is_none()
    }

    /// The reason why the replay is not faithful, in a sentence, if it is not.
    pub(crate) fn problem(&self) -> Option<String> {
        let Self { planned, sent, gaps_distance, requests_distance, lag_p99_us, .. } = *self;
        let what = if requests_distance > MOST_OF_REQUESTS {
            format!(
                "of {planned} requests that were due it sent {sent}, and the requests of a \
                 connection are {requests_distance:.3} from those planned, of {MOST_OF_REQUESTS} \
                 at most"
            )
        } else if lag_p99_us > 1e6 * LONGEST_LAG.as_secs_f64() {
            format!(
                "it sent one request in a hundred {:.1} ms or more after it was due, of 1 ms at most",
                lag_p99_us / 1000.0
            )
        } else if sent >= FEWEST && gaps_distance > MOST_OF_GAPS {
            format!(
                "the times between its requests are {gaps_distance:.3} from those planned, of \
                 {MOST_OF_GAPS} at most"
            )
        } else {
            return None;
        };
        Some(format!(
            "The generator did not keep to the recording: {what}. Give it a processor of its own \
             (`load --cpus`, `compare --client-cpus`), or fewer users."
        ))
    }
}

/// The times between neighbours.
fn gaps(sorted: &[f64]) -> Vec<f64> {
    sorted.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// The distance of Kolmogorov and Smirnov between two samples. 0 if one is empty.
pub(crate) fn distance(one: &[f64], other: &[f64]) -> f64 {
    if one.is_empty() || other.is_empty() {
        return 0.0;
    }
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let (one, other) = (sorted(one), sorted(other));
    let (mut in_one, mut in_other, mut farthest) = (0, 0, 0.0_f64);
    while in_one < one.len() && in_other < other.len() {
        let value = one[in_one].min(other[in_other]);
        while one.get(in_one).is_some_and(|next| *next <= value) {
            in_one += 1;
        }
        while other.get(in_other).is_some_and(|next| *next <= value) {
            in_other += 1;
        }
        let shares = (in_one as f64 / one.len() as f64, in_other as f64 / other.len() as f64);
        farthest = farthest.max((shares.0 - shares.1).abs());
    }
    farthest
}

/// Variance over mean of the number of `times` in each part of `seconds` (Fano 1947). `None` if
/// there are few parts, or no times.
pub(crate) fn dispersion(times: &[f64], seconds: f64, window: f64) -> Option<f64> {
    let parts = (window / seconds + 1e-6) as usize;
    if parts < FEWEST_PARTS {
        return None;
    }
    let mut counts = vec![0.0_f64; parts];
    for time in times {
        if let Some(count) = counts.get_mut((time.max(0.0) / seconds) as usize) {
            *count += 1.0;
        }
    }
    let mean = counts.iter().sum::<f64>() / parts as f64;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / parts as f64;
    (mean > 0.0).then(|| variance / mean)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Few connections are far from those planned if one request is missing.
    #[test]
    fn a_request_that_is_due_as_the_window_closes_is_not_missing() {
        let closed = Instant::now() + Duration::from_secs(10);
        for (before, missing) in [(0.0, false), (0.0005, false), (0.001, false), (0.0011, true)] {
            assert_eq!(is_missing(closed - seconds(before), closed), missing, "{before}");
        }
        assert!(!is_missing(closed + seconds(1.0), closed));
    }

    /// Requests a hundredth of a second apart, each with its delay in seconds.
    fn late(count: usize, lag: impl Fn(usize) -> f64) -> Fidelity {
        let due = |number: usize| number as f64 / 100.0;
        let requests: Vec<_> = (0..count)
            .map(|number| (seconds(due(number)), seconds(due(number) + lag(number))))
            .collect();
        let carried = Carried { due: 5, sent: 5 };
        Fidelity::of(&requests, &vec![carried; count / 5], seconds(due(count)))
    }

    #[test]
    fn what_is_sent_when_it_is_due_is_a_replay() {
        let found = late(1000, |_| 0.0);
        assert_eq!((found.planned, found.sent, found.gaps_distance), (1000, 1000, 0.0));
        assert_eq!(found.problem(), None);
        assert_eq!(found.planned_dispersion_1s, Some(0.0));
        assert_eq!(found.planned_dispersion_10s, None);
    }

    #[test]
    fn what_is_sent_late_lost_or_at_once_is_none() {
        let slow = late(1000, |number| if number % 50 == 0 { 0.002 } else { 0.0 });
        assert!((slow.lag_p99_us - 2000.0).abs() < 1.0, "{slow:?}");
        assert!(slow.problem().unwrap().contains("2.0 ms or more after it was due"));
        // Two requests at a time, and early enough for the lag.
        let uneven = late(1000, |number| if number % 2 == 0 { 0.000_9 } else { 0.0 });
        let message = uneven.problem().unwrap();
        assert!(message.contains("times between its requests"), "{message}");
        let carried = [Carried { due: 5, sent: 5 }, Carried { due: 5, sent: 4 }];
        let lost = Fidelity::of(&[], &carried, seconds(1.0));
        assert_eq!(lost.requests_distance, 0.5);
        assert!(lost.problem().unwrap().contains("of 10 requests"), "{lost:?}");
    }

    #[test]
    fn independent_requests_have_a_dispersion_of_one() {
        let mut random = crate::random::SplitMix64::new(3);
        let mut at = 0.0;
        let times: Vec<f64> = std::iter::from_fn(|| {
            at += random.exponential() / 20.0;
            (at < 2000.0).then_some(at)
        })
        .collect();
        let found = dispersion(&times, 1.0, 2000.0).unwrap();
        assert!((found - 1.0).abs() < 0.15, "{found}");
        // Groups of ten requests have ten times the dispersion.
        let tenfold: Vec<f64> = times.iter().flat_map(|time| [*time; 10]).collect();
        let found = dispersion(&tenfold, 1.0, 2000.0).unwrap();
        assert!((found - 10.0).abs() < 1.5, "{found}");
        assert_eq!(dispersion(&[], 1.0, 10.0), None);
    }

    proptest! {
        #[test]
        fn a_distance_is_none_from_itself_and_all_from_what_is_elsewhere(
            values in prop::collection::vec(0.0_f64..10.0, 1..50),
            others in prop::collection::vec(0.0_f64..10.0, 1..50),
        ) {
            let away: Vec<f64> = values.iter().map(|value| value + 10.0).collect();
            prop_assert!(distance(&values, &values) < 1e-12);
            prop_assert!((distance(&values, &away) - 1.0).abs() < 1e-12);
            let (one, other) = (distance(&values, &others), distance(&others, &values));
            prop_assert!((one - other).abs() < 1e-12 && (0.0..=1.0).contains(&one));
        }
    }
}
