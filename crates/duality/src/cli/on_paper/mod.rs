//! `duality simulate --costs`: a service on more processors and hosts, on paper.

mod basis;
mod told;

use std::path::PathBuf;
use std::time::Duration;

use duality_architectures::Served;
use duality_lab::ask::settings::parse_duration;
use duality_lab::names::choose_from;
use duality_lab::record::Measured;
use duality_lab::statistics::median;
use duality_lab::tell::render::text::{TERMINAL, text};
use duality_runtime::log;
use duality_services::{Setup, find};
use duality_simulate::costs::{Exchange, MOST_LOOPS, Question, figures};

pub use self::told::Told;

use self::basis::{ARCHITECTURES, Basis, Own, layout};
use self::told::{Latency, Model, Observed, Row};
use super::runs::Run;
use super::{Failure, Party, print};
use crate::catalogue::{Catalogue, exchange_of};

/// The most connections of a model.
const MOST_CONNECTIONS: usize = 10_000_000;

#[derive(clap::Args)]
#[command(next_help_heading = "On paper")]
pub(super) struct Flags {
    /// Compute what the service takes on other processors, with unit costs and own work of this run
    /// of `duality compare`; nothing fails
    #[arg(long, value_name = "RUN", conflicts_with_all = ["clients", "seeds", "time", "faults", "trace"])]
    costs: Option<PathBuf>,
    /// Processors of a host [default: 1,2,4,8,16]
    #[arg(long, value_delimiter = ',', value_name = "N,…", requires = "costs")]
    processors: Vec<usize>,
    /// Connections of all hosts together
    #[arg(short, long, value_name = "N", default_value_t = 1000, requires = "costs")]
    connections: usize,
    /// Requests per second at random times, instead of one after the other on each connection
    #[arg(short = 'R', long, value_name = "RATE", requires = "costs")]
    rate: Option<f64>,
    /// A connection for each request
    #[arg(long, requires = "costs")]
    close: bool,
    /// Time of a packet to a host and back
    #[arg(long, value_parser = parse_duration, default_value = "100us", value_name = "TIME", requires = "costs")]
    round_trip: Duration,
    /// Virtual time to observe
    #[arg(long, value_parser = parse_duration, default_value = "1s", value_name = "TIME", requires = "costs")]
    window: Duration,
    /// Compute the servers that the run has measured, and tell how far off that is
    #[arg(long, requires = "costs", conflicts_with_all = ["service", "processors", "connections", "rate", "close", "round_trip"])]
    check: bool,
    /// Print JSON (format version 1)
    #[arg(long, requires = "costs")]
    json: bool,
}

impl Flags {
    /// The run with the costs, if a model is asked for.
    pub(super) fn run(&self) -> Option<&PathBuf> {
        self.costs.as_ref()
    }
}

/// Answers by a model.
pub(super) fn answer(
    catalogue: &Catalogue,
    service: Option<&str>,
    hosts: usize,
    seed: u64,
    (run, asked, flags): (&PathBuf, &[String], &Flags),
) -> Result<(), Failure> {
    let architectures = architectures(asked, flags)?;
    let run = Run::read(run)?;
    let models = match flags.check {
        true => check(catalogue, &run, &architectures, flags)?,
        false => vec![model(catalogue, service, (hosts, seed), &run, &architectures, flags)?],
    };
    match flags.json {
        true => print(&told::json(models)),
        false => print(&text(&told::sheet(&models, flags.check), TERMINAL)),
    }
}

fn architectures<'a>(asked: &'a [String], flags: &Flags) -> Result<Vec<&'a str>, Failure> {
    let chosen: Vec<&str> = match asked {
        [] if flags.check => ARCHITECTURES.to_vec(),
        [] => vec!["epoll", "threads"],
        chosen => chosen.iter().map(String::as_str).collect(),
    };
    match chosen.iter().find(|name| !ARCHITECTURES.contains(name)) {
        None => Ok(chosen),
        Some(name) => {
            let remedy = choose_from(name, ARCHITECTURES);
            Err(Failure::misuse(format!("--costs has no architecture {name}: {remedy}")))
        }
    }
}

