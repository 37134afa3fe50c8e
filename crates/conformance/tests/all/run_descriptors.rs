//! Tests that calls on descriptors of every kind do on the engine of `duality run` what they do
//! natively. `programs/descriptors.c` has the kinds, their states, and the calls.

use std::collections::BTreeMap;
use std::process::Command;

use duality_conformance::programs::{Program, finish};

/// A program with the commands of `duality`.
const DUALITY: &str = env!("CARGO_BIN_EXE_served");

/// Milliseconds after which a call waits. A busy machine makes others late, so those that differ
/// are made again, with more time.
const FIRST: &str = "300";
const AGAIN: &str = "10000";

/// What comes of each case.
type Lines = BTreeMap<String, String>;

/// Runs the program natively, or with `options` of `duality run`.
fn lines(program: &Program, options: Option<&[&str]>, arguments: &[&str]) -> Lines {
    let mut command = match options {
        None => Command::new(program.path()),
        Some(options) => {
            let mut command = Command::new(DUALITY);
            command.arg("run").args(options).arg("--").arg(program.path());
            command
        }
    };
    let output = finish(command.args(arguments));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{options:?}: {}: {said}", output.status);
    let text = String::from_utf8(output.stdout).expect("text");
    let pairs = text.lines().filter_map(|line| line.split_once(": "));
    pairs.map(|(case, result)| (case.to_owned(), result.to_owned())).collect()
}

fn same_as_natively(threads: &str, options: &[&str]) {
    let program = Program::new("descriptors", &["-pthread"]);
    let native = lines(&program, None, &[threads, FIRST]);
    assert!(native.len() > 3000, "only {} cases", native.len());
    let engine = lines(&program, Some(options), &[threads, FIRST]);
    let cases = native.keys().chain(engine.keys());
    let differing: Vec<_> = cases.filter(|case| native.get(*case) != engine.get(*case)).collect();
    for case in differing {
        let arguments = [threads, AGAIN, case];
        let native = lines(&program, None, &arguments);
        let engine = lines(&program, Some(options), &arguments);
        assert_eq!(engine, native, "{options:?}, {threads} thread(s)");
    }
}

#[test]
fn calls_of_one_thread_are_the_same_on_one_worker() {
    same_as_natively("1", &["--cores=1"]);
}

#[test]
fn calls_beside_another_thread_are_the_same_on_one_worker() {
    same_as_natively("2", &["--cores=1"]);
}

#[test]
fn calls_beside_another_thread_are_the_same_on_two_workers() {
    same_as_natively("2", &["--cores=2"]);
}

#[test]
fn calls_beside_another_thread_are_the_same_on_the_ring() {
    same_as_natively("2", &["--cores=2", "--poller=uring"]);
}
