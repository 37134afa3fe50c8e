//! `cargo xtask hosts`: several hosts on one machine, by `scripts/hosts.py`. docs/hosts-rig.md
//! explains how to use them.

use std::process::{Command, ExitCode};

use crate::Workspace;

pub(crate) const ABOUT: &str = "several hosts on this machine, for tests; also: hosts --help";

/// Runs `cargo xtask hosts ARGUMENTS`. Returns its exit code: 2 for misuse, 1 for a failure.
pub(crate) fn run(workspace: &Workspace, arguments: &[&str]) -> ExitCode {
    let mut script = Command::new("python3");
    script.arg(workspace.root.join("scripts/hosts.py")).arg(workspace.target.join("xtask"));
    match script.args(arguments).status().map(|status| status.code()) {
        Ok(code) => {
            code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => {
            eprintln!("xtask: cannot run python3: {error}");
            ExitCode::FAILURE
        }
    }
}
