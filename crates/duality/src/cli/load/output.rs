//! A report of a load as text, JSON, comma-separated values, or metrics for Prometheus.

use std::borrow::Cow;
use std::fmt;

use clap::ValueEnum;
use duality_load::{Goodput, HistogramError, Report};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::{Registry, Unit};

use crate::metrics::page::Page;

/// Buckets of latencies in Prometheus's format: 1 µs, twice as long each, and 67 s at last.
const BUCKETS: u32 = 27;

/// The reason why a report can always be written as JSON.
const PLAIN: &str = "a report is plain data";

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// Everything (format version 1)
    Json,
    /// A line of names, and a line for the load or for each probe
    Csv,
    /// Metrics in Prometheus's text format
    Prometheus,
}

/// Writes the report of a load.
///
/// # Errors
///
/// The report's histogram cannot be read.
pub(super) fn report(report: &Report, format: Format) -> Result<String, HistogramError> {
    Ok(match format {
        Format::Text => report.render_text(),
        Format::Json => serde_json::to_string(report).expect(PLAIN),
        Format::Csv => {
            let (names, values): (Vec<_>, Vec<_>) = columns(report).into_iter().unzip();
            csv(&names, [values])
        }
        Format::Prometheus => prometheus(report)?,
    })
}

/// Writes what a search for a rate has found.
///
/// # Errors
///
/// A histogram cannot be read.
pub(super) fn goodput(found: &Goodput, format: Format) -> Result<String, HistogramError> {
    Ok(match format {
        Format::Text => found.render_text(),
        Format::Json => serde_json::to_string(found).expect(PLAIN),
        Format::Csv => probes(found),
        Format::Prometheus => match &found.report {
            Some(report) => prometheus(report)?,
            // No load confirmed a rate, so there are no metrics.
            None => String::new(),
        },
    })
}

/// The columns of a report, each with its value.
fn columns(report: &Report) -> Vec<(&'static str, String)> {
    let open = report.open_loop.as_ref();
    let latency = &report.latency_us;
    let errors: Vec<_> =
        report.errors.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let number = |value: f64| format!("{value:.3}");
    let optional = |value: Option<f64>| value.map_or(String::new(), number);
    vec![
        ("target", report.target.clone()),
        ("pattern", report.pattern.clone()),
        ("connections", report.connections.to_string()),
        ("keep_alive", report.keep_alive.to_string()),
        ("window_seconds", number(report.window_seconds)),
        ("requests", report.requests.to_string()),
        ("failed", report.errors.values().sum::<u64>().to_string()),
        ("errors", errors.join("; ")),
        ("requests_per_second", number(report.requests_per_second)),
        ("intended_per_second", optional(open.map(|open| open.intended_per_second))),
        ("latency_mean_us", number(latency.mean)),
        ("latency_min_us", number(latency.min)),
        ("latency_p50_us", number(latency.p50)),
        ("latency_p90_us", number(latency.p90)),
        ("latency_p99_us", number(latency.p99)),
        ("latency_p99.9_us", number(latency.p99_9)),
        ("latency_max_us", number(latency.max)),
        ("raw_latency_p99_us", optional(open.map(|open| open.raw_latency_us.p99))),
        ("measured_load", number(report.measured_load)),
        ("bytes_received", report.bytes_received.to_string()),
        ("connections_opened", report.connections_opened.to_string()),
        ("client_cpu_share", number(report.client_cpu_share)),
        ("is_valid", report.invalid.is_empty().to_string()),
    ]
}

/// A line for each probe of a search.
fn probes(found: &Goodput) -> String {
    let names = [
        "target",
        "slo",
        "rate",
        "window_seconds",
        "goodput_per_second",
        "latency_us",
        "requests",
        "failed",
        "is_met",
        "problem",
    ];
    let rows = found.probes.iter().map(|probe| {
        vec![
            found.target.clone(),
            found.slo.clone(),
            format!("{:.3}", probe.rate),
            format!("{:.3}", probe.window_seconds),
            format!("{:.3}", probe.goodput_per_second),
            probe.latency_us.map_or(String::new(), |latency| format!("{latency:.3}")),
            probe.requests.to_string(),
            probe.failed.to_string(),
            probe.met.to_string(),
            probe.problem.clone().unwrap_or_default(),
        ]
    });
    csv(&names, rows)
}

fn csv(names: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |row: &mut dyn Iterator<Item = &str>| {
        writer.write_record(row).expect("a vector takes all, and rows have the same length");
    };
    write(&mut names.iter().copied());
    for row in rows {
        write(&mut row.iter().map(String::as_str));
    }
    let bytes = writer.into_inner().expect("a vector takes all");
    String::from_utf8(bytes).expect("the rows are UTF-8")
}

/// The metrics of a report.
fn prometheus(report: &Report) -> Result<String, HistogramError> {
    let labels = [("target", &report.target), ("pattern", &report.pattern)];
    let labels = labels.map(|(name, value)| (Cow::Borrowed(name), Cow::Owned(value.clone())));
    let mut registry = Registry::with_prefix_and_labels("duality_load", labels.into_iter());
    registry.register_collector(Box::new(Metrics::of(report)?));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes all");
    Ok(text)
}

