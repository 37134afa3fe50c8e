//! The outcome of a step, and the ways in which a step runs a command.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use Outcome::{Failed, Partly, Passed};

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

/// Runs tests on this terminal, and counts the tests that print `skipped: WHY` on standard error.
/// A failure names the tests that failed, with what they said, so that the end of a long log tells
/// all of it.
pub(crate) fn execute_tests(command: &mut Command) -> Outcome {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut heeding;
    let command = if ignores_hangups() {
        heeding = heeding_hangups(command);
        &mut heeding
    } else {
        command
    };
    let mut child = match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return Failed(format!("cannot run {name}: {error}")),
    };
    let told = BufReader::new(child.stdout.take().expect("it is piped"));
    let failures = std::thread::spawn(move || {
        let mut failures = Failures::default();
        for line in told.lines().map_while(Result::ok) {
            println!("{line}");
            failures.heed(&line);
        }
        failures
    });
    let mut reasons = Vec::new();
    let said = BufReader::new(child.stderr.take().expect("it is piped"));
    for line in said.lines().map_while(Result::ok) {
        eprintln!("{line}");
        if let Some(reason) = line.strip_prefix("skipped: ") {
            reasons.push(reason.to_owned());
        }
    }
    let failures = failures.join().unwrap_or_default();
    match child.wait() {
        Ok(status) if !status.success() => Failed(failures.told(&status.to_string())),
        Ok(_) => skipped(&mut reasons),
        Err(error) => Failed(format!("cannot wait for {name}: {error}")),
    }
}

/// The failures that libtest tells of on standard output.
#[derive(Default)]
struct Failures {
    names: Vec<String>,
    /// What each test said: the lines from `---- NAME stdout ----` on.
    said: Vec<String>,
    /// The number of lines that this test may still say.
    left: usize,
}

impl Failures {
    /// The most lines that are repeated of one test: a panic's place and words come first.
    const MOST_LINES: usize = 12;

    fn heed(&mut self, line: &str) {
        let name = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
        self.names.extend(name.map(str::to_owned));
        if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            self.left = Self::MOST_LINES;
        } else if line == "failures:" {
            self.left = 0;
        }
        if self.left > 0 && !line.is_empty() && !is_of_backtrace(line) {
            self.left -= 1;
            self.said.push(line.to_owned());
        }
    }

    /// The first line is for the table, the others for what follows it.
    fn told(&self, status: &str) -> String {
        match &self.names[..] {
            [] => status.to_owned(),
            names => {
                let lines: String = self.said.iter().map(|line| format!("\n{line}")).collect();
                format!("{status}: {}{lines}", names.join(", "))
            }
        }
    }
}

/// Whether a line is a frame of a backtrace, such as `  12: core::panicking::panic_fmt` or
/// `             at ./src/lib.rs:1:2`.
fn is_of_backtrace(line: &str) -> bool {
    let start = line.trim_start();
    let digits = start.trim_start_matches(|c: char| c.is_ascii_digit());
    line != start && (start.starts_with("at ") || (digits != start && digits.starts_with(": ")))
}

/// Whether this process ignores SIGHUP, as under `nohup` (proc(5), `SigIgn`). Its children inherit
/// that, and a server that ignores hang-ups does not reload on one.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}

/// The same command with SIGHUP's default action. Its group is its own, so that the terminal's
/// hang-up does not reach it.
fn heeding_hangups(command: &Command) -> Command {
    let mut heeding = Command::new("env");
    heeding.arg("--default-signal=HUP").arg(command.get_program()).args(command.get_args());
    heeding.process_group(0);
    if let Some(folder) = command.get_current_dir() {
        heeding.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => heeding.env(name, value),
            None => heeding.env_remove(name),
        };
    }
    heeding
}

/// Returns an outcome such as `14 times skipped: no ring; needs root`.
fn skipped(reasons: &mut Vec<String>) -> Outcome {
    let count = reasons.len();
    reasons.sort();
    reasons.dedup();
    match count {
        0 => Passed,
        count => Partly(format!("{count} times skipped: {}", reasons.join("; "))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_counted_and_failures_win() {
        let run = |script: &str| execute_tests(Command::new("sh").args(["-c", script]));
        assert_eq!(run("echo fine >&2"), Passed);
        let twice = "for why in b a b; do echo \"skipped: no $why\" >&2; done";
        assert_eq!(run(twice), Partly("3 times skipped: no a; no b".into()));
        assert!(matches!(run(&format!("{twice}; exit 3")), Failed(_)));
    }

    #[test]
    fn a_failure_names_the_tests_and_repeats_what_they_said() {
        let told = "test a::b ... FAILED\ntest c ... ok\n\nfailures:\n\n---- a::b stdout ----\n\
            thread 'a::b' panicked at tests/a.rs:1:2:\nno\n   0: core::panic\n      at ./x.rs:1\n\n\
            failures:\n    a::b\n";
        let script = "printf '%s' \"$TOLD\"; exit 101";
        let outcome = execute_tests(Command::new("sh").args(["-c", script]).env("TOLD", told));
        let expected = "exit status: 101: a::b\n---- a::b stdout ----\n\
            thread 'a::b' panicked at tests/a.rs:1:2:\nno";
        assert_eq!(outcome, Failed(expected.into()));
    }

    #[test]
    fn a_command_heeds_hangups_though_they_were_ignored() {
        let script = "trap '' HUP; exec \"$0\" \"$@\"";
        let mut inner = Command::new("sh");
        inner.args(["-c", "test $A = 1 && kill -HUP $$"]).env("A", "1").current_dir("/");
        let heeding = heeding_hangups(&inner);
        let mut outer = Command::new("sh");
        outer.args(["-c", script]).arg(heeding.get_program()).args(heeding.get_args());
        outer.env("A", "1");
        let ended = outer.status().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(1));
    }
}
