//! Calls of cargo, and what cargo says.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::failure::Failure;

/// The cargo that called this command.
pub(crate) fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg(subcommand);
    command
}

/// Runs a command of cargo that is quick. Returns its standard output, or its error in one line.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Failure::failed(unavailable(&error)))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(Failure::misuse(in_one_line(&String::from_utf8_lossy(&output.stderr)))),
    }
}

/// The manifest of the workspace of this folder, or of `manifest`.
pub(crate) fn locate(manifest: Option<&Path>) -> Result<String, Failure> {
    let mut command = cargo("locate-project");
    command.args(["--workspace", "--message-format", "plain"]);
    if let Some(manifest) = manifest {
        command.arg("--manifest-path").arg(manifest);
    }
    let found = output(&mut command)?;
    Ok(String::from_utf8_lossy(&found).trim_end().to_owned())
}

/// Everything that cargo knows of a workspace and its dependencies.
pub(crate) fn metadata(manifest: &Path, arguments: &[OsString]) -> Result<Value, Failure> {
    let mut command = cargo("metadata");
    command.args(["--format-version", "1", "--manifest-path"]).arg(manifest).args(arguments);
    let output = output(&mut command)?;
    serde_json::from_slice(&output)
        .map_err(|error| Failure::failed(format!("cargo metadata: {error}")))
}

/// Runs `cargo check` on the packages that the arguments name, and otherwise on all.
///
/// Its progress is on standard error. Returns its messages, one a line, and whether it succeeded.
pub(crate) fn check(manifest: &Path, arguments: &[OsString]) -> Result<(String, bool), Failure> {
    let mut command = cargo("check");
    command.args(["--locked", "--keep-going", "--message-format", "json"]);
    if !name_packages(arguments) {
        command.arg("--workspace");
    }
    command.arg("--manifest-path").arg(manifest).args(arguments);
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| Failure::failed(unavailable(&error)))?;
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success()))
}

/// Whether the arguments choose packages. cargo ignores the choice beside `--workspace`.
fn name_packages(arguments: &[OsString]) -> bool {
    arguments.iter().map(|argument| argument.to_string_lossy()).any(|argument| {
        let is_short = argument.starts_with("-p");
        is_short || argument == "--package" || argument.starts_with("--package=")
    })
}

fn unavailable(error: &std::io::Error) -> String {
    format!("cargo cannot be run: {error}")
}

/// The error in what cargo said, without its progress and warnings.
fn in_one_line(output: &str) -> String {
    let from = output.find("error: ").map_or(output, |start| &output[start + "error: ".len()..]);
    let lines: Vec<&str> = from.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ").replace(":; ", ": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_of_packages_is_known() {
        let name = |arguments: &[&str]| {
            name_packages(&Vec::from_iter(arguments.iter().map(OsString::from)))
        };
        let chosen = [&["-p", "shop"], &["--package", "shop"], &["--tests", "-pshop"]];
        assert!(chosen.into_iter().all(|arguments| name(arguments)));
        assert!(name(&["--package=shop"]));
        assert!(!name(&["--profile", "release"]) && !name(&["--all-targets"]) && !name(&[]));
    }

    #[test]
    fn an_error_becomes_one_line() {
        let output =
            "    Updating crates.io index\nerror: failed to select a version:\n\n  it is pinned\n";
        assert_eq!(in_one_line(output), "failed to select a version: it is pinned");
    }
}
