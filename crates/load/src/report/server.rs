//! Faults of the server: it went away, stood still, or gave wrong replies. The figures of such a
//! load are complete, but say little about the server.

use std::time::Duration;

use super::open_loop::KEPT_UP;
use super::{Report, duration};
use crate::failure::WRONG_REPLIES;
use crate::measurement::Measurement;

/// The report mentions a time without any reply from this length on.
const LONG_SILENCE: Duration = Duration::from_secs(1);

/// A standstill must also last this many median latencies, since some services take seconds for
/// each reply.
const SILENT_LATENCIES: f64 = 10.0;

impl Report {
    /// The reason why this load does not measure its server, in one line with the remedy. The
    /// server went away, or replies were wrong, or there were none. Or many requests failed, or the
    /// requested rate was not kept. Or the figures are [invalid](Report::invalid).
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let failed: u64 = self.errors.values().sum();
        let wrong: u64 = WRONG_REPLIES.iter().filter_map(|kind| self.errors.get(*kind)).sum();
        let target = &self.target;
        if self.server_went_away() {
            let (went, remedy) =
                (self.how_it_went(), "look at what the server says, and start it again");
            Some(format!("{target}: {went}: {remedy}"))
        } else if wrong > 0 {
            let remedy = "see the warnings for the first, and find out what the server is given";
            Some(format!("{target}: {wrong} of its replies were wrong: {remedy}"))
        } else if self.requests == 0 {
            Some(format!("{target}: no correct reply came within the window: measure for longer"))
        } else if failed as f64 > (1.0 - KEPT_UP) * (self.requests + failed) as f64 {
            let all = self.requests + failed;
            let remedy = "see the warnings for the kinds, and ask for less (-c, -R)";
            Some(format!("{target}: {failed} of {all} requests failed: {remedy}"))
        } else if let Some(open) = self.open_loop.as_ref().filter(|open| open.fell_short(self)) {
            let (what, remedy) = match self.replayed {
                None => (
                    "requests that were due",
                    "ask for less (-R), or for what the server can do (--slo)",
                ),
                Some(_) => ("requests of the piece", "replay fewer --users"),
            };
            let (answered, asked) = (self.requests, open.asked(self));
            Some(format!("{target}: only {answered} of {asked} {what} were answered: {remedy}"))
        } else {
            let problem = self.invalid.values().next()?;
            Some(format!("{target}: the figures are invalid: {problem}"))
        }
    }

    /// The server answered once before the load, so a server that refuses connections has ended
    /// since.
    fn refused_connects(&self) -> u64 {
        self.errors.get("connect-refused").copied().unwrap_or_default()
    }

    /// Whether the server ended during the load, permanently or not.
    pub(crate) fn server_went_away(&self) -> bool {
        self.refused_connects() > 0
    }

    /// The clause that says that the server went away.
    pub(super) fn how_it_went(&self) -> String {
        let refused = self.refused_connects();
        let connections = if refused == 1 { "a connection" } else { "connections" };
        let times = if refused == 1 { String::new() } else { format!(" {refused} times") };
        let is_back = self.slices_requests_per_second.last().is_some_and(|rate| *rate > 0.0);
        let went = if is_back { "was away for a part of the window" } else { "went away" };
        format!("the server {went}: it refused {connections}{times}")
    }

    /// The warning that the server went away.
    pub(super) fn departure(&self) -> Option<String> {
        let went = self.how_it_went().replacen("the", "The", 1);
        self.server_went_away().then(|| {
            format!(
                "{went}. The figures are mostly of the time when the server was \
                there."
            )
        })
    }

    /// The warning that the server stood still.
    pub(super) fn standstill(&self, measurement: &Measurement) -> Option<String> {
        let silence = measurement.silence.longest;
        let waited = Duration::from_nanos(measurement.latencies.max());
        // If no request waits, no reply can come.
        let is_waited_for = waited.max(measurement.overdue.longest) >= silence / 2;
        let usual = SILENT_LATENCIES * self.latency_us.p50;
        let is_unusual = silence.as_secs_f64() * 1e6 > usual;
        let is_told = silence >= LONG_SILENCE && is_waited_for && is_unusual;
        (is_told && self.requests > 0 && !self.server_went_away()).then(|| {
            format!(
                "The server stood still: for {} no reply came to any of the {} connections, and requests were waiting. What \
                 stopped it? The latencies show the stop only once for each connection.",
                duration(silence.as_secs_f64() * 1e6),
                self.connections
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{histogram, report};
    use std::time::Instant;

    use super::*;
    use crate::unanswered::Silence;

    fn failed(kind: &str, count: u64) -> Report {
        Report { errors: [(kind.to_owned(), count)].into(), ..report() }
    }

    #[test]
    fn a_server_that_goes_away_fails_the_load() {
        let mut gone = failed("connect-refused", 12);
        gone.slices_requests_per_second[19] = 0.0;
        let message = gone.failure().unwrap();
        assert!(
            message.contains("the server went away: it refused connections 12 times"),
            "{message}"
        );
        assert!(gone.verdict().starts_with("The server went away"), "{}", gone.verdict());
        let back = failed("connect-refused", 1);
        let message = back.failure().unwrap();
        assert!(
            message.contains("was away for a part of the window: it refused a connection:"),
            "{message}"
        );
    }

    #[test]
    fn wrong_replies_and_invalid_figures_fail_the_load() {
        assert_eq!(report().failure(), None);
        for kind in WRONG_REPLIES {
            assert!(failed(kind, 3).failure().unwrap().contains("3 of its replies were wrong"));
        }
        // A few failed clients do not spoil the load. The report lists them.
        assert_eq!(failed("reset", 3).failure(), None);
        let message = failed("timed-out", 15_000).failure().unwrap();
        assert!(message.contains("15000 of 515000 requests failed"), "{message}");
        let starved = [("starved".to_owned(), "It stood still.".to_owned())];
        let invalid = Report { invalid: starved.into(), ..report() };
        assert!(invalid.failure().unwrap().ends_with("the figures are invalid: It stood still."));
        let nothing = Report { requests: 0, ..report() };
        assert!(nothing.failure().unwrap().contains("no correct reply"));
    }

    #[test]
    fn a_standstill_is_told_where_somebody_waited() {
        let measurement = |silence: u64, longest: u64| Measurement {
            silence: {
                let opened = Instant::now();
                let mut long = Silence::default();
                long.end(opened, opened + Duration::from_millis(silence));
                long
            },
            latencies: histogram([200, 200, 1000 * longest]),
            ..Measurement::default()
        };
        for (silence, longest, is_told) in
            [(1000, 1000, true), (999, 1000, false), (3000, 2900, true), (3000, 1, false)]
        {
            let warning = report().standstill(&measurement(silence, longest));
            assert_eq!(warning.is_some(), is_told, "{silence} {longest}: {warning:?}");
        }
        let warning = report().standstill(&measurement(1500, 1500)).unwrap();
        assert!(
            warning.contains("for 1.50 s no reply came to any of the 100 connections"),
            "{warning}"
        );
        let mut slow = report();
        slow.latency_us.p50 = 150_000.0;
        assert_eq!(slow.standstill(&measurement(1400, 1400)), None);
    }
}
