//! Tests the blocks service under every architecture. Over TCP, compares it byte for byte with a
//! model of its file. The tests also inject requests without TCP.

use std::fs;
use std::process::Command;

use duality_conformance::{
    ServerProcess, architecture_called, for_every_architecture_of_straight_line_code, runs_here,
};
use rustix::process::Signal;
use serde_json::Value;

macro_rules! blocks {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;
            blocks! { @ replies_follow_from_the_file
                injected_clients_are_answered_and_recorded
                a_client_alone_takes_five_blocks }
        }
    };
    (@ $($body:ident)*) => {
        $(#[test] fn $body() {
            if super::runs_here(ARCHITECTURE) {
                super::$body(ARCHITECTURE);
            }
        })*
    };
}

for_every_architecture_of_straight_line_code!(blocks);

fn serve(architecture: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "blocks", "--architecture"]).args(architecture);
    command
}

fn replies_follow_from_the_file(architecture: &[&str]) {
    const READ: usize = 100;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let mut model: Vec<u8> = (0..1000_u32).map(|number| (number * number / 7) as u8).collect();
    fs::write(&path, &model).unwrap();
    let mut command = serve(architecture);
    command.args(["--listen=127.0.0.1:0", "--data", path.to_str().unwrap()]);
    let server = ServerProcess::start(command.arg(format!("--read-size={READ}")));
    for request in [0, 900, 901, 7, u64::MAX, 450, 450, 900] {
        let reply = server.ask(&u64::to_le_bytes(request));
        let offset = (request % (model.len() - READ + 1) as u64) as usize;
        let byte = model[offset..offset + READ].iter().fold(0, |byte, next| byte ^ next);
        model[offset] = byte;
        assert_eq!(reply, [byte], "request {request}");
    }
    // The service ignores a part of a request.
    assert_eq!(server.ask(b"1234567"), b"");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0));
    assert_eq!(fs::read(path).unwrap(), model, "what the file holds at the end");
}

/// The report and the rows of a load of `clients` clients. `None` if the architecture takes
/// connections from a network only.
fn inject(architecture: &[&str], clients: u64) -> Option<(Value, Vec<Vec<u64>>)> {
    let directory = tempfile::tempdir().unwrap();
    let records = directory.path().join("records.csv");
    let mut command = serve(architecture);
    command.args(["--inject=1us..50us", "--period=10ms", "--json", "--records"]).arg(&records);
    let output = command.arg(format!("--clients={clients}")).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let takes_a_network =
        architecture_called(architecture[0]).about().forks || architecture.contains(&"--cores=2");
    if takes_a_network {
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.starts_with("duality: --inject: ") && stderr.lines().count() == 1,
            "{stderr}"
        );
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let rows = fs::read_to_string(records).unwrap();
    let rows = rows.lines().skip(1);
    let rows = rows.map(|row| row.split(',').map(|number| number.parse().unwrap()).collect());
    Some((serde_json::from_slice(&output.stdout).unwrap(), rows.collect()))
}

fn injected_clients_are_answered_and_recorded(architecture: &[&str]) {
    const CLIENTS: u64 = 500;
    let Some((report, rows)) = inject(architecture, CLIENTS) else { return };
    assert_eq!(report["clients"], CLIENTS, "{report}");
    assert_eq!(report["answered"], CLIENTS, "{report}");
    assert_eq!(report["failed"], 0, "{report}");
    assert!(report["requests_per_second"].as_f64().unwrap() > 0.0, "{report}");
    let peak = report["peak_clients"].as_u64().unwrap();
    assert!((1..=CLIENTS).contains(&peak), "{report}");
    assert_eq!(rows.len() as u64, CLIENTS);
    for row in &rows {
        let [t1, t2, blocks1, blocks2, clients1, clients2] = row[..] else { panic!("{row:?}") };
        assert!(t1 <= t2 && blocks1 + 5 <= blocks2, "five blocks are its own: {row:?}");
        assert!(blocks2 <= 5 * CLIENTS && clients1.max(clients2) <= CLIENTS, "{row:?}");
    }
    // All blocks of all requests, once each.
    assert_eq!(rows.iter().map(|row| row[3]).max(), Some(5 * CLIENTS));
}

fn a_client_alone_takes_five_blocks(architecture: &[&str]) {
    let Some((_, rows)) = inject(architecture, 1) else { return };
    let [row] = &rows[..] else { panic!("one row: {rows:?}") };
    assert_eq!(row[2..], [0, 5, 1, 1], "#B1, #B2, #CP1, #CP2");
}
