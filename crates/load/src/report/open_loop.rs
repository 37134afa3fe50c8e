//! The additional figures of an open loop: raw and corrected latencies side by side, and the lag of
//! the generator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BUSY_CLIENT, Latency, Report, duration, encode};
use crate::engine::Outcome;
use crate::{Options, Pattern, Stop};

/// A server that answers a smaller share of the due requests does not keep up.
pub(super) const KEPT_UP: f64 = 0.98;

/// If the generator's own lag is a larger share of the latencies, the generator measures itself.
const OWN_SHARE: f64 = 0.5;

/// The figures that only an open loop has. An open loop's requests are due at times that no reply
/// changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenLoop {
    /// The process by which requests arrived: `constant`, `poisson`, `uniform`, `sinusoidal`, or
    /// `trace` for a replay.
    pub arrivals: String,
    /// The number of requests a second that the loop makes on average.
    pub intended_per_second: f64,
    /// Requests that were due in the window.
    pub due: u64,
    /// The number of requests that would have been due in the whole run, if the run was stopped
    /// before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u64>,
    /// The number of these requests that had not been sent when the window closed.
    pub unsent: u64,
    /// The time from a request's sending to the last byte of its reply, in microseconds. A client
    /// that ignores the wait before the send measures this. The requests are those of
    /// [`Report::latency_us`].
    pub raw_latency_us: Latency,
    /// The time from a request's due time to its sending, in microseconds, for whatever reason.
    pub send_lag_us: Latency,
    /// The generator's part of the lag: the time for which the request was due and a connection was
    /// free.
    pub generator_lag_us: Latency,
    /// The raw latencies in the format of [`Report::histogram`].
    pub raw_histogram: String,
}

impl OpenLoop {
    pub(super) fn of(options: &Options, outcome: &Outcome) -> Option<Self> {
        let counts = outcome.measurement.open_loop.as_ref()?;
        let (arrivals, intended_per_second) = match (options.pattern, &options.replay) {
            (Pattern::Open(arrivals), _) => (arrivals.name(), arrivals.rate()),
            (Pattern::Trace, Some(piece)) => {
                (options.pattern.name(), piece.requests() as f64 / piece.length().as_secs_f64())
            }
            _ => return None,
        };
        let planned = || match options.stop {
            Stop::After(length) => (intended_per_second * length.as_secs_f64()).round() as u64,
            Stop::Requests(total) => total,
        };
        Some(Self {
            arrivals: arrivals.to_owned(),
            intended_per_second,
            due: counts.due,
            planned: outcome.interrupted.then(planned),
            unsent: counts.unsent,
            raw_latency_us: Latency::of(&counts.raw),
            send_lag_us: Latency::of(&counts.send_lag),
            generator_lag_us: Latency::of(&counts.generator_lag),
            raw_histogram: encode(&counts.raw),
        })
    }

    /// Whether the corrected latencies are mainly the generator's own lag.
    pub(super) fn generator_was_limit(&self, corrected: &Latency) -> bool {
        self.generator_lag_us.p99 > OWN_SHARE * corrected.p99
    }

    /// Latencies and lags under each other.
    pub(super) fn lines(&self, corrected: &Latency) -> Vec<(&'static str, String)> {
        let heads = ["mean", "50 %", "90 %", "99 %", "99.9 %", "max"];
        let head: String = heads.map(|head| format!("{head:>9}")).concat();
        let row = |latency: &Latency| {
            let Latency { mean, p50, p90, p99, p99_9, max, .. } = *latency;
            let values = [mean, p50, p90, p99, p99_9, max];
            values.map(|value| format!("{:>9}", duration(value))).concat()
        };
        vec![
            ("", self.due_text()),
            ("latency", head),
            ("  corrected", row(corrected)),
            ("  raw", row(&self.raw_latency_us)),
            ("send lag", row(&self.send_lag_us)),
            ("  generator's", row(&self.generator_lag_us)),
            ("", "corrected: from due to reply; raw: from sent to reply;".to_owned()),
            ("", "send lag: from due to sent; generator's: a connection was free".to_owned()),
        ]
    }

    fn due_text(&self) -> String {
        let Self { due, unsent, planned, .. } = self;
        match planned {
            None => format!("{due} were due, of which {unsent} were not sent in time"),
            Some(planned) => format!(
                "{due} of {planned} were due when the run was stopped, of which {unsent} were not \
                 sent in time"
            ),
        }
    }

