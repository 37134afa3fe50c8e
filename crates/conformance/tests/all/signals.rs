//! Tests the end of a server under every architecture: the effects of the first signal, and of a
//! second signal.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use duality_conformance::{ServerProcess, eventually, for_every_architecture, runs_here};
use rustix::process::Signal;
use tempfile::TempDir;

macro_rules! signals {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;
            signals! { @ a_drain_ends_a_keep_alive_connection
                a_drain_finishes_the_reply_that_is_under_way
                a_second_signal_cuts_off_what_would_not_end
                a_drain_does_not_outlast_its_limit
                a_signal_right_after_the_start_is_heard
                a_reload_keeps_connections }
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

for_every_architecture!(signals);

fn serve(service: &str, architecture: &[&str], more: &[&str]) -> ServerProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", service, "--listen=127.0.0.1:0", "--architecture"]);
    ServerProcess::start(command.args(architecture).args(more))
}

fn a_drain_ends_a_keep_alive_connection(architecture: &[&str]) {
    let server = serve("http", architecture, &[]);
    let mut stream = server.connect();
    stream.write_all(b"HEAD / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    server.signal(Signal::TERM);
    assert_eq!(
        std::io::read_to_string(&mut stream).unwrap(),
        "",
        "the connection ends without a word"
    );
    let (status, stderr) = server.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

fn a_drain_finishes_the_reply_that_is_under_way(architecture: &[&str]) {
    let body: Vec<u8> = (0..20_000_000u32).map(|index| (index % 249) as u8).collect();
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("long"), &body).unwrap();
    let (server, mut stream) = in_mid_reply(architecture, &root, &[]);
    server.signal(Signal::INT);
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert!(reply.ends_with(&body), "{} bytes came", reply.len());
    let (status, stderr) = server.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

fn a_second_signal_cuts_off_what_would_not_end(architecture: &[&str]) {
    let (mut server, _never_read) = in_mid_reply(architecture, &endless(), &[]);
    // Two signals that are pending at the same time are one, so the second is sent until it
    // arrives.
    eventually("the server is cut off", || {
        let ended = server.has_ended();
        if !ended {
            server.signal(Signal::TERM);
        }
        ended.then_some(())
    });
    let (status, stderr) = server.wait();
    assert_eq!(status.code(), Some(1), "{stderr}");
    // A third signal may reach another kernel thread before the process has ended.
    let expected = "duality: a second signal: exiting at once";
    assert!(!stderr.is_empty() && stderr.lines().all(|line| line == expected), "{stderr}");
}

fn a_drain_does_not_outlast_its_limit(architecture: &[&str]) {
    let (server, _never_read) = in_mid_reply(architecture, &endless(), &["--drain-limit=1"]);
    server.signal(Signal::TERM);
    let (status, stderr) = server.wait();
    assert_eq!(status.code(), Some(1), "{stderr}");
    // Parent and child have the same limit, and either may be the first to reach it.
    let expected = "duality: the drain took too long: connections are cut off";
    assert!(!stderr.is_empty() && stderr.lines().all(|line| line == expected), "{stderr}");
}

fn a_signal_right_after_the_start_is_heard(architecture: &[&str]) {
    for _ in 0..8 {
        let server = serve("http", architecture, &[]);
        server.signal(Signal::TERM);
        // No client comes, and the drain's own limit is longer than the wait.
        let (status, stderr) = server.wait();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    }
}

fn a_reload_keeps_connections(architecture: &[&str]) {
    let mut server = serve("http", architecture, &[]);
    let complaints = server.complaints();
    let mut stream = server.connect();
    for _ in 0..2 {
        stream.write_all(b"HEAD / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        server.signal(Signal::HUP);
        let line = complaints.next("it says that it reloads");
        assert!(
            line.starts_with(
                "duality: SIGHUP: opening logs, and reading --root and certificates again"
            ),
            "{line}"
        );
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0));
}

/// A server that sends the file `long`, and its client, which has not read all bytes.
fn in_mid_reply(
    architecture: &[&str],
    root: &TempDir,
    more: &[&str],
) -> (ServerProcess, TcpStream) {
    let root = root.path().to_str().unwrap();
    let server = serve("http", architecture, &[&["--root", root], more].concat());
    let mut stream = server.connect();
    stream.write_all(b"GET /long HTTP/1.0\r\n\r\n").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    (server, stream)
}

/// A file that is far longer than the kernel's buffers of both ends of a connection. The file is
/// one hole, and takes no space.
fn endless() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::File::create(root.path().join("long")).unwrap().set_len(1 << 30).unwrap();
    root
}
