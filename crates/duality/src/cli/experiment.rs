//! From what an experiment asks for, by flags or in a plan, to what the lab measures.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use duality_architectures::{self as architectures, ALL, Architecture, Options};
use duality_lab::machine;
use duality_lab::model::UnitCosts;
use duality_lab::peers::{Peer, READY_MADE, ReadyMade};
use duality_lab::plan::settings::{Misfit, Settings};
use duality_lab::plan::timing::Timing;
use duality_lab::plan::variant::Choice;
use duality_lab::plan::{Plan, Site, clients};
use duality_lab::record::{Carrier, Design, Variant, World};
use duality_lab::store::Store;
use duality_load::Pattern;
use duality_poller::Kind;
use duality_services::store::Location;
use duality_services::{Setting, http};

use super::{Tuning, serve};
use crate::catalogue::{Catalogue, Listed};
use crate::setup;

/// The numbers of connections that are compared by default, those of ZeroHTTPd's and Kerneis's plots.
const CONCURRENCY: [usize; 4] = [1, 10, 100, 1000];
/// How often each cell is measured by default.
const REPEATS: usize = 3;

/// What `settings` and `tuning` ask for; what neither says has its default. The tuning goes before the
/// settings' own arguments of servers. `defined` are the peers that can be had beside the ready-made ones; `whole` is how
/// long it is to take where nothing says how long a cell is measured.
///
/// # Errors
///
/// What makes no sense, or what there is not.
pub(super) fn plan(
    catalogue: &Catalogue,
    settings: &Settings,
    tuning: &Tuning,
    defined: &[Peer],
    whole: Option<Duration>,
) -> Result<Plan, Misfit> {
    settings.check()?;
    let tuning = tuned(settings, tuning)?;
    let setup = setup::of(settings)?;
    let name = settings.service.as_deref().unwrap_or(catalogue.default_name());
    let service = catalogue.look_up(name, &setup)?;
    if settings.store.is_some() && !service.store {
        let problem = format!("the service `{name}` {}: leave it out", Setting::Store.absence());
        return Err(Misfit::new(Setting::Store.name(), problem));
    };
    tuning.check(&service)?;
    let mut chosen = architectures(settings, tuning)?;
    let peers = peers(settings, defined, &chosen)?;
    let store = store(&service, settings)?;
    let behaviour = clients::behaviour(settings)?;
    let (server_cpus, client_cpus) = processors(settings)?;
    let server_arguments = [tuning.to_arguments(), setup::to_arguments(&setup)].concat();
    for variant in chosen.iter_mut().filter_map(|subject| subject.variant.as_mut()) {
        variant.server_arguments.extend(setup::to_arguments(&setup));
    }
    let mut plan = Plan {
        design: Design {
            service: name.to_owned(),
            architectures: chosen.iter().map(|subject| subject.name.clone()).collect(),
            variants: chosen.iter().filter_map(|subject| subject.variant.clone()).collect(),
            carriers: chosen.iter().map(carrier).collect(),
            peers,
            // It depends on what can be carried, see below.
            control: None,
            concurrency: Vec::new(),
            clients: behaviour.record(),
            keep_alive: behaviour.keep_alive && service.persistent,
            repeats: settings.repeats.unwrap_or(REPEATS),
            // The timing depends on the number of cells, see below.
            blocks: 0,
            warm_up_seconds: 1.0,
            window_seconds: 1.0,
            seed: settings.seed.unwrap_or_else(seed_of_the_moment),
            server_cpus,
            client_cpus,
            server_arguments,
            path: path(&service, settings)?,
            store: store.as_ref().map(Store::to_string),
        },
        exchange: catalogue.exchange(),
        behaviour,
        site: site(settings),
        unavailable: BTreeMap::new(),
        degraded: degraded(&chosen),
        store,
        origin: None,
        program: this_program()?,
        command: command(settings),
        constraints: settings.constraints.clone().unwrap_or_default(),
        unit_costs: UnitCosts::default(),
        budget: None,
        economies: Vec::new(),
    };
    plan.design.concurrency = concurrency(catalogue, &plan, settings)?;
    plan.unavailable = unavailable(&plan, &service, &chosen);
    plan.unavailable.extend(unavailable_peers(&plan.design, settings.root.is_none()));
    plan.unavailable.extend(too_many(&plan));
    if settings.control != Some(false) {
        plan.add_control();
    }
    plan.set_timing(timing(settings, whole));
    Ok(plan)
}

fn timing(settings: &Settings, whole: Option<Duration>) -> Timing {
    let Settings { warm_up, window, blocks, .. } = *settings;
    Timing { warm_up, window, blocks, whole }
}

