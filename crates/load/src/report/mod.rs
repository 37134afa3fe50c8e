//! The report of a load, as data (`duality load --json`, the lab's cells). [`text`] puts it into
//! words.

mod distribution;
mod latency;
mod merge;
mod open_loop;
mod replayed;
mod server;
mod text;
mod validity;
mod warning;

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Options;
use crate::counters::Meanwhile;
use crate::crowd::Fate;
use crate::engine::Outcome;
use crate::failure::WRONG_OUTSIDE;
use crate::fidelity::Replayed;
use crate::quota::Exhausted;

pub use distribution::{Bar, bars, rows};
pub(crate) use latency::encode;
pub use latency::{HistogramError, Latency};
pub use merge::Latencies;
pub use open_loop::OpenLoop;
pub use text::duration;
pub use warning::{Warning, WarningKind};

/// The version of [`Report`]'s serialised format.
const VERSION: u32 = 1;

/// A client that used more of its core than this may have been the limit.
const BUSY_CLIENT: f64 = 0.95;

/// The measurements of a load in its window.
///
/// Requests are counted if their correct reply is complete within the window. Latencies are those
/// of requests that also began in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The version of this format: 1.
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// The target as its user writes it.
    pub target: String,
    /// The clients' behaviour: `closed`, `serial`, `limited`, `open` or `trace`.
    pub pattern: String,
    /// The number of connections that are open at once: the offered load l of a closed loop.
    pub connections: usize,
    /// Whether a connection carried more than one request.
    pub keep_alive: bool,
    /// The number of requests on a connection before its replacement, if there was a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u32>,
    /// The number of source addresses of the connections.
    pub sources: u32,
    /// The length of the window.
    pub window_seconds: f64,
    /// Correct replies.
    pub requests: u64,
    /// Correct replies in a second.
    pub requests_per_second: f64,
    /// The time from the beginning of a request to the last byte of its reply, in microseconds.
    /// Without keep-alive, a request begins before its connection is made. If the server then ends
    /// the connection, the request ends with it. In an open loop a request begins at its due time,
    /// so these are the corrected latencies.
    pub latency_us: Latency,
    /// The time from the sending of a request to the first byte of its reply, in microseconds. The
    /// requests are those of `latency_us`. Without keep-alive, it counts from before the connection
    /// is made. `None` for chat, with messages that no request asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<Latency>,
    /// The average number of requests in flight: the sum of their times in the window, divided by
    /// the window's length. Except at the edges, this is n · t_r / t, for n requests of mean
    /// latency t_r in a window of t. See Kerneis and Chroboczek, *Are events fast?*, 2009. A
    /// connection that got no reply in the window counts as having no request under way, because
    /// its request waits for its turn. The figure is at most l, or 1 if requests come one by one.
    /// If the figure is well below the maximum, a cause other than the server limited the load. In
    /// an open loop, a request counts from its sending, so the figure is the number of connections
    /// in use.
    pub measured_load: f64,
    /// Failed requests by kind: `connect-refused`, `connect-timeout`, `connect-failed`,
    /// `handshake-failed`, `no-ports`, `no-descriptors`, `reset`, `closed-early`, `cut-short`,
    /// `timed-out`, `wrong-status`, `wrong-bytes`, `malformed`, `stream-reset`, `gone-away`,
    /// `store-unavailable`, `other-left`, `too-slow`, `server-full`, `io`. All wrong
    /// replies before the window opened or after it closed are `wrong-outside`. Kinds that did not
    /// occur are left out.
    pub errors: BTreeMap<String, u64>,
    /// Bytes of the correct replies, with their heads.
    pub bytes_received: u64,
    /// Connections made in the whole run, warm-up included.
    pub connections_opened: u64,
    /// The number of the l connections that got at least one correct reply.
    pub connections_served: u64,
    /// CPU time of the load's kernel thread over the window's length: 1 is all of one core.
    pub client_cpu_share: f64,
    /// The share of the window, from 0 to 1, in which the load's thread was ready to run without a
    /// CPU. Another thread had the CPU then. The share is 0 if the kernel does not report it.
    #[serde(default)]
    pub client_wait_share: f64,
    /// The client used nearly all of its core, or the client itself caused most of the delay of an
    /// open loop. So the server may be capable of more than this.
    pub client_was_limit: bool,
    /// How often the server's accept queue was full during the run. This count and the next cover
    /// the server's own listeners. The count is 0 if the kernel does not report it, or the server
    /// is on another machine.
    pub listen_overflows: u64,
    /// The number of handshakes that the server's listeners dropped during the run.
    pub listen_drops: u64,
    /// The CPU quota of a control group, if one ran out during the run. All processes of the group
    /// stood still then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Exhausted>,
    /// The fate of the connections beside the measured connections, by kind: `idle`,
    /// `slow-readers`, `slow-senders`. Kinds without connections are left out.
    pub crowd: BTreeMap<String, Fate>,
    /// The reasons why the figures cannot be trusted, one sentence each, by kind: `starved`
    /// ([`Report::STARVED`]), `send-lag`, `littles-law`, `replay`. In each case the generator could
    /// not do its work, or did wrong work. Empty if the figures are valid.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub invalid: BTreeMap<String, String>,
    /// Notes for readers of the figures, in full sentences.
    pub warnings: Vec<Warning>,
    /// Correct replies in a second, in each twentieth of the window. Empty for a load that stops
    /// after a number of requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices_requests_per_second: Vec<f64>,
    /// All latencies, in nanoseconds, to three digits: an HdrHistogram in V2 format, compressed, in
    /// base64. See [`Report::latencies`].
    pub histogram: String,
    /// The figures of an open loop or a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
    /// The figures of a replay. `None` for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Replayed>,
}

