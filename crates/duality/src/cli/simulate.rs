//! `duality simulate`: runs a service in a simulated world, with faults, by seeds that come back.

mod progress;

use std::time::{Duration, Instant};

use duality_architectures::Registry;
use duality_lab::ask::settings::parse_duration;
use duality_lab::names::choose_from;
use duality_simulate::services::{self, Size};
use duality_simulate::{Faults, Seeds, Tally, Waits, seeds};

use self::progress::Progress;
use super::{Failure, Party, on_paper, paragraph, preloaded, print};
use crate::catalogue::{Catalogue, exchange_of};

/// The most hosts of one simulation.
const MOST_HOSTS: usize = 500;

#[derive(clap::Args)]
#[command(after_help = "\
A seed decides which task runs next, how many bytes a read moves, when packets
arrive, and what fails. Servers crash, drain and are cut off; time is virtual.
Then faults end, and every client must be served again. A reply may be missing
while servers fail; it may never be wrong.

Examples:
  duality simulate chat
      1,000 seeds of a minute of bad days each
  duality simulate phone --servers 2 --clients 8 --seeds 100 --for 10m
      longer, and larger
  duality simulate chat --servers 3
      one room on three servers, with a Redis that crashes too
  duality simulate chat --seed 831
      one seed: the failure that it was, made small
  duality simulate chat --seed 831 --trace
      all that happened, line by line
  duality simulate chat --architecture staged
      the threads, queues and locks of an architecture, in drawn orders
  duality simulate http --tls
      with handshakes, certificates and records of TLS
  duality simulate http --faults legal
      only what must never break a connection: short reads, late events, EINTR")]
pub(super) struct Arguments {
    /// The service (see `duality services`)
    service: Option<String>,
    /// Number of servers; clients are spread over them
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    servers: usize,
    /// Number of clients
    #[arg(long, default_value_t = 4, value_name = "NUMBER")]
    clients: usize,
    /// Number of seeds, from 0 on
    #[arg(long, default_value_t = 1000, value_name = "NUMBER", conflicts_with = "seed",
          value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// One seed
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Virtual time of the bad days of a seed
    #[arg(long = "for", value_parser = parse_duration, default_value = "1m", value_name = "TIME")]
    time: Duration,
    /// Architectures of the servers, one after the other, with their own threads and queues (see
    /// `duality architectures`); without it, each server is one loop. With --costs: epoll,threads
    #[arg(long, short, alias = "architectures", value_delimiter = ',', value_name = "A,B,…")]
    architecture: Vec<String>,
    /// Clients and servers speak by TLS
    #[arg(long)]
    tls: bool,
    /// What may go wrong
    #[arg(long, value_enum, default_value_t = Which::All)]
    faults: Which,
    /// Tell all that happens with --seed
    #[arg(long, requires = "seed")]
    trace: bool,
    #[command(flatten)]
    on_paper: on_paper::Flags,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Which {
    /// Everything: crashes, drains, partitions, resets, refused calls, and the legal ones
    All,
    /// What no program may break by: short reads and writes, late and spurious events, EINTR
    Legal,
    /// Nothing: only the order of tasks and of packets differs
    None,
}

pub(super) fn run(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    if let Some(costs) = arguments.on_paper.run() {
        let (service, seed) = (arguments.service.as_deref(), arguments.seed.unwrap_or(0));
        let asked = (costs, &arguments.architecture[..], &arguments.on_paper);
        return on_paper::answer(catalogue, service, arguments.servers, seed, asked);
    }
    let name = arguments.service.as_deref().unwrap_or_else(|| catalogue.default_name());
    if arguments.architecture.len() > 1 && arguments.trace {
        return Err(Failure::misuse("--trace tells of one architecture: give --architecture one"));
    }
    let mut sizes = Vec::new();
    for architecture in &arguments.architecture {
        sizes.push(size(name, arguments, Some(architecture))?);
    }
    if sizes.is_empty() {
        sizes.push(size(name, arguments, None)?);
    }
    if arguments.tls {
        preloaded::join()?;
    }
    sizes.into_iter().try_for_each(|size| simulate(catalogue, name, arguments, size))
}

fn simulate(
    catalogue: &Catalogue,
    name: &str,
    arguments: &Arguments,
    size: Size,
) -> Result<(), Failure> {
    let faults = match arguments.faults {
        Which::All => Faults::ALL,
        Which::Legal => Faults::LEGAL,
        Which::None => Faults::NONE,
    };
    let range = arguments.seed.map_or(0..=arguments.seeds - 1, |seed| seed..=seed);
    let line = command_line(name, arguments, size.architecture);
    let seeds = seeds(range)
        .faults(faults)
        .lasting(arguments.time + Duration::from_secs(24 * 3600))
        .turns(u64::MAX)
        .again(move |seed| format!("{line} --seed {seed} --trace"));
    // Threads of an architecture wait in one way only.
    let seeds = if size.architecture.is_none() { seeds.in_both_waits() } else { seeds };
    match catalogue.own().filter(|own| own.served.name() == name) {
        Some(own) => {
            let (request, reply) = exchange_of(own)?;
            let served = own.served.clone();
            let test = services::exchange(served, request, reply, size);
            answer((name, size.architecture), arguments, seeds, test)
        }
        None => match services::simulation(name) {
            Some(simulation) => {
                answer((name, size.architecture), arguments, seeds, simulation.run(size))
            }
            None => {
                let remedy = choose_from(name, services::ALL.iter().map(|one| one.name));
                Err(Failure::misuse(format!("there is no simulation of {name}; {remedy}")))
            }
        },
    }
}

fn size(
    service: &str,
    arguments: &Arguments,
    architecture: Option<&String>,
) -> Result<Size, Failure> {
    let Arguments { servers, clients, time, tls, .. } = *arguments;
    if servers == 0 || clients == 0 || servers.saturating_add(clients) > MOST_HOSTS {
        let problem = format!("--servers and --clients: from 1, and {MOST_HOSTS} together at most");
        return Err(Failure::misuse(problem));
    }
    let architecture = architecture.map(|name| architecture_for(service, name)).transpose()?;
    if tls && let Some(problem) = services::without_tls(service) {
        return Err(Failure::misuse(format!("--tls: {problem}")));
    }
    Ok(Size { servers, clients, days: time, architecture, tls })
}

/// The architecture of that name, if it can be simulated with the service.
fn architecture_for(service: &str, name: &str) -> Result<&'static str, Failure> {
    let architecture = Registry::default().named(name).map_err(Failure::misuse)?;
    let problem = services::unsimulated(architecture);
    match problem.or_else(|| services::unfit(architecture, service)) {
        Some(problem) => Err(Failure::misuse(problem)),
        None => Ok(architecture.name()),
    }
}