/// The flags of servers: `tuning` goes before what the settings say.
fn tuned(settings: &Settings, tuning: &Tuning) -> Result<Tuning, Misfit> {
    let Some(arguments) = &settings.server_arguments else { return Ok(*tuning) };
    let own = Tuning::parse(arguments);
    Ok(tuning.or(own.map_err(|problem| Misfit::new("server-arguments", problem))?))
}

fn this_program() -> Result<PathBuf, Misfit> {
    std::env::current_exe().map_err(|error| {
        Misfit::new(Misfit::WHOLE, format!("cannot find this program to start it: {error}"))
    })
}

/// What peers serve.
fn site(settings: &Settings) -> Site {
    match &settings.root {
        Some(root) => Site::Directory(std::path::absolute(root).unwrap_or_else(|_| root.clone())),
        None => Site::Files(http::demo_files()),
    }
}

/// An architecture that is compared, under its name or another.
struct Subject {
    name: String,
    architecture: &'static dyn Architecture,
    options: Options,
    variant: Option<Variant>,
}

fn architectures(settings: &Settings, tuning: Tuning) -> Result<Vec<Subject>, Misfit> {
    let misfit = |problem: String| Misfit::new("architectures", problem);
    let plain = |architecture: &'static dyn Architecture| Subject {
        name: architecture.name().to_owned(),
        architecture,
        options: tuning.options(),
        variant: None,
    };
    let subject = |choice: &Choice| {
        let Choice { name, architecture, options } = choice;
        let found =
            serve::architecture(architecture).map_err(|failure| misfit(failure.to_string()))?;
        if !choice.is_variant() {
            return Ok(plain(found));
        }
        if ALL.iter().any(|architecture| architecture.name() == name) {
            return Err(misfit(format!(
                "`{name}` is an architecture as it is: give the one with options another name"
            )));
        }
        let own = Tuning::parse(options).map_err(|problem| misfit(format!("{name}: {problem}")))?;
        let tuning = own.or(tuning);
        Ok(Subject {
            name: name.clone(),
            architecture: found,
            options: tuning.options(),
            variant: Some(Variant {
                name: name.clone(),
                architecture: architecture.clone(),
                options: options.clone(),
                server_arguments: tuning.to_arguments(),
            }),
        })
    };
    match &settings.architectures {
        None => Ok(ALL.iter().copied().map(plain).collect()),
        Some(choices) => choices.iter().map(subject).collect(),
    }
}

