//! The differences of two experiments besides their measurements: machine, design and version.

use std::collections::BTreeSet;
use std::fmt::Debug;

use schemars::JsonSchema;
use serde::Serialize;

use super::Incomparable;
use crate::format::bytes;
use crate::record::{Design, Heading};

/// A property that differs between the two experiments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// What.
    pub what: String,
    /// The property's value in the first experiment.
    pub before: String,
    /// The property's value in the second experiment.
    pub after: String,
}

/// Refuses experiments with different requests to the servers.
pub(super) fn comparable(before: &Design, after: &Design) -> Result<(), Incomparable> {
    let services = (&before.service, &after.service);
    let patterns = (&before.clients.pattern, &after.clients.pattern);
    for (what, (one, other)) in [("service", services), ("load pattern", patterns)] {
        if one != other {
            let problem = format!(
                "the first measured the {what} `{one}`, the second `{other}`: compare runs of the same {what}"
            );
            return Err(Incomparable(problem));
        }
    }
    Ok(())
}

/// All differences, the most interesting first.
pub(super) fn find(before: &Heading, after: &Heading) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut compare = |what: &str, before: String, after: String| {
        if before != after {
            found.push(Difference { what: what.to_owned(), before, after });
        }
    };
    compare("Duality", before.duality.clone(), after.duality.clone());
    let (one, other) = (&before.machine, &after.machine);
    compare("kernel", one.kernel.clone(), other.kernel.clone());
    compare("processor", one.cpu.clone(), other.cpu.clone());
    compare("processors", one.cpus.to_string(), other.cpus.to_string());
    compare("memory", bytes(one.memory_bytes as f64), bytes(other.memory_bytes as f64));
    let names: BTreeSet<&String> = one.settings.keys().chain(other.settings.keys()).collect();
    for name in names {
        let value = |heading: &Heading| {
            heading.machine.settings.get(name).cloned().unwrap_or_else(|| "not known".to_owned())
        };
        compare(name, value(before), value(after));
    }
    let (one, other) = (&before.design, &after.design);
    compare("server arguments", words(&one.server_arguments), words(&other.server_arguments));
    compare("server's processors", list(&one.server_cpus), list(&other.server_cpus));
    compare("clients' processors", list(&one.client_cpus), list(&other.client_cpus));
    compare("keep-alive", yes(one.keep_alive), yes(other.keep_alive));
    compare("TLS", yes(one.tls), yes(other.tls));
    compare("HTTP/2", yes(one.http2), yes(other.http2));
    let clients = (&one.clients, &other.clients);
    let command =
        |words: &Option<Vec<String>>| or_none(words.as_ref().map(|words| words.join(" ")));
    compare("load command", command(&one.load_command), command(&other.load_command));
    compare("arrivals", or_none(clients.0.arrivals.clone()), or_none(clients.1.arrivals.clone()));
    compare("further connections", or_none(clients.0.crowd()), or_none(clients.1.crowd()));
    let sources = |count: Option<std::num::NonZeroU32>| {
        count.map_or_else(|| "as many as needed".to_owned(), |count| count.to_string())
    };
    compare("source addresses", sources(clients.0.sources), sources(clients.1.sources));
    compare("path", one.path.clone(), other.path.clone());
    compare("store", or_none(one.store.clone()), or_none(other.store.clone()));
    compare("window", seconds(one.window_seconds), seconds(other.window_seconds));
    compare("warm-up", seconds(one.warm_up_seconds), seconds(other.warm_up_seconds));
    compare("repeats", one.repeats.to_string(), other.repeats.to_string());
    compare("seed", one.seed.to_string(), other.seed.to_string());
    found
}

fn words(arguments: &[String]) -> String {
    if arguments.is_empty() { "none".to_owned() } else { arguments.join(" ") }
}

fn list(cpus: &[usize]) -> String {
    if cpus.is_empty() { "any".to_owned() } else { format!("{cpus:?}").replace(['[', ']'], "") }
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| "none".to_owned())
}

fn seconds(seconds: impl Debug) -> String {
    format!("{seconds:?} s")
}
