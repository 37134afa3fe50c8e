//! Tests the records of requests, under every architecture. There are as many records as answers,
//! and each record satisfies Truppel's definitions.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::Command;

use duality_conformance::{ServerProcess, for_every_architecture_of_straight_line_code, runs_here};
use rustix::process::Signal;
use tempfile::TempDir;

macro_rules! records {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;
            records! { @ every_answer_has_a_record_that_satisfies_the_definitions
                a_client_alone_meets_nobody
                pipelined_requests_end_when_their_replies_are_sent
                beyond_the_limit_requests_are_counted_and_not_kept }
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

for_every_architecture_of_straight_line_code!(records);

/// A row of the file.
#[derive(Clone, Copy, Debug)]
struct Row {
    t1: u64,
    t2: u64,
    blocks1: u64,
    blocks2: u64,
    clients1: u64,
    clients2: u64,
}

/// A server that records its requests, and writes its counters.
struct Recorded {
    server: ServerProcess,
    directory: TempDir,
}

impl Recorded {
    fn start(service: &str, architecture: &[&str], more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
        command
            .args(["serve", service, "--listen=127.0.0.1:0", "--architecture"])
            .args(architecture);
        command.args(["--records", &path("records.csv"), "--stats", &path("stats")]).args(more);
        Self { server: ServerProcess::start(&mut command), directory }
    }

    /// Ends the server. Returns its rows, the number of boundaries that its tasks have passed, and
    /// its output.
    fn end(self) -> (Vec<Row>, u64, String) {
        self.server.signal(Signal::TERM);
        let (status, stderr) = self.server.wait();
        assert_eq!(status.code(), Some(0), "{stderr}");
        let read = |name| fs::read_to_string(self.directory.path().join(name)).unwrap();
        let (csv, stats) = (read("records.csv"), read("stats"));
        let mut lines = csv.lines();
        assert_eq!(lines.next(), Some("t1_ns,t2_ns,blocks1,blocks2,clients1,clients2"));
        let rows = lines.map(|line| {
            let numbers: Vec<u64> = line.split(',').map(|number| number.parse().unwrap()).collect();
            let [t1, t2, blocks1, blocks2, clients1, clients2] = numbers[..] else {
                panic!("{line} has six columns")
            };
            Row { t1, t2, blocks1, blocks2, clients1, clients2 }
        });
        let stages = stats.split_once("\"stages\":").unwrap().1;
        let stages = stages.split(|other: char| !other.is_ascii_digit()).next().unwrap();
        (rows.collect(), stages.parse().unwrap(), stderr)
    }
}

/// T, #B, TP and #CP follow from each row. Their values are possible in a server with `stages`
/// boundaries and `connections` clients.
fn check(rows: &[Row], stages: u64, connections: u64) {
    for row in rows {
        assert!(row.t1 <= row.t2, "T is no less than 0: {row:?}");
        assert!(row.blocks1 <= row.blocks2 && row.blocks2 <= stages, "#B of {stages}: {row:?}");
        for clients in [row.clients1, row.clients2] {
            assert!((1..=connections).contains(&clients), "its own client is there: {row:?}");
        }
        let (time, blocks) = ((row.t2 - row.t1) as f64 / 1e9, (row.blocks2 - row.blocks1) as f64);
        let clients = (row.clients1 + row.clients2) as f64 / 2.0;
        assert!(clients >= 1.0 && clients <= connections as f64, "#CP: {row:?}");
        if time > 0.0 {
            let rate = blocks / time;
            assert!(rate >= 0.0 && (rate * time - blocks).abs() < 1e-6, "TP: {row:?}");
        }
    }
    assert!(rows.is_sorted_by_key(|row| row.t2), "in the order of the answers");
}

fn every_answer_has_a_record_that_satisfies_the_definitions(architecture: &[&str]) {
    const CONNECTIONS: u64 = 5;
    const REQUESTS: u64 = 4;
    let recorded = Recorded::start("echo", architecture, &[]);
    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| recorded.server.connect()).collect();
    // All clients are there at once, and an architecture that serves one at a time serves each.
    for mut stream in streams.drain(..) {
        for request in 0..REQUESTS as u8 {
            stream.write_all(&[request]).unwrap();
            let mut reply = [0];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(reply, [request]);
        }
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
    let (rows, stages, said) = recorded.end();
    assert_eq!((rows.len() as u64, said.as_str()), (CONNECTIONS * REQUESTS, ""));
    check(&rows, stages, CONNECTIONS);
    // The first request comes with its connection, before the first block of the connection.
    let firsts = rows.iter().filter(|row| row.blocks2 > row.blocks1).count() as u64;
    assert!(firsts >= CONNECTIONS, "{rows:?}");
}

fn a_client_alone_meets_nobody(architecture: &[&str]) {
    let recorded = Recorded::start("echo", architecture, &[]);
    let mut stream = recorded.server.connect();
    for request in 0..10 {
        stream.write_all(&[request]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
    drop(stream);
    let (rows, stages, _) = recorded.end();
    assert_eq!(rows.len(), 10);
    check(&rows, stages, 1);
    for two in rows.windows(2) {
        assert!(two[0].t2 <= two[1].t1, "one after the other: {two:?}");
        assert!(two[0].blocks2 < two[1].blocks1, "a boundary lies between two: {two:?}");
        assert_eq!(two[1].blocks1, two[1].blocks2, "and none within the second: {two:?}");
    }
}

fn pipelined_requests_end_when_their_replies_are_sent(architecture: &[&str]) {
    const REQUESTS: usize = 3;
    let recorded = Recorded::start("http", architecture, &[]);
    let request = "GET / HTTP/1.1\r\nHost: test\r\n\r\n".repeat(REQUESTS - 1);
    let last = "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    let reply = recorded.server.ask(format!("{request}{last}").as_bytes());
    assert_eq!(String::from_utf8(reply).unwrap().matches("HTTP/1.1 200").count(), REQUESTS);
    let (rows, stages, _) = recorded.end();
    assert_eq!(rows.len(), REQUESTS);
    check(&rows, stages, 1);
    assert!(rows.is_sorted_by_key(|row| row.t1), "first come, first served: {rows:?}");
}

fn beyond_the_limit_requests_are_counted_and_not_kept(architecture: &[&str]) {
    let recorded = Recorded::start("quote", architecture, &["--records-limit=3"]);
    let reply = recorded.server.ask(&b"ACME\n".repeat(10));
    assert_eq!(reply.iter().filter(|byte| **byte == b'\n').count(), 10);
    let (rows, stages, said) = recorded.end();
    assert_eq!(rows.len(), 3);
    check(&rows, stages, 1);
    assert!(said.contains("7 requests are not recorded, because --records-limit is 3"), "{said}");
}

#[test]
fn a_file_that_cannot_be_written_is_told_at_once() {
    for (flag, message) in [
        ("--records=/nowhere/records.csv", "--records: /nowhere/records.csv: "),
        ("--records=records.txt", "the name ends with .csv or .jsonl"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
        let refused =
            command.args(["serve", "echo", "--listen=127.0.0.1:0", flag]).output().unwrap();
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && stderr.contains(message), "{stderr}");
    }
}
