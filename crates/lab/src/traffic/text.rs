//! A summary for a terminal of 80 columns.

use std::fmt::Write;
use std::time::Duration;

use duality_trace::Method;

use super::{Distribution, Summary};
use crate::format::{bytes, duration, grouped, listed, percent};

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Heights of a column of text.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Summary {
    /// The content of the trace, in lines of at most 80 columns.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{} requests on {} connections in {}; from: {}\n",
            grouped(self.requests as f64),
            grouped(self.connections as f64),
            length(self.seconds),
            self.source,
        );
        self.over_time(&mut text);
        self.distributions(&mut text);
        self.kinds(&mut text);
        if !self.inferred.is_empty() {
            text.push_str("\nInferred, because the source does not tell it:\n");
            for inferred in &self.inferred {
                let line = format!("{}: {} ({})", inferred.what, inferred.value, inferred.why);
                text.push_str(&paragraph("  ", &line));
            }
        }
        if !self.warnings.is_empty() {
            text.push_str("\nTo know:\n");
            self.warnings.iter().for_each(|warning| text.push_str(&paragraph("  ", warning)));
        }
        text
    }

    fn over_time(&self, text: &mut String) {
        let rates: Vec<f64> =
            self.arrivals.iter().map(|count| *count as f64 / self.slice_seconds).collect();
        let most = rates.iter().copied().fold(0.0, f64::max);
        let slice = length(self.slice_seconds);
        let _ = writeln!(
            text,
            "Requests a second: {} on average, {} in the busiest {slice}",
            figure(self.rate()),
            figure(most),
        );
        let _ = writeln!(text, "  {}", bars(&rates));
        let _ = writeln!(
            text,
            "Open connections: {} on average, {} at most",
            figure(self.open_mean),
            grouped(self.open_most as f64),
        );
        let _ = writeln!(text, "  {}", bars(&self.open));
        let told = ["1 s", "10 s", "60 s"].iter().zip(self.dispersion);
        let told: Vec<String> = told
            .filter_map(|(scale, value)| Some(format!("{} in {scale}", figure(value?))))
            .collect();
        if !told.is_empty() {
            let line = format!(
                "Burstiness: {} (variance over mean of the number of requests; 1 for independent \
                 requests)",
                listed(&told)
            );
            text.push_str(&paragraph("", &line));
        }
    }

    fn distributions(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "\n{:24}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "", "mean", "median", "90 %", "99 %", "most"
        );
        let row = |name: &str, values: &Distribution, show: fn(f64) -> String| {
            let Distribution { mean, p50, p90, p99, most, .. } = values;
            let [mean, p50, p90, p99, most] = [mean, p50, p90, p99, most].map(|value| show(*value));
            format!("{name:24}{mean:>10}{p50:>10}{p90:>10}{p99:>10}{most:>10}\n")
        };
        text.push_str(&row("Requests a connection", &self.per_connection, figure));
        text.push_str(&row("Think time", &self.think_us, duration));
        text.push_str(&row("Reply", &self.reply, size));
    }

    fn kinds(&self, text: &mut String) {
        let share = |count: u64| percent(count as f64 / self.requests.max(1) as f64);
        let mut told: Vec<String> = self
            .methods
            .iter()
            .take(4)
            .map(|(method, count)| {
                let method = match method {
                    Method::Other => "of another or an unknown method".to_owned(),
                    method => format!("{method:?}").to_uppercase(),
                };
                format!("{} {method}", share(*count))
            })
            .collect();
        told.extend(
            self.status
                .iter()
                .enumerate()
                .skip(1)
                .filter(|(_, count)| **count > 0)
                .map(|(digit, count)| format!("{} answered {digit}xx", share(*count))),
        );
        text.push('\n');
        text.push_str(&paragraph("", &format!("Requests: {}", listed(&told))));
        if self.limited > 0 {
            let _ = writeln!(text, "Slow clients: {} connections", grouped(self.limited as f64));
        }
        if self.paths > 0 {
            let _ = writeln!(text, "Paths: kept, of {} kinds of request", self.paths);
        }
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

/// Lines that are indented by `indent`. Further lines are indented by two more.
fn paragraph(indent: &str, text: &str) -> String {
    let further = format!("{indent}  ");
    let options = textwrap::Options::new(WIDTH).initial_indent(indent).subsequent_indent(&further);
    textwrap::fill(text, options) + "\n"
}
