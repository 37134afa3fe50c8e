//! What the cells of an experiment come to: one row for each subject, which is an architecture or a peer, at each
//! concurrency.
//!
//! [`Summary::of`] takes what has been measured so far, so it serves the terminal after a whole
//! experiment and after a Ctrl-C alike. A cell that was measured again (`--resume` after a failure)
//! counts as it was last. What could not be measured keeps its reason and never becomes a zero.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use duality_load::Latency;

use crate::format::{bytes, connections, duration, grouped, multiple, rate};
use crate::model;
use crate::recommendation::{self, Constraints};
use crate::record::{Cell, Experiment, Measured, Outcome};
use crate::soundness::{self, Control};
use crate::statistics::{Estimate, estimate, median, ratio, variation};

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
    /// Why the architectures are as quick as they are, in full sentences: what a model of their costs has to say.
    pub reasons: Vec<String>,
    /// One for each subject at each concurrency; subjects outermost.
    pub rows: Vec<Row>,
    /// What was measured twice, if anything was. It takes no part in comparisons.
    pub control: Option<Control>,
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
    pub warnings: Vec<String>,
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
    /// Failed requests of all repeats together.
    pub errors: u64,
    /// Whether at least half of the repeats are invalid: the load generator could not do its work, and the figures, which are
    /// those of all repeats then, are not to be trusted. Fewer invalid repeats are left out of the figures.
    pub invalid: bool,
}

/// What each repeat measured of something.
type Samples = fn(&Medians) -> &[f64];

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
    /// What `cells` come to; they may be fewer than the design has.
    pub fn of(experiment: &Experiment, cells: &[Cell]) -> Self {
        let design = &experiment.design;
        let mut latest: BTreeMap<(&str, usize, usize), &Outcome> = BTreeMap::new();
        for cell in cells {
            latest.insert((&cell.subject, cell.concurrency, cell.repeat), &cell.outcome);
        }
        let of_subject = |subject: &str| -> Vec<Row> {
            let at = |&concurrency: &usize| {
                let repeats = (subject, concurrency, 0)..=(subject, concurrency, usize::MAX);
                let outcomes: Vec<&Outcome> =
                    latest.range(repeats).map(|(_, outcome)| *outcome).collect();
                row(subject, concurrency, &outcomes, design.seed)
            };
            design.concurrency.iter().map(at).collect()
        };
        let rows: Vec<Row> = design.subjects().flat_map(of_subject).collect();
        let again = design.control.as_deref().map(of_subject).unwrap_or_default();
        let control = Control::of(design, again, &rows);
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
            reasons: Vec::new(),
            rows,
            control,
        };
        summary.reasons = model::reasons(&summary, experiment, cells);
        summary
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

    /// Tables for the terminal, then what could not be measured, the warnings and the recommendation.
    pub fn render_text(&self) -> String {
        let mut text = String::new();
        if let Some(partial) = self.partial() {
            writeln!(text, "{partial}\n").expect("a String takes all");
        }
        self.grid(&mut text, "requests/s, median ± half of its 95 % interval", |_, medians| {
            rate(medians.requests_per_second)
        });
        self.grid(&mut text, "p99 latency", |_, medians| duration(medians.p99_us));
        self.grid(&mut text, "server CPU per request", |_, medians| duration(medians.cpu_us));
        for peer in self.subjects.iter().filter(|name| self.peers.contains(*name)) {
            let measures: [(&str, Samples); 2] = [
                ("requests/s", |medians| &medians.requests_per_second_samples),
                ("server CPU per request", |medians| &medians.cpu_us_samples),
            ];
            for (measure, samples) in measures {
                let title = format!("{measure} as a multiple of {peer}'s, 99 % interval");
                self.grid(&mut text, &title, |row, medians| {
                    let beside = self.beside(peer, row, samples(medians), samples);
                    beside.map_or_else(|| "-".to_owned(), multiple)
                });
            }
        }
        self.grid(&mut text, "server memory", |_, medians| bytes(medians.memory_bytes));
        self.notes(&mut text);
        for sentence in soundness::sentences(self) {
            text.push_str(&sentence);
            text.push_str("\n\n");
        }
        for sentence in recommendation::recommend(self).sentences {
            text.push_str(&sentence);
            text.push('\n');
        }
        text
    }

    /// What was measured in `row` over a peer's at as many connections; none where the peer was not measured.
    fn beside(&self, peer: &str, row: &Row, own: &[f64], samples: Samples) -> Option<Estimate> {
        let mut beside = self.of_subject(peer).filter(|other| other.concurrency == row.concurrency);
        let other = beside.find_map(Row::medians)?;
        ratio(own, samples(other), self.seed)
    }

    /// One row for each subject, one column for each concurrency.
    fn grid(&self, text: &mut String, title: &str, show: impl Fn(&Row, &Medians) -> String) {
        let mut lines = vec![vec![String::new()]];
        lines[0].extend(self.concurrency.iter().map(|&count| connections(count) + "  "));
        for name in &self.subjects {
            let cells = self.of_subject(name).map(|row| match &row.figures {
                // The mark leads to the warnings beneath the tables.
                Figures::Measured(medians) if medians.invalid => show(row, medians) + " ✗",
                Figures::Measured(medians) if row.warnings.is_empty() => show(row, medians) + "  ",
                Figures::Measured(medians) => show(row, medians) + " !",
                Figures::Missing { what, .. } => format!("{what}  "),
            });
            lines.push([self.label(name)].into_iter().chain(cells).collect());
        }
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
        let widths: Vec<usize> = (0..lines[0].len()).filter_map(width).collect();
        text.push_str(title);
        for line in &lines {
            let mut shown = format!("  {:<1$}", line[0], widths[0]);
            for (cell, width) in line.iter().zip(&widths).skip(1) {
                write!(shown, "  {cell:>width$}").expect("a String takes all");
            }
            text.push('\n');
            text.push_str(shown.trim_end());
        }
        text.push_str("\n\n");
    }

    /// Reasons and warnings.
    fn notes(&self, text: &mut String) {
        let notes = self.each_once(|row| {
            let missing = match &row.figures {
                Figures::Missing { what, reason } if !reason.is_empty() => {
                    Some(format!("{what}: {reason}"))
                }
                _ => None,
            };
            missing.into_iter().chain(row.warnings.iter().cloned())
        });
        for note in &notes {
            writeln!(text, "! {note}").expect("a String takes all");
        }
        if !notes.is_empty() {
            text.push('\n');
        }
    }

    /// What must be known of the figures.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.each_once(|row| row.warnings.iter().cloned())
    }

    /// What `told` says of rows, each once, with the subject and the concurrencies that it is about.
    fn each_once<'a, I: Iterator<Item = String>>(
        &'a self,
        told: impl Fn(&'a Row) -> I,
    ) -> Vec<String> {
        let mut notes: Vec<(String, Vec<String>)> = Vec::new();
        for row in self.all_rows() {
            for said in told(row) {
                let note = format!("{}: {said}", row.subject);
                let concurrency = grouped(row.concurrency as f64);
                match notes.iter_mut().find(|(known, _)| *known == note) {
                    Some((_, at)) => at.push(concurrency),
                    None => notes.push((note, vec![concurrency])),
                }
            }
        }
        notes.into_iter().map(|(note, at)| format!("{note} (at {})", at.join(", "))).collect()
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
                warnings.push(format!("{count} of {all} repeats {what}: {reason}"));
            }
            Figures::Measured(Box::new(medians))
        }
        (None, Some((what, reason))) => Figures::Missing { what, reason: (*reason).clone() },
        (None, None) => Figures::Missing { what: "not run", reason: String::new() },
    };
    Row { subject: subject.to_owned(), concurrency, figures, warnings }
}

