//! `cargo xtask tokio-patch`: tests the crate named tokio in patch/, by programs that know nothing
//! of it. Each folder is a workspace of its own, because a patch holds for a whole workspace.

use std::ffi::OsStr;

use crate::Workspace;
use crate::failure::{Failure, Party};
use crate::minimal;
use crate::outcome::Pass::{Partly, Passed};
use crate::outcome::{Outcome, cargo_command, execute};
use crate::testing::execute_tests;

/// What this command does, for the help.
pub(crate) const ABOUT: &str =
    "programs of tokio's ecosystem run unmodified on every world, and the ecosystem compiles";

const CRATE: &str = "patch/tokio";
const PROGRAMS: &str = "patch/try";
const ECOSYSTEM: &str = "patch/ecosystem";
/// A program with a `Cargo.lock` of old versions, as a user may have.
const LOCKED: &str = "patch/locked";
/// Programs and clients in a simulated world.
const SIMULATED: &str = "patch/simulated";
/// Programs with planted faults, in the simulation of others.
const TURMOIL: &str = "patch/turmoil";
/// The package, and the program, of `cargo duality`.
const COMMAND: &str = "cargo-duality";

/// The crate, the programs of its tests, and what must compile against it or beside it.
pub(crate) const FOLDERS: [&str; 6] = [CRATE, PROGRAMS, ECOSYSTEM, LOCKED, SIMULATED, TURMOIL];

pub(crate) fn run(workspace: &Workspace) -> Outcome {
    // The three build many of the same crates.
    let target = workspace.target.join("tokio-patch");
    let cargo = |folder: &str, arguments: &[&str]| {
        let mut command = cargo_command(workspace);
        let (subcommand, rest) = arguments.split_first().expect("a subcommand");
        let manifest = format!("{folder}/Cargo.toml");
        command.args([subcommand, "--locked", "--manifest-path", &manifest]);
        command.args(rest).env("CARGO_TARGET_DIR", OsStr::new(&target));
        command
    };
    // The tests of `cargo duality check-tokio` check a program with the versions of this workspace.
    for folder in ["."].into_iter().chain(FOLDERS) {
        execute(&mut cargo(folder, &["fetch"])).map_err(|_| {
            Failure::lack("crates.io is out of reach", "the programs depend on crates of it")
        })?;
    }
    for folder in [CRATE, PROGRAMS, SIMULATED] {
        execute(&mut cargo(folder, &["clippy", "--all-targets", "--", "-D", "warnings"]))?;
    }
    for folder in [ECOSYSTEM, LOCKED, TURMOIL] {
        execute(&mut cargo(folder, &["check"]))?;
    }
    let without = match minimal::run(workspace) {
        Err(lack) if lack.party == Party::Machine => {
            println!("{lack}");
            Some(lack.to_string())
        }
        other => other.map(|_| None)?,
    };
    execute(cargo_command(workspace).args(["build", "--locked", "--package", COMMAND]))?;
    // A few seeds of each. DUALITY_SEEDS=1000 has more of them run.
    execute(&mut cargo(SIMULATED, &["test", "--no-fail-fast"]))?;
    let mut tests = cargo(PROGRAMS, &["test", "--no-fail-fast"]);
    let tests = tests.env("CARGO_DUALITY", workspace.target.join("debug").join(COMMAND));
    match (execute_tests(tests), without) {
        (Ok(Passed), Some(reason)) => Ok(Partly(reason)),
        (outcome, _) => outcome,
    }
}
