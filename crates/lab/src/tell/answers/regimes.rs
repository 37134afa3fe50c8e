//! Architectures along rising load: their rates, and the conclusions that are sure.

use crate::format::{duration, grouped, percent};
use crate::regimes::plan::Regime;
use crate::regimes::summary::{Figures, Summary};
use crate::tell::report::markdown::Table as Which;
use crate::tell::sheet::{Part, Sheet, Table, left, right};

/// The rates, the reasons for those that are missing, and sentences.
pub fn sheet(summary: &Summary<'_>) -> Sheet {
    let mut sheet = Sheet::new(&summary.heading.title);
    let rates = table(summary, "requests/s", |one| Some(rate(one)));
    let missing = summary.subjects().filter_map(|subject| {
        let reason = summary.regimes.iter().find_map(|one| summary.reason(subject, &one.name))?;
        Some(Part::Sentence(format!("– {subject}: {reason}")))
    });
    sheet.add([Part::Table(rates)].into_iter().chain(missing));
    sheet.add(summary.sentences().into_iter().map(Part::Sentence));
    sheet
}

/// A figure of each subject under each load, for a document. `None` for a figure that cells of a
/// regime do not have.
pub fn tabled(summary: &Summary<'_>, which: Which) -> Option<Table> {
    let (title, told): (_, Told) = match which {
        Which::Rate => ("Requests/s", |one| Some(rate(one))),
        Which::Cpu => ("Server CPU per request", |one| one.cpu_us.map(duration)),
        Which::P99 => ("T, 99 %", |one| Some(duration(one.time_p99_us))),
        _ => return None,
    };
    let mut table = table(summary, "", told);
    if which == Which::Rate {
        table.columns.push(right("kept"));
        for (row, name) in table.rows.iter_mut().zip(summary.subjects()) {
            row.push(summary.kept(name).map_or("–".to_owned(), percent).into());
        }
    }
    Some(table.titled(format!("{title}, medians")))
}

/// A figure in words.
type Told = fn(&Figures) -> Option<String>;

fn rate(figures: &Figures) -> String {
    grouped(figures.rate.round())
}

fn table(summary: &Summary<'_>, corner: &str, told: Told) -> Table {
    let columns = summary.regimes.iter().map(|one| right(&one.name));
    let rows = summary.subjects().map(|name| {
        let figure = |regime: &&Regime| {
            let shown = summary.figures(name, &regime.name).and_then(|figures| told(&figures));
            shown.unwrap_or_else(|| "–".to_owned())
        };
        [name.to_owned()].into_iter().chain(summary.regimes.iter().map(figure)).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    Table::new([left(corner)].into_iter().chain(columns), rows)
}
