//! `duality serve`.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use duality_architectures::common::children;
use duality_architectures::common::pressure::remedy;
use duality_architectures::{Architecture, Options, Served, Server, signals};
use duality_lab::ask::settings::parse_duration;
use duality_runtime::net::inherited_listeners;
use duality_runtime::{log, memory};
use duality_services::Setup;
use duality_services::store::Location;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::flags::address::listen_address;
use super::flags::relaying::{self, RelayingFlags};
use super::flags::settings::{Service, SettingFlags};
use super::flags::tls::TlsFlags;
use super::flags::visibility::Visibility;
use super::injection::InjectionFlags;
use super::privileges::Privileges;
use super::{Blame, Failure, Party, Tuning, flag, heading};
use crate::catalogue::{Catalogue, Listed};
use crate::control::Control;
use crate::metrics::Metrics;
use crate::watch::{Subject, Watch};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The service (see `duality services`)
    service: Option<String>,
    /// How connections become processes, threads or events (see `duality architectures`)
    #[arg(short, long, default_value = "epoll")]
    architecture: String,
    /// Where to listen; port 0 takes a free one
    ///
    /// A port alone, as in 8080 or :8080, is a port of 127.0.0.1. With 0.0.0.0:8080 the server
    /// listens on all addresses of this machine. A socket that a service manager passes on
    /// (LISTEN_FDS) is used instead.
    #[arg(short, long, default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT", value_parser = listen_address)]
    listen: SocketAddr,
    #[command(flatten)]
    setup: SettingFlags<Service>,
    /// Where `guestbook` and `phone` keep what they are told: sqlite:PATH or redis://HOST:PORT
    /// [default: sqlite:SERVICE.sqlite]
    ///
    /// `chat` and `game` keep nothing. Clients of servers that have the same Redis meet
    /// (docs/chat.md).
    #[arg(long, value_name = "STORE")]
    store: Option<Location>,
    /// Acknowledge a write to the store once the disk has it, so that it survives a power cut too
    ///
    /// Without this flag, an acknowledged write survives `kill -9` of the server, and a power cut
    /// may lose the newest writes. The flag is for SQLite only: each write waits for fsync(2).
    /// Redis decides by its `appendfsync` what a power cut may lose.
    #[arg(long)]
    durable: bool,
    #[command(flatten)]
    relaying: RelayingFlags,
    #[command(flatten)]
    tls: TlsFlags,
    #[command(flatten)]
    tuning: Tuning,
    /// Processors to run on, such as 0 or 0,2
    #[arg(long, value_delimiter = ',', value_name = "CPU,…", help_heading = heading::SERVER)]
    cpus: Vec<usize>,
    /// Be this user once the port is bound, where the server is started as root
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Seconds that a drain may take, after SIGTERM or Ctrl-C, before connections are cut off
    #[arg(long, default_value_t = 30, value_name = "SECONDS", help_heading = heading::LIMITS)]
    drain_limit: u32,
    #[command(flatten)]
    injection: InjectionFlags,
    #[command(flatten)]
    visibility: Visibility,
    /// Standard input is the lab's control channel, with standard output where it is no socket
    #[arg(long, hide = true)]
    control: bool,
    /// The descriptor of a listening socket that the parent process passes on
    #[arg(long, hide = true, value_name = "N", requires = "control")]
    listener: Option<i32>,
    /// The control channel is told of requests; those that take longer than this are late
    #[arg(long, hide = true, value_name = "TIME", value_parser = parse_duration, requires = "control")]
    late_after: Option<Duration>,
}

