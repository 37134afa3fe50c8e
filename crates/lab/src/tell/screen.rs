//! The first screen: the results of an experiment, in at most 23 lines of 80 columns.
//!
//! ```text
//!   Choose epoll: …                                             the answer
//!
//!   At 1,000 connections requests/s  CPU/req …                  the busiest load
//!   * epoll                  61,234   6.1 µs …  best set
//!     threads                40,100   8.6 µs …  +39 % [31 to 48]
//!
//!   ! 12 of 60 cells: the load generator was the limit          warnings, by kind
//!   Report: results/report.html                                 where the rest is
//!   More:   duality report results --tables
//! ```
//!
//! The last line of a terminal with 24 lines is for the next prompt. The text has styles. Remove
//! the styles where the output is not a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use anstyle::Style;
use duality_load::WarningKind;

use crate::format::{bytes, duration, grouped};
use crate::judge::alternatives::{Alternative, Change};
use crate::judge::faults::Fault;
use crate::judge::rows::{Figures, Medians, Row};
use crate::judge::summary::Summary;
use crate::judge::verdict::{Metric, Standing, Verdict};
use crate::tell::answer::Answer;
use crate::tell::recommendation::{disturbed_briefly, network_of};

/// The most columns of a line.
const COLUMNS: usize = 80;
/// The most lines.
const LINES: usize = 23;
/// The most lines of the answer.
const ANSWER: usize = 6;
/// The most lines of the warnings.
const WARNINGS: usize = 2;
/// The widths of names and figures in the table, with the mark and the spaces between.
const NAME: usize = 20;
const FIGURES: [(&str, usize); 4] = [("requests/s", 11), ("CPU/req", 9), ("p99", 9), ("memory", 9)];

const STRONG: Style = Style::new().bold();
const SOFT: Style = Style::new().dimmed();

/// A line of the table.
struct Line {
    text: String,
    style: Style,
}

impl Answer<'_> {
    /// The first screen of an experiment. The path `page` is the report's, and the command `more`
    /// prints the whole answer.
    pub fn render_screen(&self, page: &Path, more: &str) -> String {
        let mut screen = String::new();
        let answer = self.said();
        for line in &answer {
            let _ = writeln!(screen, "{STRONG}{line}{STRONG:#}");
        }
        let warnings = wrapped(&self.noted(), WARNINGS);
        let foot = [format!("Report: {}", page.display()), format!("More:   {more}")];
        let taken = answer.len() + warnings.len() + foot.len() + 3;
        let table = self.table(LINES.saturating_sub(taken));
        if !table.is_empty() {
            screen.push('\n');
        }
        for Line { text, style } in table {
            let _ = writeln!(screen, "{style}{}{style:#}", text.trim_end());
        }
        screen.push('\n');
        for line in warnings.iter().chain(&foot) {
            let _ = writeln!(screen, "{line}");
        }
        screen
    }

    /// The answer: the first sentence, and further sentences that fit.
    fn said(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for sentence in self.recommendation.all_sentences().take(3) {
            let more = wrapped(sentence, ANSWER);
            if !lines.is_empty() && lines.len() + more.len() > ANSWER {
                break;
            }
            lines.extend(more);
        }
        lines
    }

    /// Warnings about the figures, one sentence for each kind.
    fn noted(&self) -> String {
        let partial = self.summary.partial();
        let all: Vec<String> = partial
            .into_iter()
            // The table shows the busiest load.
            .chain(self.summary.verdicts.iter().filter_map(network_of).next_back())
            .chain(disturbed_briefly(&self.summary))
            .chain(self.summary.warned())
            .chain(self.summary.unmeasured())
            .collect();
        match all.is_empty() {
            true => String::new(),
            false => format!("! {}", all.join("; ")),
        }
    }

    /// The table of the busiest load, in at most `most` lines.
    fn table(&self, most: usize) -> Vec<Line> {
        let summary = &self.summary;
        let measured = |count: &&usize| summary.rows_at(**count).any(|row| row.medians().is_some());
        let Some(&busiest) = summary.concurrency.iter().filter(measured).max() else {
            return Vec::new();
        };
        let verdict = summary.verdict(busiest);
        let last = match &summary.current {
            Some(current) => format!("beside {current}"),
            None => "beside the best".to_owned(),
        };
        let mut heading = format!("{:<NAME$}", format!("At {}", summary.at(busiest)));
        for (name, width) in FIGURES {
            let _ = write!(heading, "{name:>width$}");
        }
        let mut lines =
            vec![Line { text: fit(&format!("{heading}  {last}")), style: Style::new() }];
        let mut rows: Vec<&Row> = summary.rows_at(busiest).collect();
        rows.sort_by_key(|row| place(summary, verdict, row));
        lines.extend(rows.iter().map(|row| line(summary, verdict, row)));
        if lines.len() > most {
            let cut = lines.len() - most + 1;
            lines.truncate(most.saturating_sub(1));
            lines.push(Line { text: format!("  … and {cut} more (--tables)"), style: SOFT });
        }
        lines
    }
}

