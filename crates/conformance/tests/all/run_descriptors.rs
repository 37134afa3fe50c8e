//! Tests that calls on descriptors of every kind do on the engine of `duality run` what they do
//! natively. `programs/descriptors.c` has the kinds, their states, and the calls.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;

use duality_conformance::programs::{Program, finish};

/// A program with the commands of `duality`.
const DUALITY: &str = env!("CARGO_BIN_EXE_served");

/// Milliseconds after which a call waits. A busy machine makes others late, so those that differ
/// are made again, with more time.
const FIRST: &str = "300";
const AGAIN: [&str; 2] = ["1000", "10000"];
/// The cases that are made again at a time. Most of them wait.
const AT_A_TIME: usize = 8;

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
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stderr.is_empty(),
        "{options:?}: {}: {stderr}",
        output.status
    );
    let text = String::from_utf8(output.stdout).expect("text");
    let pairs = text.lines().filter_map(|line| line.split_once(": "));
    pairs.map(|(case, result)| (case.to_owned(), result.to_owned())).collect()
}

/// The program, and what it natively says with one thread and with two. The tests share it.
fn native(threads: &str) -> (&'static Program, &'static Lines) {
    static PROGRAM: LazyLock<Program> =
        LazyLock::new(|| Program::new("descriptors", &["-pthread"]));
    static ONE: LazyLock<Lines> = LazyLock::new(|| lines(&PROGRAM, None, &["1", FIRST]));
    static TWO: LazyLock<Lines> = LazyLock::new(|| lines(&PROGRAM, None, &["2", FIRST]));
    (&PROGRAM, if threads == "1" { &ONE } else { &TWO })
}

fn same_as_natively(threads: &str, options: &[&str]) {
    let (program, native) = native(threads);
    assert!(native.len() > 3000, "only {} cases", native.len());
    let engine = lines(program, Some(options), &[threads, FIRST]);
    let cases: BTreeSet<&String> = native.keys().chain(engine.keys()).collect();
    let mut differing: Vec<&String> =
        cases.into_iter().filter(|case| native.get(*case) != engine.get(*case)).collect();
    for patience in AGAIN {
        let (next, different) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let again = || {
            while let Some(case) = differing.get(next.fetch_add(1, Ordering::Relaxed)) {
                let arguments = [threads, patience, case];
                let native = lines(program, None, &arguments);
                let engine = lines(program, Some(options), &arguments);
                if engine != native {
                    different.lock().expect("a list").push((*case, engine, native));
                }
            }
        };
        thread::scope(|scope| (0..AT_A_TIME).for_each(|_| drop(scope.spawn(again))));
        let different = different.into_inner().expect("a list");
        assert!(
            different.is_empty() || patience == AGAIN[0],
            "{options:?}, {threads} thread(s), engine and native: {different:#?}"
        );
        differing = different.into_iter().map(|(case, ..)| case).collect();
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