/// How a subject carries connections.
fn carrier(subject: &Subject) -> (String, Carrier) {
    let Subject { name, architecture, options, .. } = subject;
    let poller = architecture.poller(options);
    let world = architecture.world();
    let carrier = Carrier {
        world: world.map(|world| match world {
            architectures::World::Block => World::Block,
            architectures::World::Park => World::Park,
            architectures::World::Suspend => World::Suspend,
        }),
        poller: poller.map(|poller| poller.to_string()),
        looks_at_all: poller.is_some_and(Kind::looks_at_all),
        processes: architecture.forks(),
        beside_others: world == Some(architectures::World::Block)
            && architecture.gives().concurrent_connections,
    };
    (name.clone(), carrier)
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
                format!("no processor {absent} to be had: choose of {all}"),
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

/// The peers of those names: defined ones, or ready-made.
fn peers(settings: &Settings, defined: &[Peer], subjects: &[Subject]) -> Result<Vec<Peer>, Misfit> {
    let named = |name: &String| {
        let taken = subjects.iter().any(|subject| subject.name == *name);
        if taken || ALL.iter().any(|architecture| architecture.name() == name) {
            let problem = format!("`{name}` is an architecture: give the peer another name");
            return Err(Misfit::new("peers", problem));
        }
        let peer = defined.iter().find(|peer| peer.name == *name).cloned();
        peer.or_else(|| Some(ReadyMade::named(name)?.peer())).ok_or_else(|| {
            let names: Vec<&str> = READY_MADE.iter().map(|ready| ready.name).collect();
            let names = names.join(", ");
            let problem = format!(
                "there is no peer `{name}`: choose one of {names}, or define it in a plan, by [[peer]]"
            );
            Misfit::new("peers", problem)
        })
    };
    settings.peers.iter().flatten().map(named).collect()
}

/// Which peers are not installed or cannot answer what is asked, and why. `is_demo` tells whether the
/// built-in pages are served.
fn unavailable_peers(design: &Design, is_demo: bool) -> BTreeMap<(String, usize), String> {
    let asks_demo_page = is_demo && matches!(design.path.as_str(), "/" | "/index.html");
    let mut unavailable = BTreeMap::new();
    for peer in &design.peers {
        let ready = ReadyMade::named(&peer.name);
        let misfit = ready.and_then(|ready| ready.misfit(&design.service, asks_demo_page));
        if let Some(why) = misfit.or_else(|| peer.missing()) {
            unavailable.extend(
                design.concurrency.iter().map(|&count| ((peer.name.clone(), count), why.clone())),
            );
        }
    }
    unavailable
}

/// A new file for each cell, unless there is another wish.
fn store(service: &Listed, settings: &Settings) -> Result<Option<Store>, Misfit> {
    if let Some(Store::At(url)) = &settings.store {
        let location: Result<Location, _> = url.parse();
        location.map_err(|error| Misfit::new("store", error.to_string()))?;
    }
    Ok(service.store.then(|| settings.store.clone().unwrap_or(Store::Sqlite)))
}

fn path(service: &Listed, settings: &Settings) -> Result<String, Misfit> {
    match &settings.path {
        Some(_) if service.page.is_none() => {
            let problem = format!("the service `{}` has no pages: leave it out", service.name);
            Err(Misfit::new("path", problem))
        }
        Some(path) if !path.starts_with('/') => {
            Err(Misfit::new("path", format!("a path begins with a slash: write /{path}")))
        }
        Some(path) => Ok(path.clone()),
        None => Ok(service.page.unwrap_or("/").to_owned()),
    }
}

/// The numbers of connections that were asked for, or else those of the usual ones that make sense.
fn concurrency(
    catalogue: &Catalogue,
    plan: &Plan,
    settings: &Settings,
) -> Result<Vec<usize>, Misfit> {
    let told = |problem: String| match catalogue {
        Catalogue::Own(_) if plan.exchange.is_none() => Misfit::new(
            Misfit::WHOLE,
            format!("{problem}; give a service of your own an exchange(request, reply)"),
        ),
        _ => Misfit::new(Misfit::WHOLE, problem),
    };
    if let Some(asked) = &settings.concurrency {
        let problem = asked.iter().find_map(|&connections| plan.misfit(connections));
        return problem.map_or_else(|| Ok(asked.clone()), |problem| Err(told(problem)));
    }
    let problems = CONCURRENCY.map(|connections| (connections, plan.misfit(connections)));
    let usual: Vec<usize> = problems
        .iter()
        .filter(|(_, problem)| problem.is_none())
        .map(|(connections, _)| *connections)
        .collect();
    // Where even the largest is wrong, it is not for being small.
    match problems.into_iter().rev().find_map(|(_, problem)| problem) {
        Some(problem) if usual.is_empty() => Err(told(problem)),
        _ => Ok(usual),
    }
}

/// What cannot be carried, and why; found before anything starts, so that it costs no time.
fn unavailable(
    plan: &Plan,
    service: &Listed,
    subjects: &[Subject],
) -> BTreeMap<(String, usize), String> {
    let design = &plan.design;
    let in_turn = matches!(plan.behaviour.pattern, Pattern::Serial | Pattern::Limited);
    let all_at_once = (in_turn && design.keep_alive) || service.needs.concurrent_connections;
    let mut unavailable = BTreeMap::new();
    for Subject { name, architecture, options, .. } in subjects {
        let never = architecture
            .unavailable(options)
            .or_else(|| service.missing_from(architecture.gives()));
        for &connections in &design.concurrency {
            let why = never.clone().or_else(|| match all_at_once {
                true => crowded(*architecture, options, plan.behaviour.connections(connections)),
                false => None,
            });
            let cell = (name.clone(), connections);
            unavailable.extend(why.map(|why| (cell, why)));
        }
    }
    unavailable
}

/// The cells whose connections this machine does not allow.
fn too_many(plan: &Plan) -> BTreeMap<(String, usize), String> {
    let design = &plan.design;
    let counts = design.concurrency.iter();
    let refused = counts.filter_map(|&count| Some((count, plan.too_many(count)?)));
    let cells = refused.flat_map(|(count, why)| {
        design
            .subjects()
            .map(move |name| ((name.to_owned(), count), why.clone()))
            .collect::<Vec<_>>()
    });
    cells.collect()
}

/// What runs with less here than it would elsewhere, in words.
fn degraded(subjects: &[Subject]) -> Vec<String> {
    let told = |subject: &Subject| {
        let how = subject.architecture.degraded(&subject.options)?;
        Some(format!("{} {how}", subject.name))
    };
    subjects.iter().filter_map(told).collect()
}

/// Why so many connections, none of which may wait for another's end, are too many.
fn crowded(
    architecture: &dyn Architecture,
    options: &Options,
    connections: usize,
) -> Option<String> {
    let Options { max_connections, .. } = *options;
    match architecture.places(options) {
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
    // Whole seconds: short enough to be typed again.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The command line as it may be shown: without a store's password.
fn command(settings: &Settings) -> Vec<String> {
    let shown = |argument: String| match &settings.store {
        Some(store @ Store::At(url)) => argument.replace(url, &store.to_string()),
        _ => argument,
    };
    std::env::args().map(shown).collect()
}
