//! The words of a summary: loads, names, warnings, and reasons for missing figures.

use std::fmt;

use duality_load::{Warning, WarningKind};

use crate::format::how_many;
use crate::judge::rows::{Figures, Row};
use crate::judge::summary::Summary;
use crate::judge::verdict::Verdict;
use crate::tell::phrases::Phrase;

/// How much is measured of an experiment that was cut short. In words: `partial: 37 of 108 cells`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    done: usize,
    planned: usize,
}

impl Partial {
    /// `37 of 108 cells`.
    pub(super) fn cells(self) -> String {
        format!("{} of {} cells", self.done, self.planned)
    }
}

impl fmt::Display for Partial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&Phrase::Partial.told(&[&self.cells()]))
    }
}

impl Summary {
    /// A load in words: `1,000 connections`, `1,000 times your users`.
    pub fn at(&self, concurrency: usize) -> String {
        self.counted.one(concurrency)
    }

    /// Loads in words: `10, 100 and 1,000 connections`.
    pub fn at_all(&self, loads: &[usize]) -> String {
        self.counted.several(loads)
    }

    /// The name of a subject among others: `nginx (peer)`.
    pub fn label(&self, name: &str) -> String {
        if self.peers.contains(name) { format!("{name} (peer)") } else { name.to_owned() }
    }

    /// How much is measured of an experiment that was cut short.
    pub fn partial(&self) -> Option<Partial> {
        let Self { done, planned, .. } = *self;
        (done < planned).then_some(Partial { done, planned })
    }

    /// Warnings about the figures: a line for each subject of a warning, or one line for many
    /// subjects.
    pub(crate) fn warnings(&self) -> Vec<String> {
        /// Warnings of one kind about more rows than this share one line.
        const FEW: usize = 3;
        let mut kinds: Vec<(&WarningKind, Vec<(&Row, &Warning)>)> = Vec::new();
        for row in self.all_rows() {
            for warning in &row.warnings {
                match kinds.iter_mut().find(|(kind, _)| *kind == &warning.kind) {
                    Some((_, told)) if warning.kind != WarningKind::Other => {
                        told.push((row, warning));
                    }
                    _ => kinds.push((&warning.kind, vec![(row, warning)])),
                }
            }
        }
        let rows = self.all_rows().filter(|row| row.medians().is_some()).count();
        let place = |row: &Row| format!("{} at {}", row.subject, how_many(row.concurrency));
        let mut lines = Vec::new();
        for (_, told) in kinds {
            if told.len() <= FEW {
                lines.extend(told.iter().map(|(row, warning)| {
                    let at = how_many(row.concurrency);
                    format!("{}: {} (at {at})", row.subject, warning.text)
                }));
                continue;
            }
            let (row, first) = told[0];
            let all = if told.len() == rows {
                "all cells".to_owned()
            } else {
                format!("{} of {rows} cells", told.len())
            };
            lines.push(format!("{all}, such as {}: {}", place(row), first.text));
        }
        lines
    }

    /// The reasons for missing figures, each once, with its subjects and concurrencies.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut notes: Vec<(String, Vec<String>)> = Vec::new();
        for row in self.all_rows() {
            let Figures::Missing { state, reason } = &row.figures else { continue };
            if reason.is_empty() {
                continue;
            }
            let note = format!("{}: {state}: {reason}", row.subject);
            let concurrency = how_many(row.concurrency);
            match notes.iter_mut().find(|(known, _)| *known == note) {
                Some((_, at)) => at.push(concurrency),
                None => notes.push((note, vec![concurrency])),
            }
        }
        notes.into_iter().map(|(note, at)| format!("{note} (at {})", at.join(", "))).collect()
    }
}

impl Verdict {
    /// The load in words: `1,000 connections`, `1,000 times your users`.
    pub(super) fn at(&self) -> String {
        self.counted.one(self.concurrency)
    }
}
