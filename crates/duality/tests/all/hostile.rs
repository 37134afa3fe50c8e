//! Values that make no sense: each flag refuses them in one line, before anything starts. A run
//! that was cut short prints a command line, and that line is accepted.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_duality");

/// Runs the program in a directory; the exit code, and what it said on standard error.
fn duality(directory: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(PROGRAM);
    let Output { status, stderr, .. } =
        command.args(arguments).current_dir(directory).output().unwrap();
    (status.code().unwrap_or(-1), String::from_utf8(stderr).unwrap())
}

/// Each line is refused with exit code 2 and one line that holds the text.
fn refused(directory: &Path, lines: &[(&[&str], &str)]) {
    for (arguments, message) in lines {
        let (code, stderr) = duality(directory, arguments);
        assert_eq!((code, stderr.lines().count()), (2, 1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_time_has_a_unit_wherever_it_is_given() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("window.toml"),
        "title = 'a'\n[[experiment]]\nname = 'b'\nwindow = '5'\n",
    )
    .unwrap();
    fs::write(
        directory.path().join("limit.toml"),
        "title = 'a'\n[regimes]\nsubjects = ['threads']\nlimit = '5'\n[[regime]]\nwait = '1us'\n",
    )
    .unwrap();
    let unit = "has no unit: write";
    refused(
        directory.path(),
        &[
            (&["load", "-d", "10", "8080"], unit),
            (&["load", "--slo", "p99=5", "8080"], unit),
            (&["load", "--timeout", "30", "8080"], unit),
            (&["load", "--arrivals=uniform", "--wait=1..2ms", "8080"], unit),
            (&["compare", "--check", "--budget", "5"], unit),
            (&["compare", "--check", "--window", "1"], unit),
            (&["compare", "--check", "--slo", "p99=5"], unit),
            (&["compare", "--check", "window.toml"], "window.toml:4:"),
            (&["compare", "--check", "limit.toml"], unit),
            (&["serve", "--busy-poll", "50"], unit),
            (&["serve", "--stats=x", "--stats-every", "1"], unit),
            (&["serve", "blocks", "--inject", "20"], unit),
            (&["model", "--window", "1"], unit),
            (&["report", "--slo", "p99=5", "x"], unit),
            (&["run", "--tick", "10", "true"], unit),
            (&["run", "--stall", "1", "true"], unit),
        ],
    );
}

#[test]
fn what_is_not_there_is_found_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    refused(
        directory.path(),
        &[
            (&["compare", "--check", "--root", "no"], "--root: no: No such file"),
            (&["compare", "--check", "--root", "file"], "--root: file: Not a directory"),
            (&["compare", "guestbook", "--check", "--templates", "no"], "--templates: no: No such"),
            (&["compare", "blocks", "--check", "--data", "no"], "--data: no: No such file"),
            (&["compare", "blocks", "--check", "--data", "/"], "--data: /: Is a directory"),
            (&["compare", "--out", "file/x"], "--out: file/x: Not a directory"),
            (&["compare", "--out", "/proc/x"], "--out: /proc/x: "),
            (&["compare", "--out", ""], "--out"),
            (&["compare", "guestbook", "--check", "--store", "sqlite::memory:"], "sqlite:/dev/shm"),
            (&["serve", "guestbook", "--store", "sqlite::memory:"], "sqlite:/dev/shm"),
            (&["load", "http://[::1/"], "write an IPv6 address in brackets"),
            (&["compare", "--check", "--baseline", "apache"], "--baseline: apache is not compared"),
            (&["compare", "--server-cpus", "0"], "not provided: --client-cpus"),
        ],
    );
    assert!(!directory.path().join(":memory:").exists());
}

#[test]
fn a_plan_of_regimes_refuses_the_flags_that_it_does_not_have() {
    let directory = tempfile::tempdir().unwrap();
    let plan = "title = 'a'\n[regimes]\nsubjects = ['threads']\n[[regime]]\nwait = '1us'\n";
    fs::write(directory.path().join("regimes.toml"), plan).unwrap();
    for flag in
        ["--budget=9s", "--slo=p99=1ms", "-c=5", "--repeats=1", "--workers=3", "--no-control"]
    {
        let (code, stderr) =
            duality(directory.path(), &["compare", "regimes.toml", "--check", flag]);
        assert_eq!((code, stderr.lines().count()), (2, 1), "{flag}: {stderr}");
        assert!(stderr.contains("has only --out, --resume and --check"), "{flag}: {stderr}");
    }
    assert_eq!(duality(directory.path(), &["compare", "regimes.toml", "--check"]).0, 0);
}

/// clap does not require a flag if the required flag would conflict with a third one.
#[test]
fn a_flag_that_belongs_to_another_is_refused_without_it() {
    let directory = tempfile::tempdir().unwrap();
    refused(
        directory.path(),
        &[
            (&["compare", "http", "--check", "--tick=10ms"], "--tick"),
            (&["compare", "http", "--check", "--url=/"], "--url"),
            (&["compare", "http", "--check", "--compiled=x {port}"], "--compiled"),
            (&["compare", "--check", "-a", "epoll", "--tick=10ms"], "--tick"),
            (&["compare", "--check", "--tick=10ms"], "--binary"),
            (&["model", "--service", "http", "--peers", "."], "--peers"),
            (&["model", "--service", "http", "--only", "lock"], "--only"),
            (&["serve", "--listen", "127.0.0.1:0", "--clients", "5"], "--clients"),
            (&["serve", "--listen", "127.0.0.1:0", "--period", "5s"], "--period"),
            (&["serve", "--listen", "127.0.0.1:0", "--json"], "--json"),
        ],
    );
}

/// A budget may run out on a slow machine, with exit code 1. The test only excludes misuse.
#[test]
fn a_run_that_was_cut_short_goes_on_with_any_budget() {
    let directory = tempfile::tempdir().unwrap();
    let common = ["compare", "echo", "-a", "threads,epoll", "-c", "2", "--repeats=1", "--out=run"];
    let compare = |flags: &[&str]| duality(directory.path(), &[&common[..], flags].concat());
    let (code, stderr) = compare(&["--budget=3s"]);
    assert_ne!(code, 2, "{stderr}");
    let results = directory.path().join("run/results.jsonl");
    for flags in [&["--budget=3s", "--resume"][..], &["--budget=9s", "--resume"]] {
        // As an interruption leaves it: with the first cell only.
        let text = fs::read_to_string(&results).unwrap();
        let begun: Vec<&str> = text.lines().take(2).collect();
        fs::write(&results, begun.join("\n") + "\n").unwrap();
        let (code, stderr) = compare(flags);
        assert_ne!(code, 2, "{flags:?}: {stderr}");
        let after = fs::read_to_string(&results).unwrap();
        assert!(after.starts_with(&begun.join("\n")) && after.lines().count() > 2, "{stderr}");
    }
}

#[test]
fn costs_that_cannot_be_measured_are_told_and_fail() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("prlimit");
    command.args(["--nproc=4", PROGRAM, "model", "--costs", "--quick", "--only", "kernel"]);
    // Root has no such limit. The limit counts all processes of a user, so the user is a new one.
    if rustix::process::getuid().is_root() {
        let user = 50_000 + std::process::id() % 10_000;
        command.uid(user).gid(user);
    }
    let output = command.current_dir(directory.path()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    if output.status.code() == Some(126) {
        let _ = writeln!(std::io::stderr(), "skipped: another user cannot start {PROGRAM}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("costs were not measured; of kernel-") && !stderr.contains("panicked"),
        "{stderr}"
    );
}
