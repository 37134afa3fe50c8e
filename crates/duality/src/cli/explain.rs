//! `duality compare … --check`: explains in words what an experiment would measure.

use std::collections::BTreeMap;

use duality_lab::Mistake;
use duality_lab::measure::experiment::Experiment;
use duality_lab::record::Design;

use super::paragraph;

/// Explains the cells of an experiment, the place, the length, and the unavailable subjects, one
/// line each.
pub(super) fn explain(experiment: &Experiment) -> String {
    let design = &experiment.design;
    let mut lines = Vec::new();
    let mut line = |name: &str, text: String| lines.push(entry(name, &text));
    line("subjects", listed(design.subjects()));
    if let Some(control) = &design.control {
        line("control", format!("{control}, to see what chance does (docs/method.md)"));
    }
    line(clients(design).0, clients(design).1);
    line(
        "cells",
        format!(
            "{}: each subject at each number of connections {}, each time with a fresh server, in \
             random order (seed {})",
            experiment.cells(),
            times(design.repeats),
            design.seed,
        ),
    );
    line("a cell", cell(design));
    if let Some(words) = &design.load_command {
        line("load", words.join(" "));
    }
    let guess = match design.load_command {
        Some(_) => ", if the load command takes a second each time",
        None => "",
    };
    line("in all", format!("about {:.0} s{guess}", experiment.length().as_secs_f64()));
    if let Some(budget) = experiment.budget {
        line(
            "budget",
            format!("{:.0} s: longer work stops, and --resume continues it", budget.as_secs_f64()),
        );
    }
    for how in &experiment.degraded {
        line("degraded", how.clone());
    }
    for economy in &experiment.economies {
        line("economy", economy.clone());
    }
    for (name, text) in hosts(design) {
        line(name, text);
    }
    line("server", place(&design.server_cpus, arguments(design)));
    for peer in &design.peers {
        let variables = peer.environment.iter().map(|(name, value)| format!("{name}={value} "));
        let variables: String = variables.collect();
        line("peer", format!("{} is {variables}{}", peer.name, peer.command.join(" ")));
    }
    line("clients", place(&design.client_cpus, &[]) + design.protocols());
    for variant in &design.variants {
        let options = variant.options.join(" ");
        line("variant", format!("{} is {} with {options}", variant.name, variant.architecture));
    }
    if !experiment.constraints.is_empty() {
        line("constraints", format!("{}, or it is not recommended", experiment.constraints));
    }
    for (name, text) in behind(experiment) {
        line(name, text);
    }
    // Group by reason, because a subject mostly has one reason at all numbers of connections.
    let mut unavailable: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for ((subject, connections), why) in &experiment.unavailable {
        unavailable.entry((subject, why)).or_default().push(*connections);
    }
    for ((subject, why), connections) in unavailable {
        line("unavailable", format!("{subject} at {}: {why}", listed(&connections)));
    }
    lines.concat()
}

/// Formats a line about `name`. A command stays on its line, so that it can be copied.
fn entry(name: &str, text: &str) -> String {
    match name {
        "load" | "peer" => format!("{name:<12}  {text}\n"),
        _ => paragraph(&format!("{name:<12}  "), &" ".repeat(14), text),
    }
}

/// The arguments of servers of ours. Peers have their own.
fn arguments(design: &Design) -> &[String] {
    if design.architectures.is_empty() { &[] } else { &design.server_arguments }
}

/// What the servers use: their store, and the servers behind a relay.
fn behind(experiment: &Experiment) -> impl Iterator<Item = (&'static str, String)> {
    let design = &experiment.design;
    let store = design.store.iter().map(|store| ("store", store.clone()));
    let upstream = experiment.upstream.iter();
    store.chain(upstream.map(|to| ("upstream", to.describe(&design.client_cpus))))
}

/// The hosts of roles, and the launcher that reaches them.
fn hosts(design: &Design) -> Vec<(&'static str, String)> {
    let Some(topology) = &design.topology else { return Vec::new() };
    let balancer = topology.balancer.iter().filter_map(|peer| peer.command.first());
    let balancer = balancer.map(|program| ("balancer", program.clone()));
    let named = [("hosts", listed(&topology.hosts)), ("launcher", topology.launcher.clone())];
    named.into_iter().chain(balancer).collect()
}

/// How many clients there are: connections, or users of a recording.
fn clients(design: &Design) -> (&'static str, String) {
    let counts = connections(&design.concurrency);
    match &design.recording {
        None => ("connections", counts),
        Some(recording) => ("users", format!("{counts} times those of {}", recording.trace)),
    }
}

/// The numbers of connections.
fn connections(counts: &[usize]) -> String {
    match counts {
        [0] => "as many as the load command opens".to_owned(),
        counts => listed(counts),
    }
}

/// Explains the measurement of a cell and its blocks.
fn cell(design: &Design) -> String {
    let blocks = match design.blocks {
        0 => String::new(),
        1 => ", and 1 block in turn with the others".to_owned(),
        many => format!(", and {many} blocks in turn with the others"),
    };
    let of_replay = match design.recording {
        None => String::new(),
        Some(_) => format!(
            ", and {} blocks in which all have two pieces of the recording at once",
            design.blocks
        ),
    };
    match design.load_command {
        Some(_) => format!("one run of the load command to warm up, then one that counts{blocks}"),
        None => format!(
            "{} s of warm-up, then {} s that are measured{of_replay}",
            rounded(design.warm_up_seconds),
            rounded(design.window_seconds)
        ),
    }
}

fn listed<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}

fn times(count: usize) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// To milliseconds.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// The processors of a side, and its tools and arguments.
fn place(cpus: &[usize], arguments: &[String]) -> String {
    let cpus = match cpus {
        [] => "on any processor".to_owned(),
        [one] => format!("on processor {one}"),
        many => format!("on processors {}", listed(many)),
    };
    if arguments.is_empty() { cpus } else { format!("{cpus}, with {}", arguments.join(" ")) }
}

/// Reads a margin in percent.
pub(super) fn margin(text: &str) -> Result<f64, Mistake> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.1..=100.0).contains(percent));
    percent.ok_or_else(|| "give a percentage such as 5, from 0.1 to 100".into())
}
