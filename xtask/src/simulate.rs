//! `cargo xtask simulate`: each service that ships with Duality under hundreds of seeds, in both
//! forms of waiting. docs/simulate.md says what a simulation sees.

use std::process::Command;

use crate::Workspace;
use crate::outcome::Outcome::{self, Passed};
use crate::outcome::{cargo_command, execute};

/// What this command does, for the help.
pub(crate) const ABOUT: &str =
    "hundreds of seeds of each service in a simulated world, with faults";

/// Services, and their seeds. A relay has three servers, and stores are on real files: they take
/// longer. For a soak, run the example with more.
const SEEDS: [(&str, u32); 10] = [
    ("echo", 200),
    ("time", 200),
    ("quote", 200),
    ("http", 200),
    ("chat", 200),
    ("game", 200),
    ("blocks", 200),
    ("relay", 50),
    ("phone", 50),
    ("guestbook", 50),
];

pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let build = ["build", "--release", "--package=duality-simulate", "--example=services"];
    match execute(cargo_command(workspace).args(build)) {
        Passed => {}
        other => return other,
    }
    let program = workspace.target.join("release/examples/services");
    for (name, seeds) in SEEDS {
        match execute(Command::new(&program).args([name, &seeds.to_string(), "both"])) {
            Passed => {}
            failed => return failed,
        }
    }
    Passed
}
