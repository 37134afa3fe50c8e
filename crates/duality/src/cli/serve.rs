//! `duality serve`.

use std::io::Write;
use std::net::SocketAddr;

use clap::ValueEnum;
use duality_architectures::{ALL, Architecture, HandOver, Options, Server, find, signals};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{Failure, Setup};
use crate::catalogue::Catalogue;
use crate::control::Control;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The service (see `duality services`)
    service: Option<String>,
    /// How connections become processes, threads or events (see `duality architectures`)
    #[arg(short, long, default_value = "epoll")]
    architecture: String,
    /// Where to listen; port 0 takes a free one
    #[arg(short, long, default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    #[command(flatten)]
    setup: Setup,
    #[command(flatten)]
    tuning: Tuning,
    /// Processors to run on, such as 0 or 0,2
    #[arg(long, value_delimiter = ',', value_name = "CPU,…")]
    cpus: Vec<usize>,
    /// Seconds that a drain may take, after SIGTERM or Ctrl-C, before connections are cut off
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    drain_limit: u32,
    /// Standard input is the lab's control channel
    #[arg(long, hide = true)]
    control: bool,
}

/// What can be chosen about an architecture; `compare` passes these on.
#[derive(Clone, clap::Args)]
pub(super) struct Tuning {
    /// Processes of prefork, threads of pool
    #[arg(long, default_value_t = Options::default().workers, value_parser = at_least_one)]
    workers: usize,
    /// Kernel threads of uthreads, select, poll and epoll, each with a listener and loop of its own
    #[arg(long, default_value_t = 1, value_parser = at_least_one)]
    cores: usize,
    /// Connections that may wait to be accepted (the kernel caps it at net.core.somaxconn)
    #[arg(long, default_value_t = Options::default().backlog, value_parser = clap::value_parser!(i32).range(1..))]
    backlog: i32,
    /// Connections served at a time; further ones are refused, http ones by 503 [default: no limit]
    #[arg(long, value_parser = at_least_one, value_name = "N")]
    max_connections: Option<usize>,
    /// Stack of each thread, kernel or user-level, such as 64K or 1M
    #[arg(long, default_value = "128K", value_parser = parse_size, value_name = "BYTES")]
    stack_size: usize,
    /// How the threads of pool come by connections
    #[arg(long, value_enum, default_value_t = HandOverName::Accept)]
    hand_over: HandOverName,
}

#[derive(Clone, Copy, ValueEnum)]
enum HandOverName {
    /// Each thread accepts for itself
    Accept,
    /// One thread accepts and hands over by a list
    List,
}

impl Tuning {
    fn options(&self) -> Options {
        Options {
            workers: self.workers,
            cores: self.cores,
            backlog: self.backlog,
            max_connections: self.max_connections.unwrap_or(usize::MAX),
            stack_size: self.stack_size,
            hand_over: match self.hand_over {
                HandOverName::Accept => HandOver::Accept,
                HandOverName::List => HandOver::List,
            },
        }
    }

    /// The arguments that say the same again, to a server that is started as a child.
    pub(super) fn to_arguments(&self) -> Vec<String> {
        let hand_over = match self.hand_over {
            HandOverName::Accept => "accept",
            HandOverName::List => "list",
        };
        let mut arguments = vec![
            format!("--workers={}", self.workers),
            format!("--cores={}", self.cores),
            format!("--backlog={}", self.backlog),
            format!("--stack-size={}", self.stack_size),
            format!("--hand-over={hand_over}"),
        ];
        arguments.extend(self.max_connections.map(|limit| format!("--max-connections={limit}")));
        arguments
    }
}

pub(super) fn run(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    let architecture = architecture(&arguments.architecture)?;
    let name = arguments.service.as_deref().unwrap_or(catalogue.default_name());
    let service = catalogue.open(name, &arguments.setup)?;
    let control = match arguments.control {
        true => Some(Control::on_standard_input().map_err(|error| {
            Failure::misuse(format!("--control: {error}: standard input must be a socket"))
        })?),
        false => None,
    };
    let reason = architecture
        .unavailable()
        .or_else(|| service.needs().missing_from(architecture.gives()).map(str::to_owned));
    if let Some(reason) = reason {
        if let Some(control) = control {
            let _ = control.unavailable(&reason);
        }
        return Err(Failure::failed(format!("{name} under {}: {reason}", architecture.name())));
    }
    prepare(arguments)?;
    let options = arguments.tuning.options();
    let server = Server::bind(architecture, service, arguments.listen, options)
        .map_err(|error| cannot_listen(arguments.listen, &error))?;
    let address = server.address();
    match control {
        Some(control) => control.ready(address),
        None => writeln!(std::io::stdout(), "listening on {address}"),
    }
    .map_err(|error| Failure::failed(format!("cannot say that the server is ready: {error}")))?;
    architecture
        .serve(server)
        .map_err(|error| Failure::failed(format!("{}: cannot serve: {error}", architecture.name())))
}

/// The architecture of that name, or one line that lists them.
pub(super) fn architecture(name: &str) -> Result<&'static dyn Architecture, Failure> {
    find(name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|architecture| architecture.name()).collect();
        let names = names.join(", ");
        Failure::misuse(format!("there is no architecture `{name}`: choose one of {names}"))
    })
}

/// Processors, descriptors and signals.
fn prepare(arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.cpus.is_empty() {
        let mut cpus = CpuSet::new();
        for &cpu in &arguments.cpus {
            if cpu >= CpuSet::MAX_CPU {
                return Err(Failure::misuse(format!("--cpus: there is no processor {cpu}")));
            }
            cpus.set(cpu);
        }
        sched_setaffinity(None, &cpus).map_err(|error| {
            Failure::misuse(format!("--cpus: {error}: name processors that this process may use"))
        })?;
    }
    let limit = getrlimit(Resource::Nofile);
    // As many connections as the system lets us have; if it refuses, there are fewer.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    signals::install(arguments.drain_limit)
        .map_err(|error| Failure::failed(format!("cannot handle signals: {error}")))
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
    let remedy = match error.kind() {
        AddrInUse => {
            ": stop the server that has it, or choose another with --listen (port 0 takes a free one)"
        }
        PermissionDenied => ": choose a port above 1023 with --listen",
        AddrNotAvailable => ": choose an address of this machine with --listen",
        _ => "",
    };
    Failure::failed(format!("cannot listen at {address}: {error}{remedy}"))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("give a whole number from 1 on".into()),
        Ok(number) => Ok(number),
    }
}

/// Bytes, with an optional K, M or G.
fn parse_size(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.char_indices().next_back() {
        Some((end, 'K' | 'k')) => (&text[..end], 1 << 10),
        Some((end, 'M' | 'm')) => (&text[..end], 1 << 20),
        Some((end, 'G' | 'g')) => (&text[..end], 1 << 30),
        _ => (text, 1),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    match bytes {
        Some(bytes) if (16 << 10..=1 << 30).contains(&bytes) => Ok(bytes),
        _ => Err("give a size from 16K to 1G".into()),
    }
}