/// The service, and what its clients ask for.
fn subject(catalogue: &Catalogue, name: &str, closes: bool) -> Result<(Served, Exchange), Failure> {
    if let Some(own) = catalogue.own().filter(|own| own.served.name() == name) {
        let (request, reply) = exchange_of(own)?;
        let exchange = basis::exchange(name, Some((&request, reply.len())), closes)?;
        return Ok((own.served.clone(), exchange));
    }
    let exchange = basis::exchange(name, None, closes)?;
    let entry = find(name).expect("services with clients here are built in");
    let handler = (entry.open)(&Setup::default())
        .map_err(|error| Failure::new(Party::Machine, error.to_string()))?;
    Ok((Served::new(entry.name, duality_architectures::Needs::ALL, handler), exchange))
}

fn model(
    catalogue: &Catalogue,
    service: Option<&str>,
    (hosts, seed): (usize, u64),
    run: &Run,
    architectures: &[&str],
    flags: &Flags,
) -> Result<Model, Failure> {
    let first = run.experiments.first().map(|found| &*found.results.0.design.service);
    let service = service.or(first).unwrap_or_else(|| catalogue.default_name());
    let of_service = |found: &&super::runs::Found| found.results.0.design.service == service;
    let found = run.experiments.iter().find(of_service).ok_or_else(|| {
        let path = run.path.display();
        Failure::misuse(format!(
            "--costs: {path} has not measured {service}: run `duality compare {service} --out DIR`"
        ))
    })?;
    let basis = Basis::of(found)?;
    let (served, exchange) = subject(catalogue, service, flags.close)?;
    let own = basis.own(flags.connections).ok_or_else(|| no_own_work(&basis))?;
    let processors = match &flags.processors[..] {
        [] => &[1, 2, 4, 8, 16],
        chosen => chosen,
    };
    let mut rows = Vec::new();
    for architecture in architectures {
        for &processors in processors {
            let question = Question {
                hosts,
                processors,
                connections: flags.connections,
                rate: flags.rate,
                client: 0.0,
                latency: flags.round_trip / 2,
                window: flags.window,
                seed,
                ..question(&basis, architecture, flags.connections, hosts * processors, own)?
            };
            check_size(&question)?;
            log::tell(format_args!("{architecture} on {hosts} × {processors} processors"));
            rows.push(row(architecture, &question, own, &served, &exchange)?);
        }
    }
    Ok(Model {
        service: service.to_owned(),
        costs: basis.file(),
        calibrated_at: None,
        round_trip_us: flags.round_trip.as_secs_f64() * 1e6,
        rate: flags.rate,
        rows,
    })
}

fn no_own_work(basis: &Basis<'_>) -> Failure {
    let names = ARCHITECTURES.join(", ");
    Failure::misuse(format!("--costs: {}: it has measured none of {names}", basis.file()))
}

/// Bounds what this machine can compute.
fn check_size(question: &Question) -> Result<(), Failure> {
    let Question { hosts, processors, connections, rate, window, .. } = *question;
    let problem = if hosts == 0 || processors == 0 || hosts.saturating_mul(processors) > MOST_LOOPS
    {
        format!("--servers and --processors: from 1, and {MOST_LOOPS} processors together at most")
    } else if connections == 0 || connections > MOST_CONNECTIONS {
        format!("--connections: from 1 to {MOST_CONNECTIONS}")
    } else if rate.is_some_and(|rate| !(1e-3..=1e9).contains(&rate)) {
        "--rate: requests a second from 0.001 to 1e9".to_owned()
    } else if window.is_zero() || window > Duration::from_secs(300) {
        "--window: up to 5m".to_owned()
    } else {
        return Ok(());
    };
    Err(Failure::misuse(problem))
}

