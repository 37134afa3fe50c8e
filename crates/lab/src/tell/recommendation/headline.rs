//! The headline: what to do, then how sure, in at most 25 words.
//!
//! A rule makes it from the verdicts. It names one choice wherever one is sound, and the family of
//! the choice. A second sentence is about another family, if there is room. Each figure is the end
//! of an interval, so the headline claims no more than the intervals give.

use crate::format::{at_least, at_most, listed};
use crate::judge::alternatives::Alternative;
use crate::judge::summary::Summary;
use crate::judge::verdict::{Cause, Finding, Metric, Remedy, Standing, Told, Verdict};
use crate::record::Family;
use crate::tell::phrases::Phrase;

use super::silence::more;
use super::{alternatives, cannot_tell_yet, is_best_alone, leads};

/// The most words of a headline.
pub const MOST_WORDS: usize = 25;
/// More names than this are counted.
const MOST_NAMES: usize = 3;

/// The headline. `chosen` is the recommended subject.
pub(super) fn headline(summary: &Summary, chosen: Option<&str>) -> String {
    if let Some(told) = cannot_tell_yet(summary) {
        return told;
    }
    match (&summary.ways, &summary.current, chosen) {
        (Some(_), _, _) => of_ways(summary),
        (None, Some(current), _) => of_current(summary, current, chosen),
        (None, None, Some(chosen)) => of_choice(summary, chosen),
        (None, None, None) => of_sets(summary),
    }
}

/// The sentences that fit, at least the first one.
pub(super) fn fitting(sentences: impl IntoIterator<Item = String>) -> String {
    let mut sentences = sentences.into_iter();
    let mut headline = sentences.next().unwrap_or_default();
    for more in sentences {
        if words(&headline) + words(&more) <= MOST_WORDS {
            headline = format!("{headline} {more}");
        }
    }
    headline
}

/// The number of words.
pub fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Loads in few words. Empty for all loads of the experiment, if there are several.
fn at(summary: &Summary, loads: &[usize]) -> String {
    let mut all = summary.concurrency.clone();
    all.sort_unstable();
    let mut loads = loads.to_vec();
    loads.sort_unstable();
    let (Some(first), Some(last)) = (loads.first(), loads.last()) else { return String::new() };
    match loads.len() {
        1 => format!(" at {}", summary.at(*first)),
        many if many == all.len() => String::new(),
        _ if all.ends_with(&loads) => format!(" from {} on", summary.at(*first)),
        _ if all.starts_with(&loads) => format!(" up to {}", summary.at(*last)),
        2 | 3 => format!(" at {}", summary.at_all(&loads)),
        many => format!(" at {many} of {} loads", all.len()),
    }
}

fn loads(verdicts: &[&Verdict]) -> Vec<usize> {
    verdicts.iter().map(|verdict| verdict.concurrency).collect()
}

/// One choice, at all loads or on one side of a load.
fn of_choice(summary: &Summary, chosen: &str) -> String {
    let found = || summary.verdicts.iter().filter(|verdict| !verdict.is_withheld());
    let (won, lost): (Vec<&Verdict>, Vec<&Verdict>) =
        found().partition(|verdict| leads(verdict, chosen));
    let place = at(summary, &loads(&won));
    let name = match summary.families.get(chosen) {
        Some(family) if lost.is_empty() => format!("{}: {chosen}", family.one()),
        Some(family) => format!("{} ({chosen})", family.one()),
        None if lost.is_empty() => format!("{chosen}: it"),
        None => chosen.to_owned(),
    };
    let is_best = won.iter().all(|verdict| is_best_alone(verdict, chosen));
    let first = match (lost.is_empty(), is_best) {
        (true, true) => Phrase::Best.told(&[&name, &place]),
        (true, false) => Phrase::Unbeaten.told(&[&name, &place]),
        (false, _) => {
            // Where a set is known too coarsely, no member of it is recommended.
            let is_known = lost.iter().all(|verdict| verdict.can_recommend());
            let other = in_all(&lost).into_iter().next().filter(|_| is_known);
            let other = other.unwrap_or("others are better");
            let other = format!("{other}{}", at(summary, &loads(&lost)));
            Phrase::OneSide.told(&[&name, &place, &other])
        }
    };
    let family = summary.families.get(chosen).copied();
    fitting([first].into_iter().chain(against(summary, family, &won)))
}

/// The subjects that lead at each of these loads, the best at the last one first.
fn in_all<'v>(verdicts: &[&'v Verdict]) -> Vec<&'v str> {
    let Some(last) = verdicts.iter().max_by_key(|verdict| verdict.concurrency) else {
        return Vec::new();
    };
    let all = last.leaders().map(|one| one.subject.as_str());
    all.filter(|name| verdicts.iter().all(|verdict| leads(verdict, name))).collect()
}

