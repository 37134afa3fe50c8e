//! The peak goodput: the highest rate of an open loop at which a percentile of the latencies stays
//! within a limit and nothing fails.
//!
//! Each probe is a separate load with its own connections. A short probe takes a fifth of the time
//! of the long one that confirms the result. If this gives too few requests for the percentile,
//! probes are longer, within a bound. If there are still too few, the result says so.

mod search;
mod slo;

use std::fmt::Write;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::search::{Length, Range};
use crate::measurement::Measurement;
use crate::report::{Report, duration};
use crate::{Error, Observer, Options, Pattern, Stop, measure};

pub use slo::{Percentile, Slo};

/// The version of [`Goodput`]'s serialised format.
const VERSION: u32 = 1;

/// The lowest and the highest rate of the search, in requests a second, and the ratio at which it
/// ends. Below 10, a short probe has too few requests for a conclusion.
const LOWEST: f64 = 10.0;
const HIGHEST: f64 = 1e6;
const PRECISION: f64 = 1.03;

/// The factor between long and short probes.
const SHORTER: u32 = 5;

/// The factors by which probes may be longer, to have enough requests. A short probe may be as long
/// as the long probe, and the long probe three times as long.
const LONGER_SHORT: u32 = SHORTER;
const LONGER: u32 = 3;

/// The margin of a window over the time of the needed requests. The window's edges cut off some
/// requests, and random arrivals may be fewer than the average.
const MARGIN: f64 = 1.2;

/// The least share of the due requests that must be answered, give or take one on each connection.
/// With a smaller share, requests pile up, even if the window is too short to show it.
const KEPT_UP: f64 = 0.98;

/// The remedy where the generator was the limit.
const OWN_PROCESSOR: &str =
    "Give the generator a processor of its own (`load --cpus`), or end what else runs there.";

/// The result of a search for the peak goodput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    /// The version of this format: 1.
    pub version: u32,
    /// The target as its user writes it.
    pub target: String,
    /// The most requests that were under way at the same time.
    pub connections: usize,
    /// The process by which requests arrived.
    pub arrivals: String,
    /// The required limit, as in `p99=10ms`.
    pub slo: String,
    /// The highest rate that kept the limit, in requests a second. `None` if there was none.
    pub peak_per_second: Option<f64>,
    /// The report of the load at that rate.
    pub report: Option<Report>,
    /// All probes, in the order in which they were made.
    pub probes: Vec<Probe>,
    /// The server refused connections after it had answered before, which ended the search.
    #[serde(default)]
    pub server_went_away: bool,
    /// Notes for readers, in full sentences.
    pub warnings: Vec<String>,
}

/// The reason why a search ended early.
enum Halt {
    Error(Error),
    ServerWentAway,
}

/// One load of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The due requests a second.
    pub rate: f64,
    /// The length of the window.
    pub window_seconds: f64,
    /// Correct replies in a second.
    pub goodput_per_second: f64,
    /// The percentile in question, in microseconds from when a request was due. `None` if no
    /// request was answered or late.
    pub latency_us: Option<f64>,
    /// The number of requests behind the percentile.
    #[serde(default)]
    pub requests: u64,
    /// The number of requests is too small for the percentile, so chance decides.
    #[serde(default)]
    pub too_few: bool,
    /// Requests that failed, warm-up included.
    pub failed: u64,
    /// Whether the rate was met.
    pub met: bool,
    /// The reason why the rate was missed, in a few words, if it was missed.
    pub problem: Option<String>,
    /// The generator was the limit, or could not do its work. The server is not to blame for such a
    /// miss.
    pub client_was_limit: bool,
}

