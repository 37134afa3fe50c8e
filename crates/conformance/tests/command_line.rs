//! Mistakes on the command line: one line each that names the place, exit code 2 or 1.

use std::net::TcpListener;
use std::process::Command;

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