/// What another family costs for sure: all its members are worse at these loads. The family that
/// most people run comes first.
fn against(summary: &Summary, own: Option<Family>, won: &[&Verdict]) -> Option<String> {
    let known = || won.iter().copied().filter(|verdict| verdict.tells_apart());
    let metric = known().max_by_key(|verdict| verdict.concurrency)?.metric;
    let others = Family::ALL.into_iter().filter(|family| Some(*family) != own);
    others.into_iter().find_map(|family| {
        let member = |one: &&Standing| summary.families.get(&one.subject) == Some(&family);
        let is_worse = |verdict: &&Verdict| {
            let mut members = verdict.standings.iter().filter(member).peekable();
            verdict.metric == metric
                && members.peek().is_some()
                && members.all(|one| one.told == Told::Worse)
        };
        let there: Vec<&Verdict> = known().filter(is_worse).collect();
        let low = |verdict: &Verdict| {
            verdict.standings.iter().filter(member).map(|one| one.low).reduce(f64::min)
        };
        let least = there.iter().filter_map(|verdict| low(verdict)).reduce(f64::min)?;
        let all = family.all();
        let who = all[..1].to_uppercase() + &all[1..];
        let place = at(summary, &loads(&there));
        costs(metric, least, &who, &place)
    })
}

/// A difference of `who` from the best, of at least this share, in words. `None` if it is too small
/// to tell.
fn costs(metric: Metric, least: f64, who: &str, place: &str) -> Option<String> {
    const LEAST: f64 = 0.001;
    let share = if metric == Metric::Rate { 1.0 - 1.0 / (1.0 + least) } else { least };
    let share = (share >= LEAST).then(|| at_least(share))?;
    let times = format!("{:.1}", ((1.0 + least) * 10.0 + 1e-9).floor() / 10.0);
    let is_little = least < 1.0;
    Some(match metric {
        Metric::ServerCpu if is_little => Phrase::TakesMore.told(&[who, &share, place]),
        Metric::ServerCpu => Phrase::TakesTimes.told(&[who, &times, place]),
        Metric::Rate => Phrase::ServesFewer.told(&[who, &share, place]),
        Metric::Latency(of) if is_little => Phrase::WaitsMore.told(&[who, &share, of, place]),
        Metric::Latency(of) => Phrase::WaitsTimes.told(&[who, &times, of, place]),
    })
}

/// The best sets of which no member is recommended, or the reason why nothing is told.
fn of_sets(summary: &Summary) -> String {
    let sets: Vec<&Verdict> =
        summary.verdicts.iter().filter(|verdict| verdict.tells_apart()).collect();
    if sets.is_empty() {
        return without_sets(summary);
    }
    let place = at(summary, &loads(&sets));
    let all = in_all(&sets);
    let families: Vec<Family> =
        all.iter().filter_map(|name| summary.families.get(*name).copied()).collect();
    let is_one = |family: &&Family| {
        families.len() == all.len() && families.iter().all(|other| other == *family)
    };
    let family = families.first().filter(is_one).copied();
    let is_best = |name: &str| sets.iter().all(|verdict| is_best_alone(verdict, name));
    let first = match (all.as_slice(), family) {
        ([only], _) if summary.partial().is_some() && is_best(only) => {
            Phrase::BestSoFar.told(&[only, &place])
        }
        ([], _) => Phrase::NoneEverywhere.told(&[]),
        ([only], _) => Phrase::OneOfEachSet.told(&[only, &place]),
        (_, Some(family)) => Phrase::Family.told(&[family.one(), &place]),
        (some, None) => Phrase::OneOf.told(&[&set(summary, some), &place]),
    };
    fitting([first].into_iter().chain(against(summary, family, &sets)))
}

/// A set: its names if they are few, or the number of them.
fn set(summary: &Summary, members: &[&str]) -> String {
    match members.len() {
        0..=MOST_NAMES => listed(members),
        many => format!("the {many} best of {}", summary.subjects.len()),
    }
}

/// The reason why no subject is told from another.
fn without_sets(summary: &Summary) -> String {
    let equal: Vec<&Verdict> = summary
        .verdicts
        .iter()
        .filter(|verdict| verdict.finding == Finding::NoDifference)
        .collect();
    if !equal.is_empty() {
        let most = equal.iter().filter_map(|verdict| verdict.most_behind()).reduce(f64::max);
        let place = at(summary, &loads(&equal));
        let bound = most.map(|most| Phrase::Differ.told(&[&at_most(most)]));
        return fitting([Phrase::NoneBetter.told(&[&place])].into_iter().chain(bound));
    }
    let busiest = summary.verdicts.iter().max_by_key(|verdict| verdict.concurrency);
    let Some(Verdict { finding: Finding::Withheld { cause }, .. }) = busiest else {
        return Phrase::NothingCompared.told(&[]);
    };
    let all_are = |of: fn(&Cause) -> bool| {
        summary
            .verdicts
            .iter()
            .all(|verdict| matches!(&verdict.finding, Finding::Withheld { cause } if of(cause)))
    };
    match cause {
        Cause::Nobody if all_are(|cause| matches!(cause, Cause::Nobody)) => {
            Phrase::EachIsOut.told(&[])
        }
        Cause::Alone { subject } if all_are(|cause| matches!(cause, Cause::Alone { .. })) => {
            Phrase::OnlyOne.told(&[subject])
        }
        cause => Phrase::CannotTell.told(&[&short(cause, remedy(summary))]),
    }
}

