//! How a step ends, and how it runs a command.

use std::process::Command;

use Outcome::{Failed, Passed};

use crate::Workspace;

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    /// Not run, because of something that this machine lacks.
    Skipped(String),
}

pub(crate) fn cargo_command(workspace: &Workspace) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(&workspace.root);
    command
}

/// Runs `command` on this terminal; what it prints is its own.
pub(crate) fn execute(command: &mut Command) -> Outcome {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Passed,
        Ok(status) => Failed(status.to_string()),
        Err(error) => Failed(format!("cannot run {name}: {error}")),
    }
}
