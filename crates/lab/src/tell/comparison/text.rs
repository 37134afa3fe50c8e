//! A comparison on the terminal: a table for each figure, then the differences and the missing
//! cells.

use std::fmt::Write;

use super::{Alone, Change, Comparison, Direction, Metric};
use crate::format::{how_many, multiple};
use crate::tell::render::text::table_text;
use crate::tell::sheet::{Table, left, right};

impl Comparison {
    /// Faults and tables of ratios for the terminal. Then the cells of only one experiment follow,
    /// and other differences.
    pub fn render_text(&self) -> String {
        let mut text = String::new();
        for fault in &self.faults {
            writeln!(text, "{}.", fault.told).expect("a String takes all");
        }
        if !self.faults.is_empty() {
            text.push('\n');
        }
        for metric in Metric::ALL {
            self.grid(&mut text, metric);
        }
        for sentence in self.sentences() {
            text.push_str(&sentence);
            text.push('\n');
        }
        for (which, alone) in [("first", &self.only_before), ("second", &self.only_after)] {
            for told in told_together(alone) {
                writeln!(text, "only in the {which}: {told}").expect("a String takes all");
            }
        }
        if !self.differences.is_empty() {
            text.push_str("what else differs:\n");
        }
        for difference in &self.differences {
            let (what, before, after) = (&difference.what, &difference.before, &difference.after);
            writeln!(text, "  {what}: {before} → {after}").expect("a String takes all");
        }
        text
    }

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
                (_, Some(change)) => change.word(),
            };
            Some(format!("{} {word}", found.len()))
        };
        let verdicts = [Direction::Better, Direction::Worse, Direction::Level, Direction::Unsure];
        let told: Vec<String> = verdicts.into_iter().filter_map(of).collect();
        let cells = if changes.len() == 1 { "cell" } else { "cells" };
        (!changes.is_empty()).then(|| {
            format!("{}, of {} {cells}: {}.", metric.name(), changes.len(), told.join(", "))
        })
    }

    /// One row for each subject, one column for each number of connections.
    fn grid(&self, text: &mut String, metric: Metric) {
        let mut subjects: Vec<&str> = Vec::new();
        let mut loads: Vec<usize> = Vec::new();
        for pair in &self.pairs {
            if !subjects.contains(&pair.subject.as_str()) {
                subjects.push(&pair.subject);
            }
            loads.push(pair.concurrency);
        }
        loads.sort_unstable();
        loads.dedup();
        if subjects.is_empty() {
            return;
        }
        let columns = loads.iter().map(|&load| right(self.before.at(load)));
        let rows = subjects.into_iter().map(|subject| {
            let cell = |&load: &usize| {
                let same =
                    |pair: &&super::Pair| pair.subject == subject && pair.concurrency == load;
                let change = self.pairs.iter().find(same).and_then(|pair| pair.change(metric));
                change.map_or("-".to_owned(), |change| {
                    format!("{} {:<6}", multiple(change.ratio), change.word())
                })
            };
            [self.before.label(subject)].into_iter().chain(loads.iter().map(cell)).collect()
        });
        let title = format!("{}, second over first, 99 % interval", metric.name());
        let table = Table::new([left("")].into_iter().chain(columns), rows).titled(title);
        text.push_str(&table_text(&table));
        text.push('\n');
    }
}

/// Each subject and reason once, with the numbers of connections.
pub(crate) fn told_together(alone: &[Alone]) -> Vec<String> {
    let mut told: Vec<((&str, &str), Vec<String>)> = Vec::new();
    for Alone { subject, concurrency, why, .. } in alone {
        let at = how_many(*concurrency);
        match told.iter_mut().find(|(known, _)| *known == (subject.as_str(), why.as_str())) {
            Some((_, all)) => all.push(at),
            None => told.push(((subject, why), vec![at])),
        }
    }
    told.into_iter()
        .map(|((subject, why), at)| format!("{subject} at {} (the other: {why})", at.join(", ")))
        .collect()
}