impl Summary {
    /// The rows at a number of connections, without the control's rows.
    fn rows_at(&self, concurrency: usize) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.concurrency == concurrency)
    }

    /// The kinds of warnings, and the number of rows of each kind.
    fn warned(&self) -> Vec<String> {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for row in self.all_rows() {
            let of_row: BTreeSet<&str> =
                row.warnings.iter().map(|warning| kind(&warning.kind)).collect();
            of_row.into_iter().for_each(|kind| *kinds.entry(kind).or_default() += 1);
        }
        let all = self.all_rows().filter(|row| row.medians().is_some()).count();
        let told = |(kind, count)| format!("{kind} ({count} of {all} cells)");
        kinds.into_iter().map(told).collect()
    }

    /// The subjects that were not measured at some load.
    fn unmeasured(&self) -> Option<String> {
        let missing = |name: &&String| self.of_subject(name).any(|row| row.medians().is_none());
        let names: Vec<&str> = self.subjects.iter().filter(missing).map(String::as_str).collect();
        (!names.is_empty()).then(|| format!("not measured everywhere: {}", names.join(", ")))
    }
}

/// A kind of warning in a few words.
fn kind(kind: &WarningKind) -> &'static str {
    match kind {
        WarningKind::Interrupted => "interrupted",
        WarningKind::ServerGone => "the server went away",
        WarningKind::Standstill => "no reply for a long time",
        WarningKind::NoLatencies => "no latency was measured",
        WarningKind::Unserved => "connections without a reply",
        WarningKind::Overdue => "requests unanswered at the end",
        WarningKind::OpenLoop => "requests sent late",
        WarningKind::Failed(_) | WarningKind::FailedOutside => "requests failed",
        WarningKind::AcceptQueues | WarningKind::ListenQueue => "the accept queue overflowed",
        WarningKind::Quota => "the CPU quota ran out",
        WarningKind::Unreachable => "addresses that could not be reached",
        WarningKind::DelayedAcknowledgement => "replies held up by a delayed acknowledgement",
        WarningKind::SharedProcessors => "server and load generator shared processors",
        WarningKind::Invalid(_) => "the load generator could not do its work",
        WarningKind::Missing => "repeats that failed",
        WarningKind::Noisy | WarningKind::Outliers => "repeats that differ much",
        WarningKind::Unsteady => "figures that changed within a window",
        WarningKind::Other => "other warnings",
    }
}

/// The order of rows: candidates by the verdict, the best first. Then come subjects beside them,
/// then excluded subjects, then subjects without measurements.
fn place(summary: &Summary, verdict: Option<&Verdict>, row: &Row) -> (u8, usize) {
    let of = |standings: &[Standing]| {
        standings.iter().position(|standing| standing.subject == row.subject)
    };
    let candidate = verdict.and_then(|verdict| of(&verdict.standings));
    match (candidate, row.medians()) {
        (Some(place), _) => (0, place),
        (None, None) => (3, 0),
        (None, Some(_)) if !summary.faults(row).is_empty() => (2, 0),
        (None, Some(_)) => (1, verdict.and_then(|verdict| of(&verdict.others)).unwrap_or(0)),
    }
}

/// A subject, its figures, and its standing.
fn line(summary: &Summary, verdict: Option<&Verdict>, row: &Row) -> Line {
    let leads = verdict.is_some_and(|verdict| {
        verdict.tells_apart() && verdict.leaders().any(|one| one.subject == row.subject)
    });
    let is_current = summary.current.as_deref() == Some(&row.subject);
    let mark = if leads { "*" } else { " " };
    let name = narrow(&format!("{mark} {}", summary.label(&row.subject)));
    let medians = match &row.figures {
        Figures::Measured(medians) => medians,
        Figures::Missing { what, reason } => {
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            return Line { text: fit(&format!("{name:<NAME$}  {what}{why}")), style: SOFT };
        }
    };
    let mut text = format!("{name:<NAME$}");
    for (figure, (_, width)) in figures(verdict, row, medians).iter().zip(FIGURES) {
        let _ = write!(text, "{figure:>width$}");
    }
    let faults = summary.faults(row);
    let (last, is_out) = match (faults.first(), verdict) {
        (Some(fault), _) => (reason(*fault).to_owned(), true),
        (None, Some(verdict)) => stands(verdict, row, leads, is_current, summary.current.is_some()),
        (None, None) => (String::new(), false),
    };
    let style = match (leads || is_current, is_out) {
        (true, _) => STRONG,
        (false, true) => SOFT,
        (false, false) => Style::new(),
    };
    Line { text: fit(&format!("{text}  {last}")), style }
}

