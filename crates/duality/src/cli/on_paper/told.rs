//! What a model says, as a table and as JSON, format version 1.

use duality_lab::format::{duration, grouped};
use duality_lab::tell::sheet::{Cell, Part, Sheet, Table, left, right};
use duality_simulate::costs::Figures;
use schemars::JsonSchema;
use serde::Serialize;

/// The version of the form. The version changes when a field changes its meaning, and not for a new
/// field.
const VERSION: u32 = 1;

/// What `duality simulate --costs RUN --json` prints. Everything in it is computed, except
/// `measured`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Told {
    /// The version of this form.
    #[schemars(extend("const" = VERSION))]
    version: u32,
    /// A model of each service.
    models: Vec<Model>,
}

/// A model of a service.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Model {
    /// The service.
    pub(super) service: String,
    /// The results that its unit costs, own work and clients are from.
    pub(super) costs: String,
    /// The measured number of connections that the own work is of, if it is of a single one.
    pub(super) calibrated_at: Option<usize>,
    /// The time of a round trip between clients and hosts, in microseconds.
    pub(super) round_trip_us: f64,
    /// Requests per second that are asked for. `null`: each client asks again at once.
    pub(super) rate: Option<f64>,
    /// The computed servers.
    pub(super) rows: Vec<Row>,
}

/// A computed server.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    /// The architecture.
    pub(super) architecture: String,
    /// The number of hosts.
    pub(super) hosts: usize,
    /// The number of processors of a host.
    pub(super) processors: usize,
    /// The number of clients.
    pub(super) connections: usize,
    /// The service's own work for a request, in microseconds.
    pub(super) own_work_us: f64,
    /// Replies per second.
    requests_per_second: f64,
    /// The servers' processor time for a request, in microseconds.
    server_cpu_us_per_request: f64,
    /// Latencies of clients, in microseconds.
    latency_us: Latency,
    /// How long a request waits at its server before the turn that answers it, in microseconds.
    waited_us: f64,
    /// The share of the servers' processors that is busy, from 0 to 1.
    busy: f64,
    /// The mean number of requests in service.
    measured_load: f64,
    /// The number of clients that were served.
    connections_served: usize,
    /// What `compare` has measured of this server.
    pub(super) measured: Option<Observed>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(super) struct Latency {
    /// The mean.
    pub(super) mean: f64,
    /// The median.
    pub(super) p50: f64,
    /// What one request in a hundred exceeds.
    pub(super) p99: f64,
}

/// Measured figures, each the median of the repeats.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(super) struct Observed {
    /// Replies per second.
    pub(super) requests_per_second: f64,
    /// The server's processor time for a request, in microseconds.
    pub(super) server_cpu_us_per_request: f64,
    /// Latencies of clients, in microseconds.
    pub(super) latency_us: Latency,
}

impl Row {
    pub(super) fn new(
        architecture: &str,
        (hosts, processors): (usize, usize),
        connections: usize,
        own_work_us: f64,
        figures: &Figures,
    ) -> Self {
        let Figures { mean_us: mean, p50_us: p50, p99_us: p99, .. } = *figures;
        Self {
            architecture: architecture.to_owned(),
            hosts,
            processors,
            connections,
            own_work_us,
            requests_per_second: figures.requests_per_second,
            server_cpu_us_per_request: figures.cpu_us_per_request,
            latency_us: Latency { mean, p50, p99 },
            waited_us: figures.waited_us,
            busy: figures.busy,
            measured_load: figures.in_service,
            connections_served: figures.served,
            measured: None,
        }
    }

    /// The figures that are compared with measured ones: processor time, p50, p99. Each computed,
    /// and measured.
    fn pairs(&self) -> Option<[(f64, f64); 3]> {
        let measured = self.measured?;
        let (own, theirs) = (self.latency_us, measured.latency_us);
        Some([
            (self.server_cpu_us_per_request, measured.server_cpu_us_per_request),
            (own.p50, theirs.p50),
            (own.p99, theirs.p99),
        ])
    }
}

pub(super) fn json(models: Vec<Model>) -> String {
    serde_json::to_string(&Told { version: VERSION, models }).expect("it is plain data")
}

/// The answer in words.
pub(super) fn sheet(models: &[Model], is_check: bool) -> Sheet {
    let mut sheet = Sheet::new("On paper");
    for model in models {
        sheet.add(if is_check { checked(model) } else { computed(model) });
    }
    if is_check {
        sheet.add(bounds(models));
    }
    sheet
}

