//! Makes an [`Experiment`] of the [`Settings`] that flags and plans ask for.
//!
//! The serving program implements the trait [`Program`], which describes everything that an
//! experiment depends on. So the lab knows no architecture and no service, and its tests need
//! neither.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use duality_load::{Pattern, Target};

use super::clients;
use super::counts;
use super::footprint::Footprint;
use super::hosts;
use super::replay;
use super::secure;
use super::settings::{Misfit, Settings};
use super::timing::Timing;
use super::variant::Choice;
use crate::Mistake;
use crate::measure::behaviour::Behaviour;
use crate::measure::experiment::{Experiment, Site};
use crate::measure::hosts::launcher::Launcher;
use crate::measure::machine;
use crate::measure::peers::ReadyMade;
use crate::measure::recording::Replay;
use crate::measure::store::Store;
use crate::measure::upstream::Upstream;
use crate::model::UnitCosts;
use crate::record::{Carrier, Constraints, Design, Peer, Topology, Variant};

/// How often each cell is measured by default.
const REPEATS: usize = 3;

/// The program that provides the servers, set up for one experiment.
pub trait Program {
    /// The service that is measured.
    fn service(&self) -> &ServiceFacts;

    /// The names of all architectures, in the order in which they are shown.
    fn architectures(&self) -> Vec<&'static str>;

    /// Describes the architecture of a choice, for the measured service.
    ///
    /// # Errors
    ///
    /// The error tells what is wrong with the choice, and the remedy, in one line.
    fn architecture(&self, choice: &Choice) -> Result<Architecture, Mistake>;

    /// How many connections of the service a server process admits under a limit on descriptors.
    fn admitted(&self, descriptors: u64) -> u64;
}

/// A service, as far as an experiment depends on it.
#[derive(Clone, Debug)]
pub struct ServiceFacts {
    /// The name.
    pub name: String,
    /// Whether the service is a program's own, and not part of Duality.
    pub is_own: bool,
    /// Whether one connection can carry more than one request.
    pub persistent: bool,
    /// Whether the service needs several connections at a time.
    pub concurrent_connections: bool,
    /// Whether the service keeps data in a store.
    pub store: bool,
    /// Whether the service passes requests on to servers behind it.
    pub relays: bool,
    /// The request to send to a service of the user's own, and the reply to expect.
    pub exchange: Option<(Vec<u8>, Vec<u8>)>,
    /// The page to ask for, of a service of the user's own that speaks HTTP.
    pub page: Option<String>,
    /// The built-in pages, which peers also serve if no directory is named.
    pub demo_files: Vec<(String, Vec<u8>)>,
    /// The arguments of all its servers.
    pub server_arguments: Vec<String>,
}

/// An architecture with its options, as far as an experiment depends on it.
#[derive(Clone, Debug)]
pub struct Architecture {
    /// A description of how the architecture carries connections.
    pub carrier: Carrier,
    /// The reason why the architecture cannot serve the service here, if there is one.
    pub unavailable: Option<String>,
    /// The replacement of a facility that this machine lacks, and the reason. `None` if nothing is
    /// lacking.
    pub degraded: Option<String>,
    /// The number of connections that its workers hold at a time. `None` if each connection has its
    /// own worker.
    pub workers: Option<usize>,
    /// The number of connections that the architecture admits at a time.
    pub max_connections: usize,
    /// The limited kernel resources that each connection takes.
    pub footprint: Footprint,
    /// The arguments of its servers.
    pub server_arguments: Vec<String>,
}

