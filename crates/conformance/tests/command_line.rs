//! Mistakes on the command line: one line each that names the place, exit code 2 or 1.

use std::net::TcpListener;
use std::process::Command;

use duality_conformance::Served;

fn run(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_served")).args(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), said)
}

fn refused(arguments: &[&str], code: i32, names: &str) {
    let (status, said) = run(arguments);
    assert_eq!(status, code, "{arguments:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    assert!(said.contains(names), "{arguments:?}: {said}");
}

#[test]
fn misuse_is_told_in_one_line() {
    refused(&["serve", "--wrong"], 2, "--wrong");
    refused(&["serve", "gopher"], 2, "gopher");
    refused(&["serve", "--architecture", "magic"], 2, "magic");
    refused(&["serve", "--listen", "nowhere"], 2, "nowhere");
    refused(&["serve", "--workers", "0"], 2, "--workers");
    refused(&["serve", "--root", "/does/not/exist"], 2, "/does/not/exist");
    refused(&["serve", "echo", "--root", "/"], 2, "--root");
    refused(&["load", "ftp://x"], 2, "ftp://x");
    refused(&["compare", "absent.toml"], 2, "absent.toml");
    refused(&["compare", "--concurrency", "0"], 2, "--concurrency");
    refused(&["report", "absent.jsonl"], 2, "absent.jsonl");
}

#[test]
fn what_measures_nothing_is_refused() {
    refused(&["compare", "--check", "--window", "1us"], 2, "--window: 1µs is too short");
    refused(&["compare", "--check", "--warm-up", "1ms"], 2, "--warm-up: 1ms warms nothing up");
    refused(&["load", "-d", "49ms", "8080"], 2, "give 50ms or more");
    refused(&["load", "--warm-up", "9ms", "8080"], 2, "give 10ms or more");
}

#[test]
fn the_last_of_a_repeated_flag_counts() {
    let arguments =
        ["compare", "--check", "-c", "7", "--repeats", "3", "--repeats=4", "--workers=8"];
    let output = Command::new(env!("CARGO_BIN_EXE_served"))
        .args(arguments)
        .args(["--workers=9", "--close", "--close", "--window=100ms", "--window=200ms"])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    for text in [" 4 times", "--workers=9", "0.2 s that are measured"] {
        assert!(told.contains(text), "{text}: {told}");
    }
    refused(&["serve", "-a", "epoll", "-a", "magic"], 2, "magic");
    refused(&["load", "-c", "1", "-c", "0", "8080"], 2, "0 connections");
}

#[test]
fn a_server_listens_where_its_user_would_write_it() {
    for listen in ["0", ":0", "localhost:0"] {
        let arguments = ["serve", "echo", "--listen", listen];
        let server = Served::start(Command::new(env!("CARGO_BIN_EXE_served")).args(arguments));
        assert!(server.address().ip().is_loopback(), "{}", server.address());
        assert_eq!(server.ask(b"hello"), b"hello");
    }
}

#[test]
fn help_begins_with_what_a_first_try_needs() {
    for (command, basic) in [
        ("compare", &["--architectures", "--concurrency", "--close", "--out", "--check"][..]),
        ("load", &["--connections", "--duration", "--rate", "--slo", "--json"]),
        ("serve", &["--architecture", "--listen", "--root", "--store"]),
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_served")).args([command, "--help"]).output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let (_, options) = help.split_once("\nOptions:\n").unwrap();
        // A heading begins a line.
        let heading = |line: &str| line.ends_with(':') && !line.starts_with(' ');
        let first: Vec<&str> = options.lines().take_while(|line| !heading(line)).collect();
        let flags = first.iter().filter(|line| line.trim_start().starts_with('-'));
        assert!(flags.count() <= 12, "{command}: {first:#?}");
        for flag in basic {
            assert!(first.iter().any(|line| line.contains(flag)), "{command} {flag}: {first:#?}");
        }
    }
}

#[test]
fn failures_are_told_in_one_line() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(&["serve", "--listen", &address], 1, "--listen");
    drop(taken);
    refused(&["load", &format!("http://{address}/")], 1, "is the server running");
}

#[test]
fn help_teaches_and_succeeds() {
    for arguments in [&["--help"][..], &["serve", "--help"], &["compare", "--help"], &["--version"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_served")).args(arguments).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{arguments:?}");
    }
}
