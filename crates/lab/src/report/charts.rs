//! The plots' data, as plotly.js takes it.
//!
//! A subject, which is an architecture or a peer, has one colour and one marker on the whole page. Colours are Paul Tol's "muted"
//! scheme, which the colour-blind can tell apart (<https://personal.sron.nl/~pault/>); the markers carry
//! the same distinction into print.

use serde::Serialize;
use serde_json::{Value, json};

use crate::format::{bytes, connections, duration};
use crate::summary::{Medians, Row, Summary};

const COLOURS: [&str; 9] = [
    "#332288", "#cc6677", "#117733", "#88ccee", "#882255", "#ddaa33", "#44aa99", "#aa4499",
    "#999933",
];

/// plotly.js's names, and what to draw for each in a legend (within 14 × 14).
const MARKERS: [(&str, &str); 8] = [
    ("circle", "M7 2a5 5 0 1 0 .01 0z"),
    ("square", "M2.5 2.5h9v9h-9z"),
    ("diamond", "M7 1l6 6-6 6-6-6z"),
    ("triangle-up", "M7 1.5l6 10.5H1z"),
    ("triangle-down", "M7 12.5L1 2h12z"),
    ("cross", "M5 1.5h4v3.5h3.5v4H9v3.5H5V9H1.5V5H5z"),
    ("x", "M4 1l3 3 3-3 3 3-3 3 3 3-3 3-3-3-3 3-3-3 3-3-3-3z"),
    ("star", "M7 .8l1.9 4 4.3.5-3.2 3 .9 4.4L7 10.5l-3.9 2.2.9-4.4-3.2-3 4.3-.5z"),
];

/// A plot and the words around it.
#[derive(Serialize)]
pub(super) struct Chart {
    id: &'static str,
    title: &'static str,
    caption: &'static str,
    pub(super) traces: Vec<Value>,
    pub(super) layout: Value,
}

/// How a subject looks on every plot.
#[derive(Serialize)]
pub(super) struct Look {
    name: String,
    label: String,
    colour: &'static str,
    marker: &'static str,
    path: &'static str,
}

/// The looks of the subjects, in their order.
pub(super) fn legend(summary: &Summary) -> Vec<Look> {
    let look = |(index, name): (usize, &String)| {
        // Nine colours and eight markers: 72 subjects differ.
        let (marker, path) = MARKERS[index % MARKERS.len()];
        let label = summary.label(name);
        Look { name: name.clone(), label, colour: COLOURS[index % COLOURS.len()], marker, path }
    };
    summary.subjects.iter().enumerate().map(look).collect()
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
        layout: layout(concurrency_axis(summary), linear("requests/s")),
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
            log("measured load (requests in service)"),
            microseconds_axis(summary, |medians| [medians.mean_us, medians.mean_us]),
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
            "line": {"color": "#9aa3ad", "width": 1.5, "dash": "dot"},
        }),
    );
    Chart {
        id: "measured-load",
        title: "Measured against offered load",
        caption: "Requests in service on average, against open connections (Kerneis & Chroboczek 2009, \
                  Fig. 1). On the dotted diagonal every connection has a request in service; below it \
                  something else, such as a queue limit, held requests back.",
        traces,
        layout: layout(concurrency_axis(summary), log("measured load")),
    }
}

/// One upright line for each architecture, from the median to the 99.9th percentile, for each
/// concurrency; the page shows one concurrency at a time.
fn latency(summary: &Summary) -> Chart {
    let mut traces = Vec::new();
    for look in legend(summary) {
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
                "meta": {"concurrency": row.concurrency},
                "line": {"color": look.colour, "width": 2},
                "marker": {
                    "color": ["#ffffff", look.colour, look.colour], "size": [8, 9, 11],
                    "symbol": ["circle", "circle", "line-ew"],
                    "line": {"color": look.colour, "width": 2},
                },
            }));
        }
    }
    let mut architectures = axis("");
    architectures["type"] = json!("category");
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
            microseconds_axis(summary, |medians| [medians.p50_us, medians.p99_9_us]),
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
        layout: layout(concurrency_axis(summary), linear("µs per request")),
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
            concurrency_axis(summary),
            microseconds_axis(summary, |medians| [medians.p99_us, medians.p99_us]),
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
    let mut mebibytes = log("MiB");
    mebibytes["dtick"] = json!("D2"); // also at 2 and 5: memory seldom spans many powers of ten
    Chart {
        id: "memory",
        title: "Server memory",
        caption: "The most memory that the server had; for several processes, the sum of their \
                  shares. Lower is better.",
        traces,
        layout: layout(concurrency_axis(summary), mebibytes),
    }
}

