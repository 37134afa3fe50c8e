//! Describes the service and the architectures to the lab, which makes experiments of them.

use std::time::Duration;

use duality_architectures::common::admission;
use duality_architectures::{self as architectures, Options, Registry};
use duality_lab::Mistake;
use duality_lab::ask::footprint::Footprint;
use duality_lab::ask::resolve::{self, Architecture, ServiceFacts};
use duality_lab::ask::settings::{Misfit, Settings};
use duality_lab::ask::variant::Choice;
use duality_lab::measure::experiment::Experiment;
use duality_lab::measure::store::Store;
use duality_lab::record::{Carrier, Design, Foreign, Part, Peer};
use duality_poller::Kind;
use duality_services::store::Location;
use duality_services::{Setting, Setup, http, relay};

use super::Tuning;
use super::flags::tls;
use crate::catalogue::{Catalogue, Listed};
use crate::setup;

/// Makes an experiment; see [`resolve::experiment`]. A flag in `tuning` overrides the same flag in
/// the `server-arguments` of `settings`.
///
/// # Errors
///
/// A [`Misfit`] describes the first setting that makes no sense, or names an unknown choice.
pub(super) fn of(
    catalogue: &Catalogue,
    settings: &Settings,
    tuning: &Tuning,
    defined: &[Peer],
    whole: Option<Duration>,
) -> Result<Experiment, Misfit> {
    settings.check()?;
    let program = Program::new(catalogue, settings, tuning)?;
    resolve::experiment(settings, &program, defined, whole)
}

/// This program for questions about earlier results: the service and the architectures of `design`.
///
/// # Errors
///
/// The error names in one line what this program lacks.
pub(super) fn of_results(
    catalogue: &Catalogue,
    design: &Design,
) -> Result<impl resolve::Program + use<>, Mistake> {
    let service = Some(design.service.clone());
    let settings = Settings { service, ..Settings::default() };
    let program = Program::new(catalogue, &settings, &Tuning::default());
    program.map(Recorded).map_err(|misfit| misfit.problem)
}

/// The program as results recorded it. The recorded server arguments also set up the service, which
/// is not part of an architecture.
struct Recorded(Program);

impl resolve::Program for Recorded {
    fn service(&self) -> &ServiceFacts {
        self.0.service()
    }

    fn architectures(&self) -> Vec<&'static str> {
        self.0.architectures()
    }

    fn architecture(&self, choice: &Choice) -> Result<Architecture, Mistake> {
        let is_setup = |option: &String| {
            let name = option.trim_start_matches('-').split('=').next();
            Setting::ALL.iter().any(|setting| Some(setting.name()) == name)
        };
        let options = choice.options.iter().filter(|option| !is_setup(option));
        self.0.architecture(&Choice { options: options.cloned().collect(), ..choice.clone() })
    }

    fn admitted(&self, descriptors: u64) -> u64 {
        self.0.admitted(descriptors)
    }
}

/// This program, as its servers are set up for an experiment.
struct Program {
    listed: Listed,
    registry: Registry,
    service: ServiceFacts,
    tuning: Tuning,
    setup: Setup,
}

impl Program {
    fn new(catalogue: &Catalogue, settings: &Settings, tuning: &Tuning) -> Result<Self, Misfit> {
        let written = Tuning::parse(settings.server_arguments.as_deref().unwrap_or_default());
        let written = written.map_err(|problem| Misfit::new("server-arguments", problem))?;
        let setup = setup::of(settings)?;
        let name = settings.service.as_deref().unwrap_or(catalogue.default_name());
        let mut listed = catalogue.look_up(name, &setup)?;
        setup::check_files(&setup)?;
        if settings.store.is_some() && !listed.store {
            return Err(setup::misfit(name, Setting::Store));
        }
        if settings.tls == Some(true) {
            tls::require(&mut listed).map_err(|problem| Misfit::new("tls", problem))?;
        }
        let tuning = tuning.or(written).suited_to(&listed);
        tuning.check(&listed)?;
        if let Some(Store::At(url)) = &settings.store {
            let location: Result<Location, _> = url.parse();
            location.map_err(|error| Misfit::new("store", error.to_string()))?;
        }
        let service = ServiceFacts {
            name: listed.name.clone(),
            is_own: listed.is_own,
            persistent: listed.persistent,
            concurrent_connections: listed.needs.concurrent_connections,
            store: listed.store,
            relays: name == relay::ENTRY.name,
            exchange: catalogue.exchange(),
            page: catalogue.page(),
            demo_files: http::demo_files(),
            server_arguments: [tuning.to_arguments(), setup::to_arguments(&setup)].concat(),
        };
        Ok(Self { listed, registry: catalogue.architectures(), service, tuning, setup })
    }
}