/// Makes an experiment of `settings`, which [`Settings::check`] has accepted. Settings that are
/// absent have their defaults.
///
/// `defined` lists the peers that a plan file defines, beside the ready-made ones. `whole` is the
/// length of the experiment where the settings name no length of a cell.
///
/// # Errors
///
/// A [`Misfit`] describes the first setting that makes no sense, or names an unknown choice.
pub fn experiment(
    settings: &Settings,
    program: &dyn Program,
    defined: &[Peer],
    whole: Option<Duration>,
) -> Result<Experiment, Misfit> {
    let service = program.service();
    let settings = &with_current(settings, program, defined)?;
    let chosen = architectures(settings, program)?;
    let peers = peers(settings, defined, &chosen, program)?;
    let speaks_http = service.page.is_some() || service.name == "http";
    let certificate = secure::certificate(settings, &service.name, speaks_http)?;
    secure::check_http2(settings, &service.name, service.page.is_some())?;
    let behaviour = clients::behaviour(settings)?;
    let replay = replay::of(settings, &behaviour)?;
    let topology = hosts::topology(settings, &service.name)?;
    // By default, each cell gets a new file.
    let store = service.store.then(|| settings.store.clone().unwrap_or(Store::Sqlite));
    if let Some(topology) = &topology {
        hosts::check_store(topology, store.as_ref())?;
    }
    let upstream = upstream(settings, service, topology.is_some())?;
    let design = design(settings, service, &chosen, &behaviour, topology)?;
    let store_name = store.as_ref().map(Store::to_string);
    let mut experiment = Experiment {
        design: Design { peers, store: store_name, ..design },
        exchange: service.exchange.clone(),
        speaks_http: service.page.is_some(),
        behaviour,
        site: site(service, settings, replay.as_ref()),
        replay,
        certificate,
        programs: PathBuf::new(),
        unavailable: BTreeMap::new(),
        degraded: (chosen.iter().filter_map(Subject::degraded))
            .chain(settings.launcher.as_deref().and_then(Launcher::caution))
            .collect(),
        store,
        upstream,
        listen: Ipv4Addr::LOCALHOST.into(),
        origin: None,
        program: this_program()?,
        command: command(settings),
        constraints: Constraints::default(),
        current: None,
        margin: None,
        unit_costs: UnitCosts::default(),
        budget: None,
        economies: Vec::new(),
    };
    settings.apply(&mut experiment);
    experiment.design.recording = experiment.replay.as_ref().map(Replay::record);
    experiment.design.concurrency = counts::concurrency(service.is_own, &experiment, settings)?;
    experiment.unavailable = unavailable(&experiment, service, &chosen);
    experiment.unavailable.extend(unavailable_peers(&experiment.design, settings.root.is_none()));
    experiment.unavailable.extend(too_many(&experiment));
    if settings.control != Some(false) {
        experiment.add_control();
    }
    let Settings { warm_up, window, blocks, .. } = *settings;
    experiment.set_timing(Timing { warm_up, window, blocks, whole });
    // A fixed amount is measured as it is asked for, and the same in each run.
    let is_fixed = settings.repeats.or(blocks).is_some() || window.is_some();
    let can_race = experiment.design.blocks > 0
        && experiment.replay.is_none()
        && experiment.design.load_command.is_none();
    experiment.design.race = can_race && !is_fixed && settings.race == Some(true);
    replay::check(&mut experiment)?;
    Ok(experiment)
}

/// The design of an experiment, without its peers and its store.
fn design(
    settings: &Settings,
    service: &ServiceFacts,
    chosen: &[Subject],
    behaviour: &Behaviour,
    topology: Option<Topology>,
) -> Result<Design, Misfit> {
    let (server_cpus, client_cpus) = match topology {
        None => processors(settings)?,
        // The roles use the hosts' processors, so this machine's processors are not chosen.
        Some(_) => (
            settings.server_cpus.clone().unwrap_or_default(),
            settings.client_cpus.clone().unwrap_or_default(),
        ),
    };
    Ok(Design {
        service: service.name.clone(),
        architectures: chosen.iter().map(|subject| subject.name.clone()).collect(),
        variants: chosen.iter().filter_map(|subject| subject.variant.clone()).collect(),
        carriers: chosen.iter().map(Subject::carrier).collect(),
        peers: Vec::new(),
        ways: None,
        // The value depends on what the architectures can carry, see below.
        control: None,
        load_command: None,
        concurrency: Vec::new(),
        clients: behaviour.record(),
        keep_alive: behaviour.keep_alive && service.persistent,
        tls: false,
        http2: false,
        repeats: REPEATS,
        // The timing depends on the number of cells, see below.
        blocks: 0,
        race: false,
        warm_up_seconds: 1.0,
        window_seconds: 1.0,
        seed: seed_of_the_moment(),
        server_cpus,
        client_cpus,
        server_arguments: service.server_arguments.clone(),
        path: path(service, settings)?,
        store: None,
        recording: None,
        topology,
    })
}

