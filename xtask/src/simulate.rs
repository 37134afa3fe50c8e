//! `cargo xtask simulate`: each service that ships with Duality under a thousand seeds, in both
//! forms of waiting. docs/simulate.md says what a simulation sees.

use std::process::Command;

use crate::Workspace;
use crate::outcome::Pass::Passed;
use crate::outcome::{Outcome, cargo_command, execute};

/// What this command does, for the help.
pub(crate) const ABOUT: &str = "a thousand seeds of each service in a simulated world, with faults";

/// Services, the number of their servers, and their seeds. Several servers are joined by Redis.
/// Relays and joined servers have more hosts, and stores are on real files: they take longer. For a
/// soak, run the example with more.
const SEEDS: [(&str, u32, u32); 12] = [
    ("echo", 1, 1000),
    ("time", 1, 1000),
    ("quote", 1, 1000),
    ("http", 1, 1000),
    ("chat", 1, 1000),
    ("chat", 3, 300),
    ("game", 1, 1000),
    ("game", 3, 300),
    ("blocks", 1, 1000),
    ("relay", 1, 300),
    ("phone", 1, 300),
    ("guestbook", 1, 300),
];

/// The architectures that are simulated beneath each service, with their threads and locks.
const ARCHITECTURES: [&str; 8] = [
    "iterative",
    "threads",
    "pool",
    "epoll",
    "workpool-fifo",
    "workpool-priority",
    "workpool-serial",
    "staged",
];
/// The seeds of each service under an architecture. Each of them runs twice.
const SEEDS_OF_PAIR: &str = "100";

pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let build = ["build", "--release", "--package=duality-simulate", "--example=services"];
    execute(cargo_command(workspace).args(build))?;
    let program = workspace.target.join("release/examples/services");
    for (name, servers, seeds) in SEEDS {
        let servers = format!("servers={servers}");
        execute(Command::new(&program).args([name, &seeds.to_string(), "both", &servers]))?;
    }
    for (name, ..) in SEEDS.into_iter().filter(|(_, servers, _)| *servers == 1) {
        for architecture in ARCHITECTURES {
            // Members of a room are served at the same time.
            if architecture == "iterative" && matches!(name, "chat" | "game") {
                continue;
            }
            let option = format!("architecture={architecture}");
            execute(Command::new(&program).args([name, SEEDS_OF_PAIR, &option]))?;
        }
    }
    Ok(Passed)
}
