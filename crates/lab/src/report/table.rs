//! The report's tables: every cell with its warnings, and the lines of service time over load.

use serde::Serialize;

use crate::format::{bytes, duration, grouped};
use crate::statistics::line;
use crate::summary::{Figures, Row, Summary};

/// A row of the full table.
#[derive(Serialize)]
pub(super) struct TableRow {
    subject: String,
    concurrency: usize,
    concurrency_text: String,
    /// The figures; empty when there is none.
    figures: Vec<TableFigure>,
    /// Why there is none.
    missing: Option<String>,
    /// The warnings.
    notes: Vec<String>,
    /// Whether the figures are not to be trusted.
    invalid: bool,
}

/// A figure, to read and to sort by.
#[derive(Serialize)]
pub(super) struct TableFigure {
    text: String,
    value: f64,
}

/// A straight line through a subject's mean service times.
#[derive(Serialize)]
pub(super) struct LoadLine {
    subject: String,
    slope: String,
    correlation: String,
}

/// The full table, by subject and concurrency.
pub(super) fn rows(summary: &Summary) -> Vec<TableRow> {
    summary.all_rows().map(|row| table_row(summary, row)).collect()
}

/// The lines of mean service time over measured load.
pub(super) fn lines(summary: &Summary) -> Vec<LoadLine> {
    let load_line = |name: &String| {
        let rows = summary.of_subject(name).filter_map(Row::medians);
        // The times of a few favoured connections say nothing about load.
        let measured = rows.filter(|medians| !medians.starved);
        let points: Vec<(f64, f64)> =
            measured.map(|medians| (medians.measured_load, medians.mean_us)).collect();
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

/// A command line that a shell takes as it is.
pub(super) fn command(arguments: &[String]) -> String {
    let quoted = arguments.iter().map(|argument| {
        let plain = |letter: char| letter.is_alphanumeric() || "-_./,:=@%+".contains(letter);
        if !argument.is_empty() && argument.chars().all(plain) {
            argument.clone()
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn table_row(summary: &Summary, row: &Row) -> TableRow {
    let (figures, missing) = match &row.figures {
        Figures::Missing { what, reason } if reason.is_empty() => {
            (Vec::new(), Some((*what).to_owned()))
        }
        Figures::Missing { what, reason } => (Vec::new(), Some(format!("{what}: {reason}"))),
        Figures::Measured(medians) => {
            let figure = |text: String, value: f64| TableFigure { text, value };
            let rate = medians.requests_per_second;
            let interval = rate.interval.map_or("–".into(), |interval| {
                format!("{} – {}", grouped(interval.low), grouped(interval.high))
            });
            let width = rate.interval.map_or(0.0, |interval| interval.high - interval.low);
            let time = |microseconds: f64| figure(duration(microseconds), microseconds);
            let figures = vec![
                figure(grouped(rate.value), rate.value),
                figure(interval, width),
                time(medians.p50_us),
                time(medians.p99_us),
                time(medians.p99_9_us),
                figure(format!("{:.1}", medians.measured_load), medians.measured_load),
                time(medians.cpu_us),
                figure(bytes(medians.memory_bytes), medians.memory_bytes),
                figure(
                    format!("{:.0} %", 100.0 * medians.client_cpu_share),
                    medians.client_cpu_share,
                ),
                figure(grouped(medians.errors as f64), medians.errors as f64),
            ];
            (figures, None)
        }
    };
    TableRow {
        subject: summary.label(&row.subject),
        concurrency: row.concurrency,
        concurrency_text: grouped(row.concurrency as f64),
        figures,
        missing,
        notes: row.warnings.clone(),
        invalid: row.medians().is_some_and(|medians| medians.invalid),
    }
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
