//! What a load measured: as data (`duality load --json`, the lab's cells) and in words.

mod latency;
mod open_loop;
mod server;
mod validity;
mod warning;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use serde::{Deserialize, Serialize};

use crate::counters::ListenCounters;
use crate::crowd::Fate;
use crate::engine::Outcome;
use crate::measurement::Measurement;
use crate::unanswered::Overdue;
use crate::{Options, Pattern, Stop};

use latency::HistogramError;
pub use latency::Latency;
use latency::encode;
pub use open_loop::OpenLoop;
pub use warning::{Warning, WarningKind};

/// The version of the format that [`Report`] is serialised in.
const VERSION: u32 = 1;

/// A client that used more of its core than this may have been the limit.
const BUSY_CLIENT: f64 = 0.95;

/// A measured load below this share of the offered one has a cause other than the server's speed.
const UNUSED_LOAD: f64 = 0.9;

/// What a load measured in its window.
///
/// Requests are counted when their correct reply is complete within the window; latencies are those of
/// requests that also began in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this format: 1.
    pub version: u32,
    /// The target as its user writes it.
    pub target: String,
    /// How clients behaved: `closed`, `serial`, `limited` or `open`.
    pub pattern: String,
    /// The connections open at once: the offered load l of a closed loop.
    pub connections: usize,
    /// Whether a connection carried more than one request.
    pub keep_alive: bool,
    /// How many addresses the connections came from.
    pub sources: u32,
    /// How long the window was open.
    pub window_seconds: f64,
    /// Correct replies.
    pub requests: u64,
    /// Correct replies in a second.
    pub requests_per_second: f64,
    /// From the beginning of a request to the last byte of its reply, in microseconds. Without
    /// keep-alive, a request begins before its connection is made; where the server then ends the
    /// connection, that end is the last of it. In an open loop it begins when it was due, and so these
    /// are the corrected latencies.
    pub latency_us: Latency,
    /// n · t_r / t, for n requests of mean latency t_r in a window of t: how many requests were under
    /// way on average (Kerneis and Chroboczek, *Are events fast?*, 2009). At most l, or 1 if requests
    /// come one by one; well below it, something other than the server limited the load. In an open loop
    /// t_r is the raw latency, and this is how many connections were in use.
    pub measured_load: f64,
    /// Failed requests by kind: `connect-refused`, `connect-timeout`, `connect-failed`, `no-ports`,
    /// `no-descriptors`, `reset`, `closed-early`, `timed-out`, `wrong-status`, `wrong-bytes`,
    /// `malformed`, `store-unavailable`, `other-left`, `too-slow`, `server-full`, `io`. Kinds that did
    /// not occur are left out.
    pub errors: BTreeMap<String, u64>,
    /// Bytes of the correct replies, with their heads.
    pub bytes_received: u64,
    /// Connections made in the whole run, warm-up included.
    pub connections_opened: u64,
    /// How many of the l connections got at least one correct reply.
    pub connections_served: u64,
    /// CPU time of the load's kernel thread over the window's length: 1 is all of one core.
    pub client_cpu_share: f64,
    /// For how much of the window the load's thread could have run and had no CPU, from 0 to 1: another thread had it.
    /// 0 where the kernel does not tell.
    #[serde(default)]
    pub client_wait_share: f64,
    /// The client used (nearly) all of its core, or what delayed the requests of an open loop was in the
    /// main the client itself, so the server may be able to do more than this.
    pub client_was_limit: bool,
    /// How often an accept queue was full during the run. This and the next count all servers of the
    /// network namespace; 0 where the kernel does not tell.
    pub listen_overflows: u64,
    /// How many handshakes were dropped at a listener during the run.
    pub listen_drops: u64,
    /// What became of the connections beside the measured ones, by kind: `idle`, `slow-readers`,
    /// `slow-senders`. Kinds that there were none of are left out.
    pub crowd: BTreeMap<String, Fate>,
    /// Why the figures are not to be trusted, in a sentence each, by kind: `starved` ([`Report::STARVED`]), `send-lag`,
    /// `littles-law`. In each case the generator could not do its work, or did it wrong. Empty if all is well.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub invalid: BTreeMap<String, String>,
    /// What a reader of the figures should know, in full sentences.
    pub warnings: Vec<Warning>,
    /// Correct replies in a second, in each twentieth of the window; none of a load that stops after a number of requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices_requests_per_second: Vec<f64>,
    /// All latencies, in nanoseconds, to three digits: an HdrHistogram in V2 format, compressed, in
    /// base64. See [`Report::latencies`].
    pub histogram: String,
    /// What only an open loop has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
}

