//! Warnings about figures, by kind. A program that processes a warning looks at its kind, and never
//! at its wording.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Report;
use crate::engine::Outcome;
use crate::failure::WRONG_OUTSIDE;
use crate::measurement::Measurement;
use crate::place::Place;
use crate::unanswered::Overdue;
use crate::{Options, Pattern, Stop};

/// The latency from which on a request may have waited for a delayed acknowledgement, in
/// nanoseconds.
const DELAYED_ACK: u64 = 38_000_000;

/// A fact that a reader of figures must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Written")]
pub struct Warning {
    /// The subject of the warning.
    pub kind: WarningKind,
    /// The message, in a sentence.
    pub text: String,
}

/// The subject of a warning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WarningKind {
    /// The load was interrupted.
    Interrupted,
    /// The server went away.
    ServerGone,
    /// There was no reply at all for a long time.
    Standstill,
    /// No latency was measured.
    NoLatencies,
    /// Connections were never served.
    Unserved,
    /// Requests were unanswered at the end, after waits longer than any counted one.
    Overdue,
    /// An open loop's requests were sent late, or had to wait for connections.
    OpenLoop,
    /// Requests failed in this way.
    Failed(String),
    /// Requests failed before or after the window.
    FailedOutside,
    /// The server's accept queue overflowed. (In earlier versions: the accept queue of any server.)
    AcceptQueues,
    /// The server's own listen queue was the limit, or overflowed.
    ListenQueue,
    /// The CPU quota of a control group ran out.
    Quota,
    /// Addresses of the server's name could not be reached, and were left out.
    Unreachable,
    /// Replies came in two parts, the second of which waited for a delayed acknowledgement.
    DelayedAcknowledgement,
    /// Server and load generator shared processors.
    SharedProcessors,
    /// Figures of repeats cannot be trusted, for this reason.
    Invalid(String),
    /// Some repeats have no figures.
    Missing,
    /// Repeats differ widely.
    Noisy,
    /// A repeat is far from the others.
    Outliers,
    /// Figures changed within the window.
    Unsteady,
    /// A version without kinds wrote the warning.
    Other,
}

impl Warning {
    /// A warning of one kind.
    pub fn new(kind: WarningKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// A warning in a file. Earlier versions wrote the sentence alone.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Written {
    Sentence(String),
    Whole { kind: WarningKind, text: String },
}

impl From<Written> for Warning {
    fn from(written: Written) -> Self {
        match written {
            Written::Sentence(text) => Self { kind: WarningKind::Other, text },
            Written::Whole { kind, text } => Self { kind, text },
        }
    }
}

impl Report {
    /// Warnings for readers of the figures.
    pub(super) fn warnings(&self, options: &Options, outcome: &Outcome) -> Vec<Warning> {
        let measurement = &outcome.measurement;
        let mut warnings = Vec::new();
        let mut warn = |kind, text: String| warnings.push(Warning { kind, text });
        if outcome.interrupted {
            warn(
                WarningKind::Interrupted,
                format!("Interrupted: the window was only {:.2} s long.", self.window_seconds),
            );
        }
        if let Some(text) = self.departure() {
            warn(WarningKind::ServerGone, text);
        }
        if let Some(text) = self.standstill(measurement) {
            warn(WarningKind::Standstill, text);
        }
        if measurement.latencies.is_empty() {
            warn(WarningKind::NoLatencies,
                "No request both began and ended in the window, so there are no latencies; measure for longer."
                    .to_owned(),
            );
        }
        let starved = self.connections as u64 - self.connections_served;
        // With very few requests, some connections get none without starving. Requests that come
        // one by one, or at a rate, also leave connections without any.
        let all_ask = matches!(options.pattern, Pattern::Closed | Pattern::Limited);
        if starved > 0 && all_ask && matches!(options.stop, Stop::After(_)) {
            warn(
                WarningKind::Unserved,
                format!("{starved} of {} connections were never served.", self.connections),
            );
        }
        if let Some(text) = overdue_warning(measurement) {
            warn(WarningKind::Overdue, text);
        }
        if let Some(open) = &self.open_loop
            && self.replayed.is_none()
            && let Some(text) = open.warning(self)
        {
            warn(WarningKind::OpenLoop, text);
        }
        for Warning { kind, text } in failed(measurement) {
            warn(kind, text);
        }
        if self.listen_overflows > 0 {
            warn(
                WarningKind::AcceptQueues,
                format!(
                    "The server's accept queue overflowed {} times during the run: a larger backlog of the server (`duality \
                 serve --backlog`, and net.core.somaxconn) avoids the one-second pauses that follow.",
                    self.listen_overflows
                ),
            );
        }
        warnings.extend(self.quota_warning());
        warnings.extend(left_out(&outcome.unreachable));
        warnings.extend(held_up(outcome.held_up, measurement));
        warnings
    }

