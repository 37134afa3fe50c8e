//! The recording that an experiment replays, as results keep it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The recording, and how it is replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// The file, as the user named it.
    pub trace: String,
    /// SHA-256 of the file's text, which identifies the content.
    pub checksum: String,
    /// The factor of the replay's speed.
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
    /// The origin of the recording, such as `combined log`.
    pub source: String,
    /// The length of the recording, in seconds.
    pub seconds: f64,
    /// The number of requests in the recording.
    pub requests: u64,
    /// The number of connections in the recording.
    pub connections: u64,
    /// The number of connections that are open on average.
    pub open: f64,
    /// The number of requests in each of 48 parts of the recording.
    pub arrivals: Vec<u64>,
    /// The number of requests on a connection.
    pub carried: Spread,
    /// Seconds from a reply to the next request on its connection.
    pub think_seconds: Spread,
    /// Bytes of a reply.
    pub reply_bytes: Spread,
    /// The properties that the recording lacks, and their substitutes.
    #[serde(default)]
    pub inferred: Vec<String>,
    /// Warnings for readers about the recording.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The spread of some values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Half of the values are no larger.
    pub p50: f64,
    /// 90 % of the values are no larger.
    pub p90: f64,
    /// 99 % of the values are no larger.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Recording {
    /// The recording's requests a second, replayed with a multiple of its users.
    pub fn rate(&self, users: usize) -> f64 {
        self.requests as f64 / self.seconds.max(1.0) * self.speed * users as f64
    }
}

impl Spread {
    /// The spread of these values. Zeros if there are none.
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