fn computed(model: &Model) -> Vec<Part> {
    let Model { service, costs, rate, round_trip_us, .. } = model;
    let asks = match rate {
        Some(rate) => format!("{} requests/s at random times", grouped(*rate)),
        None => "each client asks again at once".to_owned(),
    };
    let connections = model.rows.first().map_or(0, |row| row.connections);
    let served = model.rows.iter().filter(|row| row.connections_served < row.connections);
    let short = served.map(|row| {
        let count = grouped(row.connections_served as f64);
        format!("{} serves {count} of them at a time.", row.architecture)
    });
    let short = short.collect::<std::collections::BTreeSet<String>>();
    let columns = ["requests/s", "CPU/request", "p50", "p99", "waits", "busy"].map(right);
    let places = [left("architecture"), right("hosts"), right("processors")];
    let rows = model.rows.iter().map(|row| {
        vec![
            row.architecture.clone(),
            row.hosts.to_string(),
            row.processors.to_string(),
            grouped(row.requests_per_second),
            duration(row.server_cpu_us_per_request),
            duration(row.latency_us.p50),
            duration(row.latency_us.p99),
            duration(row.waited_us),
            format!("{:.0} %", 100.0 * row.busy),
        ]
    });
    let mut parts = vec![Part::sentence(format!(
        "This is a model and no measurement: {service}, {} connections, {asks}, a round trip of {}.",
        grouped(connections as f64),
        duration(*round_trip_us),
    ))];
    parts.extend(short.into_iter().map(Part::sentence));
    parts.push(Part::Table(Table::new([&places[..], &columns].concat(), cells(rows))));
    parts.push(Part::note(format!(
        "Unit costs and own work are of {costs}. Caches, contention and interrupts are not in the \
         model: docs/scale.md"
    )));
    parts
}

fn checked(model: &Model) -> Vec<Part> {
    let columns = ["CPU/request", "measured", "p50", "measured", "p99", "measured"].map(right);
    let rows = model.rows.iter().filter_map(|row| {
        let mut cells = vec![row.architecture.clone(), grouped(row.connections as f64)];
        for (computed, measured) in row.pairs()? {
            cells.extend([duration(computed), duration(measured)]);
        }
        Some(cells)
    });
    let at = model.calibrated_at.map_or(0.0, |at| at as f64);
    let first = [left("architecture"), right("connections")];
    let table = Table::new([&first[..], &columns].concat(), cells(rows));
    let service = &model.service;
    vec![
        Part::sentence(format!(
            "{service}: a model beside what was measured. The own work is of {} connections.",
            grouped(at)
        )),
        Part::Table(table),
    ]
}

fn cells(rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<Cell>> {
    rows.map(|row| row.into_iter().map(Cell::from).collect()).collect()
}

/// How far off the models are: the middle, and the ends.
fn bounds(models: &[Model]) -> Vec<Part> {
    let is_calibrating = |model: &Model, row: &Row| model.calibrated_at == Some(row.connections);
    let rows = |calibrating: bool| {
        models.iter().flat_map(move |model| {
            model.rows.iter().filter(move |row| is_calibrating(model, row) == calibrating)
        })
    };
    let line = |calibrating: bool| {
        let pairs: Vec<[(f64, f64); 3]> = rows(calibrating).filter_map(Row::pairs).collect();
        let texts = ["CPU", "p50", "p99"].iter().enumerate().map(|(index, name)| {
            let mut errors: Vec<f64> =
                pairs.iter().map(|pairs| 100.0 * (pairs[index].0 / pairs[index].1 - 1.0)).collect();
            errors.sort_by(f64::total_cmp);
            let end = |end: Option<&f64>| end.copied().unwrap_or(0.0);
            let middle = errors.get(errors.len() / 2);
            let (least, most) = (end(errors.first()), end(errors.last()));
            format!("{name} {least:+.0} to {most:+.0} %, middle {:+.0} %", end(middle))
        });
        texts.collect::<Vec<String>>().join("; ")
    };
    vec![
        Part::sentence(format!("Off at the numbers that it is made from: {}.", line(true))),
        Part::sentence(format!("Off at all others: {}.", line(false))),
    ]
}
