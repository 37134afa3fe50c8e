//! The report: a self-contained page of HTML.
//!
//! The charts are SVG within the page ([`crate::tell::chart`]), so they need neither JavaScript nor
//! a network. Scripts only sort the table, show the raw lines of a figure, and save figures.

mod charts;
mod csv;
mod load;
pub mod markdown;
mod method;
mod queues;
mod raw;
mod table;

use std::io;
use std::path::Path;

use crate::format::{self, in_shell};
use crate::judge::summary::Summary;
use crate::page::write_whole;
use crate::record::{Heading, Machine};
use crate::tell::answer::Answer;
use crate::tell::map::Map;
use crate::tell::recommendation::{Section, disturbed_briefly};
use crate::tell::render::html::html;
use crate::tell::sheet::{Figure, Manner, Part, Saved, Sheet, Table, Words, names, right};

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

/// The report as HTML. If there are fewer records than planned, the page says so.
pub fn render(answer: &Answer<'_>, raw: &RawLines) -> String {
    html(&sheet(answer, raw))
}

/// The report.
pub fn sheet(answer: &Answer<'_>, raw: &RawLines) -> Sheet {
    let Answer { heading, summary, .. } = answer;
    let mut sheet = Sheet::new(title(heading));
    sheet.skip_to = Some("cells");
    sheet.saved = Some(Saved { service: summary.service.clone(), origin: origin(heading) });
    let (proof, behind) = charts::proof(summary);
    let has_charts = proof.is_some();
    sheet.add([lead(answer, proof)]);
    sheet.add(sure(answer, behind, has_charts));
    sheet.add(why(answer));
    sheet.add(figures(answer));
    sheet.add(cells(answer, raw));
    sheet.add(how(answer));
    sheet.add(excluded(answer));
    sheet
}

fn title(heading: &Heading) -> String {
    let design = &heading.design;
    let plan = heading.plan.iter().map(|plan| format!("{} · {}: ", plan.title, plan.experiment));
    let service = match (design.architectures.is_empty(), &design.builds) {
        (true, _) => String::new(),
        (false, None) => format!("the {} service under ", design.service),
        (false, Some(_)) => format!("the {} service: ", design.service),
    };
    format!("{}{service}{}", plan.collect::<String>(), design.compared())
}

/// What fits on the first screen: the headline, the map, and the chart that proves the headline.
fn lead(answer: &Answer<'_>, proof: Option<Figure>) -> Part {
    let Answer { summary, recommendation, .. } = answer;
    let partial = summary.partial().map(|partial| {
        let parts = Words::of(Manner::Label, partial.to_string());
        parts.then(" The experiment is not complete. This page shows what was measured.")
    });
    let map = Map::of(summary);
    let map = (!map.is_empty()).then(|| the_map(answer, &map, proof.is_some()));
    let proof = proof.map(|proof| {
        let title = match (&summary.current, &summary.builds) {
            (Some(current), _) => format!("Beside {current} at {}", proof.title),
            (None, Some(_)) => format!("The change at {}", proof.title),
            (None, None) => format!("How far behind the best at {}", proof.title),
        };
        vec![Part::Figure(Figure { title, ..proof })]
    });
    let noted = disturbed_briefly(summary);
    let noted = (!noted.is_empty()).then(|| {
        Words::from(format!("Disturbed: {}. ", noted.join("; ")))
            .and(Manner::Link("#sure".to_owned()), "What that means")
            .then(".")
    });
    let parts = partial.map(Part::Sentence).into_iter();
    let parts = parts.chain([Part::Answer(recommendation.headline.clone())]);
    let parts =
        parts.chain(recommendation.alarms.iter().map(|alarm| Part::Alarm(alarm.as_str().into())));
    let parts = parts.chain([Part::Beside(map.into_iter().chain(proof).collect())]);
    Part::Lead(parts.chain(noted.map(Part::Caution)).collect())
}