impl Report {
    pub(crate) fn new(
        options: &Options,
        outcome: &Outcome,
        listen: Option<ListenCounters>,
    ) -> Self {
        let measurement = &outcome.measurement;
        let window = measurement.window.as_secs_f64();
        let per_second = |amount: f64| if window > 0.0 { amount / window } else { 0.0 };
        let latency = Latency::of(&measurement.latencies);
        let requests_per_second = per_second(measurement.requests as f64);
        let client_cpu_share = per_second(measurement.cpu.as_secs_f64());
        let open_loop = OpenLoop::of(options, measurement);
        let convicted = open_loop.as_ref().is_some_and(|open| open.generator_was_limit(&latency));
        let in_use = open_loop.as_ref().map_or(latency.mean, |open| open.raw_latency_us.mean);
        let errors = measurement
            .failures
            .iter()
            .map(|(kind, failures)| ((*kind).to_owned(), failures.count));
        let listen = listen.unwrap_or_default();
        let mut report = Self {
            version: VERSION,
            target: options.target.to_string(),
            pattern: options.pattern.name().to_owned(),
            connections: options.connections,
            keep_alive: options.keeps_connections(),
            sources: options.route().sources(),
            window_seconds: window,
            requests: measurement.requests,
            requests_per_second,
            latency_us: latency,
            measured_load: requests_per_second * in_use / 1e6,
            errors: errors.collect(),
            bytes_received: measurement.bytes,
            connections_opened: measurement.connections_opened,
            connections_served: measurement.connections_served,
            client_cpu_share,
            client_wait_share: per_second(measurement.waited.as_secs_f64()),
            client_was_limit: client_cpu_share > BUSY_CLIENT || convicted,
            listen_overflows: listen.overflows,
            listen_drops: listen.drops,
            crowd: outcome.crowd.clone(),
            invalid: BTreeMap::new(),
            warnings: Vec::new(),
            slices_requests_per_second: validity::rates(&measurement.marks),
            histogram: encode(&measurement.latencies),
            open_loop,
        };
        report.invalid = validity::problems(&report, options, measurement);
        report.warnings = report.warnings(options, outcome);
        report
    }