    /// The cause besides the server that shaped the figures, if there is one.
    pub(super) fn warning(&self, report: &Report) -> Option<String> {
        let corrected = &report.latency_us;
        if self.generator_was_limit(corrected) {
            return Some(format!(
                "The generator itself was late: one request in a hundred was sent {} or more after it could \
                 have been, of a corrected 99 % of {}. Give it a processor of its own \
                 (`load --cpus`, `compare --client-cpus`), or a lower rate.",
                duration(self.generator_lag_us.p99),
                duration(corrected.p99)
            ));
        }
        // The rest of the lag is the wait for a connection.
        let waited = self.send_lag_us.p99 - self.generator_lag_us.p99;
        (waited > OWN_SHARE * corrected.p99).then(|| {
            format!(
                "All {} connections were busy: one request in a hundred waited {} or more for a \
                 connection. If the server can carry more, raise their number (`load -c`, `compare -c`).",
                report.connections,
                duration(self.send_lag_us.p99)
            )
        })
    }

    /// Whether fewer correct replies came than were due. Requests under way as the window closes
    /// count as answered.
    pub(super) fn fell_short(&self, report: &Report) -> bool {
        // By Little's law, for answered requests only: an unanswered one is not under way.
        let under_way = report.requests_per_second * self.raw_latency_us.mean / 1e6;
        let under_way = under_way.ceil() + 1.0;
        (report.requests as f64 + under_way) < KEPT_UP * self.asked(report) as f64
    }

    /// The number of requests that a server answers if it keeps up: those that were due. In a
    /// replay, no request follows an unanswered one. So this is the number of requests in the
    /// recording, unless the replay was stopped.
    pub(super) fn asked(&self, report: &Report) -> u64 {
        match &report.replayed {
            Some(replayed) if self.planned.is_none() => replayed.requests as u64,
            _ => self.due,
        }
    }

