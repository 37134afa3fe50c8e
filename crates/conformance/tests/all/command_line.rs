//! Tests mistakes on the command line: each gives one line that names the place, and exit code 2 or
//! 1.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use duality_conformance::{KeptPort, ServerProcess, eventually};
use rustix::process::Signal;

fn run(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_served")).args(arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), stderr)
}

fn refused(arguments: &[&str], code: i32, names: &str) {
    let (status, stderr) = run(arguments);
    assert_eq!(status, code, "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    assert!(stderr.contains(names), "{arguments:?}: {stderr}");
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
    refused(&["serve", "--graph", "graph.png"], 2, "--graph");
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
    let stdout = String::from_utf8(output.stdout).unwrap();
    // Ignore the places of line breaks.
    let stdout = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [" 4 times", "--workers=9", "0.2 s that are measured"] {
        assert!(stdout.contains(text), "{text}: {stdout}");
    }
    refused(&["serve", "-a", "epoll", "-a", "magic"], 2, "magic");
    refused(&["load", "-c", "1", "-c", "0", "8080"], 2, "0 connections");
}

#[test]
fn a_server_listens_where_its_user_would_write_it() {
    for listen in ["0", ":0", "localhost:0"] {
        let arguments = ["serve", "echo", "--listen", listen];
        let server =
            ServerProcess::start(Command::new(env!("CARGO_BIN_EXE_served")).args(arguments));
        assert!(server.address().ip().is_loopback(), "{}", server.address());
        assert_eq!(server.ask(b"hello"), b"hello");
    }
}

#[test]
fn help_begins_with_what_a_first_try_needs() {
    for (command, basic) in [
        ("compare", &["--architectures", "--concurrency", "--current", "--close", "--out"][..]),
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
    let nowhere = KeptPort::keep();
    refused(&["load", &format!("http://{}/", nowhere.address())], 1, "is the server running");
}

/// Loads an http server for a while, and calls `happens` with the server in the middle. The load
/// must tell `what`. On a busy machine it may happen after a short load, and then a long one
/// decides. Returns the exit code, standard output and standard error.
fn load_while<T>(
    what: &str,
    happens: impl Fn(ServerProcess) -> T,
) -> (Option<i32>, String, String) {
    let ended = load_for("6s", &happens);
    let ended = if ended.1.contains(what) { ended } else { load_for("60s", &happens) };
    assert!(ended.1.contains(what), "{}{}", ended.1, ended.2);
    ended
}

/// As [`load_while`], for this time. The result of `happens` lives until the load ends.
fn load_for<T>(time: &str, happens: impl Fn(ServerProcess) -> T) -> (Option<i32>, String, String) {
    let served = || Command::new(env!("CARGO_BIN_EXE_served"));
    let server = ServerProcess::start(served().args([
        "serve",
        "http",
        "-a",
        "epoll",
        "--listen=127.0.0.1:0",
    ]));
    let target = format!("http://{}/", server.address());
    let before = ticks(server.pid());
    let load = served()
        .args(["load", "-c", "4", "-d", time, "--warm-up", "100ms", &target])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The server has one loop. After 150 ms of its processor time, the warm-up of 100 ms is over.
    eventually("the server has worked longer than the warm-up", || {
        (ticks(server.pid()) >= before + 15).then_some(())
    });
    let kept = happens(server);
    let output = load.wait_with_output().unwrap();
    drop(kept);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The processor time of a process, in ticks of 10 ms (proc_pid_stat(5)).
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_load_whose_server_goes_away_fails_and_says_so() {
    let went_away = "\nThe server went away: it refused connections";
    let (code, stdout, stderr) = load_while(went_away, drop);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(stderr.contains("the server went away") && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn a_server_that_stands_still_is_told() {
    load_while("warning: The server stood still: for ", |server| {
        server.signal(Signal::STOP);
        // The pause is longer than the limit for standing still. A busy machine may make the pause
        // even longer.
        thread::sleep(Duration::from_millis(1200));
        server.signal(Signal::CONT);
        server
    });
}

#[test]
fn help_teaches_and_succeeds() {
    for arguments in [&["--help"][..], &["serve", "--help"], &["compare", "--help"], &["--version"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_served")).args(arguments).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{arguments:?}");
    }
}