impl Report {
    pub(crate) fn new(options: &Options, outcome: &Outcome, meanwhile: Meanwhile) -> Self {
        let measurement = &outcome.measurement;
        let window = measurement.window.as_secs_f64();
        let per_second = |amount: f64| if window > 0.0 { amount / window } else { 0.0 };
        let latency = Latency::of(&measurement.latencies);
        let requests_per_second = per_second(measurement.requests as f64);
        let client_cpu_share = per_second(measurement.cpu.as_secs_f64());
        let open_loop = OpenLoop::of(options, outcome);
        // In a replay, the comparison of planned and sent judges this.
        let convicted = outcome.replayed.is_none()
            && open_loop.as_ref().is_some_and(|open| open.generator_was_limit(&latency));
        let outside = Some(measurement.wrong_outside).filter(|count| *count > 0);
        let errors = measurement
            .failures
            .iter()
            .map(|(kind, failures)| ((*kind).to_owned(), failures.count))
            .chain(outside.map(|count| (WRONG_OUTSIDE.to_owned(), count)));
        let Meanwhile { listen, exhausted } = meanwhile;
        let mut report = Self {
            version: VERSION,
            target: options.target.to_string(),
            pattern: options.pattern.name().to_owned(),
            connections: options.connections,
            keep_alive: options.keeps_connections(),
            requests_per_connection: options.requests_per_connection.map(u32::from),
            sources: options.route_to(options.target.place()).sources(),
            window_seconds: window,
            requests: measurement.requests,
            requests_per_second,
            latency_us: latency,
            first_byte_us: Some(&measurement.first_bytes)
                .filter(|waits| !waits.is_empty())
                .map(Latency::of),
            measured_load: per_second(measurement.in_use.as_secs_f64()),
            errors: errors.collect(),
            bytes_received: measurement.bytes,
            connections_opened: measurement.connections_opened,
            connections_served: measurement.connections_served,
            client_cpu_share,
            client_wait_share: per_second(measurement.waited.as_secs_f64()),
            client_was_limit: client_cpu_share > BUSY_CLIENT || convicted,
            listen_overflows: listen.overflows,
            listen_drops: listen.drops,
            quota: exhausted,
            crowd: outcome.crowd.clone(),
            invalid: BTreeMap::new(),
            warnings: Vec::new(),
            slices_requests_per_second: validity::rates(&measurement.marks),
            histogram: encode(&measurement.latencies),
            open_loop,
            replayed: outcome.replayed.clone(),
        };
        report.invalid = validity::problems(&report, options, measurement);
        report.warnings = report.warnings(options, outcome);
        report
    }

    /// The latencies, in nanoseconds, for merging with other reports of the same load.
    ///
    /// # Errors
    ///
    /// If this report was not written by this program, or was changed since.
    pub fn latencies(&self) -> Result<Histogram<u64>, HistogramError> {
        merge::decode(&self.target, &self.histogram)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn histogram(microseconds: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        microseconds.into_iter().for_each(|value| histogram.record(1000 * value).unwrap());
        histogram
    }

    pub(crate) fn report() -> Report {
        let latencies = histogram(1..=1000);
        Report {
            version: VERSION,
            target: "http://127.0.0.1:8080/".to_owned(),
            pattern: "closed".to_owned(),
            connections: 100,
            keep_alive: true,
            requests_per_connection: None,
            sources: 1,
            window_seconds: 10.0,
            requests: 500_000,
            requests_per_second: 50_000.0,
            latency_us: Latency::of(&latencies),
            first_byte_us: Some(Latency::of(&histogram(1..=900))),
            measured_load: 99.5,
            errors: BTreeMap::new(),
            bytes_received: 152_500_000,
            connections_opened: 100,
            connections_served: 100,
            client_cpu_share: 0.63,
            client_wait_share: 0.004,
            client_was_limit: false,
            listen_overflows: 0,
            listen_drops: 0,
            quota: None,
            crowd: BTreeMap::new(),
            invalid: BTreeMap::new(),
            warnings: Vec::new(),
            slices_requests_per_second: vec![50_000.0; 20],
            histogram: encode(&latencies),
            open_loop: None,
            replayed: None,
        }
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let latency = Latency::of(&histogram(1..=1000));
        for (found, expected) in [
            (latency.mean, 500.5),
            (latency.min, 1.0),
            (latency.p50, 500.0),
            (latency.p90, 900.0),
            (latency.p99, 990.0),
            (latency.p99_9, 999.0),
            (latency.max, 1000.0),
        ] {
            assert!((found / expected - 1.0).abs() < 0.002, "{found} is not {expected}");
        }
        assert_eq!(Latency::of(&histogram([])), Latency::default());
    }

    #[test]
    fn json_keeps_everything() {
        let text = serde_json::to_string(&report()).unwrap();
        assert!(text.contains(r#""p99.9":"#));
        let back: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(back, report());
        assert_eq!(back.latencies().unwrap(), histogram(1..=1000));
    }

    #[test]
    fn histograms_of_several_loads_merge_exactly() {
        let mut merged = report().latencies().unwrap();
        merged.add(histogram(1001..=2000)).unwrap();
        assert_eq!(merged, histogram(1..=2000));
    }

    #[test]
    fn a_histogram_that_is_none_is_told() {
        for text in ["%", "AAAA"] {
            let broken = Report { histogram: text.to_owned(), ..report() };
            assert!(broken.latencies().unwrap_err().to_string().contains("http://127.0.0.1:8080/"));
        }
    }
}
