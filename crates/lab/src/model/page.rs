//! The model as one self-contained HTML page: bars as SVG, and tables beneath them.

use std::io;
use std::path::Path;

use minijinja::{Value, context};
use serde::Serialize;

use crate::format::connections;
use crate::page::{page, write_whole};

use super::variation::coefficients;
use super::{Model, TERMS, bars, fit, sentences};

/// A workload as the template shows it.
#[derive(Serialize)]
struct Shown {
    title: String,
    /// Markup.
    bars: Value,
    steps: Vec<String>,
    fitted: String,
    noise: String,
    is_explained: bool,
    deviations: Vec<String>,
    missing: Vec<String>,
    reasons: Vec<String>,
}

/// Writes the page to `path`.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write(path: &Path, model: &Model) -> io::Result<()> {
    write_whole(path, &render(model))
}

/// The page.
pub(super) fn render(model: &Model) -> String {
    let factors = fit::factors(&model.workloads);
    let number = |figure: Option<f64>| figure.map_or("–".to_owned(), |it| format!("{it:.3}"));
    let workloads: Vec<Shown> = model
        .workloads
        .iter()
        .map(|workload| {
            let row = coefficients(workload, factors.as_ref().ok());
            let last = row.steps[TERMS.len()];
            Shown {
                title: format!("{}, {}", workload.name, connections(workload.connections)),
                bars: Value::from_safe_string(bars::svg(workload)),
                steps: row.steps.iter().map(|step| number(*step)).collect(),
                fitted: number(row.fitted),
                noise: number(workload.noise),
                is_explained: last.is_some_and(|last| last < super::variation::AIM),
                deviations: row
                    .deviations
                    .iter()
                    .map(|it| {
                        let share = 100.0 * it.share;
                        format!("{} {:+.2} µs ({share:+.0} %)", it.architecture, it.microseconds)
                    })
                    .collect(),
                missing: workload
                    .missing
                    .iter()
                    .map(|(name, why)| format!("{name}: {why}"))
                    .collect(),
                reasons: workload.subjects.iter().flat_map(sentences).collect(),
            }
        })
        .collect();
    let checks: Vec<[String; 5]> = model
        .checks
        .iter()
        .map(|check| {
            [
                format!("{} {}", check.workload, check.architecture),
                connections(check.connections),
                check.predicted.map_or("–".to_owned(), |predicted| format!("{predicted:.2} µs")),
                check.measured.map_or("–".to_owned(), |measured| format!("{measured:.2} µs")),
                check.error().map_or("–".to_owned(), |error| format!("{:+.1} %", 100.0 * error)),
            ]
        })
        .collect();
    let terms: Vec<(&str, &str, &str)> =
        TERMS.iter().map(|term| (term.name, term.about, term.colour)).collect();
    page(
        include_str!("model.html.jinja"),
        context! { workloads, terms, independent => bars::INDEPENDENT, checks, unfit => factors.err().map(|reason| reason.to_string()), aim => super::variation::AIM },
    )
}
