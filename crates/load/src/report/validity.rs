//! Whether the generator could do its work: the reasons why not, each with its number. If it could
//! not, its figures mean nothing. The figures of a generator that was merely busy are a lower bound
//! of the server's.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Report, duration};
use crate::measurement::Measurement;
use crate::{Options, Pattern, Stop};

/// A generator starves if it is ready but does not run for a larger share of the window. A starving
/// generator makes up to a tenth fewer requests, which is twice the noise.
const LONGEST_WAIT: f64 = 0.1;

/// A timer is late by some tens of microseconds, and by more on a virtual machine. A lag of this
/// many microseconds or less can spoil equally short latencies, but not a server's rate.
const LAG_OF_TIMERS: f64 = 1000.0;

/// The share of connections that may be unaccounted for. Recorded values are exact to 0.1 %.
const TOLERANCE: f64 = 0.05;

impl Report {
    /// The kind of invalidity if the generator lacked a processor for too much of the time.
    pub const STARVED: &str = "starved";

    /// Whether the generator lacked a processor for too much of the time.
    pub(super) fn was_starved(&self) -> bool {
        self.client_wait_share > LONGEST_WAIT
    }
}

/// The reasons why the figures of a complete report are invalid, by kind.
pub(super) fn problems(
    report: &Report,
    options: &Options,
    measurement: &Measurement,
) -> BTreeMap<String, String> {
    let problems = [
        (Report::STARVED, starved(report)),
        ("send-lag", late(report)),
        ("littles-law", unaccounted(report, options, measurement)),
        ("replay", report.replayed.as_ref().and_then(|replayed| replayed.fidelity.problem())),
    ];
    let found = problems.into_iter().filter_map(|(kind, found)| Some((kind.to_owned(), found?)));
    found.collect()
}

/// Replies a second between the marks of a window.
pub(super) fn rates(marks: &[(Duration, u64)]) -> Vec<f64> {
    let mut before = (Duration::ZERO, 0);
    let rate = |&(time, count): &(Duration, u64)| {
        let length = time.saturating_sub(before.0).as_secs_f64();
        let replies = count.saturating_sub(before.1);
        before = (time, count);
        // Rounded to a tenth, because more digits mean nothing, and each cell of a results file has
        // twenty numbers.
        (length > 0.0).then(|| (10.0 * replies as f64 / length).round() / 10.0)
    };
    marks.iter().filter_map(rate).collect()
}

fn starved(report: &Report) -> Option<String> {
    report.was_starved().then(|| {
        let because = report.quota.as_ref().map_or_else(
            || {
                "Give it one of its own (`load --cpus`, `compare --client-cpus`), or end what else runs there".to_owned()
            },
            |exhausted| format!("Meanwhile {}", exhausted.told()),
        );
        format!(
            "The generator was starved: for {:.0} % of the window it could have run and had no processor. {because}.",
            100.0 * report.client_wait_share
        )
    })
}

fn late(report: &Report) -> Option<String> {
    let open = report.open_loop.as_ref().filter(|_| report.replayed.is_none())?;
    let lag = open.generator_lag_us.p99;
    (open.generator_was_limit(&report.latency_us) && lag > LAG_OF_TIMERS).then(|| {
        format!(
            "The generator was late: it sent one request in a hundred {} or more after it was due and a connection \
             free, and the corrected 99 % is {}.",
            duration(lag),
            duration(report.latency_us.p99)
        )
    })
}

