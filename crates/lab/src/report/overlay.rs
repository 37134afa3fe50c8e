//! The page of two runs laid over each other: the second is dashed.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use minijinja::{Value, context};
use serde::Serialize;
use serde_json::json;

use super::charts::{self, Chart};
use super::looks::{Look, looks};
use super::{page, plotly_source, script_data};
use crate::comparison::{Comparison, Direction, Metric, Pair, told_together};
use crate::format::{grouped, multiple};
use crate::summary::Summary;

/// Writes the page that compares the runs called `names`, experiment by experiment, to `path`.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write(path: &Path, names: [&str; 2], comparisons: &[Comparison]) -> io::Result<()> {
    fs::write(path, render(names, comparisons))
}

/// The page as HTML.
pub fn render(names: [&str; 2], comparisons: &[Comparison]) -> String {
    let sections: Vec<Section> = comparisons.iter().map(Section::of).collect();
    let plots: Vec<_> = sections
        .iter()
        .map(|section| json!({ "looks": section.legend, "charts": section.charts }))
        .collect();
    page(
        include_str!("overlay.html.jinja"),
        context! {
            before => names[0],
            after => names[1],
            sections => sections,
            metrics => Metric::ALL.map(Metric::name),
            chart_data => script_data(&plots),
            plotly => Value::from_safe_string(plotly_source()),
        },
    )
}

/// An experiment that both runs have.
#[derive(Serialize)]
struct Section {
    title: String,
    sentences: Vec<String>,
    legend: Vec<Look>,
    charts: Vec<Chart>,
    rows: Vec<TableRow>,
    only_before: Vec<String>,
    only_after: Vec<String>,
    differences: Vec<crate::comparison::Difference>,
}

/// A cell that both have measured.
#[derive(Serialize)]
struct TableRow {
    subject: String,
    concurrency: String,
    changes: Vec<TableChange>,
}

/// A figure of it.
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
        let (before, after) = aligned(&comparison.before, &comparison.after);
        Self {
            title: title.map_or_else(|| service.clone(), |name| format!("{name}: {service}")),
            sentences: comparison.sentences(),
            legend: looks(&before),
            charts: overlaid(&before, &after),
            rows: comparison.pairs.iter().map(|pair| table_row(&before, pair)).collect(),
            only_before: told_together(&comparison.only_before),
            only_after: told_together(&comparison.only_after),
            differences: comparison.differences.clone(),
        }
    }
}

/// Both, with all subjects and numbers of connections of either, so that looks and axes are the same.
fn aligned(before: &Summary, after: &Summary) -> (Summary, Summary) {
    let mut subjects = before.subjects.clone();
    subjects.extend(after.subjects.iter().filter(|name| !before.subjects.contains(name)).cloned());
    let loads: BTreeSet<usize> =
        before.concurrency.iter().chain(&after.concurrency).copied().collect();
    let with_all = |summary: &Summary| Summary {
        subjects: subjects.clone(),
        peers: before.peers.union(&after.peers).cloned().collect(),
        concurrency: loads.iter().copied().collect(),
        ..summary.clone()
    };
    (with_all(before), with_all(after))
}

/// The charts of the first with the lines of the second in them.
fn overlaid(before: &Summary, after: &Summary) -> Vec<Chart> {
    let rows = before.rows.iter().chain(&after.rows).cloned().collect();
    let both = Summary { rows, ..before.clone() };
    let kinds = [charts::throughput, charts::cpu, charts::tail, charts::memory];
    kinds
        .into_iter()
        .map(|kind| {
            let (mut chart, mut second) = (kind(before), kind(after));
            // Dashes tell the runs apart here, and not the subjects.
            for (traces, dash, run) in
                [(&mut chart.traces, "solid", ""), (&mut second.traces, "dash", ", second")]
            {
                for trace in traces {
                    trace["line"]["dash"] = json!(dash);
                    let hover = trace["hovertemplate"].as_str().unwrap_or_default();
                    let hover = format!("{hover}<extra>%{{fullData.name}}{run}</extra>");
                    trace["hovertemplate"] = json!(hover);
                }
            }
            chart.traces.append(&mut second.traces);
            // Its axes have room for both.
            chart.layout = kind(&both).layout;
            chart
        })
        .collect()
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
        concurrency: grouped(pair.concurrency as f64),
        changes: Metric::ALL.into_iter().map(change).collect(),
    }
}