impl resolve::Program for Program {
    fn service(&self) -> &ServiceFacts {
        &self.service
    }

    fn architectures(&self) -> Vec<&'static str> {
        self.registry.iter().map(architectures::Architecture::name).collect()
    }

    fn architecture(&self, choice: &Choice) -> Result<Architecture, Mistake> {
        let found = self.registry.named(&choice.architecture);
        let found = found.map_err(|unknown| unknown.to_string())?;
        let own = Tuning::parse(&choice.options);
        let tuning = own.map_err(|problem| format!("{}: {problem}", choice.name))?.or(self.tuning);
        let options = tuning.options();
        Ok(Architecture {
            carrier: carrier(found, &options, self.listed.beside),
            unavailable: found.unavailable(&options).or_else(|| self.listed.refusal(found)),
            degraded: found.degraded(&options),
            workers: found.places(&options),
            max_connections: options.max_connections,
            footprint: footprint(found, &options, tuning.descriptors),
            server_arguments: [tuning.to_arguments(), setup::to_arguments(&self.setup)].concat(),
        })
    }

    fn admitted(&self, descriptors: u64) -> u64 {
        /// The approximate number of descriptors of a ready server.
        const IN_USE: usize = 20;
        let limit = usize::try_from(descriptors).unwrap_or(usize::MAX);
        admission::connections_within(limit, IN_USE, self.listed.descriptors) as u64
    }
}

/// The resources that a connection takes under an architecture. The options of the server may limit
/// `descriptors`.
fn footprint(
    architecture: &dyn architectures::Architecture,
    options: &Options,
    descriptors: Option<u64>,
) -> Footprint {
    let declared = architecture.footprint(options);
    Footprint {
        processes: declared.processes,
        threads: declared.threads,
        mappings: declared.mappings.each,
        reserved_mappings: declared.mappings.reserved,
        no_mappings_from: declared.mappings.none_from,
        accepted: declared.accepted,
        backlog: usize::try_from(options.backlog).unwrap_or(0),
        descriptors,
    }
}

/// The most connections that an architecture holds at a time.
fn places(architecture: &dyn architectures::Architecture, options: &Options) -> usize {
    architecture.places(options).unwrap_or(usize::MAX).min(options.max_connections)
}

/// Describes how an architecture carries connections. The service uses the runtime `beside`, if
/// there is one.
fn carrier(
    architecture: &dyn architectures::Architecture,
    options: &Options,
    beside: Option<&str>,
) -> Carrier {
    let poller = architecture.poller(options);
    let world = architecture.about().world;
    let foreign = match architecture.about().foreign_runtime {
        Some(runtime) => {
            Some((runtime.name, if runtime.steals { Part::Steals } else { Part::Carries }))
        }
        None => beside.map(|runtime| (runtime, Part::Beside)),
    };
    Carrier {
        world,
        poller: poller.map(|poller| poller.to_string()),
        looks_at_all: poller.is_some_and(Kind::looks_at_all),
        processes: architecture.about().forks,
        beside_others: world.is_some_and(architectures::World::has_threads_beside)
            && architecture.about().gives.concurrent_connections,
        holds: Some(places(architecture, options)),
        foreign: foreign.map(|(runtime, part)| Foreign { runtime: runtime.to_owned(), part }),
    }
}