/// A question about one loop or host of the measured machine.
fn question(
    basis: &Basis<'_>,
    architecture: &str,
    connections: usize,
    loops: usize,
    own: Own,
) -> Result<Question, Failure> {
    let watched = connections as f64 / loops.max(1) as f64;
    let prices = basis.prices(architecture, watched, own);
    let prices = prices
        .map_err(|missing| Failure::misuse(format!("--costs: {}: {missing}", basis.file())))?;
    Ok(Question {
        layout: layout(architecture),
        prices,
        hosts: 1,
        processors: 1,
        connections,
        rate: None,
        client: 0.0,
        latency: Duration::ZERO,
        window: Duration::ZERO,
        seed: 0,
    })
}

fn row(
    architecture: &str,
    question: &Question,
    own: Own,
    served: &Served,
    exchange: &Exchange,
) -> Result<Row, Failure> {
    let computed = figures(question, served, exchange)
        .map_err(|why| Failure::new(Party::Subject, format!("{architecture}: {why}")))?;
    let place = (question.hosts, question.processors);
    Ok(Row::new(architecture, place, question.connections, own.work, &computed))
}

/// Computes the cells of a run: the servers on one processor, and the load generator on another.
fn check(
    catalogue: &Catalogue,
    run: &Run,
    architectures: &[&str],
    flags: &Flags,
) -> Result<Vec<Model>, Failure> {
    let mut models = Vec::new();
    for found in &run.experiments {
        let basis = Basis::of(found)?;
        basis.assert_checkable()?;
        let service = basis.service().to_owned();
        let is_once = !basis.keeps_alive() && service != "time";
        let (served, exchange) = subject(catalogue, &service, is_once)?;
        // The number of connections from which all others are computed.
        let distance =
            |connections: &usize| ((*connections as f64 / 100.0).ln().abs() * 1e9) as u64;
        let calibrated_at = basis.measured_at().min_by_key(distance);
        let own = calibrated_at.and_then(|at| basis.own_at(at));
        let own = own.ok_or_else(|| no_own_work(&basis))?;
        let mut rows = Vec::new();
        for architecture in architectures {
            for connections in basis.measured_at() {
                let cells = basis.cells(architecture, connections);
                let Some(measured) = observed(&cells) else { continue };
                let served_at_once = middle(&cells, |cell| cell.connections_served as f64);
                let clients = (served_at_once as usize).clamp(1, connections);
                let asked = match question(&basis, architecture, clients, 1, own) {
                    Ok(asked) => asked,
                    Err(why) => {
                        log::tell(format_args!("left out: {architecture}: {why}"));
                        break;
                    }
                };
                let (client, window) = (1e3 * own.client, flags.window);
                let question = Question { client, window, ..asked };
                let mut row = row(architecture, &question, own, &served, &exchange)?;
                (row.connections, row.measured) = (connections, Some(measured));
                rows.push(row);
            }
        }
        models.push(Model {
            service,
            costs: basis.file(),
            calibrated_at,
            round_trip_us: 0.0,
            rate: None,
            rows,
        });
    }
    Ok(models)
}

fn middle(cells: &[&Measured], figure: impl Fn(&Measured) -> f64) -> f64 {
    median(&cells.iter().map(|cell| figure(cell)).collect::<Vec<f64>>()).unwrap_or(0.0)
}

fn observed(cells: &[&Measured]) -> Option<Observed> {
    let middle = |figure: fn(&Measured) -> f64| middle(cells, figure);
    (!cells.is_empty()).then(|| Observed {
        requests_per_second: middle(|cell| cell.requests_per_second),
        server_cpu_us_per_request: middle(|cell| cell.server_cpu_us_per_request),
        latency_us: Latency {
            mean: middle(|cell| cell.latency_us.mean),
            p50: middle(|cell| cell.latency_us.p50),
            p99: middle(|cell| cell.latency_us.p99),
        },
    })
}