/// The settings, with the subject that runs today among the subjects.
fn with_current(
    settings: &Settings,
    program: &dyn Program,
    defined: &[Peer],
) -> Result<Settings, Misfit> {
    let mut settings = settings.clone();
    let Some(name) = settings.current.clone() else { return Ok(settings) };
    let all = program.architectures();
    let mut compared: Vec<String> = match &settings.architectures {
        None => all.iter().map(|name| (*name).to_owned()).collect(),
        Some(choices) => choices.iter().map(|choice| choice.name.clone()).collect(),
    };
    compared.extend(settings.peers.iter().flatten().cloned());
    if compared.contains(&name) {
        return Ok(settings);
    }
    let is_peer = defined.iter().any(|peer| peer.name == name) || ReadyMade::named(&name).is_some();
    match settings.architectures.as_mut() {
        Some(choices) if !choices.is_empty() && all.contains(&name.as_str()) => {
            choices.push(Choice::plain(name));
        }
        _ if is_peer => settings.peers.get_or_insert_default().push(name),
        _ => {
            let problem = format!("`{name}` is not compared: choose from {}", compared.join(", "));
            return Err(Misfit::new("current", problem));
        }
    }
    Ok(settings)
}

/// An architecture that is compared, under its name or another.
struct Subject {
    name: String,
    architecture: Architecture,
    variant: Option<Variant>,
}

impl Subject {
    fn carrier(&self) -> (String, Carrier) {
        (self.name.clone(), self.architecture.carrier.clone())
    }

    /// Describes the subjects that lack a facility on this machine.
    fn degraded(&self) -> Option<String> {
        let how = self.architecture.degraded.as_ref()?;
        Some(format!("{} {how}", self.name))
    }
}

fn architectures(settings: &Settings, program: &dyn Program) -> Result<Vec<Subject>, Misfit> {
    let all = program.architectures();
    let subject = |choice: &Choice| {
        let Choice { name, architecture, options } = choice;
        if choice.is_variant() && all.contains(&name.as_str()) {
            let taken = "is an architecture as it is: give the one with options another name";
            return Err(format!("`{name}` {taken}").into());
        }
        let found = program.architecture(choice)?;
        let variant = choice.is_variant().then(|| Variant {
            name: name.clone(),
            architecture: architecture.clone(),
            options: options.clone(),
            server_arguments: found.server_arguments.clone(),
        });
        Ok(Subject { name: name.clone(), architecture: found, variant })
    };
    let subjects: Result<_, Mistake> = match &settings.architectures {
        None => all.iter().map(|name| subject(&Choice::plain(*name))).collect(),
        Some(choices) => choices.iter().map(subject).collect(),
    };
    subjects.map_err(|problem| Misfit::new("architectures", problem))
}

/// What relays pass requests on to. The lab's own server is on this machine.
fn upstream(
    settings: &Settings,
    service: &ServiceFacts,
    has_hosts: bool,
) -> Result<Option<Upstream>, Misfit> {
    match &settings.upstream {
        Some(names) => Ok(Some(Upstream::At(names.clone()))),
        None if !service.relays => Ok(None),
        None if has_hosts => {
            let problem = "on hosts, name the servers behind the relay, each a HOST:PORT";
            Err(Misfit::new("upstream", problem))
        }
        None => Ok(Some(Upstream::Own)),
    }
}

/// The pages that peers serve.
fn site(service: &ServiceFacts, settings: &Settings, replay: Option<&Replay>) -> Site {
    match replay.and_then(Replay::root).or_else(|| settings.root.clone()) {
        Some(root) => Site::Directory(std::path::absolute(&root).unwrap_or(root)),
        None => Site::Files(service.demo_files.clone()),
    }
}

fn this_program() -> Result<PathBuf, Misfit> {
    std::env::current_exe().map_err(|error| {
        Misfit::new(Misfit::WHOLE, format!("cannot find this program to start it: {error}"))
    })
}