/// Little's law, N = X·R: the connections in use equal the requests in a second times the seconds
/// of each. The sum has the requests of the latencies, other requests as far as known, and the
/// times in between.
fn unaccounted(report: &Report, options: &Options, measurement: &Measurement) -> Option<String> {
    let is_closed = !matches!(options.pattern, Pattern::Open(_) | Pattern::Trace);
    // The members of a chat do not make requests one by one.
    let asks = options.target.asks_one_by_one();
    let by_time = matches!(options.stop, Stop::After(_));
    if !(is_closed && asks && by_time) || measurement.window.is_zero() {
        return None;
    }
    let mean = Duration::from_secs_f64(report.latency_us.mean / 1e6);
    let of_latencies = mean.as_secs_f64() * measurement.latencies.len() as f64;
    let others = (measurement.cut + measurement.rest).as_secs_f64();
    let found = (of_latencies + others) / report.window_seconds;
    let connections = report.connections as f64;
    ((found / connections - 1.0).abs() > TOLERANCE).then(|| {
        format!(
            "Little's law does not hold: {:.0} requests/s of {} each, and what was cut off or lay between them, make \
             {found:.1} connections in use, and there were {connections}. The generator measured wrong.",
            report.requests_per_second,
            duration(report.latency_us.mean)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::Latency;
    use super::super::tests::{histogram, report};
    use super::*;
    use crate::quota::Exhausted;

    fn options() -> Options {
        Options { connections: 100, ..Options::new("http://127.0.0.1:8080/".parse().unwrap()) }
    }

    /// 100 connections for ten seconds, in requests of 1 ms.
    fn measurement(requests: usize, cut: u64, rest: u64) -> (Report, Measurement) {
        let latencies = histogram(std::iter::repeat_n(1000, requests));
        let report = Report { latency_us: Latency::of(&latencies), ..report() };
        let measurement = Measurement {
            window: Duration::from_secs(10),
            cut: Duration::from_secs(cut),
            rest: Duration::from_secs(rest),
            latencies,
            ..Measurement::default()
        };
        (report, measurement)
    }

    #[test]
    fn parts_of_a_window_have_rates_of_their_own() {
        let marks = [(100, 50), (150, 100), (150, 100), (350, 100)]
            .map(|(milliseconds, count)| (Duration::from_millis(milliseconds), count));
        assert_eq!(rates(&marks), [500.0, 1000.0, 0.0]);
        assert!(rates(&[]).is_empty());
    }

    #[test]
    fn connections_are_accounted_for_by_littles_law() {
        for (requests, cut, rest, valid) in [
            (1_000_000, 0, 0, true),
            (960_000, 0, 0, true),
            (600_000, 100, 300, true),
            (900_000, 0, 0, false),
            (1_000_000, 100, 0, false),
        ] {
            let (report, measurement) = measurement(requests, cut, rest);
            let found = unaccounted(&report, &options(), &measurement);
            assert_eq!(found.is_none(), valid, "{found:?}");
        }
        let (report, measurement) = measurement(500_000, 0, 0);
        let found = problems(&report, &options(), &measurement);
        assert!(
            found["littles-law"].contains("make 50.0 connections in use, and there were 100."),
            "{found:?}"
        );
    }

    #[test]
    fn a_starved_generator_convicts_itself() {
        let (report, measurement) = measurement(1_000_000, 0, 0);
        assert_eq!(problems(&report, &options(), &measurement), BTreeMap::new());
        let starved = Report { client_wait_share: 0.48, ..report };
        let exhausted =
            Exhausted { group: "/sys/fs/cgroup/a".into(), processors: Some(0.3), times: 9 };
        let limited = Report { quota: Some(exhausted), ..starved.clone() };
        let found = problems(&starved, &options(), &measurement);
        assert!(found[Report::STARVED].contains("for 48 % of the window"), "{found:?}");
        assert!(found[Report::STARVED].contains("end what else runs there"), "{found:?}");
        // A quota that ran out is the cause, and no other process.
        let found = problems(&limited, &options(), &measurement);
        let quota = "Meanwhile the CPU quota of 0.30 processors of the control group /sys/fs/cgroup/a ran out 9 times";
        assert!(found[Report::STARVED].contains(quota), "{found:?}");
        assert!(!found[Report::STARVED].contains("else"), "{found:?}");
    }
}
