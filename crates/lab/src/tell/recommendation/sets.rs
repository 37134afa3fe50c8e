//! Best sets: subjects that cannot be told from the best, if none of them can be recommended. The
//! module also lists the subjects that are certainly worse.

use crate::format::{listed, percent};
use crate::judge::summary::Summary;
use crate::judge::verdict::{Metric, Standing, Told, Verdict};

/// For longer lists, the text names the subjects outside of the set, if that is shorter.
const MANY: usize = 4;

/// A critical difference above this share is not worth reporting.
const TOO_COARSE: f64 = 1.0;

/// The best sets from which no subject can be recommended. Empty without such a set.
pub(super) fn headline(summary: &Summary) -> Option<String> {
    if summary.partial().is_some() {
        return None;
    }
    let mere: Vec<&Verdict> =
        summary.verdicts.iter().filter(|verdict| verdict.is_mere_set()).collect();
    let mut sets: Vec<(String, Vec<usize>)> = Vec::new();
    for verdict in &mere {
        let set = any_of(verdict);
        match sets.iter_mut().find(|(known, _)| *known == set) {
            Some((_, counts)) => counts.push(verdict.concurrency),
            None => sets.push((set, vec![verdict.concurrency])),
        }
    }
    let parts: Vec<String> =
        sets.iter().map(|(set, counts)| format!("{set} at {}", summary.at_all(counts))).collect();
    let of = match summary.constraints.is_empty() {
        true => String::new(),
        false => format!(", of those that keep {}", summary.constraints),
    };
    let unseen = mere.iter().filter_map(|verdict| verdict.critical).reduce(f64::max);
    let unseen = unseen.map_or(String::new(), |share| {
        let under =
            if share < TOO_COARSE { format!(" under {}", percent(share)) } else { String::new() };
        format!(" (differences{under} among them would not have been seen)")
    });
    let worse = mere.iter().max_by_key(|verdict| verdict.concurrency);
    let worse = worse.map_or(String::new(), |verdict| nearest(verdict));
    (!parts.is_empty()).then(|| format!("Choose {}{of}{unseen}{worse}.", parts.join("; ")))
}

/// The subjects nearest to the best set: `; worse for sure at 1,000 connections: threads by 39 %
/// more processor time [31 to 48], fork by 93 %, and 4 others`.
fn nearest(verdict: &Verdict) -> String {
    let excluded: Vec<&Standing> = verdict.excluded().collect();
    let Some((first, rest)) = excluded.split_first() else { return String::new() };
    let shown = |value: f64| match verdict.metric {
        Metric::Rate => 1.0 - 1.0 / (1.0 + value),
        _ => value,
    };
    let what = match verdict.metric {
        Metric::ServerCpu => "more processor time",
        Metric::Rate => "fewer requests/s",
        Metric::Latency(_) => "more latency",
    };
    let mut parts = vec![format!(
        "{} by {:.0} % {what} [{:.0} to {:.0}]",
        first.subject,
        100.0 * shown(first.behind),
        100.0 * shown(first.low),
        100.0 * shown(first.high)
    )];
    let second = |one: &&Standing| format!("{} by {:.0} %", one.subject, 100.0 * shown(one.behind));
    parts.extend(rest.first().map(second));
    match rest.len().saturating_sub(1) {
        0 => {}
        1 => parts.push("1 other".to_owned()),
        many => parts.push(format!("{many} others")),
    }
    format!("; worse for sure at {}: {}", verdict.at(), listed(&parts))
}

/// `epoll, poll and uring`, `all but fork`.
pub(super) fn members(verdict: &Verdict) -> String {
    match names(verdict) {
        Names::These(names) => names,
        Names::AllBut(names) => format!("all but {names}"),
    }
}

/// `any of epoll, poll and uring`, `any but fork`.
fn any_of(verdict: &Verdict) -> String {
    match names(verdict) {
        Names::These(names) => format!("any of {names}"),
        Names::AllBut(names) => format!("any but {names}"),
    }
}

/// The members of a set, or all others, if these are fewer.
enum Names {
    These(String),
    AllBut(String),
}

fn names(verdict: &Verdict) -> Names {
    let names = |standings: Vec<&Standing>| -> Vec<String> {
        let mut names: Vec<String> = standings.iter().map(|one| one.subject.clone()).collect();
        names.sort_unstable();
        names
    };
    let (inside, outside) =
        (names(verdict.leaders().collect()), names(verdict.excluded().collect()));
    match inside.len() > MANY.max(outside.len()) {
        true => Names::AllBut(listed(&outside)),
        false => Names::These(listed(&inside)),
    }
}

/// The subjects that are certainly worse at each number of connections, with the differences.
pub(super) fn excluded(summary: &Summary) -> Vec<String> {
    let phrase = |verdict: &Verdict| {
        let all: Vec<String> =
            verdict.excluded().map(|standing| behind(standing, verdict.metric)).collect();
        let what = match verdict.metric {
            Metric::ServerCpu => "processor time for a request".to_owned(),
            Metric::Rate => "requests/s".to_owned(),
            Metric::Latency(percentile) => format!("{percentile} latency"),
        };
        let at = verdict.at();
        (!all.is_empty()).then(|| format!("Worse for sure at {at}, by {what}: {}.", listed(&all)))
    };
    summary.verdicts.iter().filter_map(phrase).collect()
}

/// `threads +154 % [121 to 193]`. For a rate, the missing share: `threads -60.6 % [-65.9 to
/// -54.8]`.
fn behind(standing: &Standing, metric: Metric) -> String {
    let shown = |value: f64| if metric == Metric::Rate { 1.0 / (1.0 + value) - 1.0 } else { value };
    let share = |value: f64| {
        let percent = 100.0 * shown(value);
        if percent.abs() < 99.95 { format!("{percent:+.1}") } else { format!("{percent:+.0}") }
    };
    let mut ends = [standing.low, standing.high];
    ends.sort_by(|one, other| shown(*one).total_cmp(&shown(*other)));
    let [low, high] = ends.map(share);
    format!("{} {} % [{low} to {high}]", standing.subject, share(standing.behind))
}

/// The other members of best sets, by what the comparison with the best says of them.
pub(super) fn beside(chosen: &str, won: &[&Verdict], margin: f64) -> String {
    let decided = || won.iter().filter(|verdict| verdict.tells_apart());
    let mut names: Vec<&str> = Vec::new();
    for standing in decided().flat_map(|verdict| verdict.leaders()) {
        let name = standing.subject.as_str();
        if name != chosen && !names.contains(&name) {
            names.push(name);
        }
    }
    let of = |wanted: Told| -> Vec<&str> {
        let least = |name: &str| {
            let all = decided().flat_map(|verdict| &verdict.standings);
            let told = all.filter(|one| one.subject == name).map(|one| one.told);
            told.fold(Told::Level, |known, told| match (known, told) {
                (Told::WorkMoved, _) | (_, Told::WorkMoved) => Told::WorkMoved,
                (Told::Unknown, _) | (_, Told::Unknown) => Told::Unknown,
                _ => known,
            })
        };
        names.iter().copied().filter(|name| least(name) == wanted).collect()
    };
    let phrase = |wanted: Told, words: &str| {
        let names = of(wanted);
        let many = format!("{} others", names.len());
        let who = if names.len() > 5 { many } else { listed(&names) };
        (!names.is_empty()).then(|| format!("{words}: {who}"))
    };
    let parts: Vec<String> = [
        phrase(Told::Level, &format!("level with the best within {}", percent(margin))),
        phrase(Told::Unknown, "not told apart from it"),
        phrase(Told::WorkMoved, "worse only by work that moved"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}
