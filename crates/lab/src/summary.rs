//! What the cells of an experiment come to: one row for each subject, which is an architecture or a peer, at each
//! concurrency.
//!
//! [`Summary::of`] takes what has been measured so far, so it serves the terminal after a whole
//! experiment and after a Ctrl-C alike. A cell that was measured again (`--resume` after a failure)
//! counts as it was last. What could not be measured keeps its reason and never becomes a zero.

use std::collections::{BTreeMap, BTreeSet};

use duality_load::{Latency, Warning, WarningKind};

use crate::constraints::{self, Check};
use crate::format::grouped;
use crate::record::{Block, Constraints, Experiment, Measured, Outcome, Records};
use crate::soundness;
use crate::statistics::{Estimate, estimate, median, variation};
use crate::verdict::{self, Question, Verdict};

/// What the cells of an experiment come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The service.
    pub service: String,
    /// The names of architectures and peers, in the order of the design.
    pub subjects: Vec<String>,
    /// Which of them are peers.
    pub peers: BTreeSet<String>,
    /// The numbers of open connections, in the order of the design.
    pub concurrency: Vec<usize>,
    /// How often each cell was to be measured.
    pub repeats: usize,
    /// How many cells the design has.
    pub planned: usize,
    /// For how many of them there is a measurement or a reason.
    pub done: usize,
    /// Decides the draws of the bootstrap.
    pub seed: u64,
    /// Which of the subjects nobody can choose ([`Design::is_yardstick`](crate::record::Design::is_yardstick)).
    pub yardsticks: BTreeSet<String>,
    /// Those that look at idle connections in each round ([`Design::looks_at_all`](crate::record::Design::looks_at_all)).
    pub looking_at_all: BTreeSet<String>,
    /// What must be kept to be recommended.
    pub constraints: Constraints,
    /// One for each subject at each concurrency; subjects outermost.
    pub rows: Vec<Row>,
    /// What was measured twice, if anything was. It takes no part in comparisons.
    pub control: Option<Again>,
    /// What can be said at each number of connections.
    pub verdicts: Vec<Verdict>,
}

/// An architecture that was measured twice, under two names: what differs between the two is not the architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct Again {
    /// The architecture.
    pub architecture: String,
    /// Its second measurements, by concurrency; the subject is another name.
    pub rows: Vec<Row>,
}

/// A subject at a concurrency.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The name of the architecture or peer.
    pub subject: String,
    /// How many connections were open at once.
    pub concurrency: usize,
    /// What was found.
    pub figures: Figures,
    /// What a reader of the figures must know, each once; numbers in it are those of one repeat.
    pub warnings: Vec<Warning>,
}

/// What was found for a subject at a concurrency.
#[derive(Clone, Debug, PartialEq)]
pub enum Figures {
    /// At least one repeat was measured.
    Measured(Box<Medians>),
    /// None was.
    Missing {
        /// In one word: `unavailable`, `failed`, or `not run` when the experiment ended before.
        what: &'static str,
        /// Why; empty for `not run`.
        reason: String,
    },
}