pub(super) fn run(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    let architecture =
        catalogue.architectures().named(&arguments.architecture).blame(Party::User)?;
    if architecture.about().forks {
        children::may_fork().blame_at(Party::Machine, architecture.name())?;
    }
    let name = arguments.service.as_deref().unwrap_or(catalogue.default_name());
    let setup = Setup {
        store: arguments.store.clone(),
        durable: arguments.durable,
        ..arguments.relaying.put_into(arguments.setup.setup().map_err(flag)?)
    };
    let mut listed = catalogue.look_up(name, &setup).map_err(flag)?;
    arguments.tls.check(&mut listed)?;
    let tuning = arguments.tuning.suited_to(&listed);
    tuning.check(&listed).map_err(flag)?;
    check_visibility(&arguments.visibility, architecture, &listed)?;
    let privileges = Privileges::find(arguments.user.as_deref())?;
    privileges.lower()?;
    let service = catalogue.open(name, &setup)?;
    let access_log = arguments.visibility.open_access_log()?;
    privileges.raise()?;
    let service = arguments.tls.put_before(catalogue, service)?;
    let control = take_control(arguments)?;
    let options = tuning.options();
    let injected = arguments.injection.load(name, architecture, &options)?;
    let reason = architecture.unavailable(&options).or_else(|| listed.refusal(architecture));
    if let Some(reason) = reason {
        if let Some(control) = control {
            let _ = control.unavailable(&reason);
        }
        return Err(Failure::new(
            Party::Machine,
            format!("{name} under {}: {reason}; choose another architecture", architecture.name()),
        ));
    }
    if let Some(how) = architecture.degraded(&options) {
        log::tell(format_args!("{} {how}", architecture.name()));
    }
    // Set the limit before threads exist, because a thread's arena would count.
    limit(tuning)?;
    memory::fit_malloc();
    let subject = Subject { service: name.to_owned(), architecture: architecture.name() };
    let metrics = arguments.visibility.start_metrics(&subject, architecture.about().forks)?;
    let watch = Watch::start(&arguments.visibility.settings(), subject, access_log)?;
    relaying::start_health_checks()?;
    prepare(arguments)?;
    if let Some(load) = injected {
        arguments.injection.serve(load, architecture, service, options)?;
        return watch.finish();
    }
    let server = listen(architecture, service, arguments, options)?;
    let address = server.address();
    // The lab chose the addresses of its servers.
    privileges.drop_for_good((!arguments.control).then_some(address))?;
    server.service.prepare_for(architecture).blame(Party::Machine)?;
    metrics.iter().for_each(Metrics::server_is_ready);
    match control {
        Some(control) => control.ready(address),
        None => writeln!(std::io::stdout(), "listening on {address}"),
    }
    .blame_at(Party::Machine, "cannot say that the server is ready")?;
    architecture.serve(server).map_err(|error| {
        let (name, remedy) = (architecture.name(), remedy(&error));
        Failure::new(Party::Machine, format!("{name}: cannot serve: {error}{remedy}"))
    })?;
    watch.finish()
}

/// Refuses flags that the architecture or the service does not support.
fn check_visibility(
    visibility: &Visibility,
    architecture: &dyn Architecture,
    listed: &Listed,
) -> Result<(), Failure> {
    let is_blind = |flag: &&str| match architecture.about().foreign_runtime {
        Some(_) => !Visibility::OF_COUNTERS.contains(flag),
        None => !architecture.about().gives.straight_line,
    };
    if let Some(flag) = visibility.flags().find(is_blind) {
        return Err(Failure::misuse(format!(
            "{flag}: {} has no tasks to show: choose another architecture",
            architecture.name()
        )));
    }
    if visibility.access_log().is_some() && !listed.logs_requests {
        return Err(Failure::misuse(format!(
            "--access-log: {} does not describe its requests: leave it out",
            listed.name
        )));
    }
    Ok(())
}

/// Takes the control channel, if there is one. Has requests counted for the channel, if the parent
/// process asks for that. Call this before there are threads and other processes.
fn take_control(arguments: &Arguments) -> Result<Option<Control>, Failure> {
    if !arguments.control {
        return Ok(None);
    }
    let failure = |error: std::io::Error| Failure::misuse(format!("--control: {error}"));
    let mut control = Control::on_standard_streams().map_err(failure)?;
    if let Some(limit) = arguments.late_after {
        control.count_requests(limit).map_err(failure)?;
    }
    Ok(Some(control))
}

/// Takes the sockets that a service manager or the parent process passes on. Without such sockets,
/// listens at the address of the arguments.
fn listen(
    architecture: &dyn Architecture,
    service: Served,
    arguments: &Arguments,
    options: Options,
) -> Result<Server, Failure> {
    let inherited = inherited_listeners(arguments.listener).blame(Party::Machine)?;
    let address = arguments.listen;
    if inherited.is_empty() {
        return Server::bind(architecture, service, address, options)
            .map_err(|error| cannot_listen(address, &error));
    }
    Server::inherited(architecture, service, inherited, options).blame(Party::Machine)
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
    signals::install(arguments.drain_limit).blame_at(Party::Machine, "cannot handle signals")
}

/// As many connections as the system allows, unless the options say fewer.
fn limit(tuning: Tuning) -> Result<(), Failure> {
    let both = |limit| Rlimit { current: limit, maximum: limit };
    match tuning.descriptors {
        None => take_all_descriptors(),
        Some(limit) => setrlimit(Resource::Nofile, both(Some(limit))).map_err(|error| {
            let most = getrlimit(Resource::Nofile).maximum;
            let most = most.map_or("unlimited".to_owned(), |most| most.to_string());
            Failure::misuse(format!("--descriptors: {error}: the hard limit is {most}"))
        })?,
    }
    let Some(limit) = tuning.address_space else { return Ok(()) };
    setrlimit(Resource::As, both(Some(limit)))
        .map_err(|error| Failure::misuse(format!("--address-space: {error}: give more")))
}

/// As many descriptors as the system allows. If it refuses, there are fewer.
pub(super) fn take_all_descriptors() {
    let most = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
}

pub(super) fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
    let remedy = match error.kind() {
        AddrInUse => {
            ": stop the server that has it, or choose another with --listen (port 0 takes a free one)"
        }
        PermissionDenied => ": choose a port above 1023 with --listen",
        AddrNotAvailable => ": choose an address of this machine with --listen",
        _ => remedy(error),
    };
    Failure::new(Party::Machine, format!("cannot listen at {address}: {error}{remedy}"))
}
