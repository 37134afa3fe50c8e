//! The report: a page of HTML that needs nothing else.
//!
//! Its charts are SVG within it ([`crate::chart`]), so it shows them without JavaScript and without a network; scripts only sort the
//! table, show the lines that a figure was made from, and take figures along.

mod charts;
mod csv;
pub mod index;
pub mod markdown;
pub mod overlay;
mod queues;
mod raw;
mod table;

use std::io;
use std::path::Path;

use minijinja::context;

use crate::page::{page, script_data, write_whole};
use crate::record::{Experiment, Records};
use crate::summary::Summary;
use crate::{format, recommendation};

pub use raw::RawLines;

/// Writes the report to `path`, whole or not at all.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write(
    path: &Path,
    experiment: &Experiment,
    records: &Records,
    raw: &RawLines,
) -> io::Result<()> {
    write_whole(path, &render(experiment, records, raw))
}

/// The report as HTML. `records` may be fewer than were planned; the page says so then.
pub fn render(experiment: &Experiment, records: &Records, raw: &RawLines) -> String {
    let summary = Summary::of(experiment, records);
    let said = recommendation::recommend(&summary, experiment, records);
    let chosen = said.architecture.as_deref();
    let cells = &records.cells;
    let data = context! {
        service => summary.service, rows => table::row_lines(&summary, raw), csv => csv::cells(cells, raw),
    };
    page(
        include_str!("report.html.jinja"),
        context! {
            experiment,
            partial => summary.partial(),
            compared => experiment.design.compared(),
            crowd => experiment.design.clients.crowd(),
            recommendation => said.sentences,
            disturbance => said.disturbance,
            overview => charts::overview(&summary),
            behind => charts::behind(&summary),
            over_load => charts::over_load(&summary, chosen),
            rates => charts::rates(&summary),
            queues => queues::figures(cells),
            data => script_data(&data),
            lines => table::lines(&summary),
            rows => table::rows(&summary, raw),
            missing => summary.missing(),
            warnings => summary.warnings(),
            crowd_rows => table::crowd(&summary, cells),
            fates => table::FATES,
            memory => format::bytes(experiment.machine.memory_bytes as f64),
            command => table::command(&experiment.command),
            load_command => table::command(experiment.design.load_command.as_deref().unwrap_or_default()),
        },
    )
}
