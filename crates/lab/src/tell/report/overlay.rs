//! The page that compares two runs, by ratios of the second to the first.

use std::io;
use std::path::Path;

use minijinja::context;
use serde::Serialize;

use crate::format::{how_many, multiple};
use crate::judge::summary::Summary;
use crate::page::{page, write_whole};
use crate::tell::chart::forest::{Forest, Row as Estimated};
use crate::tell::comparison::{Comparison, Direction, Metric, Pair, told_together};

/// Writes the page that compares the runs called `names`, experiment by experiment, to `path`.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write(path: &Path, names: [&str; 2], comparisons: &[Comparison]) -> io::Result<()> {
    write_whole(path, &render(names, comparisons))
}

/// The page as HTML.
pub fn render(names: [&str; 2], comparisons: &[Comparison]) -> String {
    let sections: Vec<Section> = comparisons.iter().map(Section::of).collect();
    page(
        include_str!("overlay.html.jinja"),
        context! {
            before => names[0],
            after => names[1],
            sections => sections,
            metrics => Metric::ALL.map(Metric::name),
        },
    )
}

/// An experiment that both runs have.
#[derive(Serialize)]
struct Section {
    title: String,
    sentences: Vec<String>,
    charts: Vec<Ratios>,
    /// The heading of the column of loads.
    load_heading: &'static str,
    rows: Vec<TableRow>,
    only_before: Vec<String>,
    only_after: Vec<String>,
    differences: Vec<crate::tell::comparison::Difference>,
}

/// A metric of all cells.
#[derive(Serialize)]
struct Ratios {
    title: String,
    /// Markup.
    svg: String,
}

/// A cell that both runs have measured.
#[derive(Serialize)]
struct TableRow {
    subject: String,
    concurrency: String,
    changes: Vec<TableChange>,
}

/// A figure of the cell.
#[derive(Serialize)]
struct TableChange {
    ratio: String,
    word: &'static str,
    verdict: String,
    values: String,
}

impl Section {
    fn of(comparison: &Comparison) -> Self {
        let service = &comparison.before.service;
        let title = comparison.experiment.as_ref();
        let before = &comparison.before;
        let faults = comparison.faults.iter().map(|fault| format!("{}.", fault.told));
        Self {
            title: title.map_or_else(|| service.clone(), |name| format!("{name}: {service}")),
            sentences: faults.chain(comparison.sentences()).collect(),
            charts: Metric::ALL.into_iter().map(|metric| ratios(comparison, metric)).collect(),
            load_heading: before.counted.heading(),
            rows: comparison.pairs.iter().map(|pair| table_row(before, pair)).collect(),
            only_before: told_together(&comparison.only_before),
            only_after: told_together(&comparison.only_after),
            differences: comparison.differences.clone(),
        }
    }
}

/// The ratios of a metric, one for each cell that both runs have.
fn ratios(comparison: &Comparison, metric: Metric) -> Ratios {
    let row = |pair: &Pair| {
        let change = pair.change(metric)?;
        Some(Estimated {
            name: format!(
                "{} at {}",
                comparison.before.label(&pair.subject),
                how_many(pair.concurrency)
            ),
            value: change.ratio.value,
            interval: change.ratio.interval.map(|interval| [interval.low, interval.high]),
            figure: format!("{:.2} {}", change.ratio.value, change.word()),
            class: match change.verdict {
                Direction::Better => "better",
                Direction::Worse => "worse",
                Direction::Level => "level",
                Direction::Unsure => "other",
            },
        })
    };
    let title = format!("{}: the second over the first", metric.name());
    let svg = Forest {
        about: &title,
        line: Some(1.0),
        is_logarithmic: true,
        told: |value| format!("{value:.2}"),
        rows: comparison.pairs.iter().filter_map(row).collect(),
    }
    .svg();
    Ratios { title, svg }
}

fn table_row(summary: &Summary, pair: &Pair) -> TableRow {
    let change = |metric: Metric| match pair.change(metric) {
        None => TableChange {
            ratio: "–".to_owned(),
            word: "",
            verdict: Direction::Unsure.to_string(),
            values: String::new(),
        },
        Some(change) => TableChange {
            ratio: multiple(change.ratio),
            word: change.word(),
            verdict: change.verdict.to_string(),
            values: format!("{} → {}", metric.show(change.before), metric.show(change.after)),
        },
    };
    TableRow {
        subject: summary.label(&pair.subject),
        concurrency: how_many(pair.concurrency),
        changes: Metric::ALL.into_iter().map(change).collect(),
    }
}
