//! "Does a change pay?" in words: alternatives compared with the subject that runs today.
//!
//! Each way to run one program has a question of its own. Architectures share one question, and the
//! answer names the architecture that gains most often.

use crate::format::{at_most, bytes, duration, how_many, listed};
use crate::judge::alternatives::Alternative;
use crate::judge::summary::Summary;
use crate::judge::verdict::{COARSE, COARSE_LATENCY, Cause, Finding, Metric, Told, Verdict};

use super::{cannot_tell_yet, withheld};

/// What is recommended beside the subject that runs today.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Nothing runs today, or several questions are asked: the best subject counts.
    Best,
    /// This subject: the alternative that pays, or the one that runs today.
    This(String),
    /// The question has no answer.
    Unknown,
}

/// The advice that goes with the answer of [`sentences`]. There is one verdict: an alternative is
/// chosen if a change to it pays, and else the subject that runs today stays.
pub(super) fn advice(summary: &Summary, chosen: Option<&str>) -> Advice {
    let (None, Some(current)) = (&summary.ways, &summary.current) else { return Advice::Best };
    if summary.partial().is_some() {
        return Advice::Unknown;
    }
    match paying(summary, chosen) {
        Some(found) => Advice::This(found[0].1.subject.clone()),
        None if unsure(summary).is_empty() && is_compared_at_all(summary) => {
            Advice::This(current.clone())
        }
        None => Advice::Unknown,
    }
}

/// An alternative at a number of connections.
pub(super) type Found<'a> = (&'a Verdict, &'a Alternative);

/// The answer about the subject that runs today, or one for each way to run a program.
pub(super) fn sentences(summary: &Summary, chosen: Option<&str>) -> Vec<String> {
    match (&summary.ways, &summary.current) {
        (Some(_), _) => of_ways(summary),
        (None, Some(current)) => of_current(summary, current, chosen),
        (None, None) => Vec::new(),
    }
}

/// An answer for each way, in the order of the design.
fn of_ways(summary: &Summary) -> Vec<String> {
    let Some(ways) = &summary.ways else { return Vec::new() };
    let current = summary.current.as_deref().unwrap_or(&ways.native);
    let answered = |name: &String| {
        let question = ways.questions.get(name).filter(|_| name != current)?;
        let found = told(summary, name);
        let Some((last, _)) = found.last() else {
            return Some((false, format!("{question} This run cannot tell.")));
        };
        let parts = [
            answer(summary, "Yes", Told::Better, &found, current),
            answer(summary, "No", Told::Worse, &found, current),
            level(summary, &found, current),
            memory(summary, name, current, last.concurrency),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        Some((true, format!("{question} {}", parts.join(" "))))
    };
    let mut answers: Vec<(bool, String)> = summary.subjects.iter().filter_map(answered).collect();
    // Answered questions come first.
    answers.sort_by_key(|(is_answered, _)| !is_answered);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Whether a change from the subject that runs today pays: yes, no, or unknown.
fn of_current(summary: &Summary, current: &str, chosen: Option<&str>) -> Vec<String> {
    // What is sure so far is said, as in the headline.
    let partial = summary.partial().filter(|_| cannot_tell_yet(summary).is_some());
    if let Some(partial) = partial {
        return vec![format!(
            "Cannot tell yet whether a change from {current} pays: the experiment is not complete \
             ({partial})."
        )];
    }
    let Some(found) = paying(summary, chosen) else { return vec![no_gain(summary, current)] };
    let name = &found[0].1.subject;
    let counts: Vec<usize> = found.iter().map(|(verdict, _)| verdict.concurrency).collect();
    let gains = by_load(&found);
    let mut sentences = vec![format!(
        "Yes, a change from {current} pays at {}: {name} {}.",
        summary.at_all(&counts),
        listed(&gains)
    )];
    sentences.extend(elsewhere(summary, current, &counts));
    let largest = counts.iter().copied().max().unwrap_or_default();
    sentences.extend(costs(summary, name, current, largest));
    sentences
}

/// The alternative to which a change pays, with the loads. If there are several, the one that gains
/// at the most loads, and of these the recommended one.
pub(super) fn paying<'a>(summary: &'a Summary, chosen: Option<&str>) -> Option<Vec<Found<'a>>> {
    let pays = summary.subjects.iter().map(|name| better(told(summary, name)));
    let pays: Vec<Vec<Found<'_>>> = pays.filter(|found| !found.is_empty()).collect();
    pays.into_iter().rev().max_by_key(|found| {
        let is_chosen = Some(found[0].1.subject.as_str()) == chosen;
        (found.len(), is_chosen, std::cmp::Reverse(rank(found)))
    })
}

/// The facts about an alternative.
pub(super) fn told<'a>(summary: &'a Summary, name: &str) -> Vec<Found<'a>> {
    let of = |verdict: &'a Verdict| {
        let mut all = verdict.alternatives.iter();
        Some((verdict, all.find(|one| one.subject == name)?))
    };
    let found = summary.verdicts.iter().filter_map(of);
    found.filter(|(verdict, one)| verdict.can_tell(one)).collect()
}

