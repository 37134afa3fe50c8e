//! Builds of one program in words: slower, faster, level, or not told apart.

use crate::format::at_most;
use crate::judge::alternatives::Alternative;
use crate::judge::builds::{Change, changes};
use crate::judge::faults::Fault;
use crate::judge::rounds::Metric;
use crate::judge::summary::Summary;
use crate::judge::verdict::Told;
use crate::tell::phrases::Phrase;

use super::alternatives::{Difference, by};
use super::headline::{fitting, measure_more, remedy, short};
use super::{
    Recommendation, Section, Sentence, cannot_tell_yet, confidence, failures, faults, refusal,
    withheld,
};

/// What changed from one build to another. No build is recommended.
pub(super) fn recommendation(summary: &Summary) -> Recommendation {
    let refused = refusal::refused(summary);
    let doubts = refusal::doubts(summary);
    let builds = changes(summary);
    let mut all: Vec<Sentence> = Section::Sure.answered(sentences(summary, &builds)).collect();
    all.extend(refusal::sentences(summary, &refused, &doubts));
    all.extend(Section::Excluded.answered(faults(summary)));
    Recommendation {
        headline: cannot_tell_yet(summary).unwrap_or_else(|| headline(summary, &builds)),
        alarms: failures::sentences(summary),
        architecture: None,
        sentences: all,
        card: None,
        unsaid: Vec::new(),
        disturbance: confidence::disturbance(summary),
        builds,
        loads: summary.verdicts.clone(),
        crossovers: Vec::new(),
        refused,
        doubts,
        headroom: Vec::new(),
    }
}

/// What changed, in at most 25 words: the build that is worst comes first.
fn headline(summary: &Summary, all: &[Change]) -> String {
    let mut builds: Vec<&str> = Vec::new();
    for one in all {
        if !builds.contains(&one.build.as_str()) {
            builds.push(&one.build);
        }
    }
    let ranked = builds.into_iter().map(|build| {
        let own: Vec<&Change> = all.iter().filter(|one| one.build == build).collect();
        of_build(summary, &own)
    });
    let mut ranked: Vec<(Rank, Vec<String>)> = ranked.collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    fitting(ranked.into_iter().flat_map(|(_, sentences)| sentences))
}

/// How much a reader must know of a build.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Faulty,
    Slower,
    Faster,
    Unknown,
    Level,
}

/// The sentences about a build, the most important first.
fn of_build(summary: &Summary, all: &[&Change]) -> (Rank, Vec<String>) {
    let Change { build, base, .. } = all[0];
    if let Some((one, fault)) = all.iter().find_map(|one| Some((one, one.new_fault()?))) {
        let sentence = Phrase::WorseByFault.told(&[build, base, verb(fault), &at(summary, one)]);
        return (Rank::Faulty, vec![sentence]);
    }
    let of = |told: Told| {
        let found = all.iter().filter(|one| one.told() == told).copied();
        found.filter_map(|one| Some((one, one.compared.as_ref()?))).collect::<Vec<_>>()
    };
    let (slower, faster) = (of(Told::Worse), of(Told::Better));
    let counted = || {
        let [slower, faster, all] =
            [slower.len(), faster.len(), all.len()].map(|count| count.to_string());
        let count = match (slower.as_str(), faster.as_str()) {
            (some, "0") => Phrase::SomeSlower.told(&[some, &all]),
            ("0", some) => Phrase::SomeFaster.told(&[some, &all]),
            (some, others) => Phrase::SomeOfEach.told(&[some, &all, others]),
        };
        (all != "1").then_some(count)
    };
    let sure = |phrase: Phrase, (one, found): (&Change, &Alternative)| {
        phrase.told(&[build, base, &amount(found, one.metric), &at(summary, one)])
    };
    let most = |one: &(&Change, &Alternative), other: &(&Change, &Alternative)| {
        one.1.low.total_cmp(&other.1.low)
    };
    if let Some(worst) = slower.iter().copied().max_by(most) {
        return (
            Rank::Slower,
            [sure(Phrase::Slower, worst)].into_iter().chain(counted()).collect(),
        );
    }
    if let Some(best) = faster.iter().copied().min_by(most) {
        return (Rank::Faster, [sure(Phrase::Faster, best)].into_iter().chain(counted()).collect());
    }
    let largest = at_most(all.iter().filter_map(|one| largest(one)).fold(0.0, f64::max));
    if all.iter().all(|one| one.told() == Told::Level) {
        let sentence = Phrase::NoChange.told(&[&largest, build, base]);
        return (Rank::Level, vec![sentence]);
    }
    let untold = all.iter().find(|one| one.compared.is_none());
    if let Some(one) = untold {
        let why = one.cause.as_ref().map(|cause| short(cause, remedy(summary)));
        let why = why.unwrap_or_else(|| "one of the two was not measured".to_owned());
        let sentence = Phrase::CannotTellBuilds.told(&[build, base, &why]);
        return (Rank::Unknown, vec![sentence]);
    }
    let sentence = Phrase::NotToldApart.told(&[build, base, &largest]);
    (Rank::Unknown, vec![sentence, measure_more(summary)])
}

