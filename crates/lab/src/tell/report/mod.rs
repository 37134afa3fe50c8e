//! The report: a self-contained page of HTML.
//!
//! The charts are SVG within the page ([`crate::tell::chart`]), so they need neither JavaScript nor
//! a network. Scripts only sort the table, show the raw lines of a figure, and save figures.

mod charts;
mod csv;
mod load;
pub mod markdown;
mod queues;
mod raw;
mod table;

use std::io;
use std::path::Path;

use minijinja::context;

use crate::format;
use crate::page::{page, script_data, write_whole};
use crate::record::{Heading, Machine};
use crate::tell::answer::Answer;
use crate::tell::map::Map;
use crate::tell::recommendation::{Section, disturbed_briefly};
use crate::tell::replay;

pub use raw::RawLines;
pub(super) use table::command;

/// Writes the report to `path`, completely or not at all.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write(path: &Path, answer: &Answer<'_>, raw: &RawLines) -> io::Result<()> {
    write_whole(path, &render(answer, raw))
}

/// Each role of an experiment on hosts: its name, its host, and the host's description.
fn hosts(heading: &Heading) -> Vec<(&str, String, &Machine)> {
    let placements = heading.design.topology.iter().flat_map(|topology| &topology.hosts);
    placements
        .filter_map(|placement| {
            let address = placement.address.iter().map(|address| format!(" ({address})"));
            let host = placement.host.clone() + &address.collect::<String>();
            Some((placement.role.name(), host, heading.hosts.get(&placement.host)?))
        })
        .collect()
}

/// The report as HTML. If there are fewer records than planned, the page says so.
pub fn render(answer: &Answer<'_>, raw: &RawLines) -> String {
    let Answer { heading, records, summary, recommendation: said } = answer;
    let chosen = said.architecture.as_deref();
    let cells = &records.cells;
    let data = context! {
        service => summary.service, rows => table::row_lines(summary, raw), csv => csv::cells(cells, raw),
        origin => origin(heading),
    };
    let map = Map::of(summary);
    let recording = heading.design.recording.as_ref();
    let (proof, behind) = charts::proof(summary);
    page(
        include_str!("report.html.jinja"),
        context! {
            heading,
            your_load => recording.map(replay::figures),
            arrivals => recording.map(load::arrivals),
            sent => recording.map(|_| replay::sent(cells)),
            headroom => load::headroom(&said.headroom),
            hosts => hosts(heading),
            partial => summary.partial(),
            margin => format::percent(summary.margin).replace(".0 ", " "),
            counted => summary.counted.noun(),
            load_heading => summary.counted.heading(),
            compared => heading.design.compared(),
            crowd => heading.design.clients.crowd(),
            headline => said.headline,
            alarms => said.alarms,
            map => (!map.is_empty()).then(|| map.html()),
            map_title => map.title,
            map_key => map.key(summary),
            crossings => said.crossovers.iter().map(|one| one.tell(summary)).collect::<Vec<_>>(),
            noted => disturbed_briefly(summary),
            unsaid => said.unsaid,
            sure => said.answers(Section::Sure),
            why => said.answers(Section::Why),
            costs => said.answers(Section::Costs),
            measured => said.answers(Section::Measured),
            excluded => said.answers(Section::Excluded),
            card => said.card.as_ref().map(|card| {
                context! { subject => card.subject, costs => card.costs, changes => card.changes }
            }),
            current => summary.current,
            disturbance => said.disturbance,
            proof,
            behind,
            over_load => charts::over_load(summary, chosen),
            rates => charts::rates(summary),
            queues => queues::figures(summary, cells),
            data => script_data(&data),
            lines => table::lines(summary),
            rows => table::rows(summary, raw),
            missing => summary.missing(),
            warnings => summary.warnings(),
            crowd_rows => table::crowd(summary, cells),
            fates => table::FATES,
            memory => format::bytes(heading.machine.memory_bytes as f64),
            command => table::command(&heading.command),
            load_command => table::command(heading.design.load_command.as_deref().unwrap_or_default()),
        },
    )
}

/// Where the figures come from: the machine and the command.
pub(super) fn origin(heading: &Heading) -> [String; 2] {
    let Heading { duality, started_at, machine: Machine { cpu, cpus, kernel, .. }, .. } = heading;
    [
        format!("Duality {duality} · {started_at} · {cpu}, {cpus} CPUs · {kernel}"),
        table::command(&heading.command),
    ]
}
