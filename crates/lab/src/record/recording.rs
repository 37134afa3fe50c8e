//! The recording that an experiment replays, as its results have it.

use serde::{Deserialize, Serialize};

/// The recording, and how it is replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The file, as it was named.
    pub trace: String,
    /// SHA-256 of its text, which names its content.
    pub checksum: String,
    /// How many times as fast it is replayed.
    pub speed: f64,
    /// The place in it; none for anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What it was made from, such as `combined log`.
    pub source: String,
    /// The length of the recording, in seconds.
    pub seconds: f64,
    /// How many requests it has.
    pub requests: u64,
    /// How many connections it has.
    pub connections: u64,
    /// How many connections are open on average.
    pub open: f64,
    /// Requests in each of 48 parts of it.
    pub arrivals: Vec<u64>,
    /// Requests that a connection carries.
    pub carried: Spread,
    /// Seconds from a reply to the next request on its connection.
    pub think_seconds: Spread,
    /// Bytes of a reply.
    pub reply_bytes: Spread,
    /// What it lacks, and what was taken for it.
    #[serde(default)]
    pub inferred: Vec<String>,
    /// What a reader should know of it.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// How values are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half are no larger.
    pub p50: f64,
    /// 90 % are no larger.
    pub p90: f64,
    /// 99 % are no larger.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Recording {
    /// Requests a second of it, replayed with so many times its users.
    pub fn rate(&self, users: usize) -> f64 {
        self.requests as f64 / self.seconds.max(1.0) * self.speed * users as f64
    }
}

impl Spread {
    /// How these values are spread; zeroes where there are none.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (share * values.len() as f64).ceil() as usize;
            values.get(place.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spread_from_the_median_to_the_largest() {
        let spread = Spread::of((1..=100).rev().map(f64::from).collect());
        assert_eq!(spread, Spread { p50: 50.0, p90: 90.0, p99: 99.0, max: 100.0 });
        assert_eq!(Spread::of(vec![]), Spread::default());
    }
}
