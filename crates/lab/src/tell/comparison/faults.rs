//! The faults of two runs: what excludes a subject from a choice also fails a build.

use schemars::JsonSchema;
use serde::Serialize;

use crate::format::{grouped, listed};
use crate::judge::faults::Fault;
use crate::judge::rows::{Medians, Row};
use crate::judge::summary::Summary;
use crate::tell::recommendation::in_sessions;

/// A fault of a subject in the second run, or in the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Faulty {
    /// The name of the architecture or peer.
    #[serde(rename = "architecture")]
    pub subject: String,
    /// The number of connections that were open at once.
    pub concurrency: usize,
    /// The fault.
    pub fault: Fault,
    /// Whether the second run has the fault, and the first has not. Wrong replies always count as
    /// new ([`Fault::is_always_fatal`]).
    pub is_regression: bool,
    /// Whether the second run cannot tell anything of the subject
    /// ([`Fault::is_of_measurement`]).
    #[serde(skip)]
    pub is_blind: bool,
    /// The sentence: the place, which run, and the fault in words.
    pub told: String,
}

/// All faults, those of the second run first.
pub(super) fn find(before: &Summary, after: &Summary) -> Vec<Faulty> {
    let (first, second) = (of(before), of(after));
    let has = |known: &[Known<'_>], one: &Known<'_>| {
        known.iter().any(|other| (other.0, other.1, other.2) == (one.0, one.1, one.2))
    };
    let of_second = second.iter().map(|one| {
        let in_both = has(&first, one);
        let which = if in_both { "in both runs" } else { "in the second run" };
        let is_new = !in_both && !one.2.is_of_measurement();
        let is_regression = is_new || one.2.is_always_fatal();
        faulty(after, one, which, is_regression)
    });
    let of_first = first.iter().filter(|one| !has(&second, one));
    let of_first = of_first.map(|one| faulty(before, one, FIRST, false));
    let mut all: Vec<Faulty> = of_second.chain(of_first).collect();
    all.sort_by_key(|one| (!one.is_regression, one.fault));
    all
}

/// The place of a fault that the second run does not have.
const FIRST: &str = "in the first run";

/// A subject, a number of connections, a fault, and the row that has it.
type Known<'a> = (&'a str, usize, Fault, &'a Row);

fn of(summary: &Summary) -> Vec<Known<'_>> {
    let all = summary.excluded().flat_map(|(name, row, faults)| {
        // A reply that is wrong has failed, too.
        let is_wrong = faults.contains(&Fault::WrongReplies);
        let kept = faults.into_iter().filter(move |fault| *fault != Fault::Failing || !is_wrong);
        kept.map(move |fault| (name, row.concurrency, fault, row))
    });
    all.collect()
}

fn faulty(summary: &Summary, one: &Known<'_>, which: &str, is_regression: bool) -> Faulty {
    let (subject, concurrency, fault, row) = *one;
    let is_blind = fault.is_of_measurement() && !is_regression && which != FIRST;
    let sentence = format!(
        "{subject} at {}, {which}: {}",
        summary.at(concurrency),
        in_words(summary, row, fault)
    );
    Faulty {
        subject: subject.to_owned(),
        concurrency,
        fault,
        is_regression,
        is_blind,
        told: sentence,
    }
}

/// The fault in words, with its figures.
fn in_words(summary: &Summary, row: &Row, fault: Fault) -> String {
    let share = |some: fn(&Medians) -> u64| {
        let medians = row.medians();
        let count = |of: u64| grouped(of as f64);
        let some = medians.map_or(0, some);
        format!("{} of {}", count(some), count(medians.map_or(0, |one| one.fates.all())))
    };
    match fault {
        Fault::WrongReplies => format!("{} replies were wrong", share(|one| one.fates.wrong)),
        Fault::Failing => format!("{} requests failed", share(|one| one.fates.of_server)),
        Fault::Ended => row.ended.as_ref().map_or_else(String::new, |ended| {
            format!("the server failed {}: {}", in_sessions(ended), ended.reason)
        }),
        Fault::Unserved => "connections got no reply at all".to_owned(),
        Fault::ListenQueue => "the listen queue was the limit".to_owned(),
        Fault::Invalid => "the load generator could not do its work".to_owned(),
        Fault::Constraint => {
            let checks = row.medians().map(|medians| summary.checks(medians)).unwrap_or_default();
            let broken = checks.iter().filter(|check| !check.kept);
            let parts: Vec<String> = broken
                .map(|check| format!("{} is broken by {}", check.limit, check.measured))
                .collect();
            listed(&parts)
        }
        Fault::Unchecked => {
            let limits = row.medians().map(|medians| summary.unchecked(medians));
            format!("it is not known whether {} is kept", listed(&limits.unwrap_or_default()))
        }
    }
}
