//! Reaches a limit on descriptors under every architecture. The server refuses no client, and
//! reports the lack.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;

use duality_conformance::{ServerProcess, for_every_architecture, runs_here};
use rustix::process::Signal;

/// More clients than the server has descriptors.
const CLIENTS: usize = 100;
const DESCRIPTORS: usize = 40;

macro_rules! limits {
    ($name:ident $architecture:expr) => {
        #[test]
        fn $name() {
            if runs_here(&$architecture) {
                clients_beyond_the_limit_are_served_as_others_leave(&$architecture);
            }
        }
    };
}

for_every_architecture!(limits);

fn clients_beyond_the_limit_are_served_as_others_leave(architecture: &[&str]) {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"")]);
    command.args([env!("CARGO_BIN_EXE_served"), "serve", "echo", "--listen=127.0.0.1:0"]);
    let mut server = ServerProcess::start(command.arg("--architecture").args(architecture));
    let complaints = server.complaints();
    let streams: Vec<TcpStream> = (0..CLIENTS).map(|_| server.connect()).collect();
    // The lack shows only if one process holds all connections. Otherwise each process holds fewer
    // than it may.
    let ours = duality_architectures::find(architecture[0]).expect("it is in the registry");
    // A pool takes all connections into a list, unless the list has a bound or there is no list.
    let has_list = |architecture: &[&str]| {
        !architecture.contains(&"--hand-over=accept") && !architecture.contains(&"--accept-queue=0")
    };
    let short = ours.name() != "iterative"
        && !ours.about().forks
        && (ours.name() != "pool" || has_list(architecture));
    let first = short.then(|| complaints.next("the lack is reported"));
    if short {
        let descriptors = format!("/proc/{}/fd", server.pid());
        let count = std::fs::read_dir(descriptors).unwrap().count();
        assert!(
            count <= DESCRIPTORS * 3 / 4,
            "{count} of {DESCRIPTORS} are in use: some are kept back"
        );
    }
    let (served, all_served) = channel();
    for mut stream in streams {
        let served = served.clone();
        // The server chooses the clients that it accepts. Others wait.
        thread::spawn(move || {
            stream.write_all(b"hello").unwrap();
            let mut back = [0; 5];
            stream.read_exact(&mut back).unwrap();
            assert_eq!(&back, b"hello");
            served.send(()).unwrap();
        });
    }
    drop(served);
    assert_eq!(all_served.iter().count(), CLIENTS, "{architecture:?}");
    server.signal(Signal::TERM);
    let (status, _) = server.wait();
    assert!(status.success(), "{status}");
    let rest: Vec<String> = complaints.rest().collect();
    assert!(short || rest.is_empty(), "{rest:?}");
    for line in first.iter().chain(&rest) {
        assert!(line.contains("Too many open files"), "{line}");
        assert!(line.contains("ulimit -n"), "the remedy is named: {line}");
    }
}
