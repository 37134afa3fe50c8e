//! Runs every service of the registry under every architecture of the registry. The service answers
//! the load generator, which checks each reply, and drains. Otherwise the service is refused in one
//! line. So a new service or architecture is tested without further code.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use duality_architectures::{Needs, find};
use duality_conformance::{ServerProcess, eventually, for_every_architecture, runs_here};
use duality_services::{Entry, Setting};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The numbers of clients and of requests. In a chat, the requests are four lines of each member to
/// each other member.
const CLIENTS: u32 = 4;
const REQUESTS: u32 = 4 * CLIENTS * (CLIENTS - 1);

macro_rules! registries {
    ($name:ident $architecture:expr) => {
        #[test]
        fn $name() {
            if runs_here(&$architecture) {
                duality_services::ALL.iter().for_each(|entry| is_served(entry, &$architecture));
            }
        }
    };
}

for_every_architecture!(registries);

fn is_served(entry: &Entry, architecture: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", entry.name, "--listen=127.0.0.1:0", "--architecture"]);
    command.args(architecture).stdout(Stdio::piped()).stderr(Stdio::piped());
    if entry.keeps {
        command.arg(format!("--store=sqlite:{}", directory.path().join("store").display()));
    }
    // A relay passes requests on to a server of the same program.
    let behind = entry.has(Setting::Upstream).then(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
        ServerProcess::start(command.args(["serve", "http", "--listen=127.0.0.1:0"]))
    });
    command.args(behind.iter().map(|server| format!("--upstream={}", server.address())));
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let given = find(architecture[0]).expect("it is in the registry").about().gives;
    match (line.trim().strip_prefix("listening on "), lack(entry, given)) {
        (Some(address), None) => answers_and_drains(server, entry, architecture, address, given),
        (None, Some(lack)) => {
            let refused = server.wait_with_output().unwrap();
            let expected = format!("duality: {} under {}: {lack}", entry.name, architecture[0]);
            let stderr = String::from_utf8(refused.stderr).unwrap();
            assert!(stderr.starts_with(&expected), "{stderr}");
            assert_eq!((stderr.lines().count(), refused.status.code()), (1, Some(1)));
        }
        (address, lack) => panic!("{} under {architecture:?}: {address:?}, {lack:?}", entry.name),
    }
}

/// A need of the service that the architecture does not meet.
fn lack(entry: &Entry, given: Needs) -> Option<&'static str> {
    let needs = Needs {
        straight_line: duality_handwritten::find(entry.name).is_none(),
        shared_memory: entry.shared_memory,
        concurrent_connections: entry.concurrent_connections,
    };
    needs.missing_from(given)
}

fn answers_and_drains(
    mut server: Child,
    entry: &Entry,
    architecture: &[&str],
    address: &str,
    given: Needs,
) {
    let clients = if given.concurrent_connections { CLIENTS } else { 1 };
    let mut load = Command::new(env!("CARGO_BIN_EXE_served"));
    load.args(["load", &format!("{}://{address}", entry.name), "--json"]);
    // The exit code also says whether the figures are valid. This test checks only the replies.
    let load = load.args([format!("-c{clients}"), format!("-n{REQUESTS}")]).output().unwrap();
    let what = format!("{} under {architecture:?}", entry.name);
    let stderr = String::from_utf8_lossy(&load.stderr);
    let report: Value = serde_json::from_slice(&load.stdout)
        .unwrap_or_else(|error| panic!("{what}: no report ({error}): {stderr}"));
    assert_eq!(report["errors"], serde_json::json!({}), "{what}");
    assert_eq!(report["requests"], REQUESTS, "{what}");
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    let status = eventually("the server drains", || server.try_wait().unwrap());
    assert!(status.success(), "{what}: {status}");
}
