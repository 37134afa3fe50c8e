//! Tests faults under every architecture: signals, panics, and limits that are reached.

use std::io::{Read, Write};
use std::process::Command;
use std::thread;

use duality_architectures::{Architecture, Options};
use duality_conformance::{
    ServerProcess, architectures_that, eventually, for_every_architecture_of_straight_line_code,
    runs_here,
};
use rustix::process::Signal;

macro_rules! faults {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;
            faults! { @ a_drain_ends_idle_connections
                a_panic_ends_its_own_connection
                without_descriptors_clients_wait
                what_cannot_be_said_ends_nothing }
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

for_every_architecture_of_straight_line_code!(faults);

fn serve(program: &str, architecture: &[&str], limits: &str) -> ServerProcess {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limits} exec \"$0\" \"$@\""), program, "serve"]);
    command.args(["--listen=127.0.0.1:0", "--architecture"]).args(architecture);
    ServerProcess::start(&mut command)
}

fn panicky(architecture: &[&str], limits: &str) -> ServerProcess {
    serve(env!("CARGO_BIN_EXE_panicky"), architecture, limits)
}

fn a_drain_ends_idle_connections(architecture: &[&str]) {
    let server = panicky(architecture, "");
    let mut stream = server.connect();
    stream.write_all(b"hello").unwrap();
    stream.read_exact(&mut [0; 5]).unwrap();
    server.signal(Signal::TERM);
    assert_eq!(
        std::io::read_to_string(&mut stream).unwrap(),
        "",
        "an idle connection sees the end"
    );
    let (status, stderr) = server.wait();
    assert!(status.success(), "{status}: {stderr}");
    assert_eq!(stderr, "");
}

fn a_panic_ends_its_own_connection(architecture: &[&str]) {
    let server = panicky(architecture, "");
    for _ in 0..3 {
        let mut stream = server.connect();
        stream.write_all(b"panic").unwrap();
        // The read ends with an end or a reset, but must not hang.
        let _ = stream.read(&mut [0; 8]);
    }
    assert_eq!(server.ask(b"still there"), b"still there");
    server.signal(Signal::TERM);
    let (status, stderr) = server.wait();
    assert!(status.success() && stderr.contains("told to panic"), "{status}: {stderr}");
}

fn without_descriptors_clients_wait(architecture: &[&str]) {
    // A pool of threads that accept needs a descriptor for each thread.
    let server = panicky(architecture, "ulimit -n 40;");
    let clients: Vec<_> = (0..60)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"hello").unwrap();
            stream
        })
        .collect();
    // The server serves each client once others have gone, on several cores in any order.
    let waiting: Vec<_> = clients
        .into_iter()
        .map(|mut stream| thread::spawn(move || stream.read_exact(&mut [0; 5]).unwrap()))
        .collect();
    waiting.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(server.ask(b"still there"), b"still there");
}

/// A server must report a lack and a panic while its standard error is a full disk or a pipe
/// without a reader.
fn what_cannot_be_said_ends_nothing(architecture: &[&str]) {
    // The reader of the pipe ends at once.
    for errors in ["2>/dev/full", "2> >(:)"] {
        let script = format!("ulimit -n 40; exec \"$0\" \"$@\" {errors}");
        let mut command = Command::new("bash");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_panicky"), "serve"]);
        command.args(["--listen=127.0.0.1:0", "--architecture"]).args(architecture);
        let server = ServerProcess::start(&mut command);
        let mut stream = server.connect();
        stream.write_all(b"panic").unwrap();
        let _ = stream.read(&mut [0; 8]);
        drop(stream);
        let clients: Vec<_> = (0..60).map(|_| server.connect()).collect();
        let asking = clients.into_iter().map(|mut stream| {
            thread::spawn(move || {
                stream.write_all(b"hello").unwrap();
                stream.read_exact(&mut [0; 5]).unwrap();
            })
        });
        asking.collect::<Vec<_>>().into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(server.ask(b"still there"), b"still there", "{errors}");
    }
}

#[test]
fn without_threads_clients_wait() {
    in_a_small_address_space_clients_wait("threads");
}

#[test]
fn without_stacks_clients_wait() {
    in_a_small_address_space_clients_wait("uthreads");
}

fn in_a_small_address_space_clients_wait(architecture: &str) {
    // An address space of 6 GiB holds at most five stacks of 1 GiB.
    let mut server = panicky(&[architecture, "--stack-size=1G"], "ulimit -v 6291456;");
    let complaints = server.complaints();
    let clients: Vec<_> = (0..12)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"hello").unwrap();
            stream
        })
        .collect();
    // The report comes before any client leaves.
    let first = complaints.next("the lack is reported");
    for mut stream in clients {
        stream.read_exact(&mut [0; 5]).unwrap();
    }
    server.signal(Signal::TERM);
    let (status, _) = server.wait();
    assert!(status.success(), "{status}");
    for line in [first].into_iter().chain(complaints.rest()) {
        assert!(line.contains("accepting no more"), "{line}");
    }
}

#[test]
fn a_killed_parent_leaves_no_children() {
    let server = panicky(&["fork"], "");
    let mut stream = server.connect();
    stream.write_all(b"hello").unwrap();
    stream.read_exact(&mut [0; 5]).unwrap();
    let pid = server.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let child = children.trim().to_owned();
    assert!(!child.is_empty());
    server.signal(Signal::KILL);
    // The connection ends with its process. Then the kernel forgets the process, or init reaps it.
    assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0);
    eventually("the child is gone", || {
        let status = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        (status.is_empty() || status.contains(") Z ")).then_some(())
    });
}

#[test]
fn a_thousand_connections_are_held_and_served() {
    // The architecture has no process for each connection, and no bound of workers.
    let able = |architecture: &dyn Architecture| {
        architecture.about().gives.straight_line
            && !architecture.about().forks
            && architecture.places(&Options::default()).is_none()
    };
    for architecture in architectures_that(able) {
        // The usual limit is 1,024 descriptors, and this test needs both ends of 1,000 connections.
        let server = panicky(&[architecture], "ulimit -n 4096 || true;");
        let _ = rustix::process::setrlimit(
            rustix::process::Resource::Nofile,
            rustix::process::Rlimit { current: Some(4096), maximum: Some(4096) },
        );
        let mut clients: Vec<_> = (0..1000).map(|_| server.connect()).collect();
        for stream in &mut clients {
            stream.write_all(b"hello").unwrap();
        }
        for stream in &mut clients {
            let mut back = [0; 5];
            stream.read_exact(&mut back).unwrap();
            assert_eq!(&back, b"hello");
        }
    }
}
