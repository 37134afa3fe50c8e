//! What a model stands on: unit costs and a service's own work, from results of `compare`.

use duality_lab::model::{self, Carrier, Missing, Operation, UnitCosts, Workload};
use duality_lab::record::{self, Cell, Measured, Outcome};
use duality_lab::statistics::median;
use duality_simulate::costs::{Exchange, Layout, Prices};

use super::super::Failure;
use super::super::runs::Found;

/// The architectures that a model has.
pub(super) const ARCHITECTURES: [&str; 6] =
    ["epoll", "poll", "select", "uthreads", "threads", "workpool-fifo"];

/// The workers of a work pool, as `--workers` has them by default.
const WORKERS: usize = 100;

/// The blocks of a request under a work pool. Each is put into the queue and taken out under its
/// lock.
const BLOCKS: f64 = 2.0;

/// The unit costs of a machine, and what a service took there.
pub(super) struct Basis<'f> {
    found: &'f Found,
    workloads: Vec<Workload>,
}

/// What a request takes whatever the architecture is, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    /// Of the server.
    pub(super) work: f64,
    /// Of the one processor of the load generator.
    pub(super) client: f64,
}

impl<'f> Basis<'f> {
    /// # Errors
    ///
    /// If the results have no unit costs, or none of them can be modelled.
    pub(super) fn of(found: &'f Found) -> Result<Self, Failure> {
        let (heading, records) = &found.results;
        let misuse =
            |why: String| Failure::misuse(format!("--costs: {}: {why}", found.file.display()));
        if heading.unit_costs.is_empty() {
            return Err(misuse(
                "it has no unit costs: measure for a minute or longer, with one program on this \
                 machine"
                    .to_owned(),
            ));
        }
        let service = &heading.design.service;
        let all = model::workloads(service, heading, &records.cells, &heading.unit_costs);
        let mut workloads = all.map_err(|missing| misuse(missing.to_string()))?;
        workloads.retain(|workload| !workload.subjects.is_empty());
        if workloads.is_empty() {
            return Err(misuse("no server in it has counted its operations".to_owned()));
        }
        Ok(Self { found, workloads })
    }

    /// # Errors
    ///
    /// If the servers were not asked as those of a model are, on one processor.
    pub(super) fn assert_checkable(&self) -> Result<(), Failure> {
        let design = &self.found.results.0.design;
        let clients = &design.clients;
        let others = clients.idle + clients.slow_readers + clients.slow_senders;
        if clients.pattern == "closed" && others == 0 && design.server_cpus.len() == 1 {
            return Ok(());
        }
        let file = self.file();
        Err(Failure::misuse(format!(
            "--check: {file}: its clients do not all ask again at once, or its servers have several \
             processors: check a run of plans/scale.toml"
        )))
    }

    pub(super) fn service(&self) -> &str {
        &self.found.results.0.design.service
    }

    pub(super) fn keeps_alive(&self) -> bool {
        self.found.results.0.design.keep_alive
    }

    pub(super) fn file(&self) -> String {
        self.found.file.display().to_string()
    }

    fn costs(&self) -> &UnitCosts {
        &self.found.results.0.unit_costs
    }

    /// The numbers of connections that were measured.
    pub(super) fn measured_at(&self) -> impl Iterator<Item = usize> {
        self.workloads.iter().map(|workload| workload.connections)
    }

