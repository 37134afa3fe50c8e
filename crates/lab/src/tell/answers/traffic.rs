//! How the clients of a server behaved, from a trace.

use std::time::Duration;

use duality_trace::Method;

use crate::format::{bytes, duration, grouped, listed, percent};
use crate::tell::chart::Chart;
use crate::tell::chart::lines::{Lines, Point, Series};
use crate::tell::sheet::{Figure, Form, Part, Sheet, Table, left, right};
use crate::traffic::{Distribution, Summary};

/// Heights of a column of text.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The sheet of a trace, under this title.
pub fn sheet(title: &str, summary: &Summary) -> Sheet {
    let mut sheet = Sheet::new(title);
    sheet.add_only(
        Form::Page,
        [Part::sentence(
            "This page shows how the clients of a server behaved. docs/trace.md says what a trace \
             is, and what a log does not tell."
                .to_owned(),
        )],
    );
    sheet.add([Part::sentence(format!(
        "{} requests on {} connections in {}; from: {}",
        grouped(summary.requests as f64),
        grouped(summary.connections as f64),
        length(summary.seconds),
        summary.source,
    ))]);
    sheet.add(over_time(summary));
    sheet.add([Part::Table(distributions(summary))]);
    sheet.add(kinds(summary));
    let list = |title: &str, items: Vec<String>| {
        (!items.is_empty()).then(|| Part::list(title.to_owned(), items))
    };
    let inferred = summary.inferred.iter();
    let inferred = inferred.map(|one| format!("{}: {} ({})", one.what, one.value, one.why));
    let inferred = list("Inferred, because the source does not tell it", inferred.collect());
    let warnings = list("To know", summary.warnings.clone());
    // The end of a text is read first, and so is the beginning of a page.
    sheet.add_only(Form::Terminal, inferred.clone());
    sheet.add_only(Form::Terminal, warnings.clone());
    sheet.add_only(Form::Page, warnings);
    sheet.add_only(Form::Page, figures(summary).map(Part::Figure));
    sheet.add_only(Form::Page, inferred);
    let checksum = format!("Checksum of the trace: {}", summary.checksum);
    sheet.add_only(Form::Page, [Part::note(checksum)]);
    sheet
}

/// Requests and open connections over the time of the trace, as columns of text.
fn over_time(summary: &Summary) -> Vec<Part> {
    let rates = summary.rates();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let slice = length(summary.slice_seconds);
    let mut parts = vec![
        Part::sentence(format!(
            "Requests a second: {} on average, {} in the busiest {slice}",
            figure(summary.rate()),
            figure(most),
        )),
        Part::Verbatim(format!("  {}", bars(&rates))),
        Part::sentence(format!(
            "Open connections: {} on average, {} at most",
            figure(summary.open_mean),
            grouped(summary.open_most as f64),
        )),
        Part::Verbatim(format!("  {}", bars(&summary.open))),
    ];
    let clauses = ["1 s", "10 s", "60 s"].iter().zip(summary.dispersion);
    let words: Vec<String> = clauses
        .filter_map(|(scale, value)| Some(format!("{} in {scale}", figure(value?))))
        .collect();
    if !words.is_empty() {
        parts.push(Part::sentence(format!(
            "Burstiness: {} (variance over mean of the number of requests; 1 for independent \
             requests)",
            listed(&words)
        )));
    }
    parts
}

fn distributions(summary: &Summary) -> Table {
    let row = |name: &str, values: &Distribution, show: fn(f64) -> String| {
        let Distribution { mean, p50, p90, p99, most, .. } = values;
        let shown = [mean, p50, p90, p99, most].map(|value| show(*value));
        [name.to_owned()].into_iter().chain(shown).collect()
    };
    let rows = [
        row("Requests a connection", &summary.per_connection, figure),
        row("Think time", &summary.think_us, duration),
        row("Reply", &summary.reply, size),
    ];
    let figures = ["mean", "median", "90 %", "99 %", "most"].map(right);
    Table::new([left("")].into_iter().chain(figures), rows)
}

fn kinds(summary: &Summary) -> Vec<Part> {
    let share = |count: u64| percent(count as f64 / summary.requests.max(1) as f64);
    let methods = summary.methods.iter().take(4).map(|(method, count)| {
        let method = match method {
            Method::Other => "of another or an unknown method".to_owned(),
            method => format!("{method:?}").to_uppercase(),
        };
        format!("{} {method}", share(*count))
    });
    let status = summary.status.iter().enumerate().skip(1).filter(|(_, count)| **count > 0);
    let status = status.map(|(digit, count)| format!("{} answered {digit}xx", share(*count)));
    let parts: Vec<String> = methods.chain(status).collect();
    let mut lines = vec![format!("Requests: {}", listed(&parts))];
    if summary.limited > 0 {
        let count = grouped(summary.limited as f64);
        lines.push(format!("Slow clients: {count} connections"));
    }
    if summary.paths > 0 {
        lines.push(format!("Paths: kept, of {} kinds of request", summary.paths));
    }
    lines.into_iter().map(Part::sentence).collect()
}

