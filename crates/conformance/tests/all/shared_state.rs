//! A service with connections that share memory (`examples/key_value.rs`). An architecture with
//! shared memory serves it. An architecture with a process for each connection refuses it.

use std::io::Write;
use std::process::{Command, Output};

use duality_conformance::{ServerProcess, architectures_that};

const KEY_VALUE: &str = env!("CARGO_BIN_EXE_key_value");

fn output(arguments: &[&str]) -> Output {
    Command::new(KEY_VALUE).args(arguments).output().unwrap()
}

/// The architectures that serve two connections at a time, in the same memory.
fn sharing() -> Vec<&'static str> {
    architectures_that(|architecture| {
        let gives = architecture.about().gives;
        gives.straight_line && gives.shared_memory && gives.concurrent_connections
    })
}

/// The architectures that serve each connection in its own process.
fn separate() -> Vec<&'static str> {
    architectures_that(|architecture| {
        let gives = architecture.about().gives;
        gives.straight_line && !gives.shared_memory
    })
}

#[test]
fn connections_share_memory() {
    for architecture in sharing() {
        what_one_sets_another_gets(architecture);
    }
}

fn what_one_sets_another_gets(architecture: &str) {
    let arguments = ["serve", "--architecture", architecture, "--listen", "127.0.0.1:0"];
    let server = ServerProcess::start(Command::new(KEY_VALUE).args(arguments));
    let (mut one, mut other) = (server.talk(), server.talk());
    assert_eq!(one.ask("GET colour"), "NONE");
    assert_eq!(other.ask("SET colour dark green"), "OK");
    assert_eq!(one.ask("GET colour"), "VALUE dark green");
    assert_eq!(one.ask("DELETE colour"), "ERROR write SET KEY VALUE, or GET KEY");
}

fn errors_are_logged(architecture: &str) {
    const TOLD: usize = 5;
    let arguments = ["serve", "--architecture", architecture, "--listen", "127.0.0.1:0"];
    let mut server = ServerProcess::start(Command::new(KEY_VALUE).args(arguments));
    let complaints = server.complaints();
    for number in 0..TOLD + 2 {
        let mut client = server.connect();
        client.write_all(&[b'x'; 4096]).unwrap();
        assert_eq!(std::io::read_to_string(&mut client).unwrap(), "");
        if number < TOLD {
            let line = complaints.next("the error is told");
            let peer = client.local_addr().unwrap();
            let expected = format!(
                "duality: the connection from {peer} ended with an error at the stage `key-value: request`: a line of \
                 more than 4096 bytes"
            );
            assert_eq!(line, expected);
        }
    }
    let last = complaints.next("that the rest is not logged");
    assert!(last.contains("further errors"), "{last}");
    drop(server);
    assert_eq!(complaints.rest().collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn the_first_errors_of_connections_are_logged() {
    for architecture in sharing() {
        errors_are_logged(architecture);
    }
}

#[test]
fn separate_processes_are_refused() {
    for architecture in separate() {
        let refused = output(&["serve", "--architecture", architecture, "--listen", "127.0.0.1:0"]);
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        for words in [architecture, "needs shared memory", ".independent_connections()"] {
            assert!(stderr.contains(words), "{stderr}");
        }
    }
}

#[test]
fn a_comparison_leaves_them_out_and_says_why() {
    let explained = output(&["compare", "--check", "--concurrency=10"]);
    let text = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.status.success(), "{text}");
    for architecture in separate() {
        let line = text.lines().find(|line| line.contains(&format!("{architecture} ")));
        let line = line.unwrap_or_else(|| panic!("{architecture}: {text}"));
        assert!(line.contains("needs shared memory"), "{line}");
    }
}