/// The metrics of a report, ready for output.
#[derive(Debug)]
struct Metrics {
    requests: u64,
    errors: Vec<(String, u64)>,
    bytes_received: u64,
    connections_opened: u64,
    gauges: Vec<(&'static str, &'static str, f64)>,
    /// The sum of the latencies in seconds, their number, and the buckets.
    latencies: (f64, u64, Vec<(f64, u64)>),
}

impl Metrics {
    fn of(report: &Report) -> Result<Self, HistogramError> {
        let latencies = report.latencies()?;
        let (mut buckets, mut below) = (Vec::new(), 0);
        for power in 0..BUCKETS {
            let nanoseconds = 1000 << power;
            let until = latencies.count_between(0, nanoseconds);
            buckets.push((nanoseconds as f64 / 1e9, until - below));
            below = until;
        }
        buckets.push((f64::INFINITY, latencies.len() - below));
        let sum = latencies.mean() * latencies.len() as f64 / 1e9;
        let mut gauges = vec![
            ("window_seconds", "Length of the measurement.", report.window_seconds),
            ("requests_per_second", "Correct replies in a second.", report.requests_per_second),
            ("measured_load", "Requests under way on average.", report.measured_load),
            ("client_cpu_ratio", "The generator's share of a processor.", report.client_cpu_share),
            (
                "valid",
                "1 if the generator could do its work, and 0 if the figures say nothing.",
                f64::from(u8::from(report.invalid.is_empty())),
            ),
        ];
        if let Some(open) = &report.open_loop {
            let help = "The rate that was requested.";
            gauges.push(("intended_requests_per_second", help, open.intended_per_second));
        }
        Ok(Self {
            requests: report.requests,
            errors: report.errors.clone().into_iter().collect(),
            bytes_received: report.bytes_received,
            connections_opened: report.connections_opened,
            gauges,
            latencies: (sum, latencies.len(), buckets),
        })
    }
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page::new(encoder);
        page.counter("requests", "Correct replies in the window.", None, self.requests)?;
        let help = "Requests that failed in the window.";
        page.labelled("errors", help, "kind", &self.errors, ConstCounter::new)?;
        let help = "Bytes of correct replies.";
        page.counter("received", help, Some(&Unit::Bytes), self.bytes_received)?;
        let help = "Connections made, warm-up included.";
        page.counter("connections_opened", help, None, self.connections_opened)?;
        for (name, help, value) in &self.gauges {
            page.gauge(name, help, *value)?;
        }
        let (sum, count, buckets) = &self.latencies;
        let help = "From when a request began, or was due, to the last byte of its reply.";
        page.histogram("latency", help, *sum, *count, buckets)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

    use super::*;

    /// A report of two latencies. The report's target has characters that formats must quote.
    fn example() -> Report {
        let json = serde_json::json!({
            "version": 1, "target": "http://127.0.0.1:80/a?b=\"c,d\"", "pattern": "closed",
            "connections": 10, "keep_alive": true, "sources": 1, "window_seconds": 10.0,
            "requests": 1000, "requests_per_second": 100.0,
            "latency_us": { "mean": 1.5, "min": 1.0, "p50": 2.0, "p90": 3.0, "p99": 4.0,
                "p99.9": 5.0, "max": 6.0 },
            "measured_load": 1.0, "errors": { "reset": 10, "timed-out": 20 },
            "bytes_received": 4096, "connections_opened": 10, "connections_served": 10,
            "client_cpu_share": 0.1, "client_was_limit": false, "listen_overflows": 0,
            "listen_drops": 0, "crowd": {}, "warnings": [],
            "histogram": histogram(&[1_000, 3_000_000]),
        });
        serde_json::from_value(json).unwrap()
    }

    /// Latencies in nanoseconds, in a report's form.
    fn histogram(latencies: &[u64]) -> String {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        latencies.iter().for_each(|latency| histogram.record(*latency).unwrap());
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
        BASE64.encode(bytes)
    }

    #[test]
    fn csv_has_as_many_values_as_names() {
        let text = report(&example(), Format::Csv).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 1);
        let value = |name: &str| {
            let column = names.iter().position(|other| other == name).unwrap();
            rows[0][column].to_owned()
        };
        assert_eq!(value("target"), "http://127.0.0.1:80/a?b=\"c,d\"");
        assert_eq!(value("errors"), "reset 10; timed-out 20");
        assert_eq!((value("failed").as_str(), value("latency_p99_us").as_str()), ("30", "4.000"));
    }

    #[test]
    fn metrics_have_labels_and_buckets() {
        let text = report(&example(), Format::Prometheus).unwrap();
        let labels = r#"target="http://127.0.0.1:80/a?b=\"c,d\"",pattern="closed""#;
        for sample in [
            format!("duality_load_requests_total{{{labels}}} 1000\n"),
            format!("duality_load_errors_total{{{labels},kind=\"reset\"}} 10\n"),
            format!("duality_load_received_bytes_total{{{labels}}} 4096\n"),
            format!("duality_load_latency_seconds_bucket{{{labels},le=\"+Inf\"}} 2\n"),
            format!("duality_load_latency_seconds_count{{{labels}}} 2\n"),
            format!("duality_load_valid{{{labels}}} 1.0\n"),
        ] {
            assert!(text.contains(&sample), "{sample}: {text}");
        }
    }
}