/// One line for each architecture, over the concurrencies at which it was measured. Markers are hollow
/// where connections were left without a reply.
fn lines(
    summary: &Summary,
    x: impl Fn(&Row, &Medians) -> f64,
    y: impl Fn(&Medians) -> f64,
) -> Vec<Value> {
    let line = |look: Look| {
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
            "line": {"color": look.colour, "width": 2},
            "marker": {"color": look.colour, "symbol": symbols, "size": 8},
        })
    };
    legend(summary).into_iter().map(line).collect()
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
        "showlegend": false, "hovermode": "closest", "height": 380,
        "margin": {"l": 66, "r": 14, "t": 12, "b": 52},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#33404d"},
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"namelength": -1},
    });
    layout["xaxis"] = x;
    layout["yaxis"] = y;
    layout
}

fn axis(title: &str) -> Value {
    json!({
        "title": {"text": title, "standoff": 10, "font": {"size": 13}}, "gridcolor": "#e8ebef",
        "linecolor": "#b8c0c8", "zeroline": false, "ticks": "outside", "ticklen": 4,
        "tickcolor": "#b8c0c8", "automargin": true, "fixedrange": true,
    })
}

fn linear(title: &str) -> Value {
    let mut linear = axis(title);
    linear["rangemode"] = json!("tozero");
    linear["tickformat"] = json!(",~s");
    linear
}

fn log(title: &str) -> Value {
    let mut log = axis(title);
    log["type"] = json!("log");
    log["dtick"] = json!(1);
    log["tickformat"] = json!(",~r");
    log
}

/// Marks just the concurrencies that were measured, and names as many of them as there is room for.
fn concurrency_axis(summary: &Summary) -> Value {
    /// How many names fit side by side.
    const NAMES: f64 = 7.0;
    let mut marked = log("open connections");
    marked["tickmode"] = json!("array");
    marked["tickvals"] = json!(summary.concurrency);
    let place = |count: usize| (count as f64).log10();
    let (least, most) = (summary.concurrency.iter().min(), summary.concurrency.iter().max());
    let room = least.zip(most).map_or(0.0, |(&least, &most)| (place(most) - place(least)) / NAMES);
    // From the largest down, for what happens there is what one looks for.
    let mut named_last = f64::INFINITY;
    let mut names: Vec<String> = Vec::new();
    for &count in summary.concurrency.iter().rev() {
        let is_clear = named_last - place(count) >= room;
        names.push(if is_clear {
            named_last = place(count);
            connections(count).split(' ').next().unwrap_or_default().to_owned()
        } else {
            String::new()
        });
    }
    names.reverse();
    marked["ticktext"] = json!(names);
    marked
}

/// Powers of ten from 1 µs to 100 s, in people's units, over all that `ends` gives.
fn microseconds_axis(summary: &Summary, ends: impl Fn(&Medians) -> [f64; 2]) -> Value {
    let all = summary.rows.iter().filter_map(Row::medians).flat_map(ends);
    let (low, high) = all
        .filter(|value| *value > 0.0)
        .map(f64::log10)
        .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    let mut marked = log("");
    marked["tickmode"] = json!("array");
    marked["tickvals"] = (0..=8).map(|power| 10f64.powi(power)).collect();
    marked["ticktext"] =
        json!(["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"]);
    if low <= high {
        marked["range"] = json!([low - 0.15, high + 0.15]);
    }
    marked
}
