//! Tests a server that runs out of descriptors, address space or stack, under every architecture.
//! Clients wait, or the server says which stack was too small. The server never fails clients, and
//! never dies silently.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use duality_conformance::{
    Complaints, Redis, ServerProcess, eventually, for_every_architecture,
    for_every_architecture_of_straight_line_code, runs_here,
};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tempfile::TempDir;

macro_rules! for_all_services {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;

            #[test]
            fn files_are_sent_where_descriptors_are_few() {
                if super::can_be_tried(ARCHITECTURE) {
                    super::files_are_sent_where_descriptors_are_few(ARCHITECTURE, 100);
                }
            }

            #[test]
            fn in_little_address_space_clients_wait() {
                if super::can_be_tried(ARCHITECTURE) {
                    super::in_little_address_space_clients_wait(ARCHITECTURE);
                }
            }
        }
    };
}

macro_rules! for_straight_line_code {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;

            #[test]
            fn an_overflow_is_named() {
                if super::super::can_be_tried(ARCHITECTURE) {
                    super::super::an_overflow_is_named(ARCHITECTURE);
                }
            }

            #[test]
            fn members_are_admitted_where_descriptors_are_few() {
                if super::super::can_be_tried(ARCHITECTURE) {
                    super::super::members_are_admitted_where_descriptors_are_few(ARCHITECTURE);
                }
            }
        }
    };
}

for_every_architecture!(for_all_services);

mod straight_line_code {
    use super::*;
    for_every_architecture_of_straight_line_code!(for_straight_line_code);
}

/// Whether the architecture runs here, and the runtime can handle a lack of threads or descriptors.
/// libdispatch chooses its threads' stacks. Without a thread or descriptor, it ends the process.
fn can_be_tried(architecture: &[&str]) -> bool {
    architecture[0] != "gcd" && runs_here(architecture)
}

/// The length of a file that http sends by sendfile(2).
const LONG: usize = 100_000;

/// A shell command that sets a limit, and becomes the server.
fn limited(limit: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limit}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_served")]);
    command.args(["serve", "--listen=127.0.0.1:0"]).args(arguments);
    command
}

/// Lets this process, too, hold `count` connections.
fn allow_descriptors(count: u64) {
    let most = getrlimit(Resource::Nofile).maximum;
    let enough = most.map_or(count, |most| most.min(count));
    setrlimit(Resource::Nofile, Rlimit { current: Some(enough), maximum: most }).unwrap();
}

