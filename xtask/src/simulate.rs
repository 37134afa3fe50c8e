//! `cargo xtask simulate`: each service that ships with Duality under a thousand seeds, in both
//! forms of waiting. docs/simulate.md says what a simulation sees.

use std::process::Command;

use crate::Workspace;
use crate::outcome::Pass::Passed;
use crate::outcome::{Outcome, cargo_command, execute};

/// What this command does, for the help.
pub(crate) const ABOUT: &str = "a thousand seeds of each service in a simulated world, with faults";

/// Services, and their seeds. A relay has three servers, and stores are on real files: they take
/// longer. For a soak, run the example with more.
const SEEDS: [(&str, u32); 10] = [
    ("echo", 1000),
    ("time", 1000),
    ("quote", 1000),
    ("http", 1000),
    ("chat", 1000),
    ("game", 1000),
    ("blocks", 1000),
    ("relay", 300),
    ("phone", 300),
    ("guestbook", 300),
];

pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let build = ["build", "--release", "--package=duality-simulate", "--example=services"];
    execute(cargo_command(workspace).args(build))?;
    let program = workspace.target.join("release/examples/services");
    for (name, seeds) in SEEDS {
        execute(Command::new(&program).args([name, &seeds.to_string(), "both"]))?;
    }
    Ok(Passed)
}