    /// The limit of the run, in one sentence.
    pub(super) fn verdict(&self, report: &Report) -> String {
        let share = 100.0 * report.client_cpu_share;
        if report.client_was_limit && report.client_cpu_share > BUSY_CLIENT {
            format!(
                "The generator was the limit: it used {share:.0} % of its core, and the server \
                 may well be able to do more."
            )
        } else if report.client_was_limit {
            "The generator was the limit: the figures are mostly its own lag, and the server may \
             well be faster."
                .to_owned()
        } else if self.fell_short(report) {
            let so_far = if self.planned.is_some() { " so far" } else { "" };
            format!(
                "The server did not keep up: of {} requests that were due{so_far}, {} were answered in the window.",
                self.asked(report),
                report.requests
            )
        } else if !report.invalid.is_empty() {
            "The server kept up, but the figures are invalid: the generator could not do its work."
                .to_owned()
        } else {
            format!(
                "The server kept up, and the generator was not the limit: it used {share:.0} % of its core."
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{histogram, report};
    use super::*;

    /// A stall of 100 ms in ten seconds at 5,000 a second, in both ways of counting.
    fn open_report() -> Report {
        let ordinary = || std::iter::repeat_n(200, 49_500);
        let corrected = histogram(ordinary().chain((1..=500).map(|index| 200 * index)));
        let raw = histogram(ordinary().chain((1..=500).map(|_| 210)));
        let lag = histogram(std::iter::repeat_n(20, 50_000));
        let send_lag = histogram(std::iter::repeat_n(20, 49_500).chain((1..=500).map(|n| 200 * n)));
        let open_loop = OpenLoop {
            arrivals: "poisson".to_owned(),
            intended_per_second: 5_000.0,
            due: 50_000,
            planned: None,
            unsent: 2,
            raw_latency_us: Latency::of(&raw),
            send_lag_us: Latency::of(&send_lag),
            generator_lag_us: Latency::of(&lag),
            raw_histogram: encode(&raw),
        };
        Report {
            pattern: "open".to_owned(),
            requests: 49_990,
            requests_per_second: 4_999.0,
            measured_load: 1.0,
            client_cpu_share: 0.25,
            latency_us: Latency::of(&corrected),
            histogram: encode(&corrected),
            open_loop: Some(open_loop),
            ..report()
        }
    }

    #[test]
    fn the_text_is_the_golden_one() {
        let expected = "\
http://127.0.0.1:8080/: open loop, poisson arrivals, 100 connections, keep-alive, 10.00 s

  requests/s      4999 of 5000 intended
  requests        49990 correct, none failed
                  50000 were due, of which 2 were not sent in time
  latency              mean     50 %     90 %     99 %   99.9 %      max
    corrected        699 µs   200 µs   200 µs   200 µs  90.2 ms   100 ms
    raw              200 µs   200 µs   200 µs   200 µs   210 µs   210 µs
  send lag           521 µs  20.0 µs  20.0 µs  20.0 µs  90.2 ms   100 ms
    generator's     20.0 µs  20.0 µs  20.0 µs  20.0 µs  20.0 µs  20.0 µs
                  corrected: from due to reply; raw: from sent to reply;
                  send lag: from due to sent; generator's: a connection was free
  first byte      50 % 450 µs   90 % 810 µs   99 % 891 µs   99.9 % 900 µs
  measured load   1.0 of 100
  connections     100 of 100 served, 100 opened
  received        152 MB (15.2 MB/s)
  client CPU      25 % of one core; had to wait for it 0 % of the time
  accept queues   0 overflows, 0 drops

replies by latency

  up to 200 µs    ■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■       49501   99.0 %
  up to 500 µs                                               1   <0.1 %
  up to 1.00 ms                                              3   <0.1 %
  up to 2.00 ms                                              5   <0.1 %
  up to 5.00 ms                                             15   <0.1 %
  up to 10.0 ms                                             25    0.1 %
  up to 20.0 ms                                             50    0.1 %
  up to 50.0 ms                                            150    0.3 %
  up to 100 ms                                             250    0.5 %

The server kept up, and the generator was not the limit: it used 25 % of its core.
";
        assert_eq!(open_report().render_text(), expected);
    }

    #[test]
    fn a_run_that_was_stopped_says_how_many_were_due_so_far() {
        let mut report = open_report();
        report.open_loop.as_mut().unwrap().planned = Some(2_000_000);
        let text = report.render_text();
        let told = "50000 of 2000000 were due when the run was stopped, of which 2";
        assert!(text.contains(told), "{text}");
        let slow = Report { requests: 40_000, ..report };
        assert!(slow.verdict().contains("of 50000 requests that were due so far, 40000"));
    }

    #[test]
    fn json_keeps_everything() {
        let report = open_report();
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }

    #[test]
    fn a_generator_that_is_late_convicts_itself() {
        let report = open_report();
        let mut open = report.open_loop.clone().unwrap();
        assert_eq!(open.warning(&report), None);
        open.generator_lag_us.p99 = 150.0;
        assert!(open.generator_was_limit(&report.latency_us));
        let warning = open.warning(&report).unwrap();
        assert!(warning.starts_with("The generator itself was late"), "{warning}");
        assert!(warning.contains("150 µs") && warning.contains("200 µs"), "{warning}");
        let late = Report { client_was_limit: true, ..report.clone() };
        assert!(open.verdict(&late).contains("its own lag"));
        let busy = Report { client_cpu_share: 0.99, ..late };
        assert!(open.verdict(&busy).contains("99 % of its core"));
        let starved = [("starved".to_owned(), "It stood still.".to_owned())];
        let invalid = Report { invalid: starved.into(), ..report.clone() };
        assert!(open.verdict(&invalid).contains("but the figures are invalid"));
    }

    #[test]
    fn too_few_connections_are_no_fault_of_the_generator() {
        let report = open_report();
        let mut open = report.open_loop.clone().unwrap();
        open.send_lag_us.p99 = 190.0;
        assert!(!open.generator_was_limit(&report.latency_us));
        assert!(open.warning(&report).unwrap().starts_with("All 100 connections were busy"));
    }

    #[test]
    fn a_server_that_does_not_keep_up_is_told() {
        let report = Report { requests: 40_000, ..open_report() };
        assert!(report.verdict().starts_with("The server did not keep up: of 50000"));
        let message = report.failure().unwrap();
        assert!(
            message.contains("40000 of 50000 requests that were due were answered"),
            "{message}"
        );
        assert_eq!(open_report().failure(), None);
        // In a replay, a late reply delays what follows it, so fewer requests become due.
        let replayed = serde_json::json!({
            "users": 1, "speed": 1.0, "seed": 1, "connections": 10, "open_before": 0,
            "left_waiting": 0, "requests": 60_000,
            "fidelity": {
                "planned": 40_000, "sent": 40_000, "gaps_distance": 0.0, "requests_distance": 0.0,
                "lag_p99_us": 10.0,
            },
        });
        let replayed = Some(serde_json::from_value(replayed).unwrap());
        let message = Report { replayed, ..report }.failure().unwrap();
        assert!(
            message.contains("40000 of 60000 requests of the piece were answered"),
            "{message}"
        );
        assert!(message.ends_with("replay fewer --users"), "{message}");
    }

    #[test]
    fn what_is_under_way_at_the_end_of_a_short_window_is_no_failure() {
        let report = open_report();
        let open = OpenLoop { due: 5, ..report.open_loop.clone().unwrap() };
        assert!(!open.fell_short(&Report { requests: 4, ..report.clone() }));
        // 12 of 100 were answered, and all other requests lie on their connections.
        let open = OpenLoop { due: 100, ..open };
        let (requests, requests_per_second) = (12, 12.0);
        let measured_load = 100.0;
        let report = Report { requests, requests_per_second, measured_load, ..report };
        assert!(open.fell_short(&report));
    }
}
