//! The report's tables: every cell with its warnings and its raw lines, and the lines of service
//! time over load. Also the fate of the connections beside the measured ones.

use std::collections::BTreeSet;

use duality_load::{Fate, Latency};
use serde::Serialize;

use super::raw::{RawLine, RawLines};
use crate::format::{self, bytes, duration, grouped, how_many, in_shell, percent};
use crate::judge::rows::{Figures, Row};
use crate::judge::summary::Summary;
use crate::record::{Cell, Outcome};
use crate::statistics::{Estimate, estimate, line, median};

/// A row of the full table.
#[derive(Serialize)]
pub(super) struct TableRow {
    subject: String,
    concurrency: usize,
    concurrency_text: String,
    /// The figures. Empty if there are none.
    figures: Vec<TableFigure>,
    /// The reason why the figures are missing.
    missing: Option<String>,
    /// Whether there are warnings, which stand below the table.
    warned: bool,
    /// Whether the figures cannot be trusted.
    invalid: bool,
    /// The name of the subject without its kind, as in the plots.
    name: String,
    /// The numbers of the row's lines in results.jsonl.
    line_numbers: Vec<usize>,
}

/// The raw lines of a row, for the page's script.
#[derive(Serialize)]
pub(super) struct RowLines<'a> {
    name: &'a str,
    concurrency: usize,
    lines: Vec<&'a RawLine>,
}

/// The fate of connections of one kind beside the measured ones: medians over the repeats.
#[derive(Serialize)]
pub(super) struct CrowdRow {
    subject: String,
    concurrency: String,
    kind: String,
    /// The figures, in the order of [`FATES`].
    figures: Vec<String>,
}

/// The possible fates of a connection beside the measured ones, as headings.
pub(super) const FATES: [&str; 8] = [
    "To be open",
    "Open at the end",
    "Opened in all",
    "Cut by the server",
    "Cut after",
    "Refused",
    "Requests answered",
    "Unanswered",
];

/// A figure, for reading and for sorting.
#[derive(Serialize)]
pub(super) struct TableFigure {
    text: String,
    value: f64,
}

/// A straight line through a subject's mean service times.
#[derive(Serialize)]
pub(super) struct LoadLine {
    pub(super) subject: String,
    pub(super) slope: String,
    pub(super) correlation: String,
}

/// The full table, by subject and concurrency.
pub(super) fn rows(summary: &Summary, raw: &RawLines) -> Vec<TableRow> {
    summary.all_rows().map(|row| table_row(summary, row, raw)).collect()
}

/// The raw lines of all rows.
pub(super) fn row_lines<'a>(summary: &'a Summary, raw: &'a RawLines) -> Vec<RowLines<'a>> {
    let lines = |row: &'a Row| {
        let Row { subject, concurrency, .. } = row;
        let lines = raw.of(subject, *concurrency);
        RowLines { name: subject, concurrency: *concurrency, lines }
    };
    summary.all_rows().map(lines).collect()
}

/// The fate of the crowd, by subject, concurrency and kind. Empty without a crowd.
pub(super) fn crowd(summary: &Summary, cells: &[Cell]) -> Vec<CrowdRow> {
    let mut rows = Vec::new();
    for row in summary.all_rows() {
        let of_row = cells
            .iter()
            .filter(|cell| cell.subject == row.subject && cell.concurrency == row.concurrency);
        let repeats: Vec<_> = of_row
            .filter_map(|cell| match &cell.outcome {
                Outcome::Measured(measured) => Some(&measured.crowd),
                _ => None,
            })
            .collect();
        let kinds: BTreeSet<&String> = repeats.iter().flat_map(|crowd| crowd.keys()).collect();
        for kind in kinds {
            let fates: Vec<&Fate> = repeats.iter().filter_map(|crowd| crowd.get(kind)).collect();
            rows.push(CrowdRow {
                subject: summary.label(&row.subject),
                concurrency: how_many(row.concurrency),
                kind: kind.replace('-', " "),
                figures: fate_figures(&fates),
            });
        }
    }
    rows
}

fn fate_figures(fates: &[&Fate]) -> Vec<String> {
    let middle = |of: fn(&Fate) -> f64| {
        let values: Vec<f64> = fates.iter().map(|fate| of(fate)).collect();
        median(&values).map_or_else(|| "–".to_owned(), grouped)
    };
    let spans: Vec<f64> = fates
        .iter()
        .filter_map(|fate| fate.cut_after_seconds.map(|spans| spans.mean * 1e6))
        .collect();
    vec![
        middle(|fate| fate.members as f64),
        middle(|fate| fate.open as f64),
        middle(|fate| fate.opened as f64),
        middle(|fate| fate.cut as f64),
        median(&spans).map_or_else(|| "–".to_owned(), duration),
        middle(|fate| fate.refused as f64),
        middle(|fate| fate.answered as f64),
        middle(|fate| fate.unanswered as f64),
    ]
}