fn better(found: Vec<Found<'_>>) -> Vec<Found<'_>> {
    found.into_iter().filter(|(_, one)| one.change == Told::Better).collect()
}

/// The place at the highest load.
fn rank(found: &[Found<'_>]) -> usize {
    let last = found.iter().max_by_key(|(verdict, _)| verdict.concurrency);
    let place = last.and_then(|(verdict, one)| {
        verdict.alternatives.iter().position(|other| other.subject == one.subject)
    });
    place.unwrap_or(usize::MAX)
}

/// Says that no alternative is better than the subject that runs today, and the largest gain that
/// an alternative may have all the same.
fn no_gain(summary: &Summary, current: &str) -> String {
    if !is_compared_at_all(summary) {
        let cause = summary.verdicts.iter().find_map(|verdict| match &verdict.finding {
            Finding::Withheld { cause } => Some(withheld(cause, verdict)),
            _ => None,
        });
        let cause = cause.unwrap_or_else(|| format!("{current} was not measured"));
        return format!("Cannot tell whether a change from {current} pays: {cause}.");
    }
    let compared = || compared(summary);
    let at = summary.at_all(&compared().map(|verdict| verdict.concurrency).collect::<Vec<_>>());
    let gain = at_most(most_gain(compared()));
    let all = || compared().flat_map(|verdict| &verdict.alternatives);
    if all().all(|one| one.change == Told::Worse) {
        let names = distinct(all());
        let are = match names.as_slice() {
            [only] => format!("{only} is"),
            names => format!("each of {} is", listed(names)),
        };
        return format!("No, a change from {current} does not pay: {are} worse for sure at {at}.");
    }
    match unsure(summary).as_slice() {
        [] => format!(
            "No, a change from {current} does not pay: at {at} no alternative gains more than \
             {gain}."
        ),
        unsure => {
            let names = listed(&distinct(unsure.iter().map(|(_, one)| *one)));
            format!(
                "Cannot tell below {gain} whether a change from {current} pays: at {at} no \
                 alternative gains more, but {names} may gain as much."
            )
        }
    }
}

/// The loads at which the alternatives were compared.
pub(super) fn compared(summary: &Summary) -> impl Iterator<Item = &Verdict> {
    summary.verdicts.iter().filter(|verdict| is_compared(verdict))
}

/// The names of alternatives, each once.
pub(super) fn distinct<'a>(all: impl Iterator<Item = &'a Alternative>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for one in all {
        if !names.contains(&one.subject.as_str()) {
            names.push(&one.subject);
        }
    }
    names
}

/// Names, or the number of many: `epoll and uring`, `5 alternatives`.
pub(super) fn few(names: &[&str]) -> String {
    const FEW: usize = 2;
    if names.len() <= FEW { listed(names) } else { format!("{} alternatives", names.len()) }
}

/// The alternatives that may gain too much for a "no".
pub(super) fn unsure(summary: &Summary) -> Vec<Found<'_>> {
    let compared = summary.verdicts.iter().filter(|verdict| is_compared(verdict));
    let all =
        compared.flat_map(|verdict| verdict.alternatives.iter().map(move |one| (verdict, one)));
    let is_unsure = |(verdict, one): &Found<'_>| {
        let coarse = if let Metric::Latency(_) = verdict.metric { COARSE_LATENCY } else { COARSE };
        -one.low > 1.0 - 1.0 / (1.0 + coarse) && one.change != Told::Worse
    };
    all.filter(is_unsure).collect()
}

/// The largest gain that an alternative may have.
pub(super) fn most_gain<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> f64 {
    let of = |verdict: &Verdict| {
        let all = verdict.alternatives.iter();
        all.map(|one| one.most_gain(verdict.metric)).fold(0.0, f64::max)
    };
    verdicts.map(of).fold(0.0, f64::max)
}

pub(super) fn is_compared_at_all(summary: &Summary) -> bool {
    summary.verdicts.iter().any(is_compared)
}

/// Whether the answer includes alternatives at a number of connections. A verdict may be withheld
/// because small differences would not be seen. Large differences would have been seen.
pub(super) fn is_compared(verdict: &Verdict) -> bool {
    let coarse = Finding::Withheld { cause: Cause::Coarse };
    !verdict.alternatives.is_empty() && (!verdict.is_withheld() || verdict.finding == coarse)
}