    /// The repeats of a cell.
    pub(super) fn cells(&self, architecture: &str, connections: usize) -> Vec<&Measured> {
        let is_asked =
            |cell: &&Cell| cell.subject == architecture && cell.concurrency == connections;
        let measured = |cell: &'f Cell| match &cell.outcome {
            Outcome::Measured(measured) => Some(&**measured),
            Outcome::Unavailable { .. } | Outcome::Failed { .. } => None,
        };
        self.found.results.1.cells.iter().filter(is_asked).filter_map(measured).collect()
    }

    /// The own work at a measured number of connections: the median of the architectures that a
    /// model has.
    pub(super) fn own_at(&self, connections: usize) -> Option<Own> {
        let workload = self.workloads.iter().find(|one| one.connections == connections)?;
        let (mut works, mut clients) = (Vec::new(), Vec::new());
        for subject in &workload.subjects {
            if ARCHITECTURES.contains(&&*subject.architecture) {
                works.push(subject.independent());
                let cells = self.cells(&subject.architecture, connections);
                let client =
                    |cell: &&Measured| 1e6 * cell.client_cpu_share / cell.requests_per_second;
                clients.extend(median(&cells.iter().map(client).collect::<Vec<f64>>()));
            }
        }
        Some(Own { work: median(&works)?, client: median(&clients)? })
    }

    /// The own work at any number of connections. Between two measured numbers it is on a straight
    /// line over the logarithm. Beyond them it is that of the nearest one.
    pub(super) fn own(&self, connections: usize) -> Option<Own> {
        let mut points: Vec<(f64, Own)> = self
            .measured_at()
            .filter_map(|measured| Some(((measured as f64).ln(), self.own_at(measured)?)))
            .collect();
        points.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let at = (connections as f64).ln();
        let after = points.iter().position(|(place, _)| *place >= at);
        match after {
            None => points.last().map(|(_, own)| *own),
            Some(0) => points.first().map(|(_, own)| *own),
            Some(after) => {
                let ((from, low), (to, high)) = (points[after - 1], points[after]);
                let share = (at - from) / (to - from);
                let between = |low: f64, high: f64| low + (high - low) * share;
                Some(Own {
                    work: between(low.work, high.work),
                    client: between(low.client, high.client),
                })
            }
        }
    }

    /// What operations take under an architecture, in a loop that watches so many connections.
    ///
    /// # Errors
    ///
    /// If a unit cost is not known.
    pub(super) fn prices(
        &self,
        architecture: &str,
        watched: f64,
        own: Own,
    ) -> Result<Prices, Missing> {
        let carrier = carrier(architecture);
        let price = |operation| self.costs().price(operation, carrier, watched);
        let work = 1e3 * own.work;
        let (rest, wake) = (price(Operation::Rest)?, price(Operation::Wake)?);
        let attempt = price(Operation::Attempt)?;
        if layout(architecture) != Layout::Loops {
            let queue = match architecture {
                "workpool-fifo" => 2.0 * BLOCKS * price(Operation::Lock)?,
                _ => 0.0,
            };
            // A work pool starts its threads once.
            let start = match architecture {
                "workpool-fifo" => 0.0,
                _ => price(Operation::Thread)?,
            };
            let switch = price(Operation::Interruption)?;
            let work = work + queue;
            return Ok(Prices { start, attempt, rest, switch, wake, work, ..Prices::default() });
        }
        Ok(Prices {
            turn: price(Operation::Turn)?,
            start: price(Operation::Task)?,
            attempt,
            in_vain: attempt + price(Operation::InVain)?,
            registration: price(Operation::Registration)?,
            round: price(Operation::Round)? + watched * price(Operation::Watched)?,
            event: price(Operation::Event)?,
            rest,
            wake,
            work,
            ..Prices::default()
        })
    }
}

/// How connections are carried under an architecture of [`ARCHITECTURES`].
pub(super) fn layout(architecture: &str) -> Layout {
    match architecture {
        "threads" => Layout::Threads { places: usize::MAX },
        "workpool-fifo" => Layout::Threads { places: WORKERS },
        _ => Layout::Loops,
    }
}

/// The carrier with the unit costs of an architecture. User-level threads are on epoll here.
fn carrier(architecture: &str) -> Carrier {
    let like = if architecture == "workpool-fifo" { "threads" } else { architecture };
    let recorded = record::Carrier::in_older_results(like, &[]);
    recorded.as_ref().and_then(Carrier::of).expect("each architecture of a model has unit costs")
}

/// What clients of a service ask for.
///
/// # Errors
///
/// If a model has no clients for the service.
pub(super) fn exchange(
    service: &str,
    own: Option<(&[u8], usize)>,
    closes: bool,
) -> Result<Exchange, Failure> {
    let found = match own {
        Some((request, reply)) => Some(Exchange::new(request, reply)),
        None => Exchange::of(service),
    };
    let exchange = found.ok_or_else(|| {
        Failure::misuse(format!(
            "--costs has no clients for {service}: choose echo, http, quote or time"
        ))
    })?;
    Ok(if closes { exchange.once() } else { exchange })
}
