//! The workloads of a model: Demsky's ten, the web server with persistent connections, and the
//! guestbook.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use duality_architectures::ALL;
use duality_lab::ask::settings::Settings;
use duality_lab::ask::variant::Choice;
use duality_lab::measure::experiment::Experiment;
use duality_lab::measure::{self as lab, Clock, Finished, Stage};
use duality_lab::names::did_you_mean;
use duality_lab::record::results::Results;
use duality_runtime::log;

use super::super::{Blame, Failure, Party, Tuning, experiment, flag};
use super::Arguments;
use crate::catalogue::Catalogue;

/// The default number of connections, as in Demsky's benchmarks.
const CONNECTIONS: usize = 50;

/// A service, and the behaviour of its clients.
struct Workload {
    name: &'static str,
    service: &'static str,
    pattern: Option<&'static str>,
    /// Whether each request has a connection of its own. `None` if the pattern or the service
    /// decides.
    close: Option<bool>,
}

const WORKLOADS: [Workload; 12] = [
    of("echo-limited", "echo").with("limited"),
    of("echo-long", "echo").with("long"),
    of("echo-short", "echo").with("short"),
    of("echo-serial", "echo").with("serial"),
    of("time", "time"),
    of("chat", "chat"),
    of("quote", "quote"),
    of("http-short", "http").closing(true),
    of("http-long", "http").closing(false),
    of("game", "game"),
    of("phone", "phone").closing(true),
    of("guestbook", "guestbook").closing(true),
];

const fn of(name: &'static str, service: &'static str) -> Workload {
    Workload { name, service, pattern: None, close: None }
}

impl Workload {
    const fn with(self, pattern: &'static str) -> Self {
        Self { pattern: Some(pattern), ..self }
    }

    const fn closing(self, close: bool) -> Self {
        Self { close: Some(close), ..self }
    }
}

/// A plan for each requested workload, with the workload's name.
pub(super) fn experiments(
    catalogue: &Catalogue,
    arguments: &Arguments,
) -> Result<Vec<(String, Experiment)>, Failure> {
    let known = arguments.concurrency.clone().unwrap_or_else(|| vec![CONNECTIONS]);
    let again = arguments.predict.iter().chain(&arguments.check);
    if let Some(twice) = again.clone().find(|count| known.contains(count) || **count == 0) {
        return Err(Failure::misuse(format!(
            "--predict or --check: {twice}: name numbers that the model is not made from (--concurrency)"
        )));
    }
    let architectures = arguments.architectures.clone().unwrap_or_else(countable);
    let base = Settings {
        control: Some(false),
        architectures: Some(architectures.into_iter().map(Choice::plain).collect()),
        concurrency: Some(known.iter().chain(&arguments.check).copied().collect()),
        // The counts come from windows.
        blocks: Some(0),
        repeats: Some(arguments.repeats.unwrap_or(if arguments.quick { 1 } else { 2 })),
        warm_up: Some(Duration::from_millis(if arguments.quick { 80 } else { 200 })),
        window: Some(arguments.window.unwrap_or(Duration::from_millis(match arguments.quick {
            true => 150,
            false => 600,
        }))),
        ..Settings::default()
    };
    let experiment = |name: String, settings: Settings| {
        let experiment = experiment::of(catalogue, &settings, &Tuning::default(), &[], None);
        let experiment = experiment.map_err(flag)?;
        Ok((name, experiment))
    };
    if let Catalogue::Own(_) = catalogue {
        return Ok(vec![experiment(catalogue.default_name().to_owned(), base)?]);
    }
    let chosen = chosen(arguments.service.as_deref())?;
    let settings = |workload: &Workload| Settings {
        service: Some(workload.service.to_owned()),
        pattern: workload.pattern.map(str::to_owned),
        close: workload.close,
        ..base.clone()
    };
    chosen
        .into_iter()
        .map(|workload| experiment(workload.name.to_owned(), settings(workload)))
        .collect()
}

/// The workloads with these names, or of these services, in the order of the table.
fn chosen(names: Option<&[String]>) -> Result<Vec<&'static Workload>, Failure> {
    static ALL: [Workload; 12] = WORKLOADS;
    let Some(names) = names else { return Ok(ALL.iter().collect()) };
    let is_called =
        |workload: &Workload, name: &str| workload.name == name || workload.service == name;
    if let Some(name) = names.iter().find(|name| !ALL.iter().any(|one| is_called(one, name))) {
        let all = ALL.each_ref().map(|workload| workload.name);
        let meant = did_you_mean(name, all.into_iter().chain(ALL.iter().map(|one| one.service)));
        let all = all.join(", ");
        return Err(Failure::misuse(format!(
            "--service: there is no workload `{name}`: choose from {all}, or name a service{meant}"
        )));
    }
    let is_meant = |workload: &&Workload| names.iter().any(|name| is_called(workload, name));
    Ok(ALL.iter().filter(is_meant).collect())
}

/// The architectures that count their operations.
fn countable() -> Vec<String> {
    let counting = ALL.iter().filter(|architecture| architecture.about().world.is_some());
    counting.map(|architecture| architecture.name().to_owned()).collect()
}

/// Announces the measurements.
pub(super) fn announce(experiments: &[(String, Experiment)]) {
    let names: Vec<&str> = experiments.iter().map(|(name, _)| name.as_str()).collect();
    let length: Duration = experiments.iter().map(|(_, experiment)| experiment.length()).sum();
    log::tell(format_args!(
        "modelling {}: about {:.0} s, and the unit costs",
        names.join(", "),
        length.as_secs_f64()
    ));
}

/// Refuses a directory with results of these workloads.
pub(super) fn assert_unused(
    out: &Path,
    experiments: &[(String, Experiment)],
) -> Result<(), Failure> {
    let is_unused = |(name, experiment): &(String, Experiment)| {
        Results::begun(&out.join(name), &experiment.design).is_ok_and(|begun| begun.is_none())
    };
    if let Some((name, _)) = experiments.iter().find(|experiment| !is_unused(experiment)) {
        let place = out.join(name);
        return Err(Failure::misuse(format!(
            "--out: {} holds results already: choose another directory, or give their results.jsonl \
             to `duality model`",
            place.display()
        )));
    }
    Ok(())
}

/// Measures one workload after the other, in `out` or a temporary directory. Calls `ended` after
/// each.
pub(super) fn measure(
    experiments: &[(String, Experiment)],
    out: Option<&Path>,
    interrupted: &AtomicBool,
    mut ended: impl FnMut(&str, Finished) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let temporary = tempfile::tempdir().blame_at(Party::Machine, "no directory for the results")?;
    let out = out.unwrap_or(temporary.path());
    for (name, experiment) in experiments {
        log::tell(name);
        let stage = Stage::set(experiment)?;
        let clock = Clock::new(interrupted, None);
        let finished = lab::compare(experiment, &out.join(name), false, clock, &stage, None)
            .blame(Party::Machine)?;
        if !finished.complete {
            return Err(Failure::new(Party::Interruption, "interrupted: there is no model yet"));
        }
        ended(name, finished)?;
    }
    Ok(())
}