/// What the user types to see one seed again.
fn command_line(name: &str, arguments: &Arguments, architecture: Option<&str>) -> String {
    let Arguments { servers, clients, time, tls, faults, .. } = arguments;
    let mut line = format!("duality simulate {name}");
    let default = Size::default();
    if let Some(architecture) = architecture {
        line += &format!(" --architecture {architecture}");
    }
    if *tls {
        line += " --tls";
    }
    if *servers != default.servers {
        line += &format!(" --servers {servers}");
    }
    if *clients != default.clients {
        line += &format!(" --clients {clients}");
    }
    if *time != default.days {
        line += &format!(" --for {}ms", time.as_millis());
    }
    line + match faults {
        Which::All => "",
        Which::Legal => " --faults legal",
        Which::None => " --faults none",
    }
}

/// Runs the seeds of a service, and prints what came of them.
fn answer<F, T>(
    (name, architecture): (&str, Option<&str>),
    arguments: &Arguments,
    seeds: Seeds,
    test: T,
) -> Result<(), Failure>
where
    T: Fn(duality_simulate::Net) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), duality_simulate::Violation>> + 'static,
{
    if let Some(seed) = arguments.seed.filter(|_| arguments.trace) {
        let (story, ended) = seeds.waits(Waits::Suspend).trace(seed, false, test);
        print(&story.join("\n"))?;
        return ended
            .map_err(|why| Failure::new(Party::Subject, format!("seed {seed} fails: {why}")));
    }
    let begin = Instant::now();
    let progress = Progress::new(name, arguments.seed.map_or(arguments.seeds, |_| 1));
    let shown = progress.clone();
    let outcome = seeds.watched(move |passed| shown.passed(passed)).try_run(test);
    progress.end();
    match outcome {
        Ok(tally) => print(&summary(name, architecture, &tally, begin.elapsed())),
        Err(failure) => {
            print(&failure.to_string())?;
            let seed = failure.seed;
            Err(Failure::new(Party::Subject, format!("seed {seed} of {name} fails, as told above")))
        }
    }
}

fn summary(name: &str, architecture: Option<&str>, tally: &Tally, took: Duration) -> String {
    let hours = tally.time.as_secs_f64() / 3600.0;
    let a_minute = hours / (took.as_secs_f64() / 60.0).max(f64::MIN_POSITIVE);
    let seeds = match tally.seeds {
        1 => "1 seed passes".to_owned(),
        count => format!("{count} seeds pass"),
    };
    let how = match architecture {
        None => "each as state machines and as stacks".to_owned(),
        Some(architecture) => format!("each twice under {architecture}"),
    };
    format!(
        "{name}: {seeds}, {how}, with the same decisions\n\
         virtual time: {hours:.1} h in {:.1} s ({a_minute:.0} h a minute)\n\
         {}hash of all seeds: {:016x}",
        took.as_secs_f64(),
        paragraph("what happened: ", "  ", &tally.counts.to_string()),
        tally.hash
    )
}