    /// Warns that a quota ran out. If it starved the generator, there is no warning: the figures
    /// are invalid for that reason.
    fn quota_warning(&self) -> Option<Warning> {
        let exhausted = self.quota.as_ref().filter(|_| !self.was_starved())?;
        let text = format!("During the run, {}.", exhausted.told());
        Some(Warning::new(WarningKind::Quota, text))
    }
}

/// Warns of addresses that the load left out, except those of the loopback device. A server on this
/// machine often listens at 127.0.0.1 or at ::1 alone.
fn left_out(places: &[Place]) -> Option<Warning> {
    let is_elsewhere =
        |place: &&Place| !place.address().is_some_and(|address| address.ip().is_loopback());
    let names: Vec<String> = places.iter().filter(is_elsewhere).map(Place::to_string).collect();
    let text = format!(
        "No connection could be made to {}: the load went to the other addresses of this name.",
        names.join(", ")
    );
    (!names.is_empty()).then(|| Warning::new(WarningKind::Unreachable, text))
}

/// Warns of replies that Nagle's algorithm held up on the server: they came in two parts, and the
/// latencies show it.
fn held_up(replies: u64, measurement: &Measurement) -> Option<Warning> {
    let all = measurement.latencies.len();
    let late = measurement.latencies.count_between(DELAYED_ACK, u64::MAX);
    let is_frequent = |count: u64| count >= 3 && count.saturating_mul(100) >= all;
    (is_frequent(replies) && is_frequent(late)).then(|| {
        let text = format!(
            "{replies} replies came in two parts, 40 ms apart: the server sends a reply by two writes, and its kernel \
             holds the second back until the first is acknowledged, which a client delays (Nagle's algorithm). Set \
             TCP_NODELAY on the server's connections, or send each reply by one write."
        );
        Warning::new(WarningKind::DelayedAcknowledgement, text)
    })
}

/// Sentences on the requests that failed, in the window and outside of it.
fn failed(measurement: &Measurement) -> Vec<Warning> {
    let in_window = measurement.failures.iter().map(|(kind, failures)| {
        let times = if failures.count == 1 { "once" } else { "times, at first" };
        let count =
            if failures.count == 1 { String::new() } else { format!("{} ", failures.count) };
        Warning::new(
            WarningKind::Failed((*kind).to_owned()),
            format!("{kind} {count}{times}: {}{}.", failures.example, remedy(kind)),
        )
    });
    let mut warnings: Vec<Warning> = in_window.collect();
    let wrong = measurement.wrong_outside;
    if wrong > 0 {
        let text = format!("{wrong} replies outside the window were wrong.");
        warnings.push(Warning::new(WarningKind::Failed(WRONG_OUTSIDE.to_owned()), text));
    }
    let others = measurement.failures_outside;
    if others > 0 {
        let text = format!("{others} requests failed outside the window.");
        warnings.push(Warning::new(WarningKind::FailedOutside, text));
    }
    warnings
}

/// Warns of requests that were unanswered at the end, if they would change the percentiles. Such
/// requests matter if they are one in a thousand or more, or if one waited much longer than any
/// counted latency.
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

/// The remedy for failures of a kind, as the end of a sentence.
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

#[cfg(test)]
mod tests {
    use super::super::tests::histogram;
    use super::*;

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
    fn a_delayed_acknowledgement_is_told_when_it_is_frequent() {
        let measurement = |late: usize| Measurement {
            latencies: histogram(
                std::iter::repeat_n(500, 1_000).chain(std::iter::repeat_n(40_500, late)),
            ),
            ..Measurement::default()
        };
        for (replies, late, is_told) in
            [(0, 0, false), (9, 9, false), (12, 12, true), (500, 0, false), (0, 500, false)]
        {
            let warning = held_up(replies, &measurement(late));
            assert_eq!(warning.is_some(), is_told, "{replies} {late}: {warning:?}");
        }
        let warning = held_up(500, &measurement(500)).unwrap();
        assert_eq!(warning.kind, WarningKind::DelayedAcknowledgement);
        assert!(
            warning.text.starts_with("500 replies") && warning.text.contains("TCP_NODELAY"),
            "{warning}"
        );
    }

    #[test]
    fn addresses_that_were_left_out_are_told_unless_they_are_loopback() {
        let place = |text: &str| Place::from(text.parse::<std::net::SocketAddr>().unwrap());
        assert_eq!(left_out(&[]), None);
        assert_eq!(left_out(&[place("[::1]:80")]), None);
        let text = left_out(&[place("192.0.2.1:80"), place("[::1]:80")]).unwrap().text;
        assert!(text.starts_with("No connection could be made to 192.0.2.1:80: "), "{text}");
    }

    #[test]
    fn what_earlier_versions_wrote_is_read() {
        let old: Warning = serde_json::from_str(r#""Mind the gap.""#).unwrap();
        assert_eq!(old, Warning::new(WarningKind::Other, "Mind the gap."));
        let new = Warning::new(WarningKind::Failed("reset".into()), "reset once.");
        let text = serde_json::to_string(&new).unwrap();
        assert_eq!(serde_json::from_str::<Warning>(&text).unwrap(), new);
    }
}