/// Connects all clients. Each client sends `request`, and leaves when `is_whole` accepts its reply.
/// Clients leave in the order of their replies, since the server chooses the clients that it
/// accepts.
fn replies(
    server: &ServerProcess,
    clients: usize,
    request: &[u8],
    is_whole: impl Fn(&[u8]) -> bool,
) -> Vec<Vec<u8>> {
    let connect = |_| {
        let mut stream = server.connect();
        stream.write_all(request).unwrap();
        stream.set_nonblocking(true).unwrap();
        (stream, Vec::new())
    };
    let mut waiting: Vec<(TcpStream, Vec<u8>)> = (0..clients).map(connect).collect();
    let mut replies = Vec::new();
    let mut piece = vec![0; 1 << 16];
    let mut round = || {
        let mut moved = false;
        for index in (0..waiting.len()).rev() {
            let (stream, reply) = &mut waiting[index];
            let has_ended = match stream.read(&mut piece) {
                Ok(count) => {
                    moved = true;
                    reply.extend_from_slice(&piece[..count]);
                    count == 0
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => false,
                // The server ended the connection without reading all bytes.
                Err(_) => true,
            };
            if has_ended || is_whole(reply) {
                replies.push(waiting.swap_remove(index).1);
            }
        }
        (waiting.is_empty(), moved)
    };
    // The loop goes on as long as replies come.
    while !eventually("the next reply", || Some(round()).filter(|(all, moved)| *all || *moved)).0 {}
    replies
}

/// Ends the server, which must not have failed. Returns its complaints.
fn end(server: ServerProcess, complaints: Complaints) -> Vec<String> {
    server.signal(Signal::TERM);
    let (status, _) = server.wait();
    let said: Vec<String> = complaints.rest().collect();
    assert!(status.success(), "{status}: {said:?}");
    said
}

fn files_are_sent_where_descriptors_are_few(architecture: &[&str], clients: usize) {
    let root = TempDir::new().unwrap();
    std::fs::write(root.path().join("long"), vec![b'x'; LONG]).unwrap();
    let root = format!("--root={}", root.path().display());
    let mut command = limited("ulimit -n 64", &["http", &root, "--architecture"]);
    let mut server = ServerProcess::start(command.args(architecture));
    let complaints = server.complaints();
    let request = b"GET /long HTTP/1.1\r\nHost: test\r\n\r\n";
    for _ in 0..5 {
        let all = replies(&server, clients, request, |reply| reply.len() > LONG);
        for reply in all {
            let start = String::from_utf8_lossy(&reply[..reply.len().min(100)]);
            assert!(start.starts_with("HTTP/1.1 200 ") && reply.len() > LONG, "{start}");
        }
    }
    for line in end(server, complaints) {
        assert!(line.contains("Too many open files") && line.contains("ulimit -n"), "{line}");
    }
}

fn in_little_address_space_clients_wait(architecture: &[&str]) {
    // With a test thread for each of many processors, these tests would need more descriptors than
    // this process may have.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // A process for each client would be too much for a small machine. Processes share no address
    // space.
    let clients = if architecture[0] == "fork" { 50 } else { 1500 };
    allow_descriptors(4096);
    let request = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";
    for limit in ["ulimit -v 262144", "ulimit -v 131072"] {
        let mut command = limited(limit, &["http", "--architecture"]);
        let mut server = ServerProcess::start(command.args(architecture));
        let complaints = server.complaints();
        let all = replies(&server, clients, request, |reply| reply.len() > 200);
        for reply in &all {
            assert!(reply.starts_with(b"HTTP/1.1 200 "), "{limit}: {}", reply.escape_ascii());
        }
        assert_eq!(all.len(), clients);
        for line in end(server, complaints) {
            assert!(line.contains("accepting no more") || line.contains("instead of"), "{line}");
        }
    }
}

fn members_are_admitted_where_descriptors_are_few(architecture: &[&str]) {
    if matches!(architecture[0], "iterative" | "fork" | "prefork") {
        return; // Processes share no memory.
    }
    let mut command = limited("ulimit -n 64", &["chat", "--architecture"]);
    let mut server = ServerProcess::start(command.args(architecture));
    let complaints = server.complaints();
    for reply in replies(&server, 60, b"", |reply| reply.ends_with(b"\n")) {
        assert!(reply.starts_with(b"* you are "), "{}", reply.escape_ascii());
    }
    end(server, complaints);
}

fn an_overflow_is_named(architecture: &[&str]) {
    for where_to in ["recurse", "helper"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_panicky"));
        command.args(["serve", "--listen=127.0.0.1:0", "--architecture"]).args(architecture);
        let mut server = ServerProcess::start(&mut command);
        let complaints = server.complaints();
        let mut stream = server.connect();
        stream.write_all(where_to.as_bytes()).unwrap();
        let line = eventually("it is named", || {
            Some(complaints.next("it is named")).filter(|line| !line.is_empty())
        });
        assert!(line.contains("overflowed its stack"), "{line}");
        // The system sets the main thread's stack. For other stacks, the line has the size.
        assert!(line.contains("'main'") || line.contains(" KiB: "), "{line}");
        if matches!(architecture[0], "fork" | "prefork") {
            continue; // The child has died, and the server lives.
        }
        let (status, _) = server.wait();
        assert_eq!(status.signal(), Some(6), "{status}");
    }
}

/// Connections to a store need descriptors as well. With one for each of many visitors, they need
/// more than the server keeps back.
#[test]
fn a_store_in_redis_is_reached_where_descriptors_are_few() {
    let directory = TempDir::new().unwrap();
    let redis = Redis::start(directory.path());
    let store = format!("--store=redis://{}", redis.address());
    for architecture in ["threads", "pool", "uthreads", "epoll", "uring"] {
        if !runs_here(&[architecture]) {
            continue;
        }
        let arguments = ["guestbook", &store, "--architecture", architecture];
        let mut server = ServerProcess::start(&mut limited("ulimit -n 64", &arguments));
        let complaints = server.complaints();
        let request = b"GET /guestbook HTTP/1.1\r\nHost: test\r\n\r\n";
        for _ in 0..3 {
            for reply in replies(&server, 100, request, |reply| reply.len() > 200) {
                let start = reply[..reply.len().min(60)].escape_ascii().to_string();
                assert!(start.starts_with("HTTP/1.1 200 "), "{architecture}: {start}");
            }
        }
        end(server, complaints);
    }
}

/// The ring begins to accept by itself, since a whole accept queue fits, and stops before the end.
#[test]
fn a_ring_stops_before_the_last_descriptors() {
    let architecture = ["uring", "--backlog=8"];
    if runs_here(&architecture) {
        files_are_sent_where_descriptors_are_few(&architecture, 40);
    }
}

#[test]
fn a_stack_that_is_too_small_is_refused_in_one_line() {
    let directory = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "phone", "--architecture=threads", "--stack-size=16K"]);
    let output = command.current_dir(&directory).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.lines().count() == 1 && stderr.contains("64K"), "{stderr}");
}

