//! Tests the gauges of queues. Pools of a staged server grow under a step of load, and shrink after
//! it. A work pool counts its blocks.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use duality_conformance::{ServerProcess, eventually};
use rustix::process::Signal;
use serde_json::Value;

/// A server that writes its counters often.
fn serve(program: &str, arguments: &[&str], stats: &Path) -> ServerProcess {
    let mut command = Command::new(program);
    command.args(["serve", "--listen=127.0.0.1:0", "--stats-every=10ms", "--stats"]).arg(stats);
    ServerProcess::start(command.args(arguments))
}

/// A queue of the last whole line of counters.
fn queue(stats: &Path, name: &str) -> Option<Value> {
    let text = fs::read_to_string(stats).unwrap();
    let (lines, _) = text.rsplit_once('\n')?;
    let line: Value = serde_json::from_str(lines.lines().last()?).unwrap();
    line["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == name).cloned()
}

#[test]
fn the_pools_of_a_staged_server_grow_and_shrink() {
    const CLIENTS: u64 = 150;
    let directory = tempfile::tempdir().unwrap();
    let (stats, go) = (directory.path().join("stats"), directory.path().join("go"));
    let server = serve(env!("CARGO_BIN_EXE_spinning"), &["--architecture=staged"], &stats);
    // Each client holds a thread of the stage until the file exists.
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.write_all(format!("{}\n", go.display()).as_bytes()).unwrap();
    }
    eventually("the pool of the stage has grown", || {
        queue(&stats, "spin").filter(|queue| queue["threads"].as_u64().unwrap() > 1)
    });
    let grown = queue(&stats, "spin").unwrap();
    assert!(grown["length_most"].as_u64().unwrap() > 16, "{grown}");
    fs::write(&go, "").unwrap();
    for client in &mut clients {
        let mut reply = [0; 5];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"done\n");
    }
    let shrunk = eventually("the pool of the stage has shrunk", || {
        queue(&stats, "spin").filter(|queue| queue["threads"] == 1)
    });
    assert_eq!((&shrunk["length"], &shrunk["executed"]), (&0.into(), &CLIENTS.into()), "{shrunk}");
    assert!(shrunk["threads_most"].as_u64().unwrap() > 1, "{shrunk}");
    drop(clients);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn a_work_pool_counts_its_blocks() {
    for architecture in ["workpool-fifo", "workpool-priority", "workpool-serial"] {
        let directory = tempfile::tempdir().unwrap();
        let stats = directory.path().join("stats");
        let arguments = ["echo", "--workers=3", "--architecture", architecture];
        let server = serve(env!("CARGO_BIN_EXE_served"), &arguments, &stats);
        eventually("all workers wait", || {
            queue(&stats, "blocks").filter(|queue| queue["threads"] == 3)
        });
        assert_eq!(server.ask(b"hello"), b"hello");
        // The blocks are one before the first stage, one for the bytes, and one for the end.
        eventually("its blocks are counted", || {
            queue(&stats, "blocks").filter(|queue| queue["executed"].as_u64().unwrap() >= 3)
        });
        server.signal(Signal::TERM);
        assert_eq!(server.wait().0.code(), Some(0));
    }
}

#[test]
fn an_architecture_without_queues_shows_none() {
    let directory = tempfile::tempdir().unwrap();
    let stats = directory.path().join("stats");
    let server = serve(env!("CARGO_BIN_EXE_served"), &["echo", "--architecture=epoll"], &stats);
    assert_eq!(server.ask(b"hello"), b"hello");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0));
    assert!(fs::read_to_string(stats).unwrap().contains("\"queues\":[]"));
}