/// The processors of the server and of the load generator.
fn processors(settings: &Settings) -> Result<(Vec<usize>, Vec<usize>), Misfit> {
    let (server, client) = match (&settings.server_cpus, &settings.client_cpus) {
        (None, None) => return Ok(machine::split_cpus()),
        (Some(server), Some(client)) => (server, client),
        (Some(_), None) => return Err(Misfit::new("server-cpus", "name the client-cpus, too")),
        (None, Some(_)) => return Err(Misfit::new("client-cpus", "name the server-cpus, too")),
    };
    let allowed = machine::allowed();
    for (key, cpus) in [("server-cpus", server), ("client-cpus", client)] {
        if let Some(absent) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            let all: Vec<String> = allowed.iter().map(usize::to_string).collect();
            let all = all.join(", ");
            return Err(Misfit::new(
                key,
                format!("processor {absent} is not available: choose from {all}"),
            ));
        }
    }
    match client.iter().find(|cpu| server.contains(cpu)) {
        Some(both) => {
            let problem = format!("{both} is the server's: each side needs its own");
            Err(Misfit::new("client-cpus", problem))
        }
        None => Ok((server.clone(), client.clone())),
    }
}

/// The peers with the given names, which are defined in the plan or ready-made.
fn peers(
    settings: &Settings,
    defined: &[Peer],
    subjects: &[Subject],
    program: &dyn Program,
) -> Result<Vec<Peer>, Misfit> {
    let architectures = program.architectures();
    let service = &program.service().name;
    let named = |name: &String| {
        let taken = subjects.iter().any(|subject| subject.name == *name);
        if taken || architectures.contains(&name.as_str()) {
            let problem = format!("`{name}` is an architecture: give the peer another name");
            return Err(Misfit::new("peers", problem));
        }
        let peer = defined.iter().find(|peer| peer.name == *name).cloned();
        let ready = || Some(ReadyMade::serving(service, name)?.peer(settings.tls == Some(true)));
        peer.or_else(ready).ok_or_else(|| {
            let names: Vec<&str> =
                ReadyMade::of_service(service).iter().map(|ready| ready.name).collect();
            let names = names.join(", ");
            let problem = format!(
                "there is no peer `{name}`: choose one of {names}, or define it in a plan, by [[peer]]"
            );
            Misfit::new("peers", problem)
        })
    };
    settings.peers.iter().flatten().map(named).collect()
}

/// Lists the peers that are not installed or cannot answer the requests, with reasons. `is_demo`
/// tells whether the built-in pages are served.
fn unavailable_peers(design: &Design, is_demo: bool) -> BTreeMap<(String, usize), String> {
    let asks_demo_page = is_demo && matches!(design.path.as_str(), "/" | "/index.html");
    let mut unavailable = BTreeMap::new();
    for peer in &design.peers {
        let ready = ReadyMade::serving(&design.service, &peer.name);
        let misfit = ready.and_then(|ready| ready.misfit(&design.service, asks_demo_page));
        let misfit = misfit.or_else(|| secure::misfit(design, peer));
        // On other hosts, the peer may be installed.
        let missing = || peer.missing().filter(|_| design.topology.is_none());
        if let Some(why) = misfit.or_else(missing) {
            unavailable.extend(
                design.concurrency.iter().map(|&count| ((peer.name.clone(), count), why.clone())),
            );
        }
    }
    unavailable
}

fn path(service: &ServiceFacts, settings: &Settings) -> Result<String, Misfit> {
    let page = service.page.as_deref().or_else(|| Target::default_page(&service.name));
    match &settings.path {
        Some(_) if page.is_none() => {
            let problem = format!("the service `{}` has no pages: leave it out", service.name);
            Err(Misfit::new("path", problem))
        }
        Some(path) if !path.starts_with('/') => {
            Err(Misfit::new("path", format!("a path begins with a slash: write /{path}")))
        }
        Some(path) => Ok(path.clone()),
        None => Ok(page.unwrap_or("/").to_owned()),
    }
}