    /// The latencies, in nanoseconds, to be merged with those of other reports of the same load.
    ///
    /// # Errors
    ///
    /// When this report was not written by this program, or was changed since.
    pub fn latencies(&self) -> Result<Histogram<u64>, HistogramError> {
        let error = |problem| HistogramError { target: self.target.clone(), problem };
        let bytes = BASE64.decode(&self.histogram).map_err(|problem| error(problem.to_string()))?;
        Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|problem| error(problem.to_string()))
    }

    fn warnings(&self, options: &Options, outcome: &Outcome) -> Vec<Warning> {
        let measurement = &outcome.measurement;
        let mut warnings = Vec::new();
        let mut warn = |kind, text: String| warnings.push(Warning { kind, text });
        if outcome.interrupted {
            warn(
                WarningKind::Interrupted,
                format!("Interrupted: the window was only {:.2} s long.", self.window_seconds),
            );
        }
        if let Some(told) = self.departure() {
            warn(WarningKind::ServerGone, told);
        }
        if let Some(told) = self.standstill(measurement) {
            warn(WarningKind::Standstill, told);
        }
        if measurement.latencies.is_empty() {
            warn(WarningKind::NoLatencies,
                "No request both began and ended in the window, so there are no latencies; measure for longer."
                    .to_owned(),
            );
        }
        let starved = self.connections as u64 - self.connections_served;
        // Of very few requests, some connections get none without being starved; so they do where
        // requests come one by one, or at a rate.
        let all_ask = matches!(options.pattern, Pattern::Closed | Pattern::Limited);
        if starved > 0 && all_ask && matches!(options.stop, Stop::After(_)) {
            warn(
                WarningKind::Unserved,
                format!("{starved} of {} connections were never served.", self.connections),
            );
        }
        if let Some(told) = overdue_warning(measurement) {
            warn(WarningKind::Overdue, told);
        }
        if let Some(open) = &self.open_loop
            && let Some(told) = open.warning(self)
        {
            warn(WarningKind::OpenLoop, told);
        }
        for (kind, failures) in &measurement.failures {
            let times = if failures.count == 1 { "once" } else { "times, at first" };
            let count =
                if failures.count == 1 { String::new() } else { format!("{} ", failures.count) };
            warn(
                WarningKind::Failed((*kind).to_owned()),
                format!("{kind} {count}{times}: {}{}.", failures.example, remedy(kind)),
            );
        }
        if measurement.failures_outside > 0 {
            warn(
                WarningKind::FailedOutside,
                format!("{} requests failed outside the window.", measurement.failures_outside),
            );
        }
        if self.listen_overflows > 0 {
            warn(
                WarningKind::AcceptQueues,
                format!(
                    "Accept queues of this machine overflowed {} times during the run: a larger backlog of the server (`duality \
                 serve --backlog`, and net.core.somaxconn) avoids the one-second pauses that follow.",
                    self.listen_overflows
                ),
            );
        }
        warnings
    }

    /// What a person reads: figures, then warnings, then the verdict. Ends with a line end.
    pub fn render_text(&self) -> String {
        let mut text = String::new();
        let connections = if self.connections == 1 { "connection" } else { "connections" };
        let kept = if self.keep_alive { "keep-alive" } else { "a connection for each request" };
        let from = match self.sources {
            1 => String::new(),
            sources => format!(" from {sources} addresses"),
        };
        let _ = writeln!(
            text,
            "{}: {}, {} {connections}{from}, {kept}, {:.2} s\n",
            self.target,
            self.behaviour(),
            self.connections,
            self.window_seconds
        );
        for (name, value) in self.lines() {
            let _ = writeln!(text, "  {name:<16}{value}");
        }
        text.push_str(&self.crowd_text());
        text.push('\n');
        for problem in self.invalid.values() {
            let _ = writeln!(text, "invalid: {problem}");
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
        let _ = writeln!(text, "{}", self.verdict());
        text
    }

    fn behaviour(&self) -> String {
        match (&self.open_loop, self.pattern.as_str()) {
            (Some(open), _) => format!("open loop, {} arrivals", open.arrivals),
            (None, "closed") => "closed loop".to_owned(),
            (None, "limited") => "limited parallelism".to_owned(),
            (None, other) => other.to_owned(),
        }
    }

    /// The most requests that can be under way.
    fn offered(&self) -> usize {
        if self.pattern == Pattern::Serial.name() { 1 } else { self.connections }
    }

    /// The section of the crowd, if there was one.
    fn crowd_text(&self) -> String {
        let mut text = String::new();
        for (kind, fate) in &self.crowd {
            if text.is_empty() {
                text.push_str("\nbeside the measured connections\n\n");
            }
            let _ = writeln!(text, "  {:<16}{fate}", kind.replace('-', " "));
        }
        text
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let failed: u64 = self.errors.values().sum();
        let by_kind: Vec<_> =
            self.errors.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let failed = match failed {
            0 => "none failed".to_owned(),
            _ => format!("{failed} failed ({})", by_kind.join(", ")),
        };
        let received = self.bytes_received as f64;
        let rate = if self.window_seconds > 0.0 { received / self.window_seconds } else { 0.0 };
        let intended = match &self.open_loop {
            Some(open) => format!(" of {:.0} intended", open.intended_per_second),
            None => String::new(),
        };
        let mut lines = vec![
            ("requests/s", format!("{:.0}{intended}", self.requests_per_second)),
            ("requests", format!("{} correct, {failed}", self.requests)),
        ];
        match &self.open_loop {
            Some(open) => lines.extend(open.lines(&self.latency_us)),
            None => lines.extend(self.latency_us.lines()),
        }
        lines.extend([
            ("measured load", format!("{:.1} of {}", self.measured_load, self.offered())),
            (
                "connections",
                format!(
                    "{} of {} served, {} opened",
                    self.connections_served, self.connections, self.connections_opened
                ),
            ),
            ("received", format!("{} ({}/s)", bytes(received), bytes(rate))),
            (
                "client CPU",
                format!(
                    "{:.0} % of one core; had to wait for it {:.0} % of the time",
                    100.0 * self.client_cpu_share,
                    100.0 * self.client_wait_share
                ),
            ),
            (
                "accept queues",
                format!("{} overflows, {} drops", self.listen_overflows, self.listen_drops),
            ),
        ]);
        lines
    }

    /// What limited the run, in one sentence.
    fn verdict(&self) -> String {
        let share = 100.0 * self.client_cpu_share;
        if self.requests == 0 {
            let gone = if self.server_went_away() { ", and the server went away" } else { "" };
            format!("Nothing was measured: no correct reply came within the window{gone}.")
        } else if self.server_went_away() {
            format!("{}.", self.how_it_went().replacen("the", "The", 1))
        } else if let Some(open) = &self.open_loop {
            open.verdict(self)
        } else if self.client_was_limit {
            format!(
                "The client was the limit: it used {share:.0} % of its core, and the server may well be able \
                 to do more than this."
            )
        } else if self.measured_load < UNUSED_LOAD * self.offered() as f64 {
            format!(
                "Only {:.1} of {} connections were being served on average: something other than the server's \
                 speed limited this run.",
                self.measured_load,
                self.offered()
            )
        } else if !self.invalid.is_empty() {
            "The figures are invalid: the client could not do its work.".to_owned()
        } else {
            format!("The client was not the limit: it used {share:.0} % of its core.")
        }
    }
}

