//! The plots' data, as plotly.js takes it. Colours are the page's to choose, for they depend on its theme: a trace has the
//! index of its subject's [`look`](super::looks).

use serde::Serialize;
use serde_json::{Value, json};

use super::axes::{axis, concurrency, linear, logarithmic, time};
use super::looks::{Look, looks};
use crate::format::{bytes, duration, grouped};
use crate::summary::{Medians, Row, Summary};

/// A plot and the words around it.
#[derive(Serialize)]
pub(super) struct Chart {
    id: &'static str,
    title: &'static str,
    caption: &'static str,
    pub(super) traces: Vec<Value>,
    pub(super) layout: Value,
}

/// All plots, in the order of the page.
pub(super) fn charts(summary: &Summary) -> Vec<Chart> {
    vec![
        throughput(summary),
        service_time(summary),
        measured_load(summary),
        latency(summary),
        cpu(summary),
        memory(summary),
    ]
}

pub(super) fn throughput(summary: &Summary) -> Chart {
    let mut traces = lines(summary, by_concurrency, |medians| medians.requests_per_second.value);
    for (trace, name) in traces.iter_mut().zip(&summary.subjects) {
        let reach = |up: bool| -> Vec<f64> {
            let rates = summary.of_subject(name).filter_map(Row::medians);
            rates
                .map(|medians| {
                    let rate = medians.requests_per_second;
                    let ends = rate.interval.map_or((0.0, 0.0), |interval| {
                        (rate.value - interval.low, interval.high - rate.value)
                    });
                    if up { ends.1 } else { ends.0 }
                })
                .collect()
        };
        trace["error_y"] = json!({
            "type": "data", "symmetric": false, "array": reach(true), "arrayminus": reach(false),
            "thickness": 1, "width": 3,
        });
        trace["hovertemplate"] = json!("%{y:,.0f} requests/s");
    }
    Chart {
        id: "throughput",
        title: "Requests per second",
        caption: "Correct replies per second against open connections. Bars: 95 % \
                  intervals of the medians. Higher is better.",
        traces,
        layout: layout(concurrency(summary), linear("requests/s")),
    }
}

fn service_time(summary: &Summary) -> Chart {
    let mut traces = lines(summary, |_, medians| medians.measured_load, |medians| medians.mean_us);
    for trace in &mut traces {
        trace["hovertemplate"] = json!("%{text} at load %{x:,.1f}");
    }
    label(summary, &mut traces, |medians| duration(medians.mean_us));
    Chart {
        id: "service-time",
        title: "Mean service time against load",
        caption: "How long a request takes when so many are in service at once (Kerneis & Chroboczek \
                  2009, Fig. 2). A server that adds the same time for each further request draws a \
                  straight line; the table under the charts gives its slope. Lower is better.",
        traces,
        layout: layout(
            over(summary, "requests in service", |medians| [medians.measured_load; 2], short),
            over(summary, "", |medians| [medians.mean_us; 2], time),
        ),
    }
}

fn measured_load(summary: &Summary) -> Chart {
    let mut traces = lines(summary, by_concurrency, |medians| medians.measured_load);
    for trace in &mut traces {
        trace["hovertemplate"] = json!("%{y:,.1f} of %{x:,} in service");
    }
    let ends = [summary.concurrency.iter().min(), summary.concurrency.iter().max()];
    traces.insert(
        0,
        json!({
            "x": ends, "y": ends, "mode": "lines", "hoverinfo": "skip",
            "line": {"width": 1.5, "dash": "dot"},
        }),
    );
    Chart {
        id: "measured-load",
        title: "Measured against offered load",
        caption: "Requests in service on average, against open connections (Kerneis & Chroboczek 2009, \
                  Fig. 1). On the dotted diagonal every connection has a request in service; below it \
                  something else, such as a queue limit, held requests back.",
        traces,
        layout: layout(
            concurrency(summary),
            over(summary, "measured load", |medians| [medians.measured_load; 2], short),
        ),
    }
}

/// One upright line for each architecture, from the median to the 99.9th percentile, for each
/// concurrency; the page shows one concurrency at a time.
fn latency(summary: &Summary) -> Chart {
    let mut traces = Vec::new();
    for (index, look) in looks(summary).into_iter().enumerate() {
        for row in summary.of_subject(&look.name) {
            let Some(medians) = row.medians() else { continue };
            let latencies = [medians.p50_us, medians.p99_us, medians.p99_9_us];
            let names = ["p50", "p99", "p99.9"];
            let text: Vec<String> = names
                .iter()
                .zip(latencies)
                .map(|(name, latency)| format!("{name} {}", duration(latency)))
                .collect();
            traces.push(json!({
                "name": look.name, "x": [look.name, look.name, look.name], "y": latencies,
                "text": text, "hovertemplate": "%{text}", "mode": "lines+markers",
                "meta": {
                    "look": index, "concurrency": row.concurrency,
                    "rows": [row.concurrency, row.concurrency, row.concurrency],
                },
                "line": {"width": 2},
                "marker": {
                    "opacity": 1, "size": [8, 9, 13], "symbol": ["circle-open", "circle", "line-ew-open"],
                    "line": {"width": 2},
                },
            }));
        }
    }
    let mut architectures = axis("");
    architectures["type"] = json!("category");
    // Names that do not fit side by side stand upright; none is left out.
    if summary.subjects.len() > 9 {
        architectures["tickangle"] = json!(-90);
        architectures["dtick"] = json!(1);
        architectures["tickfont"] = json!({"size": 11});
    }
    architectures["categoryarray"] = json!(summary.subjects);
    architectures["range"] = json!([-0.5, summary.subjects.len() as f64 - 0.5]);
    Chart {
        id: "latency",
        title: "Latency percentiles",
        caption: "From the hollow circle (median) by the full one (99 %) to the bar (99.9 % of the \
                  requests are no slower). The axis stays as it is from one concurrency to the next. \
                  Lower and shorter is better.",
        traces,
        layout: layout(
            architectures,
            over(summary, "", |medians| [medians.p50_us, medians.p99_9_us], time),
        ),
    }
}

