//! The summary of an experiment's cells: one row for each subject at each concurrency. A subject is
//! an architecture or a peer.
//!
//! [`Summary::of`] takes the records so far, so it works after a whole experiment or after a
//! Ctrl-C. If a cell was measured again (`--resume` after a failure), the last measurement counts.
//! A cell that could not be measured keeps its reason and never becomes a zero.

use std::collections::{BTreeMap, BTreeSet};

use super::constraints::{self, Check};
use super::faults::{self, Fault};
use super::rows::{self, Figures, Medians, Row};
use super::verdict::{self, Question, Verdict};
use crate::format::Counted;
use crate::record::constraints::limit_of;
use crate::record::{Builds, Constraints, Family, Heading, Outcome, Records, Ways};
use crate::statistics::{Estimate, Interval};

/// The summary of the cells of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The service.
    pub service: String,
    /// The names of architectures and peers, in the order of the design.
    pub subjects: Vec<String>,
    /// The peers among the subjects. A peer is shown beside the subjects that can be chosen.
    pub peers: BTreeSet<String>,
    /// The question about the ways to run one program, if the experiment compares such ways.
    pub ways: Option<Ways>,
    /// The builds of one program, if the experiment compares builds.
    pub builds: Option<Builds>,
    /// The numbers of open connections or users, in the order of the design.
    pub concurrency: Vec<usize>,
    /// Which of the two.
    pub counted: Counted,
    /// The planned number of measurements of each cell.
    pub repeats: usize,
    /// The number of cells of the design. In a race, of those that it needs.
    pub planned: usize,
    /// The number of cells with a measurement or a reason.
    pub done: usize,
    /// Decides the draws of the bootstrap.
    pub seed: u64,
    /// The subjects that are no choice
    /// ([`Design::is_yardstick`](crate::record::Design::is_yardstick)).
    pub yardsticks: BTreeSet<String>,
    /// The subjects that look at idle connections in each round
    /// ([`Design::looks_at_all`](crate::record::Design::looks_at_all)).
    pub looking_at_all: BTreeSet<String>,
    /// The constraints on a recommended subject.
    pub constraints: Constraints,
    /// The subject that runs today, if it is known.
    pub current: Option<String>,
    /// The share within which two subjects are level.
    pub margin: f64,
    /// The family of each subject of which the family is known.
    pub families: BTreeMap<String, Family>,
    /// A row for each subject at each concurrency, subjects outermost.
    pub rows: Vec<Row>,
    /// The subject that was measured twice, if there is one. Its second measurement takes no part
    /// in comparisons.
    pub control: Option<Again>,
    /// The verdict at each number of connections.
    pub verdicts: Vec<Verdict>,
}

/// An architecture that was measured twice, under two names. The architecture does not cause
/// differences between the two.
#[derive(Clone, Debug, PartialEq)]
pub struct Again {
    /// The architecture.
    pub architecture: String,
    /// The second measurements, by concurrency. Their subject is the second name.
    pub rows: Vec<Row>,
}

impl Summary {
    /// The summary of `records`, which may be fewer than the design has.
    pub fn of(heading: &Heading, records: &Records) -> Self {
        let mut summary = Self::without_verdicts(heading, records);
        let disqualified = summary.disqualified();
        let question = Question { heading, records, disqualified: &disqualified };
        summary.verdicts = verdict::verdicts(question);
        summary.agree();
        summary
    }

    /// Whether each number of connections has its verdict, even if cells are missing.
    pub fn is_answered(&self) -> bool {
        let mut verdicts = self.verdicts.iter();
        !self.verdicts.is_empty() && verdicts.all(Verdict::can_recommend)
    }

    /// The subjects that cannot be chosen by the records so far, with their numbers of connections.
    pub(crate) fn disqualified_by(
        heading: &Heading,
        records: &Records,
    ) -> BTreeSet<(String, usize)> {
        Self::without_verdicts(heading, records).disqualified()
    }

    fn without_verdicts(heading: &Heading, records: &Records) -> Self {
        let design = &heading.design;
        let cells = &records.cells;
        let mut latest: BTreeMap<(&str, usize, usize), &Outcome> = BTreeMap::new();
        for cell in cells {
            latest.insert((&cell.subject, cell.concurrency, cell.repeat), &cell.outcome);
        }
        let of_subject = |subject: &str| -> Vec<Row> {
            let at = |&concurrency: &usize| {
                let repeats = (subject, concurrency, 0)..=(subject, concurrency, usize::MAX);
                let outcomes: Vec<&Outcome> =
                    latest.range(repeats).map(|(_, outcome)| *outcome).collect();
                let mut row = rows::row(subject, concurrency, &outcomes, design.seed);
                let blocks = records.blocks_at(concurrency);
                row.take_failures(&blocks);
                if let Figures::Measured(medians) = &mut row.figures {
                    medians.take_blocks(subject, &blocks, design.seed);
                    medians.starved = match medians.answered {
                        Some(answered) => answered < rows::SERVED,
                        None => medians.served < rows::SERVED * concurrency as f64,
                    };
                }
                row
            };
            design.concurrency.iter().map(at).collect()
        };
        let rows: Vec<Row> = design.subjects().flat_map(of_subject).collect();
        let again = design.control.as_deref().map(of_subject).unwrap_or_default();
        let control = design
            .control
            .as_deref()
            .map(|name| Again { architecture: design.original(name).to_owned(), rows: again });
        let missing =
            design.concurrency.iter().map(|&concurrency| records.missing(design, concurrency));
        let yardsticks = design.subjects().filter(|name| design.is_yardstick(name));
        let looking_at_all = design.subjects().filter(|name| design.looks_at_all(name));
        Summary {
            service: design.service.clone(),
            subjects: design.subjects().map(str::to_owned).collect(),
            peers: design
                .peers
                .iter()
                .map(|peer| peer.name.clone())
                .filter(|name| !design.can_be_chosen(name))
                .collect(),
            ways: design.ways.clone(),
            builds: design.builds.clone(),
            concurrency: design.concurrency.clone(),
            counted: design.counted(),
            repeats: design.repeats,
            planned: match design.race {
                false => design.cells(),
                true => latest.len() + missing.sum::<usize>(),
            },
            done: latest.len(),
            seed: design.seed,
            yardsticks: yardsticks.map(str::to_owned).collect(),
            looking_at_all: looking_at_all.map(str::to_owned).collect(),
            constraints: heading.constraints.clone(),
            current: heading.current().map(str::to_owned),
            margin: heading.margin(),
            families: design
                .subjects()
                .filter_map(|name| Some((name.to_owned(), design.family(name)?)))
                .collect(),
            rows,
            control,
            verdicts: Vec::new(),
        }
    }

