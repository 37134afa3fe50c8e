//! The model in sentences: where an architecture's time goes, and why another takes less.
//!
//! Recommendations use it: a cell of an ordinary comparison has counts, and unit costs take seconds
//! to measure.

use crate::format::duration;
use crate::record::{Cell, Heading};

use super::{Modelled, Operation, TERMS, workloads};

/// A smaller share of a request is not worth a sentence.
const WORTH_IT: f64 = 0.05;
/// Sentences at most.
const MOST: usize = 3;

/// Why `chosen` is better than `next` at a number of connections. The reasons name the operations
/// that `chosen` does less often, and the operation that takes most of the time of `next`. Empty if
/// the experiment has no unit costs, or the model lacks one of the two.
pub fn reasons(
    heading: &Heading,
    cells: &[Cell],
    concurrency: usize,
    [chosen, next]: [&str; 2],
) -> Vec<String> {
    if heading.unit_costs.is_empty() {
        return Vec::new();
    }
    let service = &heading.design.service;
    // An unmeasured cost excludes the model, and so the reasons.
    let all = workloads(service, heading, cells, &heading.unit_costs).unwrap_or_default();
    let Some(here) = all.into_iter().find(|here| here.connections == concurrency) else {
        return Vec::new();
    };
    let of = |name: &str| here.subjects.iter().find(|subject| subject.architecture == name);
    let (Some(own), Some(next)) = (of(chosen), of(next)) else { return Vec::new() };
    let why = difference(own, next).map(|difference| format!("Why: {difference}."));
    let first = sentences(next).into_iter().next();
    let first = first.map(|first| format!("{}{}.", first[..1].to_uppercase(), &first[1..]));
    why.into_iter().chain(first).collect()
}

/// The causes of a request's time under an architecture, the largest first. An example: "creation
/// is 41 % of threads' time per request here (6.9 of 16.8 µs; 1.00 threads a request)". Empty if no
/// term takes as much as 5 %.
pub fn sentences(subject: &Modelled) -> Vec<String> {
    let mut parts: Vec<(usize, f64)> = subject
        .terms
        .iter()
        .map(|term| term / subject.total.max(f64::MIN_POSITIVE))
        .enumerate()
        .filter(|(_, share)| *share >= WORTH_IT)
        .collect();
    parts.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let sentence = |(index, share): (usize, f64)| {
        let Modelled { architecture, total, terms, .. } = subject;
        format!(
            "{} {} {:.0} % of {}{} time per request here ({} of {}; {})",
            TERMS[index].name,
            if TERMS[index].name.ends_with('s') { "are" } else { "is" },
            100.0 * share.min(1.0),
            architecture,
            if architecture.ends_with('s') { "'" } else { "'s" },
            duration(terms[index]),
            duration(*total),
            counted(subject, index),
        )
    };
    parts.into_iter().take(MOST).map(sentence).collect()
}

/// Why a request takes `slower` more time than `faster`. An example: "threads takes 2.1 µs more per
/// request than epoll: 1.4 µs more for kernel switches (1.02 rests; under epoll: none)". `None` if
/// they differ by less than 5 %, or no term differs by as much.
pub fn difference(faster: &Modelled, slower: &Modelled) -> Option<String> {
    let more = slower.total - faster.total;
    if more < WORTH_IT * slower.total {
        return None;
    }
    let (index, part) = (0..TERMS.len())
        .map(|index| (index, slower.terms[index] - faster.terms[index]))
        .max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    if part < WORTH_IT * slower.total {
        return None;
    }
    let name = TERMS[index].name;
    Some(format!(
        "{} takes {} more per request than {}: {} more for {name} ({}; under {}: {})",
        slower.architecture,
        duration(more),
        faster.architecture,
        duration(part),
        counted(slower, index),
        faster.architecture,
        counted(faster, index),
    ))
}

/// How often a request performs the operations of a term.
fn counted(subject: &Modelled, term: usize) -> String {
    let operations: Vec<String> = TERMS[term]
        .operations
        .iter()
        .filter(|operation| subject.counts[**operation] >= 0.005)
        .map(|&operation| {
            format!("{:.2} {}", subject.counts[operation], Operation::name(operation))
        })
        .collect();
    if operations.is_empty() { "none".to_owned() } else { operations.join(", ") }
}
