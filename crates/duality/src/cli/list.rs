//! `duality architectures` and `duality services`.

use duality_architectures::{Needs, Options};
use serde_json::{Value, json};

use super::{Failure, paragraph, print};
use crate::catalogue::Catalogue;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Print JSON (format version 1)
    #[arg(long)]
    json: bool,
}

pub(super) fn architectures(catalogue: &Catalogue, arguments: &Arguments) -> Result<(), Failure> {
    let registry = catalogue.architectures();
    if arguments.json {
        let list: Vec<Value> = registry
            .iter()
            .map(|architecture| {
                let Needs { straight_line, shared_memory, concurrent_connections } =
                    architecture.about().gives;
                json!({
                    "name": architecture.name(),
                    "summary": architecture.about().summary,
                    "source": architecture.about().source,
                    "straight_line": straight_line,
                    "shared_memory": shared_memory,
                    "concurrent_connections": concurrent_connections,
                    "foreign_runtime": architecture.about().foreign_runtime.map(|runtime| runtime.name),
                    "unavailable": architecture.unavailable(&Options::default()),
                    "degraded": architecture.degraded(&Options::default()),
                })
            })
            .collect();
        return print(&json!({ "version": 1, "architectures": list }).to_string());
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
        let list: Vec<Value> = list
            .iter()
            .map(|listed| {
                json!({
                    "name": listed.name,
                    "summary": listed.summary,
                    "needs_straight_line": listed.needs.straight_line,
                    "needs_shared_memory": listed.needs.shared_memory,
                    "needs_concurrent_connections": listed.needs.concurrent_connections,
                    "keeps_a_store": listed.store,
                })
            })
            .collect();
        return print(&json!({ "version": 1, "services": list }).to_string());
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

/// The description of an entry in a list, after its name.
fn entry(name: &str, about: &str, width: usize) -> String {
    paragraph(&format!("{name:<width$}  "), &" ".repeat(width + 2), about)
}
