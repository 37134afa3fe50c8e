//! The outcome of a step, and the ways in which a step runs a command.

use std::process::Command;

use Pass::{Partly, Passed};

use crate::Workspace;
use crate::failure::{At as _, Result};

/// How a step passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pass {
    Passed,
    /// Without the tests that this machine cannot run.
    Partly(String),
}

/// The outcome of a step.
pub(crate) type Outcome = Result<Pass>;

/// The outcome of a step of two parts.
pub(crate) fn both(one: Outcome, other: Outcome) -> Outcome {
    match (one, other) {
        (Ok(Passed), other) | (other, Ok(Passed)) => other,
        (Ok(Partly(one)), Ok(Partly(other))) => Ok(Partly(format!("{one}; {other}"))),
        (Err(one), Err(other)) => Err(format!("{one}\n{other}").into()),
        (Err(one), _) | (_, Err(one)) => Err(one),
    }
}

/// The features that a default build leaves out, and that have tests.
pub(crate) const FEATURES: &str = "--features=duality/rustls,duality/http2,duality-tokio/rustls";

/// Cargo, in the workspace.
pub(crate) fn cargo_command(workspace: &Workspace) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(&workspace.root);
    // `cargo xtask` describes the package xtask by these. Build scripts that watch them, such as
    // ring's, would run again, and what depends on them would be compiled again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs `command` on this terminal, with its output unchanged.
pub(crate) fn execute(command: &mut Command) -> Outcome {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().at(format_args!("cannot run {name}"))?;
    if status.success() { Ok(Passed) } else { Err(status.to_string().into()) }
}