/// `4.0 % more processor time [2.9 to 5.1]`.
fn amount(one: &Alternative, metric: Metric) -> String {
    let Difference { share, is_less, interval } = Difference::of(one, metric);
    let word = match (is_less, metric) {
        (false, _) => "more",
        (true, Metric::Rate) => "fewer",
        (true, _) => "less",
    };
    let what = match metric {
        Metric::ServerCpu => "processor time".to_owned(),
        Metric::Rate => "requests/s".to_owned(),
        Metric::Latency(percentile) => format!("{percentile} latency"),
    };
    format!("{share} % {word} {what} {interval}")
}

/// The largest change that there may be, as a share.
fn largest(one: &Change) -> Option<f64> {
    one.compared.as_ref().map(|found| found.high.max(-found.low))
}

/// The place of a comparison: ` at 100 connections under epoll`.
fn at(summary: &Summary, one: &Change) -> String {
    format!(" at {}{}", summary.at(one.concurrency), under(summary, one))
}

/// The architecture of a comparison, if there are several.
fn under(summary: &Summary, one: &Change) -> String {
    let groups = summary.builds.as_ref().map_or(0, |builds| builds.groups().count());
    let architecture = one.architecture.as_ref().filter(|_| groups > 1);
    architecture.map_or(String::new(), |name| format!(" under {name}"))
}

/// What a build with a fault did.
fn verb(fault: Fault) -> &'static str {
    match fault {
        Fault::WrongReplies => "gave wrong replies",
        Fault::Ended => "ended while it was measured",
        Fault::Failing => "failed requests",
        Fault::Unserved => "left connections without any reply",
        Fault::ListenQueue => "let its listen queue overflow",
        Fault::Invalid => "could not be measured soundly",
        Fault::Constraint => "broke a limit",
        Fault::Unchecked => "was not measured against a limit",
    }
}

/// A sentence for each comparison that is sure, then those that are level or not told apart, with
/// all loads of an architecture together.
fn sentences(summary: &Summary, all: &[Change]) -> Vec<String> {
    let mut sentences = Vec::new();
    for one in all {
        let Change { build, base, metric, .. } = one;
        let place = at(summary, one);
        sentences.extend(one.new_fault().map(|fault| format!("{build} {}{place}.", verb(fault))));
        let found = one.compared.as_ref().filter(|found| found.change.is_sure());
        sentences.extend(found.map(|found| {
            let by = by(found, *metric, true, "");
            format!("{build} {by} than {base}{place}.")
        }));
    }
    let same_group = |one: &Change, other: &Change| {
        one.build == other.build && one.architecture == other.architecture
    };
    for group in all.chunk_by(same_group) {
        let of = |told: Told| group.iter().filter(move |one| one.told() == told);
        let loads = |told: Told| of(told).map(|one| one.concurrency).collect::<Vec<usize>>();
        let Change { build, base, .. } = &group[0];
        let most = |told: Told| at_most(of(told).filter_map(largest).fold(0.0, f64::max));
        let place = |told: Told| {
            format!("At {}{}", summary.at_all(&loads(told)), under(summary, &group[0]))
        };
        if of(Told::Level).next().is_some() {
            let (place, most) = (place(Told::Level), most(Told::Level));
            sentences
                .push(format!("{place} {build} is level with {base}: no change above {most}."));
        }
        if of(Told::WorkMoved).next().is_some() {
            sentences.push(format!(
                "{} the figures of {build} and {base} differ because work moved between server \
                 and load generator: both together take as much.",
                place(Told::WorkMoved)
            ));
        }
        for one in of(Told::Unknown) {
            sentences.push(unknown(summary, one));
        }
    }
    sentences
}

/// The range in which a change may be that is not told from none, or the reason why there is none.
fn unknown(summary: &Summary, one: &Change) -> String {
    let Change { build, base, metric, .. } = one;
    let verdict = summary.verdict(one.concurrency);
    let cause = one.cause.as_ref().zip(verdict).map(|(cause, verdict)| withheld(cause, verdict));
    let place = at(summary, one);
    let Some(Alternative { low, high, .. }) = &one.compared else {
        let cause = cause.unwrap_or_else(|| "one of the two was not measured".to_owned());
        return format!("{build} and {base} are not compared{place}: {cause}.");
    };
    let what = match metric {
        Metric::ServerCpu => "processor time for a request",
        Metric::Rate => "time from one reply to the next",
        Metric::Latency(_) => "latency",
    };
    let [low, high] = [low, high].map(|end| format!("{:+.1}", 100.0 * end));
    let cause = cause.map_or(String::new(), |cause| format!("; {cause}"));
    format!("{build} is not told apart from {base}{place}: {low} to {high} % {what}{cause}.")
}
