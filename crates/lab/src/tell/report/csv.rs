//! Every measured cell as CSV (RFC 4180), for the user's own plots: a line for each repeat, with
//! the names and units of results.jsonl.

use std::fmt::Write;

use super::raw::RawLines;
use crate::record::{Cell, Measured, Outcome};
use crate::tell::data::known;

/// A column of figures: its name and its values.
type Column = (&'static str, fn(&Measured) -> f64);

const FIGURES: [Column; 14] = [
    ("requests_per_second", |cell| cell.requests_per_second),
    ("requests", |cell| cell.requests as f64),
    ("window_seconds", |cell| cell.window_seconds),
    ("latency_us.mean", |cell| cell.latency_us.mean),
    ("latency_us.p50", |cell| cell.latency_us.p50),
    ("latency_us.p90", |cell| cell.latency_us.p90),
    ("latency_us.p99", |cell| cell.latency_us.p99),
    ("latency_us.p99.9", |cell| cell.latency_us.p99_9),
    ("latency_us.max", |cell| cell.latency_us.max),
    ("measured_load", |cell| cell.measured_load),
    ("server_cpu_us_per_request", |cell| cell.server_cpu_us_per_request),
    ("server_peak_bytes", |cell| cell.server_peak_bytes as f64),
    ("client_cpu_share", |cell| cell.client_cpu_share),
    ("errors", |cell| cell.errors.values().map(|&count| count as f64).sum()),
];

/// The cells, in the order in which they were measured.
pub(super) fn cells(cells: &[Cell], raw: &RawLines) -> String {
    let names = FIGURES.map(|(name, _)| name).join(",");
    let mut text = format!("architecture,concurrency,repeat,file,line,outcome,reason,{names}\r\n");
    for cell in cells {
        let line = raw.line(&cell.subject, cell.concurrency, cell.repeat);
        let (file, number) = line.map_or((String::new(), String::new()), |line| {
            (field(&line.file), line.number.to_string())
        });
        let (outcome, reason) = match &cell.outcome {
            Outcome::Measured(_) => ("measured", ""),
            Outcome::Unavailable { reason, .. } => ("unavailable", reason.as_str()),
            Outcome::Failed { reason } => ("failed", reason.as_str()),
        };
        let (subject, reason) = (field(&cell.subject), field(reason));
        let (concurrency, repeat) = (cell.concurrency, cell.repeat);
        let _ = write!(text, "{subject},{concurrency},{repeat},{file},{number},{outcome},{reason}");
        for (name, figure) in FIGURES {
            let Outcome::Measured(measured) = &cell.outcome else {
                text.push(',');
                continue;
            };
            let value = figure(measured);
            // What is counted may be none. Of other figures, a zero was not measured.
            let is_count = matches!(name, "requests_per_second" | "requests" | "errors");
            let _ = match is_count || known(value).is_some() {
                true => write!(text, ",{value}"),
                false => write!(text, ","),
            };
        }
        text.push_str("\r\n");
    }
    text
}

/// A field. A field that a spreadsheet would take for a formula begins with a quotation mark, as
/// OWASP advises.
pub(super) fn field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(field("epoll"), "epoll");
        assert_eq!(field("a, \"b\"\n"), "\"a, \"\"b\"\"\n\"");
        assert_eq!(field("=1+1"), "'=1+1");
    }

    #[test]
    fn a_cell_without_figures_has_a_reason_and_empty_fields() {
        let cell = Cell {
            subject: "fork".into(),
            concurrency: 10,
            repeat: 2,
            started_at: String::new(),
            outcome: Outcome::Failed { reason: "EAGAIN, again".into() },
        };
        let text = cells(&[cell], &RawLines::default());
        let line = text.lines().nth(1).unwrap();
        assert_eq!(line, format!("fork,10,2,,,failed,\"EAGAIN, again\"{}", ",".repeat(14)));
        let commas = text.lines().next().unwrap().matches(',').count();
        assert_eq!(commas, line.matches(',').count() - 1);
    }
}
