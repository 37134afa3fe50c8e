//! The model as text: for each workload the causes of its time, then the quality of the model.

use std::fmt::Write;

use crate::format::{connections, grouped};

use super::variation::{AIM, Coefficients, coefficients};
use super::{Model, Modelled, TERMS, Workload, fit};

/// The length of the longest bar, in letters.
const WIDEST: f64 = 48.0;
/// The letter of t_independent in bars.
const INDEPENDENT: char = '·';

/// The whole text, for a terminal of about 120 columns.
pub fn text(model: &Model) -> String {
    let mut text = String::new();
    for workload in &model.workloads {
        text += &stacked(workload);
        text.push('\n');
    }
    text += &legend();
    text.push('\n');
    text += &variation(model);
    text += &predictions(model);
    text
}

/// One line for each architecture: its total, the time of the terms, and a bar of both.
fn stacked(workload: &Workload) -> String {
    let shown: Vec<usize> = (0..TERMS.len())
        .filter(|&term| workload.subjects.iter().any(|subject| subject.terms[term] >= 0.005))
        .collect();
    let mut header = vec![String::new(), "total".to_owned(), "independent".to_owned()];
    header.extend(shown.iter().map(|&term| TERMS[term].name.to_owned()));
    let mut lines = vec![header];
    let longest = workload.subjects.iter().map(length).fold(f64::MIN_POSITIVE, f64::max);
    for subject in &workload.subjects {
        let mut line = vec![
            subject.architecture.clone(),
            format!("{:.2}", subject.total),
            format!("{:.2}", subject.independent()),
        ];
        line.extend(shown.iter().map(|&term| format!("{:.2}", subject.terms[term])));
        line.push(bar(subject, WIDEST / longest));
        lines.push(line);
    }
    let mut text = format!(
        "{}, {}: µs of server CPU per request\n",
        workload.name,
        connections(workload.connections)
    );
    text += &aligned(&lines);
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (architecture, why) in &workload.missing {
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, architectures)) => architectures.push(architecture),
            None => reasons.push((why, vec![architecture])),
        }
    }
    for (why, architectures) in reasons {
        let _ = writeln!(text, "not modelled: {}: {why}", architectures.join(", "));
    }
    text
}

/// The length of a bar: up to the sum of the terms, if that is above the total.
fn length(subject: &Modelled) -> f64 {
    subject.dependent() + subject.independent().max(0.0)
}

/// t_independent, then the terms, in letters. The ends of parts are rounded, so that a bar is as
/// long as its parts together.
fn bar(subject: &Modelled, scale: f64) -> String {
    let parts = TERMS.iter().map(|term| term.letter).zip(subject.terms);
    let all = [(INDEPENDENT, subject.independent().max(0.0))].into_iter().chain(parts);
    let (mut bar, mut end, mut drawn) = (String::new(), 0.0, 0);
    for (letter, microseconds) in all {
        end += microseconds * scale;
        let until = end.round() as usize;
        bar.extend(std::iter::repeat_n(letter, until.saturating_sub(drawn)));
        drawn = drawn.max(until);
    }
    bar
}

fn legend() -> String {
    let mut text = format!("{INDEPENDENT} what every architecture does alike (t_independent)\n");
    for term in &TERMS {
        let _ = writeln!(text, "{} {}: {}", term.letter, term.name, term.about);
    }
    text
}

/// Demsky's table 4.3.
fn variation(model: &Model) -> String {
    let factors = fit::factors(&model.workloads);
    let rows: Vec<Coefficients> = model
        .workloads
        .iter()
        .map(|workload| coefficients(workload, factors.as_ref().ok()))
        .collect();
    let number =
        |coefficient: Option<f64>| coefficient.map_or("–".to_owned(), |it| format!("{it:.3}"));
    let mut header = vec![String::new(), "no model".to_owned()];
    header.extend(TERMS.iter().map(|term| format!("+ {}", term.name)));
    header.extend(["fitted".to_owned(), "repeats".to_owned()]);
    let mut lines = vec![header];
    for (workload, row) in model.workloads.iter().zip(&rows) {
        let mut line = vec![format!("{}, {}", workload.name, grouped(workload.connections as f64))];
        line.extend(row.steps.iter().map(|step| number(*step)));
        line.extend([number(row.fitted), number(workload.noise)]);
        lines.push(line);
    }
    let mut text =
        "Coefficient of variation of t_independent over the architectures: with no term \
                    taken off, then with one term more in each column\n"
            .to_owned();
    text += &aligned(&lines);
    let told = match factors {
        Ok(factors) => {
            let terms = TERMS.iter().zip(factors);
            let told: Vec<String> = terms
                .filter_map(|(term, factor)| Some(format!("{} {:.2}", term.name, factor?)))
                .collect();
            format!("no part of the model; prices multiplied by {}", told.join(", "))
        }
        Err(reason) => format!("withheld: {reason}"),
    };
    let _ = writeln!(text, "fitted: {told}");
    text.push('\n');
    for (workload, row) in model.workloads.iter().zip(&rows) {
        text += &deviations(workload, row);
    }
    text
}

/// The architectures that the model does not explain.
fn deviations(workload: &Workload, row: &Coefficients) -> String {
    let Some(last) = row.steps[TERMS.len()] else { return String::new() };
    let at = format!("{}, {}", workload.name, connections(workload.connections));
    if last < AIM {
        return format!("{at}: explained ({last:.3})\n");
    }
    let told: Vec<String> = row
        .deviations
        .iter()
        .map(|deviation| {
            let share = 100.0 * deviation.share;
            format!("{} {:+.2} µs ({share:+.0} %)", deviation.architecture, deviation.microseconds)
        })
        .collect();
    match told.as_slice() {
        [] => format!("{at}: not explained ({last:.3} is above {AIM}); all deviate a little\n"),
        told => format!(
            "{at}: not explained ({last:.3} is above {AIM}); t_independent differs from the median \
             under {}\n",
            told.join(", ")
        ),
    }
}

fn predictions(model: &Model) -> String {
    if model.checks.is_empty() {
        return String::new();
    }
    let mut lines = vec![
        ["", "connections", "predicted µs", "measured µs", "error", "most requests/s on a core"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for check in &model.checks {
        lines.push(vec![
            format!("{} {}", check.workload, check.architecture),
            grouped(check.connections as f64),
            check.predicted.map_or("–".to_owned(), |predicted| format!("{predicted:.2}")),
            check.measured.map_or("–".to_owned(), |measured| format!("{measured:.2}")),
            check.error().map_or("–".to_owned(), |error| format!("{:+.1} %", 100.0 * error)),
            check.most_per_second().map_or("–".to_owned(), grouped),
        ]);
    }
    format!("\nPredictions for loads that the model was not made from\n{}", aligned(&lines))
}

/// Columns of the least width: the first column is aligned left, the others right. A column without
/// a header is drawn as it is.
fn aligned(lines: &[Vec<String>]) -> String {
    let headers = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headers).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = "  ".to_owned();
        for (column, cell) in line.iter().enumerate() {
            let _ = match widths.get(column) {
                Some(width) if column == 0 => write!(row, "{cell:<width$}"),
                Some(width) => write!(row, "  {cell:>width$}"),
                None => write!(row, "  {cell}"),
            };
        }
        text += row.trim_end();
        text.push('\n');
    }
    text
}