/// What was still unanswered at the end, if the percentiles would be other ones with it: when it is one
/// in a thousand or more, or had waited for much longer than anything that was counted.
fn overdue_warning(measurement: &Measurement) -> Option<String> {
    let Overdue { count, longest } = measurement.overdue;
    let many = count.saturating_mul(1000) >= measurement.latencies.len();
    let stuck = longest >= 2 * Duration::from_nanos(measurement.latencies.max());
    (count > 0 && (many || stuck)).then(|| {
        let were = if count == 1 { "request was" } else { "requests were" };
        format!(
            "{count} {were} unanswered at the end after waiting for longer than any counted latency, up to \
             {:.2} s: they are in no percentile, and the true ones are higher.",
            longest.as_secs_f64()
        )
    })
}

/// What the user can do about failures of a kind, as the end of a sentence.
fn remedy(kind: &str) -> &'static str {
    match kind {
        "no-ports" => {
            "; give more --sources, keep connections alive, or widen the range with \
             `sysctl -w net.ipv4.ip_local_port_range='1024 65535'`"
        }
        "no-descriptors" => "; raise the limit with `ulimit -n`",
        "connect-timeout" => {
            "; the server's accept queue may be too short (`duality serve --backlog`, net.core.somaxconn)"
        }
        _ => "",
    }
}