    /// Gives a figure one value, in rows and verdicts alike. Where rates and processor times come
    /// from blocks, those of the verdict count: it leaves disturbed blocks out. Else the rows'
    /// medians count.
    fn agree(&mut self) {
        let verdicts = self.verdicts.iter_mut();
        let standings = verdicts.flat_map(|verdict| {
            let load = verdict.concurrency;
            let all = verdict.standings.iter_mut().chain(&mut verdict.others);
            all.map(move |standing| (load, standing))
        });
        for (load, standing) in standings {
            let mut rows = self.rows.iter_mut();
            let row = rows.find(|row| row.subject == standing.subject && row.concurrency == load);
            let Some(Row { figures: Figures::Measured(medians), .. }) = row else { continue };
            match medians.of_blocks {
                true => medians.take_standing(standing),
                false => {
                    let Estimate { value, interval } = medians.requests_per_second;
                    standing.rate = value;
                    let Interval { low, high } =
                        interval.unwrap_or(Interval { low: value, high: value });
                    [standing.rate_low, standing.rate_high] = [low, high];
                    standing.server_cpu_us = medians.cpu_us;
                    standing.client_cpu_us = medians.client_cpu_us;
                }
            }
        }
    }

    /// Each row with the faults that exclude its subject. The control is the same server as its
    /// original, so a server fault of the control is one of the original.
    pub fn excluded(&self) -> impl Iterator<Item = (&str, &Row, Vec<Fault>)> {
        let own = self.rows.iter().map(|row| (row.subject.as_str(), row, self.faults(row)));
        let again = self.control.iter().flat_map(|control| {
            let rows = control.rows.iter();
            rows.map(|row| (control.architecture.as_str(), row, of_control(row)))
        });
        own.chain(again).filter(|(.., faults)| !faults.is_empty())
    }

    /// The subjects that cannot be chosen, with their numbers of connections.
    fn disqualified(&self) -> BTreeSet<(String, usize)> {
        self.excluded().map(|(name, row, _)| (name.to_owned(), row.concurrency)).collect()
    }

    /// The limits, and the figures of `medians` beside them. Latencies of invalid windows are left
    /// out, because the load generator could not do its work.
    pub fn checks(&self, medians: &Medians) -> Vec<Check> {
        let Medians { latency_samples, memory_samples, .. } = medians;
        let latencies = if medians.invalid { &[] } else { latency_samples.as_slice() };
        constraints::check(&self.constraints, latencies, memory_samples, self.seed)
    }

    /// The limits for which `medians` have no figure, in words. So it is unknown whether these
    /// limits are kept.
    pub fn unchecked(&self, medians: &Medians) -> Vec<String> {
        let checks = self.checks(medians);
        let limits = self.constraints.slo.iter().map(limit_of);
        limits.filter(|limit| checks.iter().all(|check| check.limit != *limit)).collect()
    }

    /// The faults that exclude a row's subject from the choice.
    pub fn faults(&self, row: &Row) -> Vec<Fault> {
        let mut faults = faults::of(row);
        let Some(medians) = row.medians() else { return faults };
        let checks = self.checks(medians);
        if checks.iter().any(|check| !check.kept) {
            faults.push(Fault::Constraint);
        }
        if !self.unchecked(medians).is_empty() {
            faults.push(Fault::Unchecked);
        }
        faults
    }

    /// The architectures that could be chosen at a number of connections without constraints, with
    /// their figures.
    pub fn candidates(&self, concurrency: usize) -> Vec<(&Row, &Medians)> {
        self.rows
            .iter()
            .filter(|row| row.concurrency == concurrency && !self.yardsticks.contains(&row.subject))
            .filter(|row| !self.peers.contains(&row.subject))
            .filter(|row| faults::of(row).is_empty())
            .filter_map(|row| Some((row, row.medians()?)))
            .collect()
    }

    /// The verdict at a number of connections.
    pub fn verdict(&self, concurrency: usize) -> Option<&Verdict> {
        self.verdicts.iter().find(|verdict| verdict.concurrency == concurrency)
    }

    /// The figures of a subject at a number of connections.
    pub fn medians(&self, subject: &str, concurrency: usize) -> Option<&Medians> {
        let mut rows = self.all_rows();
        rows.find(|row| row.subject == subject && row.concurrency == concurrency)?.medians()
    }

    /// The rows of a subject, by concurrency.
    pub fn of_subject<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.subject == name)
    }

    /// The rows of all compared subjects, and then the control's rows.
    pub fn all_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().chain(self.control.iter().flat_map(|control| &control.rows))
    }
}

/// The faults of a control's row that are the server's own.
fn of_control(row: &Row) -> Vec<Fault> {
    faults::of(row).into_iter().filter(|fault| fault.is_failure()).collect()
}
