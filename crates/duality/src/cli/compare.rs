//! `duality compare` and `duality report`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duality_architectures::ALL;
use duality_lab::record::Design;
use duality_lab::summary::Summary;
use duality_lab::{machine, plan, report as page, results, run as lab};

use super::{Failure, Setup, load, serve};
use crate::catalogue::Catalogue;

/// The numbers of connections that are compared by default, those of ZeroHTTPd's and Kerneis's plots.
const CONCURRENCY: [usize; 4] = [1, 10, 100, 1000];

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The service (see `duality services`)
    service: Option<String>,
    /// Which architectures, such as threads,epoll; without it, all
    #[arg(short, long, value_delimiter = ',', value_name = "A,B,…")]
    architectures: Vec<String>,
    /// How many connections are open at once
    #[arg(short, long, value_delimiter = ',', value_name = "N,…", default_values_t = CONCURRENCY)]
    concurrency: Vec<usize>,
    /// Each connection carries request after request (the default)
    #[arg(long, conflicts_with = "close")]
    keep_alive: bool,
    /// A new connection for each request
    #[arg(long)]
    close: bool,
    /// How often each cell is measured, each time with a fresh server
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// How long each cell is measured; without it, chosen so that the whole takes about two minutes
    #[arg(long, value_parser = load::parse_duration)]
    window: Option<Duration>,
    /// What is dropped before each measurement
    #[arg(long, value_parser = load::parse_duration)]
    warm_up: Option<Duration>,
    /// The path that the http client asks for
    #[arg(long, default_value = "/")]
    path: String,
    #[command(flatten)]
    setup: Setup,
    /// Decides the order of the cells; without it, the time
    #[arg(long)]
    seed: Option<u64>,
    /// Where results.jsonl and report.html go; without it, a new directory duality-results-TIME
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with what --out has begun
    #[arg(long, requires = "out")]
    resume: bool,
    #[command(flatten)]
    tuning: serve::Tuning,
}

#[derive(clap::Args)]
pub(super) struct ReportArguments {
    /// Results files that `compare` wrote, of one experiment
    #[arg(required = true, value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// The page to write
    #[arg(short, long, default_value = "report.html", value_name = "FILE")]
    out: PathBuf,
}

pub(super) fn run(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    let plan = make_plan(catalogue, arguments)?;
    let out = arguments.out.clone().unwrap_or_else(fresh_directory);
    let cells =
        plan.design.architectures.len() * plan.design.concurrency.len() * plan.design.repeats;
    let each =
        plan.design.warm_up_seconds + plan.design.window_seconds + plan::OVERHEAD.as_secs_f64();
    eprintln!(
        "comparing {} architectures at {} connections, {} times each: {cells} cells, about {:.0} s; results in {}",
        plan.design.architectures.len(),
        join(&plan.design.concurrency),
        plan.design.repeats,
        each * cells as f64,
        out.display(),
    );
    let interrupted = load::on_interrupt()?;
    let finished = lab::compare(&plan, &out, arguments.resume, &interrupted)
        .map_err(|error| Failure::failed(error.to_string()))?;
    let page_path = out.join("report.html");
    page::write(&page_path, &finished.experiment, &finished.cells)
        .map_err(|error| Failure::failed(format!("{}: {error}", page_path.display())))?;
    println!("{}", Summary::of(&finished.experiment, &finished.cells).render_text().trim_end());
    eprintln!("report: {}", page_path.display());
    if !finished.complete {
        return Err(Failure::failed(format!(
            "interrupted after {} of {cells} cells: go on with `compare … --out {} --resume`",
            finished.cells.len(),
            out.display()
        )));
    }
    Ok(())
}

pub(super) fn report(arguments: &ReportArguments) -> Result<(), Failure> {
    let (experiment, cells) =
        results::read(&arguments.results).map_err(|error| Failure::misuse(error.to_string()))?;
    page::write(&arguments.out, &experiment, &cells)
        .map_err(|error| Failure::failed(format!("{}: {error}", arguments.out.display())))?;
    println!("{}", Summary::of(&experiment, &cells).render_text().trim_end());
    eprintln!("report: {}", arguments.out.display());
    Ok(())
}

fn make_plan(catalogue: &Catalogue, arguments: &Arguments) -> Result<plan::Plan, Failure> {
    let service = arguments.service.as_deref().unwrap_or(catalogue.default_name());
    if Path::new(service).extension().is_some_and(|extension| extension == "toml") {
        let problem = match Path::new(service).exists() {
            true => "plans from files are not there yet: give the plan by flags",
            false => "there is no such plan",
        };
        return Err(Failure::misuse(format!("{service}: {problem}")));
    }
    let needs = catalogue.look_up(service, &arguments.setup)?.needs;
    if arguments.concurrency.contains(&0) {
        return Err(Failure::misuse(
            "--concurrency: 0 connections make no load: give numbers from 1 on",
        ));
    }
    let architectures = match arguments.architectures.as_slice() {
        [] => ALL.to_vec(),
        names => names.iter().map(|name| serve::architecture(name)).collect::<Result<_, _>>()?,
    };
    let unavailable: BTreeMap<String, String> = architectures
        .iter()
        .filter_map(|architecture| {
            let why = architecture
                .unavailable()
                .or_else(|| needs.missing_from(architecture.gives()).map(str::to_owned))?;
            Some((architecture.name().to_owned(), why))
        })
        .collect();
    let repeats = usize::from(arguments.repeats);
    let cells = (architectures.len() - unavailable.len()) * arguments.concurrency.len() * repeats;
    let (warm_up, window) = plan::default_timing(cells);
    let (server_cpus, client_cpus) = machine::split_cpus();
    let mut server_arguments = arguments.tuning.to_arguments();
    server_arguments.extend(arguments.setup.to_arguments());
    let program = std::env::current_exe().map_err(|error| {
        Failure::failed(format!("cannot find this program to start servers: {error}"))
    })?;
    Ok(plan::Plan {
        design: Design {
            service: service.to_owned(),
            architectures: architectures
                .iter()
                .map(|architecture| architecture.name().to_owned())
                .collect(),
            concurrency: arguments.concurrency.clone(),
            keep_alive: arguments.keep_alive || !arguments.close,
            repeats,
            warm_up_seconds: arguments.warm_up.unwrap_or(warm_up).as_secs_f64(),
            window_seconds: arguments.window.unwrap_or(window).as_secs_f64(),
            seed: arguments.seed.unwrap_or_else(seed_of_the_moment),
            server_cpus,
            client_cpus,
            server_arguments,
            path: arguments.path.clone(),
        },
        exchange: catalogue.exchange(),
        unavailable,
        program,
        command: std::env::args().collect(),
    })
}

fn fresh_directory() -> PathBuf {
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    PathBuf::from(format!("duality-results-{now}"))
}

fn seed_of_the_moment() -> u64 {
    // Whole seconds: short enough to be typed again.
    jiff::Timestamp::now().as_second().unsigned_abs()
}

fn join(numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    numbers.join(", ")
}