/// The lines of mean service time over measured load.
pub(super) fn lines(summary: &Summary) -> Vec<LoadLine> {
    let load_line = |name: &String| {
        let rows = summary.of_subject(name).filter_map(Row::medians);
        // The times of a few favoured connections say nothing about load.
        let measured = rows.filter(|medians| !medians.starved && !medians.invalid);
        let points: Vec<(f64, f64)> =
            measured.map(|medians| (medians.measured_load, medians.mean_us)).collect();
        // A line through two points is always straight. If requests come one by one, or at a given
        // rate, the server does not decide the load.
        let loads = points.iter().map(|(load, _)| *load);
        let (least, most) = (loads.clone().fold(f64::MAX, f64::min), loads.fold(0.0, f64::max));
        if points.len() < 3 || most < 2.0 * least {
            return None;
        }
        let line = line(&points)?;
        let correlation = line.correlation;
        Some(LoadLine {
            subject: summary.label(name),
            slope: format!("{:.2}", line.slope),
            correlation: correlation
                .map_or("–".into(), |correlation| format!("{correlation:.4}")),
        })
    };
    summary.subjects.iter().filter_map(load_line).collect()
}

/// A command line in the form that a shell takes.
pub(in crate::tell) fn command(arguments: &[String]) -> String {
    arguments.iter().map(|argument| in_shell(argument)).collect::<Vec<_>>().join(" ")
}

fn table_row(summary: &Summary, row: &Row, raw: &RawLines) -> TableRow {
    let figure = |text: String, value: f64| TableFigure { text, value };
    let mut missing = None;
    let figures = match &row.figures {
        Figures::Missing { what, reason } if reason.is_empty() => {
            missing = Some((*what).to_owned());
            Vec::new()
        }
        Figures::Missing { what, reason } => {
            missing = Some(format!("{what}: {reason}"));
            Vec::new()
        }
        Figures::Measured(medians) => {
            let rate = medians.requests_per_second;
            let time = |microseconds: f64| figure(duration(microseconds), microseconds);
            let latency = |of: fn(&Latency) -> f64| -> Vec<f64> {
                medians.latency_samples.iter().map(of).collect()
            };
            let middle = |of: fn(&Latency) -> f64| time(median(&latency(of)).unwrap_or(0.0));
            let spread = |samples: &[f64], show| half(estimate(samples, summary.seed), show);
            vec![
                figure(grouped(rate.value), rate.value),
                half(Some(rate), grouped),
                time(medians.p50_us),
                middle(|latency| latency.p90),
                time(medians.p99_us),
                spread(&latency(|latency| latency.p99), duration),
                time(medians.p99_9_us),
                middle(|latency| latency.max),
                figure(format!("{:.1}", medians.measured_load), medians.measured_load),
                time(medians.cpu_us),
                half(Some(medians.cpu), duration),
                time(medians.client_cpu_us),
                figure(bytes(medians.memory_bytes), medians.memory_bytes),
                spread(&medians.memory_samples, bytes),
                figure(grouped(medians.fates.failed as f64), medians.fates.failed as f64),
            ]
        }
    };
    TableRow {
        subject: summary.label(&row.subject),
        concurrency: row.concurrency,
        concurrency_text: how_many(row.concurrency),
        figures,
        missing,
        warned: !row.warnings.is_empty(),
        invalid: row.medians().is_some_and(|medians| medians.invalid),
        name: row.subject.clone(),
        line_numbers: raw
            .of(&row.subject, row.concurrency)
            .iter()
            .map(|line| line.number())
            .collect(),
    }
}

/// Half of an interval, as a share of the value, or the ends of a large interval. Two values have
/// no interval.
fn half(estimate: Option<Estimate>, show: fn(f64) -> String) -> TableFigure {
    let told = estimate.and_then(|estimate| {
        let interval = estimate.interval?;
        let share = (interval.high - interval.low) / 2.0 / estimate.value;
        let text = format::half(estimate).map_or_else(|| format::ends(interval, show), percent);
        Some(TableFigure { text, value: share })
    });
    told.unwrap_or(TableFigure { text: "–".to_owned(), value: f64::INFINITY })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_quoted_for_a_shell() {
        let arguments = ["duality", "--path", "/a b", "it's", ""].map(str::to_owned);
        assert_eq!(command(&arguments), r"duality --path '/a b' 'it'\''s' ''");
    }
}