/// Medians over the repeats; units as in [`Measured`].
#[derive(Clone, Debug, PartialEq)]
pub struct Medians {
    /// Correct replies per second, with their interval.
    pub requests_per_second: Estimate,
    /// Correct replies per second of each repeat.
    pub requests_per_second_samples: Vec<f64>,
    /// How much they vary, see [`variation`]; none for one repeat.
    pub variation: Option<f64>,
    /// Mean latency: the service time of Kerneis & Chroboczek.
    pub mean_us: f64,
    /// The median latency.
    pub p50_us: f64,
    /// 99 % of the latencies are no longer.
    pub p99_us: f64,
    /// 99.9 % of the latencies are no longer.
    pub p99_9_us: f64,
    /// Mean number of requests in service.
    pub measured_load: f64,
    /// The server's processor time for each request.
    pub cpu_us: f64,
    /// The same, with its interval.
    pub cpu: Estimate,
    /// Whether rates and processor times are those of blocks, to which it does not matter that a window was invalid.
    pub of_blocks: bool,
    /// The load generator's processor time for each request.
    pub client_cpu_us: f64,
    /// The server's processor time for each request in each repeat.
    pub cpu_us_samples: Vec<f64>,
    /// The server's memory.
    pub memory_bytes: f64,
    /// The server's memory in each repeat.
    pub memory_samples: Vec<f64>,
    /// The latencies of each repeat.
    pub latency_samples: Vec<Latency>,
    /// The load generator's processor time, as a share of one processor.
    pub client_cpu_share: f64,
    /// Whether the load generator was the limit in at least half of the repeats.
    pub client_was_limit: bool,
    /// Whether more than 1 in 10 connections got no reply within the window, so that the figures describe
    /// fewer connections than they claim.
    pub starved: bool,
    /// Whether the listen queue was the limit in at least half of the repeats.
    pub queue_was_limit: bool,
    /// Replies that were not what they should have been, of all repeats together.
    pub wrong_replies: u64,
    /// How many connections got a reply within the window.
    pub served: f64,
    /// Failed requests of all repeats together.
    pub errors: u64,
    /// Whether at least half of the repeats are invalid: the load generator could not do its work, and the figures, which are
    /// those of all repeats then, are not to be trusted. Fewer invalid repeats are left out of the figures.
    pub invalid: bool,
}

/// Why a subject cannot be chosen at a number of connections, whatever its figures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Replies were not what they should have been.
    WrongReplies,
    /// More than 1 in 10 connections got no reply.
    Unserved,
    /// The listen queue was the limit, and not the server.
    ListenQueue,
    /// The load generator could not do its work.
    Invalid,
    /// A constraint is broken.
    Constraint,
}

impl Medians {
    /// What is wrong beside the constraints; nothing of a sound row.
    pub fn faults(&self) -> Vec<Fault> {
        [
            (self.wrong_replies > 0, Fault::WrongReplies),
            (self.starved, Fault::Unserved),
            (self.queue_was_limit, Fault::ListenQueue),
            (self.invalid && !self.of_blocks, Fault::Invalid),
        ]
        .into_iter()
        .filter_map(|(is_so, fault)| is_so.then_some(fault))
        .collect()
    }
}

impl Row {
    /// The medians, where something was measured.
    pub fn medians(&self) -> Option<&Medians> {
        match &self.figures {
            Figures::Measured(medians) => Some(medians),
            Figures::Missing { .. } => None,
        }
    }
}

impl Summary {
    /// What `records` come to; they may be fewer than the design has.
    pub fn of(experiment: &Experiment, records: &Records) -> Self {
        let design = &experiment.design;
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
                let mut row = row(subject, concurrency, &outcomes, design.seed);
                if let Figures::Measured(medians) = &mut row.figures {
                    medians.take_blocks(subject, &records.blocks_at(concurrency), design.seed);
                    medians.starved = medians.served < SERVED * concurrency as f64;
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
        let yardsticks = design.subjects().filter(|name| design.is_yardstick(name));
        let looking_at_all = design.subjects().filter(|name| design.looks_at_all(name));
        let mut summary = Summary {
            service: design.service.clone(),
            subjects: design.subjects().map(str::to_owned).collect(),
            peers: design.peers.iter().map(|peer| peer.name.clone()).collect(),
            concurrency: design.concurrency.clone(),
            repeats: design.repeats,
            planned: design.cells(),
            done: latest.len(),
            seed: design.seed,
            yardsticks: yardsticks.map(str::to_owned).collect(),
            looking_at_all: looking_at_all.map(str::to_owned).collect(),
            constraints: experiment.constraints.clone(),
            rows,
            control,
            verdicts: Vec::new(),
        };
        let disqualified = summary.disqualified();
        let question = Question { experiment, records, disqualified: &disqualified };
        summary.verdicts = verdict::verdicts(question);
        summary
    }

    /// Who cannot be chosen, and where.
    fn disqualified(&self) -> BTreeSet<(String, usize)> {
        let is_out = |row: &&Row| !self.faults(row).is_empty();
        self.rows.iter().filter(is_out).map(|row| (row.subject.clone(), row.concurrency)).collect()
    }

    /// What must be kept, and what `medians` are beside it.
    pub fn checks(&self, medians: &Medians) -> Vec<Check> {
        let Medians { latency_samples, memory_samples, .. } = medians;
        constraints::check(&self.constraints, latency_samples, memory_samples, self.seed)
    }

    /// Why a row's subject cannot be chosen there.
    pub fn faults(&self, row: &Row) -> Vec<Fault> {
        let Some(medians) = row.medians() else { return Vec::new() };
        let mut faults = medians.faults();
        let checks = self.checks(medians);
        if checks.iter().any(|check| !check.kept) {
            faults.push(Fault::Constraint);
        }
        faults
    }

    /// The architectures that can be chosen at a number of connections but for constraints, with their figures.
    pub fn candidates(&self, concurrency: usize) -> Vec<(&Row, &Medians)> {
        self.rows
            .iter()
            .filter(|row| row.concurrency == concurrency && !self.yardsticks.contains(&row.subject))
            .filter(|row| !self.peers.contains(&row.subject))
            .filter_map(|row| Some((row, row.medians()?)))
            .filter(|(_, medians)| medians.faults().is_empty())
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

    /// What a subject is called where it stands among others: `nginx (peer)`.
    pub fn label(&self, name: &str) -> String {
        if self.peers.contains(name) { format!("{name} (peer)") } else { name.to_owned() }
    }

    /// The rows of a subject, by concurrency.
    pub fn of_subject<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.subject == name)
    }