/// The cells that cannot be carried, with reasons. The lab finds these cells before anything
/// starts, so they take no time.
fn unavailable(
    experiment: &Experiment,
    service: &ServiceFacts,
    subjects: &[Subject],
) -> BTreeMap<(String, usize), String> {
    let design = &experiment.design;
    let in_turn = matches!(experiment.behaviour.pattern, Pattern::Serial | Pattern::Limited);
    let all_at_once = (in_turn && design.keep_alive) || service.concurrent_connections;
    let mut unavailable = BTreeMap::new();
    for Subject { name, architecture, .. } in subjects {
        for &connections in &design.concurrency {
            let why = architecture.unavailable.clone().or_else(|| match all_at_once {
                true => crowded(architecture, experiment.behaviour.connections(connections)),
                false => None,
            });
            let cell = (name.clone(), connections);
            unavailable.extend(why.map(|why| (cell, why)));
        }
    }
    unavailable
}

/// The cells with more connections than this machine allows.
fn too_many(experiment: &Experiment) -> BTreeMap<(String, usize), String> {
    let design = &experiment.design;
    let counts = design.concurrency.iter();
    let refused = counts.filter_map(|&count| Some((count, experiment.too_many(count)?)));
    let cells = refused.flat_map(|(count, why)| {
        design
            .subjects()
            .map(move |name| ((name.to_owned(), count), why.clone()))
            .collect::<Vec<_>>()
    });
    cells.collect()
}

/// The reason why the number of connections is too large, if no connection may wait for another's
/// end.
fn crowded(architecture: &Architecture, connections: usize) -> Option<String> {
    let Architecture { workers, max_connections, .. } = *architecture;
    match workers {
        Some(1) if connections > 1 => {
            Some(format!("holds 1 of {connections} connections at a time"))
        }
        Some(workers) if connections > workers => Some(format!(
            "{workers} workers hold at most {workers} of {connections} connections at once (--workers)"
        )),
        _ if connections > max_connections => Some(format!(
            "--max-connections admits at most {max_connections} of {connections} connections at once"
        )),
        _ => None,
    }
}

