//! The findings of a replay besides the verdict. They say whether the choice matters at the user's
//! own traffic, and how many users each architecture has room for.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;

use crate::format::{bytes, duration, grouped, listed};
use crate::judge::rows::{Figures, Missing, Row};
use crate::judge::summary::Summary;
use crate::record::{Cell, Heading, Outcome, Recording, Spread};
use crate::tell::phrases::Phrase;

/// If each subject takes a smaller share of a processor, the choice does not matter.
const NO_MATTER: f64 = 0.001;

/// The choice begins to matter when the most expensive subject takes this share of a processor.
const MATTERS: f64 = 0.1;

/// The number of users that an architecture has room for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Headroom {
    /// The architecture or peer.
    pub subject: String,
    /// The share of a processor that the subject takes at the recorded load.
    pub share_as_recorded: f64,
    /// The multiple of the users that takes one whole processor.
    pub users_of_a_processor: f64,
    /// The multiple of the users that has as many connections open as the subject holds at a time,
    /// and that number of connections. `None` without such a limit below a whole processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<(f64, usize)>,
    /// The smallest measured multiple of users at which the subject lacked something, and the lack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lack: Option<(usize, String)>,
}

/// The headroom of all subjects that were measured, the largest first. Empty without a recording.
pub fn headroom(heading: &Heading, summary: &Summary) -> Vec<Headroom> {
    let Some(recording) = &heading.design.recording else { return Vec::new() };
    let of = |name: &String| {
        let measured = summary.of_subject(name).filter(|row| {
            // The costs of a server that leaves requests unanswered mislead.
            row.medians().is_some_and(|medians| !medians.starved)
        });
        let mut rows = summary.of_subject(name);
        let lack = rows.find_map(|row| Some((row.concurrency, lack(summary, row)?)));
        let most = measured.max_by_key(|row| row.concurrency).and_then(Row::medians);
        let Some(medians) = most else {
            let (share_as_recorded, users_of_a_processor) = (0.0, 0.0);
            let subject = name.clone();
            let held = None;
            let none = Headroom { subject, share_as_recorded, users_of_a_processor, held, lack };
            return Some(none).filter(|none| none.lack.is_some());
        };
        let share = medians.cpu_us * recording.rate(1) / 1e6;
        Some(Headroom {
            subject: name.clone(),
            share_as_recorded: share,
            users_of_a_processor: 1.0 / share.max(1e-12),
            held: held(heading, recording, name)
                .filter(|(users, _)| *users < 1.0 / share.max(1e-12)),
            lack,
        })
    };
    let mut all: Vec<Headroom> = summary.subjects.iter().filter_map(of).collect();
    all.sort_by(|one, other| other.users_of_a_processor.total_cmp(&one.users_of_a_processor));
    all
}

/// The multiple of the users at which a subject holds no more connections, and the connections.
fn held(heading: &Heading, recording: &Recording, name: &str) -> Option<(f64, usize)> {
    let holds = heading.design.carrier(name)?.holds?;
    // A server may answer a connection that does not stay, and take the next.
    let stay = heading.design.keep_alive && recording.open > 0.0;
    stay.then(|| (holds as f64 / recording.open, holds))
}

/// The lack of a subject with this many users, if there was one. Lacks are unanswered requests, a
/// failure, and a limit that was broken for sure.
fn lack(summary: &Summary, row: &Row) -> Option<String> {
    let broken = row.medians().and_then(|medians| {
        let checks = summary.checks(medians);
        checks.into_iter().find(|check| !check.kept && check.sure)
    });
    match &row.figures {
        Figures::Measured(medians) if medians.starved => Some(format!(
            "it answered {:.0} % of the requests",
            100.0 * medians.answered.unwrap_or(0.0)
        )),
        Figures::Missing { state: Missing::Failed, reason } => Some(reason.clone()),
        _ => {
            broken.map(|check| format!("{} was {}, not {}", check.of, check.measured, check.limit))
        }
    }
}

/// The sentence that the choice does not matter at the recorded traffic, if it does not.
pub(super) fn first_sentence(heading: &Heading, headroom: &[Headroom]) -> Option<String> {
    let recording = heading.design.recording.as_ref()?;
    let measured = headroom.iter().filter(|one| one.users_of_a_processor > 0.0);
    let dearest = measured.map(|one| one.share_as_recorded).reduce(f64::max)?;
    if dearest >= NO_MATTER {
        return None;
    }
    let lacks = headroom.iter().filter_map(|one| Some(one.lack.as_ref()?.0)).min();
    let by_cost = MATTERS / dearest;
    let (at, why) = match lacks {
        Some(users) if (users as f64) < by_cost => {
            let who =
                headroom.iter().filter(|one| one.lack.as_ref().is_some_and(|lack| lack.0 == users));
            let who: Vec<&str> = who.map(|one| one.subject.as_str()).collect();
            (users as f64, format!("where {} left requests unanswered", listed(&who)))
        }
        _ => (by_cost, "where the dearest takes a tenth of a processor".to_owned()),
    };
    let rate = small(recording.rate(1));
    Some(Phrase::AnyWillDo.told(&[&rate, &percent(dearest), &grouped(rounded(at)), &why]))
}

/// An upper bound of a share, in percent: the next of 0.1, 0.01, ….
fn percent(share: f64) -> String {
    let mut bound = 0.1_f64;
    let mut decimals = 1;
    while bound / 1000.0 > share && decimals < 6 {
        bound /= 10.0;
        decimals += 1;
    }
    format!("{bound:.decimals$} %")
}

