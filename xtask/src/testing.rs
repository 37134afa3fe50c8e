//! Runs tests on this terminal: counts the skipped ones, and gives failed ones a second try alone.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::failure::{At as _, Result};
use crate::outcome::Outcome;
use crate::outcome::Pass::{self, Partly, Passed};

/// Runs tests, and counts those that print `skipped: WHY` on standard error. A failure names the
/// tests, with what they said, so that the end of a long log tells all of it.
pub(crate) fn execute_tests(command: &mut Command) -> Outcome {
    run(command)?.outcome()
}

/// As [`execute_tests`], for a command of cargo with `--no-fail-fast`. `again` gives the command
/// without what it tests. The tests that failed run a second time, alone: a busy machine fails a
/// test here and there, and no change should wait for that. A test that passes then is named in the
/// outcome, as a fault of its own.
pub(crate) fn execute_tests_twice(command: &mut Command, again: impl Fn() -> Command) -> Outcome {
    let first = run(command)?;
    // Without a name, a program was killed, and without a program, nothing was compiled.
    if first.has_passed() || first.names.is_empty() || first.targets.is_empty() {
        return first.outcome();
    }
    for target in &first.targets {
        let mut alone = again();
        // The package's name is left out: the features are those of the whole workspace.
        alone.args(target.split(' ').skip(2)).args(["--", "--exact"]).args(&first.names);
        alone.env("RUST_TEST_THREADS", "1");
        println!("\n=== once more, alone: {target}");
        match run(&mut alone) {
            Ok(ran) if ran.has_passed() => {}
            _ => return first.outcome(),
        }
    }
    let failed = format!("failed at first, passed alone: {}", first.names.join(", "));
    match skipped(&first.reasons) {
        Partly(reasons) => Ok(Partly(format!("{failed}; {reasons}"))),
        Passed => Ok(Partly(failed)),
    }
}

/// What a run of tests told.
#[derive(Default)]
struct Ran {
    /// How the command ended, if it failed.
    status: Option<String>,
    /// Why tests were skipped.
    reasons: Vec<String>,
    /// The programs that failed, as arguments of cargo: `-p duality-runtime --test all`.
    targets: Vec<String>,
    /// The tests that failed.
    names: Vec<String>,
    /// What they said: the lines from `---- NAME stdout ----` on.
    said: Vec<String>,
    /// The number of lines that a test may still say.
    left: usize,
}

/// Runs a command of tests.
///
/// # Errors
///
/// One line, if the command cannot be run.
fn run(command: &mut Command) -> Result<Ran> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut heeding;
    let command = if ignores_hangups() {
        heeding = heeding_hangups(command);
        &mut heeding
    } else {
        command
    };
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .at(format_args!("cannot run {name}"))?;
    let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    let listener = std::thread::spawn(move || {
        let mut ran = Ran::default();
        for line in stdout.lines().map_while(Result::ok) {
            println!("{line}");
            ran.heed(&line);
        }
        ran
    });
    let (mut reasons, mut targets) = (Vec::new(), Vec::new());
    let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    for line in stderr.lines().map_while(Result::ok) {
        eprintln!("{line}");
        if let Some(reason) = line.strip_prefix("skipped: ") {
            reasons.push(reason.to_owned());
        }
        let target = line.strip_prefix("    `-p ").and_then(|rest| rest.strip_suffix('`'));
        targets.extend(target.map(|target| format!("-p {target}")));
    }
    let ran = listener.join().unwrap_or_default();
    let status = child.wait().at(format_args!("cannot wait for {name}"))?;
    let status = (!status.success()).then(|| status.to_string());
    Ok(Ran { status, reasons, targets, ..ran })
}

impl Ran {
    /// The most lines that are repeated of one test: a panic's place and words come first.
    const MOST_LINES: usize = 12;

    /// Takes in a line of libtest's.
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

    fn has_passed(&self) -> bool {
        self.status.is_none()
    }

    /// The first line of a failure is for the table, the others for what follows it.
    fn outcome(&self) -> Outcome {
        match (&self.status, &self.names[..]) {
            (None, _) => Ok(skipped(&self.reasons)),
            (Some(status), []) if self.targets.is_empty() => Err(status.clone().into()),
            (Some(status), []) => Err(format!("{status}: {}", self.targets.join(", ")).into()),
            (Some(status), names) => {
                let lines: String = self.said.iter().map(|line| format!("\n{line}")).collect();
                Err(format!("{status}: {}{lines}", names.join(", ")).into())
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

/// How tests passed, such as `14 times skipped: no ring; needs root`.
fn skipped(reasons: &[String]) -> Pass {
    let count = reasons.len();
    let mut reasons = reasons.to_vec();
    reasons.sort();
    reasons.dedup();
    match count {
        0 => Passed,
        count => Partly(format!("{count} times skipped: {}", reasons.join("; "))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_counted_and_failures_win() {
        let run = |script: &str| execute_tests(Command::new("sh").args(["-c", script]));
        assert_eq!(run("echo fine >&2"), Ok(Passed));
        let twice = "for why in b a b; do echo \"skipped: no $why\" >&2; done";
        assert_eq!(run(twice), Ok(Partly("3 times skipped: no a; no b".into())));
        assert!(run(&format!("{twice}; exit 3")).is_err());
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
        assert_eq!(outcome, Err(expected.into()));
    }

    #[test]
    fn a_test_that_passes_alone_is_named_and_fails_nothing() {
        let told = "echo 'test a ... FAILED'; echo '    `-p x --test y`' >&2; exit 101";
        let twice = |second: &'static str| {
            execute_tests_twice(Command::new("sh").args(["-c", told]), || {
                let mut command = Command::new("sh");
                command.args(["-c", second, "sh"]);
                command
            })
        };
        let asked = "test \"$*\" = '--test y -- --exact a' && test $RUST_TEST_THREADS = 1";
        assert_eq!(twice(asked), Ok(Partly("failed at first, passed alone: a".into())));
        assert_eq!(twice("exit 1"), Err("exit status: 101: a".into()));
    }

    #[test]
    fn a_program_that_dies_is_named() {
        let script = "echo '    `-p x --test y`' >&2; exit 101";
        let outcome = execute_tests(Command::new("sh").args(["-c", script]));
        assert_eq!(outcome, Err("exit status: 101: -p x --test y".into()));
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
