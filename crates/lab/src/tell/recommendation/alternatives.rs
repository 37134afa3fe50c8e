//! Ways to run one program: the question that each answers, beside the program as it is.

use crate::format::{bytes, connections, connections_of, how_many, listed, percent};
use crate::judge::verdict::{Cause, Finding, Metric, Verdict};
use crate::judge::ways::{Change, Way};
use crate::tell::summary::Summary;

/// An answer for each way, in the order of the design.
pub(super) fn sentences(summary: &Summary) -> Vec<String> {
    let Some(ways) = &summary.ways else { return Vec::new() };
    let answered = |name: &String| {
        let question = ways.questions.get(name)?;
        let found: Vec<(&Verdict, &Way)> = summary
            .verdicts
            .iter()
            .filter_map(|verdict| {
                Some((verdict, verdict.ways.iter().find(|way| way.subject == *name)?))
            })
            .filter(|(verdict, way)| can_be_told(verdict, way))
            .collect();
        let Some((last, _)) = found.last() else {
            return Some(format!("{question} This run cannot tell."));
        };
        let parts = [
            answer("Yes", Change::Better, &found, &ways.native),
            answer("No", Change::Worse, &found, &ways.native),
            level(&found, &ways.native),
            memory(summary, name, &ways.native, last.concurrency),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        Some(format!("{question} {}", parts.join(" ")))
    };
    summary.subjects.iter().filter_map(answered).collect()
}

/// Whether something can be said of a way. Where a verdict is withheld since small differences
/// would not be seen, a large one that was seen is one all the same.
fn can_be_told(verdict: &Verdict, way: &Way) -> bool {
    match (&verdict.finding, &verdict.imprecise) {
        (Finding::Withheld { cause: Cause::Coarse }, _) => way.change != Change::Level,
        (Finding::Withheld { .. }, _) => false,
        (_, imprecise) => imprecise.is_none() || way.change != Change::Level,
    }
}

/// Where the way is better, or where it is worse, and by how much at each number of connections.
fn answer(word: &str, change: Change, found: &[(&Verdict, &Way)], native: &str) -> Option<String> {
    let there: Vec<&(&Verdict, &Way)> =
        found.iter().filter(|(_, way)| way.change == change).collect();
    let counts: Vec<usize> = there.iter().map(|(verdict, _)| verdict.concurrency).collect();
    let each: Vec<String> = there
        .iter()
        .enumerate()
        .map(|(place, (verdict, way))| {
            let at = format!(" at {}", how_many(verdict.concurrency));
            let before = place.checked_sub(1).map(|place| there[place].0.metric);
            let is_whole = before != Some(verdict.metric);
            by(way, verdict.metric, is_whole, if counts.len() > 1 { &at } else { "" })
        })
        .collect();
    (!there.is_empty()).then(|| {
        format!("{word} at {}: beside {native} it {}.", connections_of(&counts), listed(&each))
    })
}

/// `takes 24.1 % less processor time for a request at 100 [20.0 to 28.1]`; after such a one, `24.1
/// % less at 1,000 [20.0 to 28.1]` is enough.
fn by(way: &Way, metric: Metric, is_whole: bool, at: &str) -> String {
    // Of a rate, what is counted is requests in a time, and not time for a request.
    let told = |value: f64| match metric {
        Metric::Rate => 1.0 / (1.0 + value) - 1.0,
        _ => value,
    };
    let [difference, one, other] = [way.difference, way.low, way.high].map(told);
    let share = |value: f64| format!("{:.1}", 100.0 * value.abs());
    let (verb, less, what) = match metric {
        Metric::ServerCpu => ("takes", "less", "processor time for a request"),
        Metric::Rate => ("serves", "fewer", "requests/s"),
        Metric::Latency(_) => ("has", "less", "latency"),
    };
    let word = if difference < 0.0 { less } else { "more" };
    let (low, high) = if one.abs() < other.abs() { (one, other) } else { (other, one) };
    let interval = format!("{at} [{} to {}]", share(low), share(high));
    match is_whole {
        true => format!("{verb} {} % {word} {what}{interval}", share(difference)),
        false => format!("{} % {word}{interval}", share(difference)),
    }
}

/// Where nothing was found between the two.
fn level(found: &[(&Verdict, &Way)], native: &str) -> Option<String> {
    let there = || found.iter().filter(|(_, way)| way.change == Change::Level);
    let counts: Vec<usize> = there().map(|(verdict, _)| verdict.concurrency).collect();
    let largest = there().filter_map(|(verdict, _)| verdict.critical).fold(0.0, f64::max);
    (!counts.is_empty()).then(|| {
        format!(
            "At {} no difference from {native} above {} was found.",
            connections_of(&counts),
            percent(largest)
        )
    })
}

/// The memory of both at a number of connections.
fn memory(summary: &Summary, name: &str, native: &str, concurrency: usize) -> Option<String> {
    let [own, other] =
        [name, native].map(|name| Some(summary.medians(name, concurrency)?.memory_bytes));
    Some(format!(
        "At {} its memory is {}, and that of {native} {}.",
        connections(concurrency),
        bytes(own?),
        bytes(other?)
    ))
}