fn seed_of_the_moment() -> u64 {
    // Rounds to whole seconds, which are short enough to type again.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The command line without a store's password, so that pages may show it.
fn command(settings: &Settings) -> Vec<String> {
    let shown = |argument: String| match &settings.store {
        Some(store @ Store::At(url)) => argument.replace(url, &store.to_string()),
        _ => argument,
    };
    std::env::args().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::record::World;

    /// A program with two architectures: ten workers, and a loop that no service knows by name.
    struct Sample(ServiceFacts);

    impl Program for Sample {
        fn service(&self) -> &ServiceFacts {
            &self.0
        }

        fn architectures(&self) -> Vec<&'static str> {
            vec!["workers", "loop"]
        }

        fn architecture(&self, choice: &Choice) -> Result<Architecture, Mistake> {
            let is_loop = match choice.architecture.as_str() {
                "loop" => true,
                "workers" => false,
                other => return Err(format!("no `{other}`").into()),
            };
            Ok(Architecture {
                carrier: Carrier {
                    world: Some(if is_loop { World::Suspend } else { World::Block }),
                    poller: is_loop.then(|| "epoll".to_owned()),
                    looks_at_all: false,
                    processes: false,
                    beside_others: !is_loop,
                    holds: Some(if is_loop { 500 } else { 10 }),
                    foreign: None,
                },
                unavailable: None,
                degraded: is_loop.then(|| "runs on half a poller".to_owned()),
                workers: (!is_loop).then_some(10),
                max_connections: 500,
                footprint: Footprint::default(),
                server_arguments: choice.options.clone(),
            })
        }

        fn admitted(&self, descriptors: u64) -> u64 {
            descriptors
        }
    }

    fn sample(name: &str) -> Sample {
        Sample(ServiceFacts {
            name: name.to_owned(),
            is_own: false,
            persistent: true,
            concurrent_connections: false,
            store: false,
            relays: false,
            exchange: None,
            page: None,
            demo_files: vec![],
            server_arguments: vec!["--workers=10".to_owned()],
        })
    }

    #[test]
    fn what_runs_today_is_compared_whether_it_was_named_or_not() {
        let asked = |architectures: Option<&[&str]>, current: &str| {
            let architectures = architectures.map(|all| all.iter().copied().map(Choice::plain));
            let settings = Settings {
                architectures: architectures.map(Iterator::collect),
                current: Some(current.to_owned()),
                ..Settings::default()
            };
            experiment(&settings, &sample("http"), &[], None)
        };
        let subjects =
            |asked: Experiment| {
                assert!(asked.current.as_ref().is_some_and(|name| {
                    asked.design.subjects().any(|subject| subject == name)
                }));
                asked.design.subjects().map(str::to_owned).collect::<Vec<_>>()
            };
        assert_eq!(subjects(asked(None, "loop").unwrap()), ["workers", "loop"]);
        assert_eq!(subjects(asked(Some(&["loop"]), "workers").unwrap()), ["loop", "workers"]);
        assert_eq!(subjects(asked(Some(&["loop"]), "nginx").unwrap()), ["loop", "nginx"]);
        let misfit = asked(Some(&["loop"]), "gopher").unwrap_err();
        assert_eq!(misfit.key, "current");
        assert_eq!(misfit.problem.to_string(), "`gopher` is not compared: choose from loop");
    }

    #[test]
    fn what_cannot_be_carried_is_known_and_the_control_chosen_by_what_it_is() {
        let settings = Settings { pattern: Some("serial".to_owned()), ..Settings::default() };
        let experiment = experiment(&settings, &sample("echo"), &[], None).unwrap();
        assert_eq!(experiment.design.architectures, ["workers", "loop"]);
        assert_eq!(experiment.design.control.as_deref(), Some("loop (again)"));
        assert_eq!(experiment.degraded, ["loop runs on half a poller"]);
        assert_eq!(experiment.design.concurrency, counts::CONCURRENCY);
        let why = |name: &str, count: usize| {
            experiment.unavailable.get(&(name.to_owned(), count)).map_or("", String::as_str)
        };
        assert_eq!((why("workers", 10), why("loop", 100)), ("", ""));
        assert!(why("workers", 100).contains("10 workers hold at most 10 of 100"));
        assert!(why("loop", 1000).contains("admits at most 500 of 1000"));
    }

    #[test]
    fn a_variant_has_a_name_and_arguments_of_its_own() {
        let choice = |name: &str, architecture: &str| Choice {
            name: name.to_owned(),
            architecture: architecture.to_owned(),
            options: vec!["--workers=3".to_owned()],
        };
        let planned = |choice: Choice| {
            let settings = Settings { architectures: Some(vec![choice]), ..Settings::default() };
            experiment(&settings, &sample("echo"), &[], None)
        };
        let variant = planned(choice("few", "workers")).unwrap().design.variants.remove(0);
        assert_eq!(variant.architecture, "workers");
        assert_eq!(variant.server_arguments, ["--workers=3"]);
        for (wrong, message) in [
            (choice("loop", "workers"), "`loop` is an architecture as it is"),
            (choice("few", "magic"), "no `magic`"),
        ] {
            let misfit = planned(wrong).unwrap_err();
            assert_eq!(misfit.key, "architectures");
            assert!(misfit.problem.to_string().starts_with(message), "{}", misfit.problem);
        }
    }

    #[test]
    fn a_service_of_the_users_own_needs_an_exchange() {
        let mut program = sample("shout");
        program.0.is_own = true;
        let misfit = experiment(&Settings::default(), &program, &[], None).unwrap_err();
        assert!(
            misfit
                .problem
                .to_string()
                .ends_with("give a service of your own an exchange(request, reply)")
        );
        program.0.exchange = Some((b"a".to_vec(), b"A".to_vec()));
        assert!(experiment(&Settings::default(), &program, &[], None).is_ok());
    }

    #[test]
    fn a_service_of_the_users_own_that_speaks_http_is_asked_for_its_page() {
        let mut program = sample("shop");
        program.0.page = Some("/json".to_owned());
        let asked = |path: Option<&str>| {
            let settings = Settings { path: path.map(str::to_owned), ..Settings::default() };
            let experiment = experiment(&settings, &program, &[], None).unwrap();
            experiment.target(SocketAddr::from((Ipv4Addr::LOCALHOST, 8080))).unwrap().to_string()
        };
        assert_eq!(asked(None), "http://127.0.0.1:8080/json");
        assert_eq!(asked(Some("/other")), "http://127.0.0.1:8080/other");
    }
}
