//! Replays recorded loads on real servers: `duality load --trace` and `compare --load-from`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use duality_conformance::{ServerProcess, complaints_of_load};
use duality_lab::record::{Outcome, results};
use serde_json::Value;

/// The recordings that ship.
fn trace(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/traces").join(name);
    path.to_str().unwrap().to_owned()
}

fn duality(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_served")).args(arguments).output().unwrap()
}

/// The output of a command, which must succeed.
fn said(arguments: &[&str]) -> String {
    let output = duality(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The output of a load. Its figures may be invalid: a busy machine delays a short load.
fn printed_by_load(arguments: &[&str]) -> String {
    let output = duality(arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(complaints_of_load(&stderr).is_empty(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = duality(arguments);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

#[test]
fn a_load_replays_what_a_server_of_its_files_answers() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    let site = site.to_str().unwrap();
    for name in ["nasa-1995.trace", "pages-2018.trace"] {
        let trace = trace(name);
        let output = said(&["load", "--trace", &trace, "--files", site]);
        assert!(output.contains("duality serve http --root"), "{output}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "http", "--root", site, "--architecture", "epoll"]);
    let server = ServerProcess::start(command.args(["--listen", "127.0.0.1:0"]));
    let target = format!("http://{}/", server.address());
    for (name, users) in [("nasa-1995.trace", "200"), ("pages-2018.trace", "500")] {
        let trace = trace(name);
        let load = ["load", &target, "--trace", &trace, "--users", users, "-d", "800ms", "--json"];
        let report: Value = serde_json::from_str(&printed_by_load(&load)).unwrap();
        assert_eq!(report["pattern"], "trace");
        assert!(report["requests"].as_u64().unwrap() > 20, "{report}");
        assert_eq!(report["errors"], serde_json::json!({}));
        let replayed = &report["replayed"];
        assert_eq!(replayed["users"], users.parse::<u64>().unwrap());
        assert!(replayed["fidelity"]["planned"].as_u64().unwrap() > 20, "{replayed}");
        let text = printed_by_load(&[&load[..8], &["--close"][..]].concat());
        assert!(text.contains("planned, sent"), "{text}");
    }
}

#[test]
fn the_first_request_of_a_replay_may_have_another_status() {
    // A server without the files of the trace answers 404.
    let empty = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "http", "--root", empty.path().to_str().unwrap()]);
    let server = ServerProcess::start(command.args(["--listen", "127.0.0.1:0"]));
    let (target, trace) = (format!("http://{}/", server.address()), trace("nasa-1995.trace"));
    let load = ["load", &target, "--trace", &trace, "--users", "200", "-d", "800ms", "--json"];
    let output = duality(&load);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("unexpected status 404"), "{stderr}");

    let expecting = printed_by_load(&[&load[..], &["--expect-status", "404"]].concat());
    let report: Value = serde_json::from_str(&expecting).unwrap();
    assert!(report["requests"].as_u64().unwrap() > 20, "{report}");
    assert_eq!(report["errors"], serde_json::json!({}));
}

#[test]
fn a_comparison_has_the_load_the_headroom_and_what_it_means() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let path = out.to_str().unwrap();
    let trace = trace("nasa-1995.trace");
    let text = said(&[
        "compare",
        "http",
        "--load-from",
        &trace,
        "--users",
        "1,200",
        "-a",
        "threads,epoll",
        "--repeats",
        "1",
        "--blocks",
        "2",
        "--warm-up",
        "100ms",
        "--window",
        "500ms",
        "--seed",
        "1",
        "--out",
        path,
        "--tables",
    ]);
    for part in ["your load", "planned against sent", "headroom: ", "times your users"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (heading, records) = results::read(&[out.join("results.jsonl")]).unwrap();
    let recording = heading.design.recording.unwrap();
    assert_eq!((recording.requests, recording.connections), (1250, 1250));
    assert_eq!(heading.design.concurrency, [1, 200]);
    // With one user there is nothing to measure, and the cell has this reason.
    for cell in &records.cells {
        match (&cell.outcome, cell.concurrency) {
            (Outcome::Unavailable { reason, .. }, 1) => assert!(reason.contains("give more users")),
            (Outcome::Measured(measured), 200) => {
                assert!(measured.requests > 20 && measured.replayed.is_some());
            }
            (other, _) => panic!("{}: {other:?}", cell.subject),
        }
    }
    let blocks = records.blocks_at(200);
    assert!(blocks.len() >= 2);
    // The load asks all servers twice.
    let slices = &blocks[0].slices;
    assert_eq!(slices.len(), 2 * 3, "threads, epoll and the control, twice");
    assert!(slices.iter().all(|slice| slice.requests > 0 && slice.server_cpu_us > 0.0));
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
    let headroom = summary["recommendation"]["headroom"].as_array().unwrap();
    assert_eq!(headroom.len(), 2);
    assert!(headroom[0]["users_of_a_processor"].as_f64().unwrap() > 200.0, "{headroom:?}");
    let first = summary["recommendation"]["sentences"][0].as_str().unwrap();
    assert!(first.starts_with("At your traffic (1.11 requests/s) any choice will do: "), "{first}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    for part in ["Your load", "Planned against sent", "Headroom", "<rect"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn what_does_not_fit_a_recording_is_refused() {
    let trace = trace("pages-2018.trace");
    let trace = trace.as_str();
    let log: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let log = log.to_str().unwrap();
    for (arguments, message) in [
        (&["compare", "http", "--users", "10"][..], "--users: a recording is replayed"),
        (&["compare", "http", "--load-from", "/no/such"], "/no/such"),
        (&["compare", "http", "--load-from", log], "no trace"),
        (&["compare", "http", "--load-from", trace, "--at", "noon"], "busiest"),
        (&["compare", "http", "--load-from", trace, "--speed", "0"], "a speed is"),
        (&["compare", "http", "--load-from", trace, "-c", "10"], "cannot be used with"),
        (&["compare", "http", "--load-from", trace, "--pattern", "closed"], "leave it out"),
        (&["compare", "echo", "--load-from", trace, "--users", "5000"], "one of http"),
        (&["load", "8080", "--trace", trace, "--at", "2000000s"], "write busiest"),
        (&["load", "8080", "--trace", trace, "--at", "10000s"], "shorter than that"),
        (&["load", "8080", "--trace", trace, "-d", "10ms"], "too short"),
        (&["load", "8080", "--trace", trace, "--users", "0", "-d", "1s"], "0 users"),
        (&["load", "8080", "--trace", trace, "--pattern", "closed"], "leave out --pattern"),
        (&["load", "8080", "--pattern", "trace"], "--trace"),
        (&["load"], "required"),
    ] {
        let line = refused(arguments);
        assert!(line.contains(message), "{arguments:?}: {line}");
    }
}