fn small(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { grouped(value) }
}

/// Two digits, because more digits would promise too much.
fn rounded(value: f64) -> f64 {
    if value < 10.0 {
        return value.round().max(1.0);
    }
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    (value / unit).round() * unit
}

/// The recording and the headroom, as lines for a terminal. Empty without a recording.
pub(super) fn text(heading: &Heading, headroom: &[Headroom], cells: &[Cell]) -> String {
    let mut text = String::new();
    let Some(recording) = &heading.design.recording else { return text };
    text.push_str("your load\n");
    for (name, value) in figures(recording) {
        let _ = writeln!(text, "  {name:<24}{value}");
    }
    for inferred in &recording.inferred {
        let _ = writeln!(text, "  inferred                {inferred}");
    }
    for warning in &recording.warnings {
        let _ = writeln!(text, "! {warning}");
    }
    text.push_str("\nplanned against sent, of the windows\n");
    for (name, value) in sent(cells) {
        let _ = writeln!(text, "  {name:<24}{value}");
    }
    text.push_str("\nheadroom: times your users until one processor is used up\n");
    for one in headroom {
        let _ = writeln!(text, "  {:<24}{}", one.subject, one.told());
    }
    text.push('\n');
    text
}

impl Headroom {
    /// The users of a processor, and the first lack.
    pub(super) fn told(&self) -> String {
        let room = match self.users_of_a_processor {
            0.0 => "not known".to_owned(),
            users => format!("about {}", grouped(rounded(users))),
        };
        let room = match self.held {
            None => room,
            Some((users, connections)) => format!(
                "{room}; its {} connections at a time are held by about {}",
                grouped(connections as f64),
                grouped(rounded(users))
            ),
        };
        match &self.lack {
            None => room,
            Some((users, why)) => format!("{room}; at {} {why}", grouped(*users as f64)),
        }
    }
}

/// The figures of the recording, each with its name.
pub(super) fn figures(recording: &Recording) -> Vec<(&'static str, String)> {
    let spread = |spread: Spread, told: fn(f64) -> String| {
        let Spread { p50, p90, p99, max } = spread;
        format!("50 % {}, 90 % {}, 99 % {}, most {}", told(p50), told(p90), told(p99), told(max))
    };
    let hours = recording.seconds / 3600.0;
    let rate = recording.requests as f64 / recording.seconds.max(1.0);
    let length =
        if hours >= 1.0 { format!("{hours:.1} h") } else { format!("{:.0} s", recording.seconds) };
    let mut figures = vec![
        ("recording", format!("{}, from a {}, {length}", recording.trace, recording.source)),
        ("requests", format!("{} ({}/s)", grouped(recording.requests as f64), small(rate))),
        (
            "connections",
            format!(
                "{}, {} open on average",
                grouped(recording.connections as f64),
                small(recording.open)
            ),
        ),
        ("requests a connection", spread(recording.carried, grouped)),
        ("think times", spread(recording.think_seconds, |seconds| duration(1e6 * seconds))),
        ("replies", spread(recording.reply_bytes, bytes)),
    ];
    if let Some(at) = &recording.at {
        figures.push(("piece", format!("at {at}")));
    }
    if (recording.speed - 1.0).abs() > f64::EPSILON {
        figures.push(("speed", format!("{} times as fast", recording.speed)));
    }
    if let Some(bunch) = recording.bunch {
        figures.push(("burstier", format!("{bunch} users come at the same time")));
    }
    if let Some(rate) = recording.client_rate {
        figures.push(("clients", format!("take at most {}/s", bytes(rate as f64))));
    }
    figures
}

/// The planned and the sent requests: the worst window.
pub(super) fn sent(cells: &[Cell]) -> Vec<(&'static str, String)> {
    let replayed = cells.iter().filter_map(|cell| match &cell.outcome {
        Outcome::Measured(measured) => measured.replayed.as_ref(),
        _ => None,
    });
    let all: Vec<_> = replayed.collect();
    let Some(first) = all.first() else { return vec![("nothing was sent", String::new())] };
    let worst = |of: fn(&duality_load::Fidelity) -> f64| {
        all.iter().map(|one| of(&one.fidelity)).fold(0.0, f64::max)
    };
    let valid = all.iter().filter(|one| one.fidelity.is_kept()).count();
    let priority = match &first.no_real_time {
        None => "real-time".to_owned(),
        Some(why) => format!("ordinary: {why}"),
    };
    vec![
        ("windows", format!("{valid} of {} kept to the recording", all.len())),
        ("gaps", format!("at most {:.3} apart, of 0.05", worst(|one| one.gaps_distance))),
        (
            "requests a connection",
            format!("at most {:.3} apart, of 0.01", worst(|one| one.requests_distance)),
        ),
        ("send lag, 99 %", format!("at most {}, of 1 ms", duration(worst(|one| one.lag_p99_us)))),
        ("priority", priority),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_round() {
        assert_eq!(percent(0.0005), "0.1 %");
        assert_eq!(percent(0.000_05), "0.01 %");
        assert_eq!(percent(0.000_006), "0.001 %");
        assert_eq!((rounded(12_345.0), rounded(7.4), rounded(0.2)), (12_000.0, 7.0, 1.0));
    }
}