    /// The rows of all that is compared, and then those of the control.
    pub fn all_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().chain(self.control.iter().flat_map(|control| &control.rows))
    }

    /// `partial: 37 of 108 cells` when the experiment did not come to its end.
    pub fn partial(&self) -> Option<String> {
        let (done, planned) = (self.done, self.planned);
        (done < planned).then(|| format!("partial: {done} of {planned} cells"))
    }

    /// What must be known of the figures: a line for each subject that a warning is about, or one for all where it is about many.
    pub(crate) fn warnings(&self) -> Vec<String> {
        /// Warnings of one kind that are about more rows than these are told together.
        const FEW: usize = 3;
        let mut kinds: Vec<(&WarningKind, Vec<(&Row, &Warning)>)> = Vec::new();
        for row in self.all_rows() {
            for warning in &row.warnings {
                match kinds.iter_mut().find(|(kind, _)| *kind == &warning.kind) {
                    Some((_, told)) if warning.kind != WarningKind::Other => {
                        told.push((row, warning))
                    }
                    _ => kinds.push((&warning.kind, vec![(row, warning)])),
                }
            }
        }
        let rows = self.all_rows().filter(|row| row.medians().is_some()).count();
        let place = |row: &Row| format!("{} at {}", row.subject, grouped(row.concurrency as f64));
        let mut lines = Vec::new();
        for (_, told) in kinds {
            if told.len() <= FEW {
                lines.extend(told.iter().map(|(row, warning)| {
                    let at = grouped(row.concurrency as f64);
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

    /// Why there are no figures, each reason once, with the subject and the concurrencies that it is about.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut notes: Vec<(String, Vec<String>)> = Vec::new();
        for row in self.all_rows() {
            let Figures::Missing { what, reason } = &row.figures else { continue };
            if reason.is_empty() {
                continue;
            }
            let note = format!("{}: {what}: {reason}", row.subject);
            let concurrency = grouped(row.concurrency as f64);
            match notes.iter_mut().find(|(known, _)| *known == note) {
                Some((_, at)) => at.push(concurrency),
                None => notes.push((note, vec![concurrency])),
            }
        }
        notes.into_iter().map(|(note, at)| format!("{note} (at {})", at.join(", "))).collect()
    }
}

impl Medians {
    /// Has rates and processor times be those of blocks, where there are any: many short slices among those of the other subjects
    /// are steadier than one window in each repeat. What a repeat measured is the mean of its blocks then.
    fn take_blocks(&mut self, subject: &str, blocks: &[&Block], seed: u64) {
        let mean = |sessions: Option<usize>, of: fn(&crate::record::Slice) -> f64| -> Vec<f64> {
            let blocks =
                blocks.iter().filter(|block| sessions.is_none_or(|one| block.session == one));
            let mean = |block: &&Block| {
                let own = block.slices.iter().filter(|slice| slice.subject == subject);
                let own: Vec<f64> = own.filter(|slice| slice.requests > 0).map(of).collect();
                (!own.is_empty()).then(|| own.iter().sum::<f64>() / own.len() as f64)
            };
            blocks.filter_map(|block| mean(block)).collect()
        };
        let rate: fn(&crate::record::Slice) -> f64 = |slice| slice.requests_per_second;
        let cpu: fn(&crate::record::Slice) -> f64 =
            |slice| slice.server_cpu_us / slice.requests as f64;
        let client: fn(&crate::record::Slice) -> f64 =
            |slice| slice.client_cpu_us / slice.requests as f64;
        let (Some(rates), Some(cpus)) =
            (estimate(&mean(None, rate), seed), estimate(&mean(None, cpu), seed))
        else {
            return;
        };
        let sessions: BTreeSet<usize> = blocks.iter().map(|block| block.session).collect();
        let by_session = |of| -> Vec<f64> {
            let means = sessions.iter().map(|session| median(&mean(Some(*session), of)));
            means.flatten().collect()
        };
        self.of_blocks = true;
        self.requests_per_second = rates;
        self.cpu = cpus;
        self.cpu_us = cpus.value;
        self.requests_per_second_samples = by_session(rate);
        self.cpu_us_samples = by_session(cpu);
        self.variation = variation(&self.requests_per_second_samples);
        let served = |session: &usize| {
            let own = blocks.iter().filter(|block| block.session == *session);
            let slices = own.flat_map(|block| &block.slices);
            let counts = slices.filter(|slice| slice.subject == subject);
            counts.map(|slice| slice.connections_served as f64).reduce(f64::max)
        };
        // A window may be too short for all connections, and a session is not.
        let served: Vec<f64> = sessions.iter().filter_map(served).collect();
        self.served = median(&served).unwrap_or(self.served).max(self.served);
        if let Some(client) = median(&mean(None, client)) {
            self.client_cpu_us = client;
        }
    }
}

/// The row of `outcomes`, one for each repeat that there is.
fn row(subject: &str, concurrency: usize, outcomes: &[&Outcome], seed: u64) -> Row {
    let mut measured: Vec<&Measured> = Vec::new();
    let mut missing: Vec<(&'static str, &String)> = Vec::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Measured(figures) => measured.push(figures),
            Outcome::Unavailable { reason } => missing.push(("unavailable", reason)),
            Outcome::Failed { reason } => missing.push(("failed", reason)),
        }
    }
    let mut warnings = merged(measured.iter().flat_map(|figures| &figures.warnings));
    let invalid = left_out(&mut measured, &mut warnings);
    let figures = match (medians(&measured, concurrency, seed), missing.first()) {
        (Some(mut medians), first) => {
            medians.invalid = invalid;
            warnings.extend(soundness::marks(&measured, &medians.requests_per_second_samples));
            if let Some((what, reason)) = first {
                let (count, all) = (missing.len(), outcomes.len());
                let told = format!("{count} of {all} repeats {what}: {reason}");
                warnings.push(Warning::new(WarningKind::Missing, told));
            }
            Figures::Measured(Box::new(medians))
        }
        (None, Some((what, reason))) => Figures::Missing { what, reason: (*reason).clone() },
        (None, None) => Figures::Missing { what: "not run", reason: String::new() },
    };
    Row { subject: subject.to_owned(), concurrency, figures, warnings }
}

/// Leaves invalid repeats out and says so, unless they are half of all or more: then it is true that the whole is invalid.
fn left_out(measured: &mut Vec<&Measured>, warnings: &mut Vec<Warning>) -> bool {
    let all = measured.len();
    let mut reasons: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (kind, reason) in measured.iter().flat_map(|repeat| &repeat.invalid) {
        reasons.entry(kind).or_insert((0, reason)).0 += 1;
    }
    let sound = measured.iter().filter(|repeat| repeat.invalid.is_empty()).count();
    let whole = all > 0 && 2 * sound <= all;
    for (kind, (count, reason)) in reasons {
        let fate = if whole { "invalid" } else { "invalid and left out" };
        let told = format!("{count} of {all} repeats {fate}: {reason}");
        warnings.push(Warning::new(WarningKind::Invalid(kind.to_owned()), told));
    }
    if !whole {
        measured.retain(|repeat| repeat.invalid.is_empty());
    }
    whole
}

/// One warning of each kind: what the repeats say of it differs in its numbers alone.
fn merged<'a>(warnings: impl Iterator<Item = &'a Warning>) -> Vec<Warning> {
    let mut kept: Vec<Warning> = Vec::new();
    for warning in warnings {
        let is_known = |known: &Warning| match warning.kind {
            WarningKind::Other => known.text == warning.text,
            _ => known.kind == warning.kind,
        };
        if !kept.iter().any(is_known) {
            kept.push(warning.clone());
        }
    }
    kept
}

/// Fewer connections than this share with a reply are too few.
const SERVED: f64 = 0.9;

/// The kinds of errors in which a server answered something else than it should.
const WRONG: [&str; 3] = ["wrong-bytes", "wrong-status", "malformed"];

/// The medians of some repeats; none without any.
fn medians(repeats: &[&Measured], concurrency: usize, seed: u64) -> Option<Medians> {
    let samples = |of: fn(&Measured) -> f64| -> Vec<f64> {
        repeats.iter().map(|repeat| of(repeat)).collect()
    };
    let middle = |of: fn(&Measured) -> f64| median(&samples(of));
    let requests_per_second_samples = samples(|repeat| repeat.requests_per_second);
    let limited = repeats.iter().filter(|repeat| repeat.client_was_limit).count();
    let was_limit = |repeat: &Measured| repeat.listen_queue.is_some_and(|queue| queue.was_limit);
    let queued = repeats.iter().filter(|repeat| was_limit(repeat)).count();
    Some(Medians {
        requests_per_second: estimate(&requests_per_second_samples, seed)?,
        variation: variation(&requests_per_second_samples),
        requests_per_second_samples,
        mean_us: middle(|repeat| repeat.latency_us.mean)?,
        p50_us: middle(|repeat| repeat.latency_us.p50)?,
        p99_us: middle(|repeat| repeat.latency_us.p99)?,
        p99_9_us: middle(|repeat| repeat.latency_us.p99_9)?,
        measured_load: middle(|repeat| repeat.measured_load)?,
        cpu_us: middle(|repeat| repeat.server_cpu_us_per_request)?,
        of_blocks: false,
        cpu: estimate(&samples(|repeat| repeat.server_cpu_us_per_request), seed)?,
        client_cpu_us: middle(|repeat| {
            1e6 * repeat.client_cpu_share * repeat.window_seconds / repeat.requests.max(1) as f64
        })?,
        cpu_us_samples: samples(|repeat| repeat.server_cpu_us_per_request),
        memory_bytes: middle(|repeat| repeat.server_peak_bytes as f64)?,
        memory_samples: samples(|repeat| repeat.server_peak_bytes as f64),
        latency_samples: repeats.iter().map(|repeat| repeat.latency_us).collect(),
        client_cpu_share: middle(|repeat| repeat.client_cpu_share)?,
        client_was_limit: 2 * limited >= repeats.len(),
        queue_was_limit: 2 * queued >= repeats.len(),
        starved: middle(|repeat| repeat.connections_served as f64)? < SERVED * concurrency as f64,
        served: middle(|repeat| repeat.connections_served as f64)?,
        wrong_replies: repeats
            .iter()
            .flat_map(|repeat| WRONG.iter().filter_map(|kind| repeat.errors.get(*kind)))
            .fold(0, |sum: u64, &count| sum.saturating_add(count)),
        errors: repeats
            .iter()
            .flat_map(|repeat| repeat.errors.values())
            .fold(0, |sum: u64, &count| sum.saturating_add(count)),
        invalid: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_warning_is_told_once() {
        let failed = |text: &str| Warning::new(WarningKind::Failed("reset".into()), text);
        let other = |text: &str| Warning::new(WarningKind::Other, text);
        let warnings = [failed("9 failed"), failed("8 failed"), other("old"), other("older")];
        let kept = merged(warnings.iter());
        let texts: Vec<&str> = kept.iter().map(|warning| warning.text.as_str()).collect();
        assert_eq!(texts, ["9 failed", "old", "older"]);
    }
}
