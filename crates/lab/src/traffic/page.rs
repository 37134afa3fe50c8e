//! A trace as one self-contained HTML page.

use std::io;
use std::path::Path;

use minijinja::{Value, context};
use serde::Serialize;

use super::{Distribution, Summary};
use crate::format::{bytes, duration, grouped};
use crate::page::{page, write_whole};
use crate::tell::chart::lines::{Lines, Point, Series};

/// A chart.
#[derive(Serialize)]
struct Figure {
    title: &'static str,
    caption: &'static str,
    /// Markup.
    svg: Value,
}

/// Writes the page of a trace, under this title, to `path`.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write(path: &Path, title: &str, summary: &Summary) -> io::Result<()> {
    write_whole(path, &render(title, summary))
}

/// The page of a trace.
pub(super) fn render(title: &str, summary: &Summary) -> String {
    let text = summary.text();
    let (inferred, warnings) = (&summary.inferred, &summary.warnings);
    let text = text.split("\nInferred").next().and_then(|text| text.split("\nTo know").next());
    page(
        include_str!("traffic.html.jinja"),
        context! {
            title,
            text,
            figures => figures(summary),
            inferred,
            warnings,
            checksum => summary.checksum,
        },
    )
}

fn figures(summary: &Summary) -> Vec<Figure> {
    let slice = summary.slice_seconds;
    let rates = summary.arrivals.iter().map(|count| *count as f64 / slice).collect::<Vec<_>>();
    let size = |size: f64| bytes(size);
    [
        over_time("Requests", "Requests a second, over the time of the trace.", slice, &rates),
        over_time("Open connections", "Connections that are open.", slice, &summary.open),
        shares(
            "Requests a connection",
            "Share of the connections with at most so many requests.",
            "requests",
            grouped,
            &summary.per_connection,
        ),
        shares(
            "Think times",
            "Share of the pauses between a reply and the next request of at most this length.",
            "think time",
            duration,
            &summary.think_us,
        ),
        shares(
            "Replies",
            "Share of the replies of at most this size.",
            "size",
            size,
            &summary.reply,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A figure for each slice of the trace, which is `seconds` long.
fn over_time(
    title: &'static str,
    caption: &'static str,
    slice: f64,
    values: &[f64],
) -> Option<Figure> {
    let point = |(number, value): (usize, &f64)| {
        let middle = (number as f64 + 0.5) * slice;
        (middle, *value, format!("{title} after {}: {}", seconds(middle), told(*value)))
    };
    chart(
        title,
        caption,
        "time",
        seconds,
        told,
        true,
        values.iter().enumerate().map(point).collect(),
    )
}

/// Shares of values.
fn shares(
    title: &'static str,
    caption: &'static str,
    below: &'static str,
    across: fn(f64) -> String,
    values: &Distribution,
) -> Option<Figure> {
    let share = |share: f64| format!("{:.0} %", 100.0 * share);
    let points = values.shares.iter().filter(|(value, _)| *value > 0.0);
    let points = points.map(|(value, part)| {
        (*value, *part, format!("{} of at most {}", share(*part), across(*value)))
    });
    chart(title, caption, below, across, share, false, points.collect())
}

/// A line through points. Empty for fewer than two points.
fn chart(
    title: &'static str,
    caption: &'static str,
    below: &'static str,
    across: fn(f64) -> String,
    up: fn(f64) -> String,
    is_straight_across: bool,
    points: Vec<Point>,
) -> Option<Figure> {
    if points.len() < 2 {
        return None;
    }
    let series = Series { name: String::new(), rank: Some(0), points, doubtful: Vec::new() };
    let lines = Lines {
        about: caption.to_owned(),
        below: below.to_owned(),
        is_logarithmic: false,
        is_straight_across,
        marked: Vec::new(),
        across,
        up,
        series: vec![series],
        has_diagonal: false,
        bands: Vec::new(),
    };
    Some(Figure { title, caption, svg: Value::from_safe_string(lines.svg()) })
}

/// A time on an axis, which begins at zero.
fn seconds(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        below if below < 1.0 => duration(below * 1e6),
        below if below < 600.0 => format!("{below:.0} s"),
        below if below < 36_000.0 => format!("{:.0} min", below / 60.0),
        more => format!("{:.0} h", more / 3600.0),
    }
}

/// A figure on an axis.
fn told(value: f64) -> String {
    match value {
        below if below < 0.1 && below > 0.0 => format!("{below:.3}"),
        below if below < 10.0 && below.fract() != 0.0 => format!("{below:.1}"),
        value => grouped(value),
    }
}
