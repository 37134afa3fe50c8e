//! `duality simulate`: what it prints, and its mistakes in one line.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::schema::{check, schema};

fn simulate(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_duality");
    Command::new(program).arg("simulate").args(arguments).output().unwrap()
}

/// Runs three seeds of a service, twice. Another process takes the same decisions.
fn comes_back(service: &str, further: &[&str]) {
    let words = [&[service, "--seeds", "3", "--for", "10s"], further].concat();
    let first = simulate(&words);
    let text = String::from_utf8(first.stdout).unwrap();
    let problem = String::from_utf8_lossy(&first.stderr);
    assert!(first.status.success(), "{text}{problem}");
    assert!(text.starts_with(&format!("{service}: 3 seeds pass")), "{text}");
    let hash = |text: &str| text.lines().last().map(str::to_owned);
    let again = String::from_utf8(simulate(&words).stdout).unwrap();
    assert_eq!(hash(&text), hash(&again), "{words:?}");
}

#[test]
fn seeds_pass_and_come_back() {
    comes_back("chat", &[]);
}

/// The keys of each session are drawn from the seed.
#[test]
#[cfg(all(feature = "rustls", target_env = "gnu"))]
fn seeds_of_encrypted_conversations_come_back() {
    comes_back("http", &["--tls"]);
}

#[test]
fn architectures_run_one_after_the_other() {
    let output = simulate(&["echo", "-a", "threads,pool", "--seeds", "2", "--for", "5s"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let runs: Vec<_> = text.lines().filter(|line| line.starts_with("echo: 2 seeds pass")).collect();
    let [threads, pool] = runs[..] else { panic!("two runs: {text}") };
    assert!(threads.contains("each twice under threads"), "{text}");
    assert!(pool.contains("each twice under pool"), "{text}");
    assert_eq!(text.matches("hash of all seeds: ").count(), 2, "{text}");
}

/// Runs the command on a terminal, as `script` of util-linux gives it. `None` without that program.
fn on_a_terminal(terminal: &str) -> Option<String> {
    let line = "\"$DUALITY\" simulate time --seeds 3 --for 2s >/dev/null";
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", line, "/dev/null"])
        .env("DUALITY", env!("CARGO_BIN_EXE_duality"))
        .env("TERM", terminal)
        .env_remove("NO_COLOR")
        .output();
    if let Err(error) = &output {
        let _ = writeln!(std::io::stderr(), "skipped: no terminal: script: {error}");
    }
    let output = output.ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    Some(text)
}

#[test]
fn a_terminal_shows_progress() {
    if let Some(text) = on_a_terminal("xterm") {
        assert!(text.contains("time ") && text.contains("/3 seeds, "), "{text:?}");
    }
    if let Some(text) = on_a_terminal("dumb") {
        assert!(!text.contains('\x1b'), "it cannot rewrite a line: {text:?}");
    }
    let output = simulate(&["time", "--seeds", "3", "--for", "2s"]);
    assert!(output.stderr.is_empty(), "no terminal: {:?}", String::from_utf8(output.stderr));
}

#[test]
fn a_seed_is_told() {
    let output = simulate(&["time", "--seed", "3", "--for", "2s", "--trace"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("client1 → server1"), "{text}");
}

#[test]
fn a_mistake_is_one_line() {
    for (arguments, says) in [
        (&["nothing"][..], "there is no simulation of nothing; choose from echo"),
        (&["chat", "--seed", "x"], "'--seed <NUMBER>'"),
        (&["chat", "--trace"], "--seed"),
        (&["chat", "--clients", "0"], "--servers and --clients: from 1"),
        (&["chat", "--seed", "1", "--seeds", "2"], "cannot be used with"),
        (&["chat", "-a", "threads,fork"], "fork cannot be simulated: its processes cannot share"),
        (&["chat", "-a", "threads,pool", "--seed", "1", "--trace"], "--trace tells of one"),
    ] {
        let output = simulate(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(says) && text.lines().count() == 1, "{arguments:?}: {text}");
    }
}

/// A kept run of http at 100 and 1,000 connections.
fn kept() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    folder.join("runs/2026-11-22-vm/limit/keep-alive/results.jsonl")
}

fn on_paper(arguments: &[&str]) -> Output {
    let kept = kept();
    let costs = ["--costs", kept.to_str().unwrap(), "--window", "1ms"];
    simulate(&[arguments, &costs].concat())
}

#[test]
fn a_model_of_costs_fits_its_schema_and_comes_back() {
    let words = ["http", "-a", "epoll,threads", "--processors", "2", "-c", "50", "--json"];
    let (first, again) = (on_paper(&words), on_paper(&words));
    let text = String::from_utf8_lossy(&first.stderr);
    assert!(first.status.success(), "{text}");
    assert_eq!(first.stdout, again.stdout, "another process has the same answer");
    let told: Value = serde_json::from_slice(&first.stdout).unwrap();
    check(&schema("scale"), &told).unwrap_or_else(|problem| panic!("{problem}: {told}"));
    assert_eq!(told["models"][0]["rows"].as_array().map(Vec::len), Some(2), "{told}");
}

/// Sockets of a model have no descriptors of their own.
#[test]
fn more_connections_fit_than_a_process_has_descriptors() {
    let kept = kept();
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_duality")])
        .args(["simulate", "http", "--processors", "4", "-a", "epoll", "-c", "500"])
        .args(["--window", "1ms", "--costs", kept.to_str().unwrap()])
        .output()
        .unwrap();
    let (text, told) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    assert!(text.starts_with("This is a model and no measurement: http, 500"), "{text}");
}

#[test]
fn a_mistake_about_costs_is_one_line() {
    for (arguments, says) in [
        (&["http", "-a", "uring"][..], "--costs has no architecture uring: choose from epoll"),
        (&["chat"], "has not measured chat: run `duality compare chat --out DIR`"),
        (&["http", "--processors", "0"], "--servers and --processors: from 1"),
        (&["http", "-c", "0"], "--connections: from 1"),
        (&["http", "--rate", "0"], "--rate: requests a second from"),
    ] {
        let output = on_paper(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(says) && text.lines().count() == 1, "{arguments:?}: {text}");
    }
}
