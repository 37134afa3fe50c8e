//! Capacity as one HTML page that needs nothing else. Each architecture has a chart of measurements
//! and predictions, with the interval as a band.

use std::io;
use std::path::Path;

use minijinja::{Value, context};
use serde::Serialize;

use super::check::Check;
use super::points::Point;
use super::{Capacity, forms, memory, text, title};
use crate::format::{bytes, connections, duration, grouped, how_many};
use crate::page::{page, write_whole};
use crate::statistics::Interval;
use crate::tell::chart::lines::{Band, Lines, Series};

/// The number of points of a predicted line.
const STEPS: i32 = 4;

/// An experiment as the template shows it.
#[derive(Serialize)]
struct Shown {
    title: String,
    /// The first part of the page, with all tables.
    text: String,
    figures: Vec<Figure>,
}

/// A chart.
#[derive(Serialize)]
struct Figure {
    title: String,
    caption: String,
    /// Markup.
    svg: Value,
}

/// Writes the page of predictions to `path`.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write(path: &Path, all: &[Capacity]) -> io::Result<()> {
    write_whole(path, &render(all))
}

/// Writes the page of prediction errors to `path`.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write_check(path: &Path, all: &[Check]) -> io::Result<()> {
    write_whole(path, &render_check(all))
}

/// The page of predictions.
pub(super) fn render(all: &[Capacity]) -> String {
    let shown = |capacity: &Capacity| {
        let asked = capacity.question.connections as f64;
        let figures = capacity.subjects.iter().flat_map(|subject| {
            // The line ends where no further connection fits, like the table.
            let fit = subject.processor_time.as_ref().ok().map(|time| time.connections);
            let most = fit.unwrap_or(asked);
            let times = times(&subject.name, &subject.points, &subject.points, most);
            let memory = subject.memory.as_ref().ok();
            let memory = memory.map(|memory| memories(&subject.name, &subject.points, memory));
            times.into_iter().chain(memory)
        });
        Shown { title: title(&capacity.heading), text: text(capacity), figures: figures.collect() }
    };
    html("Capacity", &all.iter().map(shown).collect::<Vec<_>>())
}

/// The page of prediction errors.
pub(super) fn render_check(all: &[Check]) -> String {
    let shown = |check: &Check| {
        let figures = check.measured.iter().filter_map(|one| {
            let most = one.points.last()?.connections as f64;
            times(&one.subject, &one.up_to(check.from), &one.points, most)
        });
        Shown {
            title: title(&check.heading),
            text: text::text_of_check(check),
            figures: figures.collect(),
        }
    };
    html("Capacity: predicted and measured", &all.iter().map(shown).collect::<Vec<_>>())
}

fn html(heading: &str, experiments: &[Shown]) -> String {
    page(include_str!("capacity.html.jinja"), context! { heading, experiments })
}

/// The processor time of a request, `measured`, and predicted from the `known` points. `None` if
/// nothing is predicted.
fn times(name: &str, known: &[Point], measured: &[Point], most: f64) -> Option<Figure> {
    let last = known.last()?;
    let (from, start) = (last.connections as f64, last.processor_time.value);
    let start = (from, start, Interval { low: start, high: start });
    let beyond = (1..=STEPS).map(|step| {
        let at = from * (most / from).powf(f64::from(step) / f64::from(STEPS));
        let time = forms::processor_time(known, at).ok()?;
        Some((at, time.value, time.interval))
    });
    let predicted = [Some(start)].into_iter().chain(beyond).collect::<Option<Vec<_>>>()?;
    let measured = measured
        .iter()
        .map(|point| (point.connections as f64, point.processor_time.value, point.connections));
    let caption = "Processor time of the server for a request.";
    Some(figure(name, caption, "connections of the load", time, measured, &predicted))
}

/// Microseconds on an axis, which begins at zero.
fn time(microseconds: f64) -> String {
    if microseconds == 0.0 { "0 µs".to_owned() } else { duration(microseconds) }
}

/// The memory of the server over its open connections.
fn memories(name: &str, points: &[Point], predicted: &memory::Memory) -> Figure {
    let open = |point: &Point| point.open.unwrap_or(point.connections as f64).min(predicted.open);
    let line = |open: f64| {
        let bytes = predicted.base + predicted.bytes_per_connection * open;
        let half = (predicted.interval.high / predicted.bytes - 1.0) * bytes;
        (open, bytes, Interval { low: bytes - half, high: bytes + half })
    };
    let from = points.last().map_or(1.0, open);
    let to = predicted.open.max(from);
    let steps = (0..=STEPS).map(|step| from * (to / from).powf(f64::from(step) / f64::from(STEPS)));
    let predicted: Vec<(f64, f64, Interval)> = steps.map(line).collect();
    let measured = points.iter().map(|point| (open(point), point.memory, point.connections));
    figure(name, "Memory of the server.", "open at the server", bytes, measured, &predicted)
}

/// A chart of measurements, each with its place on the lower axis and its number of connections,
/// and of predictions.
fn figure(
    name: &str,
    caption: &str,
    below: &str,
    up: fn(f64) -> String,
    measured: impl Iterator<Item = (f64, f64, usize)>,
    predicted: &[(f64, f64, Interval)],
) -> Figure {
    let told =
        |count: usize, value: f64| format!("{name} at {}: {}", connections(count), up(value));
    let measured = measured.map(|(x, y, count)| (x, y, told(count, y)));
    let beyond = predicted.iter().map(|(x, y, interval)| {
        let span = text::span(*interval, up);
        (*x, *y, format!("{name}, predicted at {}: {} {span}", grouped(*x), up(*y)))
    });
    let series = |name: &str, rank, points| Series {
        name: name.to_owned(),
        rank: Some(rank),
        points,
        doubtful: Vec::new(),
    };
    let svg = Lines {
        about: format!("{name}: {caption}"),
        below: below.to_owned(),
        is_logarithmic: false,
        is_straight_across: false,
        marked: Vec::new(),
        across: |count| how_many(count.round() as usize),
        up,
        series: vec![
            series("measured", 0, measured.collect()),
            series("predicted", 1, beyond.collect()),
        ],
        has_diagonal: false,
        bands: vec![Band {
            rank: Some(1),
            points: predicted.iter().map(|(x, _, interval)| (*x, *interval)).collect(),
        }],
    };
    Figure {
        title: name.to_owned(),
        caption: caption.to_owned(),
        svg: Value::from_safe_string(svg.svg()),
    }
}