/// The cause of a silence and the remedy, in few words.
pub(super) fn short(cause: &Cause, remedy: Remedy) -> String {
    let phrase = match cause {
        Cause::Nobody => Phrase::AllOutAtBusiest,
        Cause::Alone { .. } => Phrase::AloneAtBusiest,
        Cause::Partial => Phrase::NotComplete,
        Cause::FewBlocks { .. } => return Phrase::TooLittle.told(&[more(remedy)]),
        Cause::Disturbed => Phrase::TooDisturbed,
        Cause::Control => Phrase::ControlDiffers,
        Cause::Coarse => return Phrase::TooNoisy.told(&[more(remedy)]),
    };
    phrase.told(&[])
}

/// What makes the intervals narrower. One experiment has one remedy.
pub(super) fn remedy(summary: &Summary) -> Remedy {
    summary.verdicts.first().map(|verdict| verdict.evidence.remedy).unwrap_or_default()
}

/// The sentence that asks for a better run.
pub(super) fn measure_more(summary: &Summary) -> String {
    match remedy(summary) {
        Remedy::Time => Phrase::Longer.told(&[]),
        Remedy::Repeats => Phrase::Oftener.told(&[]),
    }
}

/// Whether a change from the subject that runs today pays.
fn of_current(summary: &Summary, current: &str, chosen: Option<&str>) -> String {
    if let Some(found) = alternatives::paying(summary, chosen) {
        let (_, first) = found[0];
        let all: Vec<&Verdict> = found.iter().map(|(verdict, _)| *verdict).collect();
        let place = at(summary, &loads(&all));
        let yes = Phrase::Change.told(&[current, &first.subject, &place]);
        return fitting([yes].into_iter().chain(saves(&found)));
    }
    if !alternatives::is_compared_at_all(summary) {
        let mut causes = summary.verdicts.iter().filter_map(|verdict| match &verdict.finding {
            Finding::Withheld { cause } => Some(short(cause, remedy(summary))),
            _ => None,
        });
        let cause = causes.next_back().unwrap_or_else(|| "it was not measured".to_owned());
        return Phrase::CannotTellChange.told(&[current, &cause]);
    }
    let compared: Vec<&Verdict> = alternatives::compared(summary).collect();
    let place = at(summary, &loads(&compared));
    let all = || compared.iter().flat_map(|verdict| &verdict.alternatives);
    let gain = at_most(alternatives::most_gain(compared.iter().copied()));
    if all().all(|one| one.change == Told::Worse) {
        return Phrase::KeepTheBest.told(&[current, &place]);
    }
    let unsure = alternatives::unsure(summary);
    if unsure.is_empty() {
        return Phrase::KeepForGain.told(&[current, &gain, &place]);
    }
    let unsure = alternatives::distinct(unsure.iter().map(|(_, one)| *one));
    let first = Phrase::Below.told(&[&gain, &place, &alternatives::few(&unsure), current]);
    fitting([first, measure_more(summary)])
}

/// What a change saves for sure.
fn saves(found: &[(&Verdict, &Alternative)]) -> Option<String> {
    let metric = found[0].0.metric;
    if found.iter().any(|(verdict, _)| verdict.metric != metric) {
        return None;
    }
    let high = found.iter().map(|(_, one)| one.high).fold(f64::NEG_INFINITY, f64::max);
    let share = if metric == Metric::Rate { 1.0 / (1.0 + high) - 1.0 } else { -high };
    let share = (share >= 0.001).then(|| at_least(share))?;
    Some(match metric {
        Metric::ServerCpu => Phrase::SavesTime.told(&[&share]),
        Metric::Rate => Phrase::ServesMore.told(&[&share]),
        Metric::Latency(percentile) => Phrase::SavesLatency.told(&[&share, percentile]),
    })
}

/// Yes, no or unknown for each other way to run a program.
fn of_ways(summary: &Summary) -> String {
    let Some(ways) = &summary.ways else { return String::new() };
    let current = summary.current.as_deref().unwrap_or(&ways.native);
    let asked = summary.subjects.iter().filter(|name| ways.questions.contains_key(*name));
    let told = asked.filter(|name| *name != current).map(|name| {
        let found = alternatives::told(summary, name);
        let of = |word: &str, is: fn(Told) -> bool| {
            let there: Vec<&Verdict> = found
                .iter()
                .filter(|(_, one)| is(one.change))
                .map(|(verdict, _)| *verdict)
                .collect();
            (!there.is_empty()).then(|| format!("{word}{}", at(summary, &loads(&there))))
        };
        let parts: Vec<String> = [
            of("yes", |told| told == Told::Better),
            of("no", |told| told == Told::Worse),
            of("not told apart", |told| !told.is_sure()),
        ]
        .into_iter()
        .flatten()
        .collect();
        let clauses = match parts.is_empty() {
            true => "this run cannot tell".to_owned(),
            false => parts.join(", "),
        };
        Phrase::Way.told(&[name, current, &clauses])
    });
    fitting(told)
}
