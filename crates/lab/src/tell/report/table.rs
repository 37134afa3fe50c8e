//! The report's tables: every cell with its warnings and its raw lines, and the lines of service
//! time over load. Also the fate of the connections beside the measured ones.

use std::collections::BTreeSet;

use duality_load::{Fate, Latency};

use super::raw::RawLines;
use crate::format::{self, bytes, duration, grouped, how_many, in_shell, percent};
use crate::judge::rows::{Figures, Medians, Row};
use crate::judge::summary::Summary;
use crate::record::{self, Outcome};
use crate::statistics::{Estimate, estimate, line, median};
use crate::tell::sheet::{Cell, Column, Table, left, names, right};

/// A figure of the table of all cells: its heading, and the figure. A seed decides the draws of the
/// bootstrap.
type Figure = (&'static str, fn(&Medians, u64) -> Cell);

const FIGURES: [Figure; 15] = [
    ("Requests/s", |of, _| number(of.requests_per_second.value)),
    ("±", |of, _| half(Some(of.requests_per_second), grouped)),
    ("p50", |of, _| time(of.p50_us)),
    ("p90", |of, _| middle(of, |latency| latency.p90)),
    ("p99", |of, _| time(of.p99_us)),
    ("±", |of, seed| half(estimate(&latency(of, |latency| latency.p99), seed), duration)),
    ("p99.9", |of, _| time(of.p99_9_us)),
    ("Max", |of, _| middle(of, |latency| latency.max)),
    ("Measured load", |of, _| figure(format!("{:.1}", of.measured_load), of.measured_load)),
    ("Server CPU/req.", |of, _| time(of.cpu_us)),
    ("±", |of, _| half(Some(of.cpu), duration)),
    ("Client CPU/req.", |of, _| time(of.client_cpu_us)),
    ("Memory", |of, _| figure(bytes(of.memory_bytes), of.memory_bytes)),
    ("±", |of, seed| half(estimate(&of.memory_samples, seed), bytes)),
    ("Errors", |of, _| number(of.fates.failed as f64)),
];

fn figure(text: String, value: f64) -> Cell {
    Cell { value: Some(value), ..text.into() }
}

fn number(value: f64) -> Cell {
    figure(grouped(value), value)
}

fn time(microseconds: f64) -> Cell {
    figure(duration(microseconds), microseconds)
}

fn latency(medians: &Medians, of: fn(&Latency) -> f64) -> Vec<f64> {
    medians.latency_samples.iter().map(of).collect()
}

fn middle(medians: &Medians, of: fn(&Latency) -> f64) -> Cell {
    time(median(&latency(medians, of)).unwrap_or(0.0))
}

/// Every cell, by subject and concurrency.
pub(super) fn cells(summary: &Summary, raw: &RawLines) -> Table {
    let sorting = |column| Column { sorts: true, ..column };
    let figures = FIGURES.iter().map(|(heading, _)| right(*heading));
    let columns = [names("Architecture"), right(summary.counted.heading())];
    let columns = columns.into_iter().chain(figures).map(sorting).chain([right("Lines")]);
    let rows = summary.all_rows().map(|row| {
        let mark = match (row.warnings.is_empty(), row.medians()) {
            (true, _) => "",
            (false, Some(medians)) if medians.invalid => "✗",
            (false, _) => "!",
        };
        let name = Cell { mark, ..summary.label(&row.subject).into() };
        let load = figure(how_many(row.concurrency), row.concurrency as f64);
        let figures: Vec<Cell> = match &row.figures {
            Figures::Measured(medians) => {
                FIGURES.iter().map(|(_, figure)| figure(medians, summary.seed)).collect()
            }
            Figures::Missing { state, reason } => {
                let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                let spans = FIGURES.len() - 1;
                vec![Cell { spans, ..format!("{state}{reason}").into() }]
            }
        };
        let lines = raw.of(&row.subject, row.concurrency);
        let count = lines.as_ref().map_or("–".to_owned(), |raw| raw.lines.len().to_string());
        let lines = Cell { raw: lines, ..count.into() };
        [name, load].into_iter().chain(figures).chain([lines]).collect()
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    Table::new(columns, rows).called("cells", "Every cell")
}

/// A possible fate of a connection beside the measured ones: its heading, and how many had it.
type Fates = (&'static str, fn(&[&Fate]) -> String);

const FATES: [Fates; 8] = [
    ("To be open", |all| counted(all, |fate| fate.members as u64)),
    ("Open at the end", |all| counted(all, |fate| fate.open as u64)),
    ("Opened in all", |all| counted(all, |fate| fate.opened)),
    ("Cut by the server", |all| counted(all, |fate| fate.cut)),
    ("Cut after", |all| {
        let spans = all.iter().filter_map(|fate| fate.cut_after_seconds.as_ref());
        let spans: Vec<f64> = spans.map(|spans| spans.mean * 1e6).collect();
        median(&spans).map_or_else(|| "–".to_owned(), duration)
    }),
    ("Refused", |all| counted(all, |fate| fate.refused)),
    ("Requests answered", |all| counted(all, |fate| fate.answered)),
    ("Unanswered", |all| counted(all, |fate| fate.unanswered)),
];

fn counted(fates: &[&Fate], of: fn(&Fate) -> u64) -> String {
    let values: Vec<f64> = fates.iter().map(|fate| of(fate) as f64).collect();
    median(&values).map_or_else(|| "–".to_owned(), grouped)
}

/// The fate of the connections beside the measured ones, by subject, concurrency and kind: medians
/// over the repeats.
pub(super) fn crowd(summary: &Summary, cells: &[record::Cell]) -> Table {
    let mut rows: Vec<Vec<String>> = Vec::new();
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
            let load = how_many(row.concurrency);
            let names = [summary.label(&row.subject), load, kind.replace('-', " ")];
            let figures = FATES.iter().map(|(_, of)| of(&fates));
            rows.push(names.into_iter().chain(figures).collect());
        }
    }
    let columns = [names("Architecture"), right(summary.counted.heading()), left("Beside them")];
    let columns = columns.into_iter().chain(FATES.iter().map(|(heading, _)| right(*heading)));
    Table::new(columns, rows).called("crowd", "The connections beside the measured ones")
}

/// The lines of mean service time over measured load: a straight line through the mean service
/// times of each subject.
pub(super) fn slopes(summary: &Summary, columns: [Column; 3]) -> Table {
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
        let correlation = correlation.map_or("–".into(), |value| format!("{value:.4}"));
        Some(vec![summary.label(name), format!("{:.2}", line.slope), correlation])
    };
    Table::new(columns, summary.subjects.iter().filter_map(load_line))
}

/// A command line in the form that a shell takes.
pub(in crate::tell) fn command(arguments: &[String]) -> String {
    arguments.iter().map(|argument| in_shell(argument)).collect::<Vec<_>>().join(" ")
}

/// Half of an interval, as a share of the value, or the ends of a large interval. Two values have
/// no interval.
fn half(estimate: Option<Estimate>, show: fn(f64) -> String) -> Cell {
    let parts = estimate.and_then(|estimate| {
        let interval = estimate.interval?;
        let share = (interval.high - interval.low) / 2.0 / estimate.value;
        let text = format::half(estimate).map_or_else(|| format::ends(interval, show), percent);
        Some(figure(text, share))
    });
    parts.unwrap_or_else(|| figure("–".to_owned(), f64::INFINITY))
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