/// Rate, processor time, tail latency and memory. Figures of the verdict's rounds have priority.
fn figures(verdict: Option<&Verdict>, row: &Row, medians: &Medians) -> [String; 4] {
    let judged = verdict.and_then(|verdict| {
        let mut all = verdict.standings.iter().chain(&verdict.others);
        all.find(|standing| standing.subject == row.subject)
    });
    let (rate, at_least, cpu) = match judged {
        Some(one) => (one.rate, one.at_least, one.server_cpu_us),
        None => (medians.requests_per_second.value, medians.client_was_limit, medians.cpu_us),
    };
    let at_least = if at_least { "≥" } else { "" };
    let p99 = if medians.has_latencies() { duration(medians.p99_us) } else { "–".to_owned() };
    [format!("{at_least}{}", grouped(rate)), duration(cpu), p99, bytes(medians.memory_bytes)]
}

/// A subject's difference from the best one, or from the subject that runs today, and whether it is
/// certainly worse.
fn stands(
    verdict: &Verdict,
    row: &Row,
    leads: bool,
    is_current: bool,
    has_current: bool,
) -> (String, bool) {
    if is_current {
        return ("runs today".to_owned(), false);
    }
    if verdict.is_withheld() {
        return ("no verdict".to_owned(), false);
    }
    if has_current {
        let alternative = verdict.alternatives.iter().find(|one| one.subject == row.subject);
        return alternative.map_or((String::new(), false), |one| {
            (change(one, verdict.metric), one.change == Change::Worse)
        });
    }
    if leads {
        return ("best set".to_owned(), false);
    }
    let mut all = verdict.standings.iter().chain(&verdict.others);
    let Some(one) = all.find(|standing| standing.subject == row.subject) else {
        return (String::new(), false);
    };
    let is_sure = verdict.tells_apart() && !one.level;
    match is_sure {
        true => (interval([one.behind, one.low, one.high], verdict.metric), true),
        false => ("level".to_owned(), false),
    }
}

/// An alternative, compared with the subject that runs today.
fn change(one: &Alternative, metric: Metric) -> String {
    match one.change {
        Change::Level => "level".to_owned(),
        Change::Better | Change::Worse => interval([one.difference, one.low, one.high], metric),
    }
}

/// `+39 % [31 to 48]`. For a rate, in requests/s.
fn interval(shares: [f64; 3], metric: Metric) -> String {
    let told = |value: f64| if metric == Metric::Rate { 1.0 / (1.0 + value) - 1.0 } else { value };
    let [value, one, other] = shares.map(|share| 100.0 * told(share));
    format!("{value:+.0} % [{:.0} to {:.0}]", one.min(other), one.max(other))
}

/// The reason why a subject is out, in a word or two.
fn reason(fault: Fault) -> &'static str {
    match fault {
        Fault::WrongReplies => "wrong replies",
        Fault::Ended => "it failed",
        Fault::Failing => "requests failed",
        Fault::Unserved => "some unserved",
        Fault::ListenQueue => "queue was limit",
        Fault::Invalid => "not valid",
        Fault::Constraint => "breaks a limit",
        Fault::Unchecked => "limit not checked",
    }
}

/// The text in at most `most` lines.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    // A number and its percent sign stay together, and so does a name with hyphens.
    let text = text.replace(" %", "\u{a0}%");
    let splitter = textwrap::WordSplitter::NoHyphenation;
    let options = textwrap::Options::new(COLUMNS).word_splitter(splitter);
    let mut lines: Vec<String> = textwrap::wrap(&text, options)
        .into_iter()
        .map(|line| line.replace('\u{a0}', " "))
        .collect();
    if lines.len() > most {
        lines.truncate(most);
        let last = lines.last_mut().expect("there is room for a line");
        *last = cut(last, COLUMNS - 1) + "…";
    }
    lines
}

/// The text with its sentences folded at the width of a terminal. Rows of tables begin with two
/// spaces, and stay whole.
pub fn folded(text: &str) -> String {
    let fold = |line: &str| match line.starts_with("  ") {
        true => line.to_owned(),
        false => wrapped(line, usize::MAX).join("\n"),
    };
    text.split('\n').map(fold).collect::<Vec<String>>().join("\n")
}

/// The text, cut if it is wider than a terminal.
pub(crate) fn fit(text: &str) -> String {
    match textwrap::core::display_width(text) > COLUMNS {
        true => cut(text, COLUMNS - 1) + "…",
        false => text.to_owned(),
    }
}

/// The name, cut where it is too wide for its column.
fn narrow(name: &str) -> String {
    match textwrap::core::display_width(name) >= NAME {
        true => cut(name, NAME - 2) + "… ",
        false => name.to_owned(),
    }
}

fn cut(text: &str, columns: usize) -> String {
    text.chars().take(columns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_folded_and_rows_are_not() {
        let row = format!("  epoll{}", " 1,000 µs".repeat(12));
        let words = "word ".repeat(30);
        let text = format!("{words}\n{row}\n\nlast\n");
        let folded = folded(&text);
        let lines: Vec<&str> = folded.lines().collect();
        assert_eq!(lines[2..], [&*row, "", "last"]);
        assert_eq!(lines[..2].join(" "), words.trim_end());
        assert!(lines[0].len() <= COLUMNS && folded.ends_with('\n'));
    }
}