pub(super) fn cpu(summary: &Summary) -> Chart {
    let mut traces = lines(summary, by_concurrency, |medians| medians.cpu_us);
    for trace in &mut traces {
        trace["hovertemplate"] = json!("%{y:,.1f} µs per request");
    }
    Chart {
        id: "cpu",
        title: "Server CPU per request",
        caption: "Processor time of the server, user and kernel, for each request. It also tells \
                  servers apart where the load generator was the limit. Lower is better.",
        traces,
        layout: layout(concurrency(summary), linear("µs per request")),
    }
}

/// The tail alone, over the concurrencies, where two runs are laid over each other.
pub(super) fn tail(summary: &Summary) -> Chart {
    let mut traces = lines(summary, by_concurrency, |medians| medians.p99_us);
    for trace in &mut traces {
        trace["hovertemplate"] = json!("%{text}");
    }
    label(summary, &mut traces, |medians| duration(medians.p99_us));
    Chart {
        id: "tail",
        title: "p99 latency",
        caption: "99 % of the requests are no slower. Lower is better.",
        traces,
        layout: layout(
            concurrency(summary),
            over(summary, "", |medians| [medians.p99_us; 2], time),
        ),
    }
}

pub(super) fn memory(summary: &Summary) -> Chart {
    const MIB: f64 = 1024.0 * 1024.0;
    let mut traces = lines(summary, by_concurrency, |medians| medians.memory_bytes / MIB);
    for trace in &mut traces {
        trace["hovertemplate"] = json!("%{text}");
    }
    label(summary, &mut traces, |medians| bytes(medians.memory_bytes));
    let mebibytes = over(summary, "MiB", |medians| [medians.memory_bytes / MIB; 2], short);
    Chart {
        id: "memory",
        title: "Server memory",
        caption: "The most memory that the server had; for several processes, the sum of their \
                  shares. Lower is better.",
        traces,
        layout: layout(concurrency(summary), mebibytes),
    }
}

/// One line for each architecture, over the concurrencies at which it was measured. Markers are hollow
/// where connections were left without a reply.
fn lines(
    summary: &Summary,
    x: impl Fn(&Row, &Medians) -> f64,
    y: impl Fn(&Medians) -> f64,
) -> Vec<Value> {
    let line = |(index, look): (usize, Look)| {
        let measured = || {
            let rows = summary.of_subject(&look.name);
            rows.filter_map(|row| Some((row, row.medians()?)))
        };
        let symbol = |(_, medians): (&Row, &Medians)| {
            let open = if medians.starved { "-open" } else { "" };
            format!("{}{open}", look.marker)
        };
        let symbols: Vec<String> = measured().map(symbol).collect();
        json!({
            "name": look.name, "mode": "lines+markers",
            "x": measured().map(|(row, medians)| x(row, medians)).collect::<Vec<_>>(),
            "y": measured().map(|(_, medians)| y(medians)).collect::<Vec<_>>(),
            // The number of connections leads from a point to its row of the table.
            "meta": {
                "look": index,
                "rows": measured().map(|(row, _)| row.concurrency).collect::<Vec<_>>(),
            },
            "line": {"width": 2, "dash": look.dash},
            "marker": {"symbol": symbols, "size": 8},
        })
    };
    looks(summary).into_iter().enumerate().map(line).collect()
}

/// Gives the points of [`lines`] words for the pointer.
fn label(summary: &Summary, traces: &mut [Value], show: impl Fn(&Medians) -> String) {
    for (trace, name) in traces.iter_mut().zip(&summary.subjects) {
        let measured = summary.of_subject(name).filter_map(Row::medians);
        trace["text"] = measured.map(&show).collect();
    }
}

fn by_concurrency(row: &Row, _: &Medians) -> f64 {
    row.concurrency as f64
}

fn layout(x: Value, y: Value) -> Value {
    let mut layout = json!({
        "showlegend": false, "hovermode": "closest",
        "margin": {"l": 58, "r": 12, "t": 12, "b": 48},
        "font": {"family": "system-ui, sans-serif", "size": 13},
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"namelength": -1},
    });
    layout["xaxis"] = x;
    layout["yaxis"] = y;
    layout
}

/// A logarithmic axis over what `of` gives of all rows.
fn over(
    summary: &Summary,
    title: &str,
    of: impl Fn(&Medians) -> [f64; 2],
    name: impl Fn(f64) -> String,
) -> Value {
    logarithmic(title, summary.rows.iter().filter_map(Row::medians).flat_map(of), name)
}

/// 0.5, 12 or 1,000.
fn short(number: f64) -> String {
    if number < 10.0 && number.fract() != 0.0 { format!("{number:.1}") } else { grouped(number) }
}