/// Leaves invalid repeats out and says so, unless they are half of all or more: then it is true that the whole is invalid.
fn left_out(measured: &mut Vec<&Measured>, warnings: &mut Vec<String>) -> bool {
    let all = measured.len();
    let mut reasons: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (kind, reason) in measured.iter().flat_map(|repeat| &repeat.invalid) {
        reasons.entry(kind).or_insert((0, reason)).0 += 1;
    }
    let sound = measured.iter().filter(|repeat| repeat.invalid.is_empty()).count();
    let whole = all > 0 && 2 * sound <= all;
    for (count, reason) in reasons.into_values() {
        let fate = if whole { "invalid" } else { "invalid and left out" };
        warnings.push(format!("{count} of {all} repeats {fate}: {reason}"));
    }
    if !whole {
        measured.retain(|repeat| repeat.invalid.is_empty());
    }
    whole
}

/// Each warning once: those that differ only in their numbers, from one repeat to the next, are one.
fn merged<'a>(warnings: impl Iterator<Item = &'a String>) -> Vec<String> {
    let wording = |warning: &str| warning.replace(|letter: char| letter.is_ascii_digit(), "");
    let mut kept: Vec<String> = Vec::new();
    for warning in warnings {
        if !kept.iter().any(|known| wording(known) == wording(warning)) {
            kept.push(warning.clone());
        }
    }
    kept
}

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
        cpu_us_samples: samples(|repeat| repeat.server_cpu_us_per_request),
        memory_bytes: middle(|repeat| repeat.server_peak_bytes as f64)?,
        memory_samples: samples(|repeat| repeat.server_peak_bytes as f64),
        latency_samples: repeats.iter().map(|repeat| repeat.latency_us).collect(),
        client_cpu_share: middle(|repeat| repeat.client_cpu_share)?,
        client_was_limit: 2 * limited >= repeats.len(),
        queue_was_limit: 2 * queued >= repeats.len(),
        starved: middle(|repeat| repeat.connections_served as f64)? < 0.9 * concurrency as f64,
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
    fn warnings_that_differ_only_in_numbers_are_one() {
        let warnings = ["9 of 10 failed", "8 of 10 failed", "interrupted"].map(str::to_owned);
        assert_eq!(merged(warnings.iter()), ["9 of 10 failed", "interrupted"]);
    }
}