/// Searches for the highest rate at which the server at `options.target` keeps `slo`. Begins with
/// the rate of `options.pattern`, which is an open loop. The load that confirms the result is as
/// long as [`Stop::After`] in `options`. Blocks until the rate is found, or until `interrupted` is
/// set. The result then says so.
///
/// # Errors
///
/// The errors of [`run`](crate::run). Also if `options` are not for an open loop of a given time.
///
/// # Panics
///
/// As [`run`](crate::run).
pub fn peak_goodput(
    options: &Options,
    slo: &Slo,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Result<Goodput, Error> {
    options.check()?;
    let (Pattern::Open(arrivals), Stop::After(window)) = (options.pattern, options.stop) else {
        return Err(Error::Options(
            "a search for a rate needs an open loop, and windows of a certain length",
        ));
    };
    if slo.limit.is_zero() {
        return Err(Error::Options("no reply can come within 0 s: give a longer latency"));
    }
    let first = arrivals.rate().min(HIGHEST);
    let range = Range { first, lowest: first.min(LOWEST), highest: HIGHEST, precision: PRECISION };
    let mut goodput = Goodput {
        version: VERSION,
        target: options.target.to_string(),
        connections: options.connections,
        arrivals: arrivals.name().to_owned(),
        slo: slo.to_string(),
        peak_per_second: None,
        report: None,
        probes: Vec::new(),
        server_went_away: false,
        warnings: Vec::new(),
    };
    let found = search::highest(range, |rate, length| {
        let window = probe_window(window, length, rate, slo);
        let warm_up = options.warm_up / if length == Length::Short { SHORTER } else { 1 };
        let pattern = Pattern::Open(arrivals.at_rate(rate));
        let options = Options { pattern, stop: Stop::After(window), warm_up, ..options.clone() };
        let (outcome, meanwhile) = match measure(&options, observer, interrupted) {
            // The server has answered before.
            Err(Error::Unanswered { .. }) if !goodput.probes.is_empty() => {
                return Err(Halt::ServerWentAway);
            }
            measured => measured.map_err(Halt::Error)?,
        };
        if outcome.interrupted {
            return Err(Halt::Error(Error::Interrupted));
        }
        let report = Report::new(&options, &outcome, meanwhile);
        let probe = Probe::new(rate, slo, &outcome.measurement, &report);
        observer.probed(&probe);
        let met = probe.met;
        goodput.probes.push(probe);
        if report.server_went_away() {
            return Err(Halt::ServerWentAway);
        }
        if met && length == Length::Long {
            goodput.report = Some(report);
        }
        Ok(met)
    });
    match found {
        Ok(peak) => goodput.peak_per_second = peak,
        // The results so far are worth reporting.
        Err(Halt::Error(Error::Interrupted)) if !goodput.probes.is_empty() => {
            goodput.warnings.push("Interrupted before a rate was confirmed.".to_owned());
        }
        Err(Halt::ServerWentAway) => goodput.server_went_away = true,
        Err(Halt::Error(error)) => return Err(error),
    }
    goodput.warnings.extend(goodput.too_few(slo));
    goodput.warnings.extend(goodput.warning());
    Ok(goodput)
}

/// The length of a probe at `rate`. The length gives enough requests for the percentile, if the
/// bound allows.
fn probe_window(window: Duration, length: Length, rate: f64, slo: &Slo) -> Duration {
    let (usual, most) = match length {
        Length::Short => (window / SHORTER, window / SHORTER * LONGER_SHORT),
        Length::Long => (window, window * LONGER),
    };
    let enough = MARGIN * slo.percentile.requests() as f64 / rate;
    usual.max(Duration::from_secs_f64(enough).min(most))
}

impl Probe {
    fn new(rate: f64, slo: &Slo, measurement: &Measurement, report: &Report) -> Self {
        let latency = slo.latency(measurement);
        let failed = report.errors.values().sum::<u64>() + measurement.failures_outside;
        let due = report.open_loop.as_ref().map_or(0, |open| open.due);
        let slack = ((1.0 - KEPT_UP) * due as f64).max(report.connections as f64);
        let name = slo.percentile.name();
        let problem = match latency {
            _ if failed > 0 => Some(format!("{failed} failed")),
            None => Some("no reply".to_owned()),
            Some(latency) if latency > slo.limit => Some(format!("{name} too long")),
            Some(_) if report.requests as f64 + slack < due as f64 => {
                Some("falls behind".to_owned())
            }
            Some(_) => None,
        };
        let requests = measurement.latencies.len();
        Self {
            requests,
            too_few: requests < slo.percentile.requests(),
            rate,
            window_seconds: report.window_seconds,
            goodput_per_second: report.requests_per_second,
            latency_us: latency.map(|latency| latency.as_secs_f64() * 1e6),
            failed,
            met: problem.is_none(),
            problem,
            client_was_limit: report.client_was_limit || !report.invalid.is_empty(),
        }
    }

    fn latency(&self) -> String {
        self.latency_us.map_or_else(|| "-".to_owned(), duration)
    }

    /// No request failed, and the generator may be the reason why the rate was missed.
    fn missed_by_generator(&self) -> bool {
        !self.met && self.failed == 0 && self.client_was_limit
    }

    fn result(&self) -> String {
        let mut result = self.problem.as_deref().unwrap_or("met").to_owned();
        if self.too_few {
            let _ = write!(result, ", of only {} requests", self.requests);
        }
        if self.missed_by_generator() {
            result.push_str("; the generator was the limit");
        }
        result
    }

    /// The outcome, in a line.
    pub fn render_line(&self) -> String {
        format!(
            "{:.0}/s for {:.1} s: {:.0}/s correct, {}: {}",
            self.rate,
            self.window_seconds,
            self.goodput_per_second,
            self.latency(),
            self.result()
        )
    }
}

impl Goodput {
    /// The result as text: the probes, then warnings, then the result. Ends with a line end.
    pub fn render_text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{}: the highest rate with {}, {} arrivals, up to {} connections\n",
            self.target, self.slo, self.arrivals, self.connections
        );
        let percentile = self.slo.split('=').next().unwrap_or_default();
        let _ = writeln!(
            text,
            "  {:>10}{:>10}{:>13}{percentile:>10}   result",
            "rate/s", "window", "correct/s"
        );
        for probe in &self.probes {
            let _ = writeln!(
                text,
                "  {:>10.0}{:>10}{:>13.0}{:>10}   {}",
                probe.rate,
                duration(probe.window_seconds * 1e6),
                probe.goodput_per_second,
                probe.latency(),
                probe.result()
            );
        }
        text.push('\n');
        for warning in &self.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
        let _ = writeln!(text, "{}", self.verdict());
        text
    }

    /// The result in a sentence.
    fn verdict(&self) -> String {
        let lowest = self.lowest();
        match (self.peak_per_second, &self.report, lowest) {
            (Some(rate), Some(report), _) => format!(
                "Peak goodput: {:.0} correct replies/s with {}, at a rate of {rate:.0}/s over {:.1} s.",
                report.requests_per_second, self.slo, report.window_seconds
            ),
            _ if self.server_went_away => {
                "No peak: the server went away during the search, and refused connections."
                    .to_owned()
            }
            _ if self.generator_at_lowest().is_some() => {
                let share = self.probes.iter().filter(|probe| probe.missed_by_generator()).count();
                format!(
                    "No peak is known: the generator was the limit in {share} of {} probes, and its own lag is in \
                     their latencies. {OWN_PROCESSOR}",
                    self.probes.len()
                )
            }
            (_, _, Some(lowest)) if !lowest.met => format!(
                "No peak: even at {:.0}/s {} was not kept ({}, {}). Allow a longer latency, or find out what \
                 delays single requests with `duality load -R {:.0}`.",
                lowest.rate,
                self.slo,
                lowest.result(),
                lowest.latency(),
                lowest.rate
            ),
            _ => "No peak was found.".to_owned(),
        }
    }

    /// The last probe at the lowest rate. If there is no peak, its miss ended the search.
    fn lowest(&self) -> Option<&Probe> {
        self.probes.iter().rev().min_by(|one, other| one.rate.total_cmp(&other.rate))
    }

    /// The lowest rate, if no peak was found and the generator may be the reason. A short probe is
    /// repeated. So a single miss by the generator makes the rate unknown.
    fn generator_at_lowest(&self) -> Option<f64> {
        let rate = self.lowest().filter(|_| self.peak_per_second.is_none())?.rate;
        let mut there = self.probes.iter().filter(|probe| probe.rate.total_cmp(&rate).is_eq());
        there.any(Probe::missed_by_generator).then_some(rate)
    }

    /// The reason why the search does not judge its server, in one line with the remedy. The server
    /// went away, or its replies were wrong. Or the figures of the found rate are invalid. Or the
    /// generator was the limit even at the lowest rate.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let target = &self.target;
        if self.server_went_away {
            let remedy = "look at what the server says, and start it again";
            return Some(format!("{target}: the server went away during the search: {remedy}"));
        }
        match (&self.report, self.lowest()) {
            (Some(report), _) => report.failure(),
            (None, Some(lowest)) if lowest.failed > 0 => Some(format!(
                "{target}: {} requests failed even at {:.0}/s: find out why with `duality load -R {:.0}`",
                lowest.failed, lowest.rate, lowest.rate
            )),
            _ => self.generator_at_lowest().map(|rate| {
                format!(
                    "{target}: the generator was the limit even at {rate:.0}/s. {OWN_PROCESSOR}"
                )
            }),
        }
    }

    /// A warning if chance decided the result.
    fn too_few(&self, slo: &Slo) -> Option<String> {
        let report = self.report.as_ref()?;
        let probe = self
            .probes
            .iter()
            .rfind(|probe| probe.met && Some(probe.rate) == self.peak_per_second)?;
        let (name, needed) = (slo.percentile.name(), slo.percentile.requests());
        probe.too_few.then(|| {
            format!(
                "The {name} of the result rests on {} requests, so chance decides on it: at least \
                 {needed} are needed. Measure for \
                 longer: -d {:.0}s.",
                probe.requests,
                // The last window is three times this length.
                (report.window_seconds * needed as f64
                    / probe.requests.max(1) as f64
                    / f64::from(LONGER))
                .ceil()
            )
        })
    }

    /// A warning if a cause other than the server was the limit.
    fn warning(&self) -> Option<String> {
        let peak = self.peak_per_second?;
        let missed = self.probes.iter().filter(|probe| !probe.met && probe.rate > peak);
        let nearest = missed.min_by(|one, other| one.rate.total_cmp(&other.rate))?;
        let report = self.report.as_ref()?;
        (nearest.client_was_limit || report.client_was_limit).then(|| {
            format!(
                "The generator was the limit at {:.0}/s, so the server may be able to do more. {OWN_PROCESSOR}",
                if report.client_was_limit { peak } else { nearest.rate }
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(rate: f64, problem: Option<&str>) -> Probe {
        Probe {
            rate,
            window_seconds: 2.0,
            goodput_per_second: rate - 1.0,
            latency_us: Some(1234.0),
            requests: 2000,
            too_few: false,
            failed: 0,
            met: problem.is_none(),
            problem: problem.map(str::to_owned),
            client_was_limit: false,
        }
    }

    fn goodput(peak: Option<f64>, probes: Vec<Probe>) -> Goodput {
        Goodput {
            version: VERSION,
            target: "http://127.0.0.1:8080/".to_owned(),
            connections: 100,
            arrivals: "constant".to_owned(),
            slo: "p99=10ms".to_owned(),
            peak_per_second: peak,
            report: peak.map(|rate| Report {
                requests_per_second: rate - 1.0,
                ..crate::report::tests::report()
            }),
            probes,
            server_went_away: false,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn the_text_is_the_golden_one() {
        let long = Probe { window_seconds: 10.0, ..probe(1000.0, None) };
        let behind = Probe { latency_us: None, ..probe(2000.0, Some("falls behind")) };
        let expected = "\
http://127.0.0.1:8080/: the highest rate with p99=10ms, constant arrivals, up to 100 connections

      rate/s    window    correct/s       p99   result
        1000    2.00 s          999   1.23 ms   met
        2000    2.00 s         1999         -   falls behind
        1000    10.0 s          999   1.23 ms   met

Peak goodput: 999 correct replies/s with p99=10ms, at a rate of 1000/s over 10.0 s.
";
        let goodput = goodput(Some(1000.0), vec![probe(1000.0, None), behind, long]);
        assert_eq!(goodput.render_text(), expected);
        assert_eq!(
            goodput.probes[1].render_line(),
            "2000/s for 2.0 s: 1999/s correct, -: falls behind"
        );
    }

    #[test]
    fn probes_are_long_enough_for_their_percentile_within_a_bound() {
        let slo = |text: &str| Slo {
            percentile: text.parse().unwrap(),
            limit: Duration::from_millis(10),
        };
        for (percentile, rate, short, long) in [
            ("p99", 1_000.0, 2.0, 10.0),
            ("p99", 240.0, 5.0, 10.0),
            ("p99", 80.0, 10.0, 15.0),
            ("p99", 10.0, 10.0, 30.0),
            ("p90", 60.0, 2.0, 10.0),
            ("p99.9", 2_400.0, 5.0, 10.0),
            ("p99.9", 800.0, 10.0, 15.0),
            ("max", 240.0, 5.0, 10.0),
        ] {
            let window = |length| {
                probe_window(Duration::from_secs(10), length, rate, &slo(percentile)).as_secs_f64()
            };
            let found = (window(Length::Short), window(Length::Long));
            assert_eq!(found, (short, long), "{percentile} at {rate}");
        }
    }

    #[test]
    fn too_few_requests_are_told() {
        let few = Probe { requests: 300, too_few: true, ..probe(10.0, None) };
        assert!(few.render_line().ends_with("1.23 ms: met, of only 300 requests"));
        let slo = Slo { percentile: Percentile::P99, limit: Duration::from_millis(10) };
        let message = goodput(Some(10.0), vec![few]).too_few(&slo).unwrap();
        assert!(
            message.contains("300 requests") && message.contains("at least 1000 are needed"),
            "{message}"
        );
        // The window of the report is 10 s.
        assert!(message.contains("-d 12s"), "{message}");
        assert_eq!(goodput(Some(10.0), vec![probe(10.0, None)]).too_few(&slo), None);
    }

    #[test]
    fn a_search_that_says_nothing_of_the_server_has_failed() {
        let missed = || vec![probe(10.0, Some("p99 too long"))];
        assert_eq!(goodput(Some(1000.0), vec![probe(1000.0, None)]).failure(), None);
        assert_eq!(goodput(None, missed()).failure(), None);
        let wrong = Probe { failed: 7, ..probe(10.0, Some("7 failed")) };
        assert!(goodput(None, vec![wrong]).failure().unwrap().contains("7 requests failed"));
        let gone = Goodput { server_went_away: true, ..goodput(None, missed()) };
        assert!(gone.failure().unwrap().contains("the server went away"));
        assert!(gone.verdict().contains("the server went away"));
    }

    #[test]
    fn json_keeps_everything() {
        let goodput =
            goodput(Some(1000.0), vec![probe(1000.0, None), probe(2000.0, Some("3 failed"))]);
        let text = serde_json::to_string(&goodput).unwrap();
        assert_eq!(serde_json::from_str::<Goodput>(&text).unwrap(), goodput);
    }

    #[test]
    fn that_even_the_lowest_rate_misses_is_told() {
        let missed = goodput(None, vec![probe(20.0, Some("x")), probe(10.0, Some("p99 too long"))]);
        let text = missed.render_text();
        assert!(
            text.contains("even at 10/s p99=10ms was not kept (p99 too long, 1.23 ms)"),
            "{text}"
        );
        assert!(missed.warning().is_none());
    }

    #[test]
    fn a_search_that_the_generator_ended_says_nothing_of_the_server() {
        let late = |rate| Probe { client_was_limit: true, ..probe(rate, Some("p99 too long")) };
        let found = goodput(None, vec![late(500.0), late(500.0), late(10.0), late(10.0)]);
        let text = found.render_text();
        assert!(
            text.contains("No peak is known: the generator was the limit in 4 of 4 probes"),
            "{text}"
        );
        assert!(
            text.contains("`load --cpus`") && !text.contains("Allow a longer latency"),
            "{text}"
        );
        assert!(text.contains("p99 too long; the generator was the limit\n"), "{text}");
        let message = found.failure().unwrap();
        assert!(message.contains("the generator was the limit even at 10/s"), "{message}");
        // If the generator caused one of the two misses at the lowest rate, no peak is known.
        let once = goodput(None, vec![late(10.0), probe(10.0, Some("p99 too long"))]);
        assert!(once.verdict().contains("in 1 of 2 probes"), "{}", once.verdict());
        // A lag at other rates changes nothing, and a failure does not count as a lag.
        let higher = goodput(None, vec![late(20.0), late(20.0), probe(10.0, Some("p99 too long"))]);
        assert!(higher.verdict().starts_with("No peak: even at 10/s"), "{}", higher.verdict());
        let failed = Probe { failed: 7, ..late(10.0) };
        assert!(goodput(None, vec![failed]).failure().unwrap().contains("7 requests failed"));
    }

    #[test]
    fn a_miss_in_the_window_that_should_confirm_the_lowest_rate_is_told() {
        let long = Probe { window_seconds: 10.0, ..probe(10.0, Some("p99 too long")) };
        let found = goodput(None, vec![probe(10.0, None), long]);
        assert!(found.verdict().starts_with("No peak: even at 10/s"), "{}", found.verdict());
    }

    #[test]
    fn a_generator_that_was_the_limit_is_told() {
        let late = Probe { client_was_limit: true, ..probe(1030.0, Some("p99 too long")) };
        let met = goodput(Some(1000.0), vec![probe(1000.0, None), late, probe(2000.0, Some("x"))]);
        assert!(met.warning().unwrap().contains("at 1030/s"));
        let fine = goodput(Some(1000.0), vec![probe(1000.0, None), probe(1030.0, Some("x"))]);
        assert_eq!(fine.warning(), None);
    }
}
