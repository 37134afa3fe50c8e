//! A comparison in words.

use super::{Alone, Change, Comparison, Direction, Metric, Pair};
use crate::format::{at_most, how_many};

impl Comparison {
    /// For each figure, the numbers of cells in which the second experiment is better, worse or
    /// level, with a comment.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences: Vec<String> =
            Metric::ALL.into_iter().filter_map(|metric| self.count(metric)).collect();
        if self.pairs.is_empty() {
            sentences.push("No cell was measured in both.".to_owned());
        } else if !self.is_sure_of_anything() {
            sentences.push(
                "One run measured a cell only once, so there are no intervals and any difference \
                 may be chance: measure with --repeats 3 or more."
                    .to_owned(),
            );
        }
        for (which, summary) in [("first", &self.before), ("second", &self.after)] {
            let all = || summary.verdicts.iter().map(|verdict| &verdict.evidence);
            let blocks: usize = all().map(|one| one.measured).sum();
            let disturbed: usize = all().map(|one| one.with_strangers).sum();
            if 2 * disturbed > blocks {
                sentences.push(format!(
                    "In the {which}, other processes used more than a tenth of a processor in {disturbed} of {blocks} blocks. \
                     They may be the difference: measure that run again on a quiet machine."
                ));
            }
        }
        sentences
    }

    fn count(&self, metric: Metric) -> Option<String> {
        let changes: Vec<&Change> =
            self.pairs.iter().filter_map(|pair| pair.change(metric)).collect();
        let of = |verdict: Direction| {
            let found: Vec<_> = changes.iter().filter(|change| change.verdict == verdict).collect();
            let word = match (verdict, found.first()) {
                (_, None) => return None,
                (Direction::Unsure, _) => "not sure",
                (Direction::NotTold, _) => "not told apart",
                (_, Some(change)) => change.word(),
            };
            Some(format!("{} {word}", found.len()))
        };
        let verdicts = [
            Direction::Better,
            Direction::Worse,
            Direction::Level,
            Direction::NotTold,
            Direction::Unsure,
        ];
        let parts: Vec<String> = verdicts.into_iter().filter_map(of).collect();
        let cells = if changes.len() == 1 { "cell" } else { "cells" };
        (!changes.is_empty()).then(|| {
            format!("{}, of {} {cells}: {}.", metric.name(), changes.len(), parts.join(", "))
        })
    }
}

/// Whether the second run is slower, faster, level, or not told apart. Rates and processor times
/// decide.
pub(crate) fn headline(comparisons: &[Comparison]) -> String {
    let of_pair = |all: &'_ Comparison, pair: &Pair| {
        let place = format!("{} at {}", pair.subject, all.before.at(pair.concurrency));
        let changes = pair.changes.iter().filter(|change| change.is_judged());
        changes.map(|change| (place.clone(), *change)).collect::<Vec<(String, Change)>>()
    };
    let all: Vec<(String, Change)> = comparisons
        .iter()
        .flat_map(|all| all.pairs.iter().flat_map(|pair| of_pair(all, pair)))
        .collect();
    let of = |verdict: Direction| {
        let found = all.iter().filter(move |(_, change)| change.verdict == verdict);
        found.filter_map(|(place, change)| Some((place, change, change.worse_by()?)))
    };
    let (worse, better) = (of(Direction::Worse).count(), of(Direction::Better).count());
    let figures = match all.len() {
        1 => String::new(),
        many => format!(" {worse} of {many} figures are worse, and {better} better."),
    };
    let largest_worse = of(Direction::Worse).max_by(|one, other| one.2[0].total_cmp(&other.2[0]));
    if let Some((place, change, _)) = largest_worse {
        return format!("The second run is slower: {place}, {}.{figures}", change.tell());
    }
    let largest_better = of(Direction::Better).min_by(|one, other| one.2[1].total_cmp(&other.2[1]));
    if let Some((place, change, _)) = largest_better {
        return format!("The second run is faster: {place}, {}.{figures}", change.tell());
    }
    let known = || of(Direction::Level).chain(of(Direction::NotTold));
    let Some(largest) = known().map(|(.., [low, high])| high.max(-low)).reduce(f64::max) else {
        return "Cannot tell whether the second run is slower: measure both with --repeats 5."
            .to_owned();
    };
    let largest = at_most(largest);
    match of(Direction::NotTold).next() {
        None => format!("No change above {largest}: the two runs are level."),
        Some(_) => format!(
            "The two runs are not told apart: a change of up to {largest} may be hidden. Measure \
             both with more --repeats."
        ),
    }
}

/// Each subject and reason once, with the numbers of connections.
pub(crate) fn told_together(alone: &[Alone]) -> Vec<String> {
    let mut parts: Vec<((&str, &str), Vec<String>)> = Vec::new();
    for Alone { subject, concurrency, why, .. } in alone {
        let at = how_many(*concurrency);
        match parts.iter_mut().find(|(known, _)| *known == (subject.as_str(), why.as_str())) {
            Some((_, all)) => all.push(at),
            None => parts.push(((subject, why), vec![at])),
        }
    }
    parts
        .into_iter()
        .map(|((subject, why), at)| format!("{subject} at {} (the other: {why})", at.join(", ")))
        .collect()
}