/// The findings at the numbers of connections at which the alternative does not gain.
fn elsewhere(summary: &Summary, current: &str, gained: &[usize]) -> Option<String> {
    let there: Vec<&Verdict> = summary
        .verdicts
        .iter()
        .filter(|verdict| is_compared(verdict) && !gained.contains(&verdict.concurrency))
        .collect();
    let is_better =
        |verdict: &&&Verdict| verdict.alternatives.iter().any(|one| one.change == Told::Better);
    let counts = |verdicts: Vec<&&Verdict>| {
        summary.at_all(&verdicts.iter().map(|verdict| verdict.concurrency).collect::<Vec<_>>())
    };
    let (others, none): (Vec<&&Verdict>, Vec<&&Verdict>) =
        there.iter().partition(|one| is_better(one));
    let others = (!others.is_empty()).then(|| format!("At {} others gain.", counts(others)));
    let gain = at_most(most_gain(none.iter().map(|verdict| **verdict)));
    let none = (!none.is_empty()).then(|| {
        format!("At {} no alternative to {current} gains more than {gain}.", counts(none))
    });
    let parts: Vec<String> = none.into_iter().chain(others).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// The numbers of connections at which the alternative is better, or worse, with the differences.
fn answer(
    summary: &Summary,
    word: &str,
    change: Told,
    found: &[Found<'_>],
    current: &str,
) -> Option<String> {
    let there: Vec<Found<'_>> =
        found.iter().copied().filter(|(_, one)| one.change == change).collect();
    let counts: Vec<usize> = there.iter().map(|(verdict, _)| verdict.concurrency).collect();
    (!there.is_empty()).then(|| {
        let each = listed(&by_load(&there));
        format!("{word} at {}: beside {current} it {each}.", summary.at_all(&counts))
    })
}

/// The difference of an alternative at each number of connections. The number is named if there are
/// several.
fn by_load(found: &[Found<'_>]) -> Vec<String> {
    let phrase = |(place, (verdict, one)): (usize, &Found<'_>)| {
        let at = format!(" at {}", how_many(verdict.concurrency));
        let before = place.checked_sub(1).map(|place| found[place].0.metric);
        let is_whole = before != Some(verdict.metric);
        by(one, verdict.metric, is_whole, if found.len() > 1 { &at } else { "" })
    };
    found.iter().enumerate().map(phrase).collect()
}

/// `takes 24.1 % less processor time for a request at 100 [20.0 to 28.1]`. After such a phrase, the
/// short form `24.1 % less at 1,000 [20.0 to 28.1]`.
pub(super) fn by(one: &Alternative, metric: Metric, is_whole: bool, at: &str) -> String {
    let Difference { share, is_less, interval } = Difference::of(one, metric);
    let (verb, less, what) = match metric {
        Metric::ServerCpu => ("takes", "less", "processor time for a request"),
        Metric::Rate => ("serves", "fewer", "requests/s"),
        Metric::Latency(_) => ("has", "less", "latency"),
    };
    let word = if is_less { less } else { "more" };
    match is_whole {
        true => format!("{verb} {share} % {word} {what}{at} {interval}"),
        false => format!("{share} % {word}{at} {interval}"),
    }
}

/// A difference that is sure, in figures of its metric.
pub(super) struct Difference {
    /// The share in percent: `4.0`.
    pub(super) share: String,
    pub(super) is_less: bool,
    /// `[2.9 to 5.1]`.
    pub(super) interval: String,
}

impl Difference {
    pub(super) fn of(one: &Alternative, metric: Metric) -> Self {
        // A rate counts requests in a time, and not the time of a request.
        let shown = |value: f64| match metric {
            Metric::Rate => 1.0 / (1.0 + value) - 1.0,
            _ => value,
        };
        let [difference, low, high] = [one.difference, one.low, one.high].map(shown);
        let share = |value: f64| format!("{:.1}", 100.0 * value.abs());
        let (low, high) = if low.abs() < high.abs() { (low, high) } else { (high, low) };
        let interval = format!("[{} to {}]", share(low), share(high));
        Self { share: share(difference), is_less: difference < 0.0, interval }
    }
}

/// The numbers of connections at which neither is better for sure, and the largest difference that
/// there may be.
fn level(summary: &Summary, found: &[Found<'_>], current: &str) -> Option<String> {
    let there: Vec<&Found<'_>> = found.iter().filter(|(_, one)| !one.change.is_sure()).collect();
    let counts: Vec<usize> = there.iter().map(|(verdict, _)| verdict.concurrency).collect();
    let ends = there.iter().map(|(_, one)| (-one.low).max(one.high));
    let largest = at_most(ends.fold(0.0, f64::max));
    let at = summary.at_all(&counts);
    (!counts.is_empty()).then(|| {
        format!("At {at} it is not told apart from {current}: they differ by {largest} at most.")
    })
}

/// The memory of both subjects at a number of connections.
fn memory(summary: &Summary, name: &str, current: &str, concurrency: usize) -> Option<String> {
    let [own, other] =
        [name, current].map(|name| Some(summary.medians(name, concurrency)?.memory_bytes));
    Some(format!(
        "At {} the memory of {name} is {}, and that of {current} {}.",
        summary.at(concurrency),
        bytes(own?),
        bytes(other?)
    ))
}

/// Other costs and gains of a change: tail latency and memory of both subjects.
fn costs(summary: &Summary, name: &str, current: &str, concurrency: usize) -> Option<String> {
    let own = summary.medians(name, concurrency)?;
    let other = summary.medians(current, concurrency)?;
    if !own.has_latencies() || !other.has_latencies() {
        return memory(summary, name, current, concurrency);
    }
    Some(format!(
        "At {} the p99 latency of {name} is {} and its memory {}; {current} has {} and {}.",
        summary.at(concurrency),
        duration(own.p99_us),
        bytes(own.memory_bytes),
        duration(other.p99_us),
        bytes(other.memory_bytes)
    ))
}
