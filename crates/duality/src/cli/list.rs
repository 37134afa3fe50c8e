//! `duality architectures` and `duality services`.

use duality_architectures::{Architecture, Needs, Options};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failure, paragraph, print};
use crate::catalogue::{Catalogue, Listed};

/// The version of both formats.
const VERSION: u32 = 1;

/// What `duality architectures --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Architectures {
    /// The version of this format.
    #[schemars(extend("const" = VERSION))]
    version: u32,
    /// The architectures.
    architectures: Vec<ArchitectureData>,
}

/// An architecture.
#[derive(Debug, Serialize, JsonSchema)]
struct ArchitectureData {
    /// The name.
    name: String,
    /// What it is, in a sentence.
    summary: String,
    /// Where it is from.
    source: String,
    /// Whether services run on it. Without, only services written by hand do.
    straight_line: bool,
    /// Whether connections share memory.
    shared_memory: bool,
    /// Whether it serves several connections at once.
    concurrent_connections: bool,
    /// The runtime of others that carries its connections.
    foreign_runtime: Option<String>,
    /// The reason why it cannot run here.
    unavailable: Option<String>,
    /// What it lacks here.
    degraded: Option<String>,
}

/// What `duality services --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Services {
    /// The version of this format.
    #[schemars(extend("const" = VERSION))]
    version: u32,
    /// The services.
    services: Vec<ServiceData>,
}

/// A service.
#[derive(Debug, Serialize, JsonSchema)]
struct ServiceData {
    /// The name.
    name: String,
    /// What it does, in a sentence.
    summary: String,
    /// Whether it needs an architecture that runs services. Otherwise it is also written by hand.
    needs_straight_line: bool,
    /// Whether its connections share memory.
    needs_shared_memory: bool,
    /// Whether it needs several connections at once.
    needs_concurrent_connections: bool,
    /// Whether it keeps data in a store.
    keeps_a_store: bool,
}

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Print JSON (format version 1)
    #[arg(long)]
    json: bool,
}

pub(super) fn architectures(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    let registry = catalogue.architectures();
    if arguments.json {
        let architectures = registry.iter().map(ArchitectureData::of).collect();
        let told = Architectures { version: VERSION, architectures };
        return print(&serde_json::to_value(told).expect("it is plain data").to_string());
    }
    let width = registry.iter().map(|architecture| architecture.name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for architecture in registry.iter() {
        let gives = architecture.about().gives;
        let mut remarks = Vec::new();
        if !gives.straight_line {
            remarks.push("only services written by hand".to_owned());
        }
        if !gives.shared_memory {
            remarks.push("connections share no memory".to_owned());
        }
        if !gives.concurrent_connections {
            remarks.push("one connection at a time".to_owned());
        }
        remarks.extend(
            architecture.unavailable(&Options::default()).map(|why| format!("unavailable: {why}")),
        );
        remarks.extend(architecture.degraded(&Options::default()));
        let remarks =
            if remarks.is_empty() { String::new() } else { format!(" [{}]", remarks.join("; ")) };
        let summary = format!("{}{remarks}", architecture.about().summary);
        let source = format!("from {}", architecture.about().source);
        text += &entry(architecture.name(), &summary, width);
        text += &entry("", &source, width);
    }
    print(&text)
}

pub(super) fn services(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    let list = catalogue.list();
    if arguments.json {
        let told =
            Services { version: VERSION, services: list.iter().map(ServiceData::of).collect() };
        return print(&serde_json::to_value(told).expect("it is plain data").to_string());
    }
    let width = list.iter().map(|listed| listed.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for listed in list {
        let mut remarks = Vec::new();
        if !listed.needs.straight_line {
            remarks.push("also written by hand");
        }
        if listed.needs.shared_memory {
            remarks.push("needs shared memory");
        }
        if listed.store {
            remarks.push("keeps a store, --store");
        }
        let remarks =
            if remarks.is_empty() { String::new() } else { format!(" [{}]", remarks.join("; ")) };
        text += &entry(&listed.name, &format!("{}{remarks}", listed.summary), width);
    }
    print(&text)
}

impl ArchitectureData {
    fn of(architecture: &dyn Architecture) -> Self {
        let about = architecture.about();
        let Needs { straight_line, shared_memory, concurrent_connections } = about.gives;
        Self {
            name: architecture.name().to_owned(),
            summary: about.summary.to_owned(),
            source: about.source.to_owned(),
            straight_line,
            shared_memory,
            concurrent_connections,
            foreign_runtime: about.foreign_runtime.map(|runtime| runtime.name.to_owned()),
            unavailable: architecture.unavailable(&Options::default()),
            degraded: architecture.degraded(&Options::default()),
        }
    }
}

impl ServiceData {
    fn of(listed: &Listed) -> Self {
        let Needs { straight_line, shared_memory, concurrent_connections } = listed.needs;
        Self {
            name: listed.name.to_string(),
            summary: listed.summary.to_string(),
            needs_straight_line: straight_line,
            needs_shared_memory: shared_memory,
            needs_concurrent_connections: concurrent_connections,
            keeps_a_store: listed.store,
        }
    }
}

/// The description of an entry in a list, after its name.
fn entry(name: &str, about: &str, width: usize) -> String {
    paragraph(&format!("{name:<width$}  "), &" ".repeat(width + 2), about)
}