fn the_map(answer: &Answer<'_>, map: &Map, has_proof: bool) -> Vec<Part> {
    let Answer { summary, recommendation, .. } = answer;
    let colours = match (&summary.current, &summary.builds) {
        _ if !has_proof => "",
        (Some(_), _) | (None, Some(_)) => "Green: better for sure, or level. ",
        (None, None) => {
            "Full green: the best for sure; faint green: the best as measured, or level. "
        }
    };
    let mut title = map.title.clone();
    title[..1].make_ascii_uppercase();
    let by = summary.counted.heading().to_lowercase();
    let key = map.key(summary);
    let key = if key.is_empty() { key } else { format!("{key}. ") };
    let caption = Words::from(format!("{title}, by {by}. {colours}{key}"));
    let caption = recommendation
        .crossovers
        .iter()
        .fold(caption, |words, one| words.and(Manner::Strong, one.tell(summary)).then(" "));
    let table = map.table(usize::MAX).called("map", "The map");
    vec![Part::Table(table), Part::Note(caption)]
}

/// How sure the answer is.
fn sure(answer: &Answer<'_>, behind: Vec<Figure>, has_charts: bool) -> Vec<Part> {
    let Answer { summary, recommendation, .. } = answer;
    let mut parts = vec![Part::section("sure", "How sure is it?")];
    let sure = recommendation.answers(Section::Sure).into_iter();
    parts.extend(items(sure.chain(recommendation.unsaid.iter().map(String::as_str))));
    parts.extend(recommendation.disturbance.iter().map(|told| Part::Alarm(told.as_str().into())));
    if has_charts {
        parts.push(Part::note(how_to_read(summary)));
    }
    parts.extend(behind.into_iter().map(Part::Figure));
    if let Some(card) = &recommendation.card {
        parts.push(Part::subheading("What would change the answer"));
        parts.extend(items(card.changes.iter().map(String::as_str)));
    }
    parts
}

/// Sentences as a list. `None` if there are none.
fn items<'s>(sentences: impl Iterator<Item = &'s str>) -> Option<Part> {
    let items: Vec<&str> = sentences.collect();
    (!items.is_empty()).then(|| Part::list("", items))
}

fn how_to_read(summary: &Summary) -> String {
    let margin = format::percent(summary.margin).replace(".0 ", " ");
    let (with, colours) = match &summary.current {
        Some(current) => (
            format!("with {current} "),
            format!(
                "Left of the vertical line: better. Green: better for sure; blue: level within \
                 {margin}"
            ),
        ),
        None => (String::new(), format!("Blue: level with the best within {margin}")),
    };
    format!(
        "How to read the charts of differences: each mark is an estimate. The line through it is \
         the interval of the true value, with 97.5 % confidence for all comparisons {with}together. \
         {colours}; dashed: not told apart; violet: worse only by work that moved; hollow: worse \
         for sure; grey: no choice (a peer, a server that is shown for comparison, or \
         disqualified). An arrow: the interval is longer than the chart."
    )
}

fn why(answer: &Answer<'_>) -> Vec<Part> {
    let why = answer.recommendation.answers(Section::Why);
    let heading = (!why.is_empty()).then(|| Part::section("why", "Why is it so?"));
    heading.into_iter().chain(why.into_iter().map(Part::sentence)).collect()
}