/// On the least stack that the registry names, each service does its work.
#[test]
fn the_least_stack_is_enough() {
    let questions: [(&str, &str, &[u8], &[u8]); 8] = [
        ("echo", "16K", b"hello", b"hello"),
        ("quote", "16K", b"ACME\n", b"ACME 21.23\n"),
        ("chat", "16K", b"", b"* you are 1\n"),
        ("http", "16K", b"GET / HTTP/1.1\r\nHost: test\r\n\r\n", b"HTTP/1.1 200 "),
        ("http", "16K", b"GET /none HTTP/1.1\r\nHost: test\r\n\r\n", b"HTTP/1.1 404 "),
        ("http", "16K", b"BREW / HTTP/1.1\r\nHost: test\r\n\r\n", b"HTTP/1.1 501 "),
        ("guestbook", "64K", b"GET /guestbook HTTP/1.1\r\nHost: test\r\n\r\n", b"HTTP/1.1 200 "),
        ("phone", "64K", b"ADD ann 1\nFIND ann\n", b"ADDED ann 1\nFOUND ann 1\n"),
    ];
    for architecture in ["threads", "pool", "uthreads"] {
        for (service, size, question, answer) in questions {
            let directory = TempDir::new().unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
            command.args([
                "serve",
                service,
                "--listen=127.0.0.1:0",
                "--architecture",
                architecture,
            ]);
            command.arg(format!("--stack-size={size}")).current_dir(&directory);
            let server = ServerProcess::start(&mut command);
            let mut stream = server.connect();
            stream.write_all(question).unwrap();
            let mut reply = vec![0; answer.len()];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(reply.escape_ascii().to_string(), answer.escape_ascii().to_string());
        }
        let small = [architecture, "--stack-size=16K"];
        files_are_sent_where_descriptors_are_few(&small, 20);
    }
}

#[test]
fn without_room_for_the_first_stack_a_server_says_so() {
    let arguments = ["echo", "--architecture=uthreads", "--poller=epoll", "--stack-size=1G"];
    let output = limited("ulimit -v 524288", &arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.lines().count() == 1 && stderr.contains("cannot serve"), "{stderr}");
}

#[test]
fn without_descriptors_to_begin_with_a_server_says_so() {
    for architecture in ["threads", "pool", "uthreads", "select", "epoll", "uring", "handwritten"] {
        if !runs_here(&[architecture]) {
            continue;
        }
        let is_a_loop = !matches!(architecture, "threads" | "pool");
        // Standard input, output and errors take three descriptors. A loop needs more than six.
        for count in 4..if is_a_loop { 7 } else { 6 } {
            // A server that serves all the same is killed. What ran the tests may have left
            // descriptors open.
            let limit = format!("exec 3>&- 4>&- 5>&- 6>&-; ulimit -n {count}");
            let serve = format!("set -- serve echo -l 127.0.0.1:0 -a {architecture}");
            let mut command = Command::new("sh");
            let serve = format!("{serve}; exec timeout -s KILL 20 \"$0\" \"$@\"");
            command.args(["-c", &format!("{limit}; {serve}")]);
            let output = command.arg(env!("CARGO_BIN_EXE_served")).output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{architecture}, {count}: {stderr}");
            assert!(
                stderr.lines().count() == 1 && stderr.contains("Too many open files"),
                "{stderr}"
            );
            assert!(stderr.contains("ulimit -n"), "the remedy is named: {stderr}");
        }
    }
}