/// Microseconds to three digits, in the unit in which they are easiest to read.
pub(crate) fn duration(microseconds: f64) -> String {
    let (value, unit) = match microseconds {
        value if value < 999.5 => (value, "µs"),
        value if value < 999.5e3 => (value / 1e3, "ms"),
        value => (value / 1e6, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Bytes to three digits, in decimal units.
fn bytes(amount: f64) -> String {
    let (value, unit) = match amount {
        value if value < 999.5 => return format!("{value:.0} B"),
        value if value < 999.5e3 => (value / 1e3, "kB"),
        value if value < 999.5e6 => (value / 1e6, "MB"),
        value => (value / 1e9, "GB"),
    };
    format!("{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    let decimals = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
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
            sources: 1,
            window_seconds: 10.0,
            requests: 500_000,
            requests_per_second: 50_000.0,
            latency_us: Latency::of(&latencies),
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
            crowd: BTreeMap::new(),
            invalid: BTreeMap::new(),
            warnings: Vec::new(),
            slices_requests_per_second: vec![50_000.0; 20],
            histogram: encode(&latencies),
            open_loop: None,
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

    #[test]
    fn the_text_is_the_golden_one() {
        let expected = "\
http://127.0.0.1:8080/: closed loop, 100 connections, keep-alive, 10.00 s

  requests/s      50000
  requests        500000 correct, none failed
  latency         mean 501 µs   min 1.00 µs   max 1.00 ms
                  50 % 500 µs   90 % 900 µs   99 % 990 µs   99.9 % 1.00 ms
  measured load   99.5 of 100
  connections     100 of 100 served, 100 opened
  received        152 MB (15.2 MB/s)
  client CPU      63 % of one core; had to wait for it 0 % of the time
  accept queues   0 overflows, 0 drops

The client was not the limit: it used 63 % of its core.
";
        assert_eq!(report().render_text(), expected);
    }

    #[test]
    fn errors_and_warnings_are_in_the_text() {
        let text = Report {
            errors: BTreeMap::from([("reset".to_owned(), 2), ("timed-out".to_owned(), 3)]),
            warnings: vec![Warning::new(WarningKind::Other, "Mind the gap.")],
            invalid: BTreeMap::from([("starved".to_owned(), "It stood still.".to_owned())]),
            ..report()
        }
        .render_text();
        assert!(text.contains("500000 correct, 5 failed (reset 2, timed-out 3)\n"), "{text}");
        assert!(text.contains("\ninvalid: It stood still.\nwarning: Mind the gap.\n"), "{text}");
    }

    #[test]
    fn the_verdict_names_the_limit() {
        let busy = Report { client_cpu_share: 0.99, client_was_limit: true, ..report() };
        let starved = Report { measured_load: 7.0, ..report() };
        let nothing = Report { requests: 0, ..report() };
        let serial = Report { pattern: "serial".to_owned(), measured_load: 0.99, ..report() };
        assert!(serial.verdict().starts_with("The client was not the limit"));
        assert!(busy.verdict().starts_with("The client was the limit"));
        assert!(starved.verdict().starts_with("Only 7.0 of 100 connections"));
        assert!(nothing.verdict().starts_with("Nothing was measured"));
    }

    #[test]
    fn what_is_overdue_is_told_when_it_matters() {
        let measurement = |count, milliseconds| Measurement {
            latencies: histogram((1..=1000).cycle().take(10_000)),
            overdue: Overdue { count, longest: Duration::from_millis(milliseconds) },
            ..Measurement::default()
        };
        assert_eq!(overdue_warning(&measurement(0, 0)), None);
        assert_eq!(overdue_warning(&measurement(9, 1)), None);
        assert!(
            overdue_warning(&measurement(10, 1))
                .unwrap()
                .starts_with("10 requests were unanswered")
        );
        assert!(
            overdue_warning(&measurement(1, 5)).unwrap().starts_with("1 request was unanswered")
        );
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(duration(0.0), "0.00 µs");
        assert_eq!(duration(9.999), "10.0 µs");
        assert_eq!(duration(999.4), "999 µs");
        assert_eq!(duration(999.9), "1.00 ms");
        assert_eq!(duration(1234.0), "1.23 ms");
        assert_eq!(duration(12_345_678.0), "12.3 s");
        assert_eq!(bytes(999.0), "999 B");
        assert_eq!(bytes(1_230_000.0), "1.23 MB");
    }
}
