//! The outcome of a step, and the ways in which a step runs a command.

use std::process::Command;

use Outcome::{Failed, Partly, Passed, Skipped};

use crate::Workspace;

/// The outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The step passed, without the tests that this machine cannot run.
    Partly(String),
    Failed(String),
    /// The step did not run, because this machine lacks something.
    Skipped(String),
}

impl Outcome {
    /// The outcome of a step of two parts.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Passed, one) | (one, Passed) => one,
            (Failed(one), Failed(other)) => Failed(format!("{one}\n{other}")),
            (Failed(one), _) | (_, Failed(one)) => Failed(one),
            (Partly(one) | Skipped(one), Partly(other) | Skipped(other)) => {
                Partly(format!("{one}; {other}"))
            }
        }
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
    match command.status() {
        Ok(status) if status.success() => Passed,
        Ok(status) => Failed(status.to_string()),
        Err(error) => Failed(format!("cannot run {name}: {error}")),
    }
}