/// Latency, memory and throughput.
fn figures(answer: &Answer<'_>) -> Vec<Part> {
    let Answer { heading, records, summary, recommendation } = answer;
    let title = "What about latency, memory and throughput?";
    let mut parts = vec![Part::section("figures", title)];
    if let Some(card) = &recommendation.card {
        let subject = || Words::of(Manner::Strong, card.subject.as_str());
        let costs = card.costs.iter().map(|told| subject().then(format!(": {told}")));
        parts.extend(costs.map(Part::Sentence));
    }
    parts.extend(recommendation.answers(Section::Costs).into_iter().map(Part::sentence));
    let over_load = charts::over_load(summary, recommendation.architecture.as_deref());
    if !over_load.is_empty() {
        parts.push(Part::note(
            "In colour: the leader and the two next to it. All others are grey, with their names \
             at the ends of their lines. Hollow marks without a line: do not trust them, because \
             the load generator could not do its work (✗). Point at a mark for its figure.",
        ));
    }
    parts.extend(over_load.into_iter().map(Part::Figure));
    let rates: Vec<Part> = charts::rates(summary).into_iter().map(Part::Figure).collect();
    let counted = summary.counted.noun();
    if !rates.is_empty() {
        let title =
            format!("Requests per second with their intervals, at each number of {counted}");
        parts.push(Part::Details(title, rates));
    }
    if heading.design.recording.is_some() {
        parts.extend(load::headroom(&recommendation.headroom));
    }
    let queues = queues::figures(summary, &records.cells);
    if !queues.is_empty() {
        parts.push(Part::subheading("Queues and pools"));
        parts.push(Part::sentence(format!(
            "The lengths of each server's queues, and the number of its threads that took from \
             them. The figures are of the first window at the most {counted}, when the server \
             alone had the load."
        )));
    }
    parts.extend(queues.into_iter().map(Part::Figure));
    let columns = ["Slope, µs per request in service", "Correlation"].map(right);
    let [slope, correlation] = columns;
    let slopes = table::slopes(summary, [names("Architecture"), slope, correlation]);
    parts.extend(explained(
        slopes.called("slopes", "Service time as a line over load"),
        "A least-squares line goes through each architecture's mean service times. The slope is \
         the time that one more request in service adds to each request. A correlation near 1 \
         means that the line describes the times well."
            .to_owned(),
    ));
    let crowd = heading.design.clients.crowd().unwrap_or_default();
    parts.extend(explained(
        table::crowd(summary, &records.cells),
        format!(
            "Beside the connections that make the requests, these were open: {crowd}. Figures are \
             medians over the repeats, each for a whole run with its warm-up."
        ),
    ));
    parts
}

/// A table under a heading, with a sentence before it. Empty without rows.
fn explained(table: Table, told: String) -> Vec<Part> {
    if table.rows.is_empty() {
        return Vec::new();
    }
    vec![Part::subheading(table.about), Part::sentence(told), Part::Table(table)]
}

/// Every cell.
fn cells(answer: &Answer<'_>, raw: &RawLines) -> [Part; 4] {
    let summary = &answer.summary;
    let counted = summary.counted.noun();
    [
        Part::subheading("Every cell"),
        Part::note(format!(
            "A cell is an architecture at a number of {counted}. Figures are medians. From three \
             values on, ± is half of the 95 % interval; of a wide interval, both ends are shown. \
             “Measured load” is how many requests were in service on average. Click on a heading \
             to sort by it. Click on a number of lines to see the lines."
        )),
        Part::Download {
            text: "every repeat".to_owned(),
            csv: csv::cells(&answer.records.cells, raw),
        },
        Part::Table(table::cells(summary, raw)),
    ]
}

fn how(answer: &Answer<'_>) -> Vec<Part> {
    let Answer { heading, records, summary, recommendation } = answer;
    let command = heading.command.iter().map(|word| in_shell(word)).collect();
    let mut parts = vec![
        Part::section("how", "What was measured, where, and with which command?"),
        Part::Command(command),
    ];
    parts.extend(recommendation.answers(Section::Measured).into_iter().map(Part::sentence));
    let recording = heading.design.recording.iter();
    parts.extend(recording.flat_map(|recording| load::recording(recording, &records.cells)));
    parts.push(method::parts(heading, summary));
    parts
}

/// What was excluded, and the warnings.
fn excluded(answer: &Answer<'_>) -> Vec<Part> {
    let Answer { summary, recommendation, .. } = answer;
    let mut parts: Vec<Part> =
        recommendation.answers(Section::Excluded).into_iter().map(Part::sentence).collect();
    let warnings: Vec<String> = summary.missing().into_iter().chain(summary.warnings()).collect();
    if !warnings.is_empty() {
        parts.push(Part::place("warnings", "Warnings"));
        parts.push(Part::Warnings(warnings));
    }
    if !parts.is_empty() {
        parts.insert(0, Part::section("excluded", "What was excluded, and why?"));
    }
    parts
}

/// Where the figures come from: the machine and the command.
pub(super) fn origin(heading: &Heading) -> [String; 2] {
    let Heading { duality, started_at, machine: Machine { cpu, cpus, kernel, .. }, .. } = heading;
    [
        format!("Duality {duality} · {started_at} · {cpu}, {cpus} CPUs · {kernel}"),
        table::command(&heading.command),
    ]
}