/// The charts of a page.
fn figures(summary: &Summary) -> impl Iterator<Item = Figure> {
    let slice = summary.slice_seconds;
    let rates = summary.rates();
    [
        course("Requests", "Requests a second, over the time of the trace.", slice, &rates),
        course("Open connections", "Connections that are open.", slice, &summary.open),
        shares(
            "Requests a connection",
            "Share of the connections with at most so many requests.",
            ("requests", grouped),
            &summary.per_connection,
        ),
        shares(
            "Think times",
            "Share of the pauses between a reply and the next request of at most this length.",
            ("think time", duration),
            &summary.think_us,
        ),
        shares(
            "Replies",
            "Share of the replies of at most this size.",
            ("size", bytes),
            &summary.reply,
        ),
    ]
    .into_iter()
    .flatten()
}

/// The format of values on an axis.
type Show = fn(f64) -> String;

/// A figure for each slice of the trace, which is `seconds` long.
fn course(title: &str, caption: &str, slice: f64, values: &[f64]) -> Option<Figure> {
    let point = |(number, value): (usize, &f64)| {
        let middle = (number as f64 + 0.5) * slice;
        (middle, *value, format!("{title} after {}: {}", seconds(middle), told(*value)))
    };
    let points = values.iter().enumerate().map(point).collect();
    chart(title, caption, ("time", seconds), told, true, points)
}

/// Shares of values.
fn shares(title: &str, caption: &str, axis: (&str, Show), values: &Distribution) -> Option<Figure> {
    let share = |share: f64| format!("{:.0} %", 100.0 * share);
    let points = values.shares.iter().filter(|(value, _)| *value > 0.0);
    let points = points.map(|(value, part)| {
        (*value, *part, format!("{} of at most {}", share(*part), axis.1(*value)))
    });
    chart(title, caption, axis, share, false, points.collect())
}

/// A line through points. `None` for fewer than two points.
fn chart(
    title: &str,
    caption: &str,
    (below, across): (&str, Show),
    up: Show,
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
    let (title, notes) = (title.to_owned(), vec![caption.to_owned()]);
    Some(Figure::new(title, Chart::Lines(lines), notes))
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

/// A length of time in its two largest units: `58m 6s`.
fn length(seconds: f64) -> String {
    if seconds < 10.0 {
        return duration(seconds * 1e6);
    }
    let whole = humantime::format_duration(Duration::from_secs(seconds.round() as u64)).to_string();
    whole.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// A size. Small sizes are in bytes.
fn size(size: f64) -> String {
    if size < 1024.0 { format!("{size:.0} B") } else { bytes(size) }
}

/// A number with the digits that matter.
fn figure(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        below if below < 0.01 => format!("{below:.4}"),
        below if below < 10.0 && below.fract() != 0.0 => format!("{below:.2}"),
        below if below < 100.0 && below.fract() != 0.0 => format!("{below:.1}"),
        value => grouped(value),
    }
}

/// A column for each value. A zero has an empty column.
fn bars(values: &[f64]) -> String {
    let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let bar = |value: &f64| match value / most * BARS.len() as f64 {
        0.0 => ' ',
        height => BARS[(height.ceil() as usize).clamp(1, BARS.len()) - 1],
    };
    values.iter().map(bar).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use duality_trace::{Head, Trace};

    use super::*;
    use crate::tell::render::html::html;
    use crate::tell::render::text::{TERMINAL, text};
    use crate::traffic::tests::trace;

    #[test]
    fn text_fits_80_columns() {
        let text = text(&sheet("my.trace", &Summary::of(&trace())), TERMINAL);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for told in
            ["300 requests", "combined log", "times: at random", "12 lines", "Slow clients: 1"]
        {
            assert!(text.contains(told), "{told}: {text}");
        }
    }

    #[test]
    fn an_empty_trace_has_a_sheet() {
        let sheet = sheet("empty", &Summary::of(&Trace::new(Head::default(), Vec::new())));
        assert!(text(&sheet, TERMINAL).contains("0 requests"));
        html(&sheet);
    }

    #[test]
    fn a_page_has_its_charts_and_no_mark_up_of_the_trace() {
        let page = html(&sheet("my.trace", &Summary::of(&trace())));
        assert_eq!(page.matches("<svg").count(), 5 - 2, "one value makes no line");
        assert!(page.contains("&lt;b&gt;so") && !page.contains("<b>so"));
        assert!(page.contains("12 lines"));
    }
}
