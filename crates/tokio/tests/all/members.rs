//! Every layout, and every architecture of ours that carries an application, serves the same
//! application with the same answers. The tests use real processes and real sockets.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;

use duality_architectures::{Architecture, Options, Registry};
use duality_conformance::programs::finish;
use duality_conformance::{ServerProcess, eventually, mid_load, skip};
use duality_tokio::layouts;
use rustix::process::Signal;
use serde_json::Value;

macro_rules! members {
    ($($name:ident [$member:literal $(, $flag:literal)*])*) => {
        /// The members under test.
        const MEMBERS: &[&str] = &[$($member),*];

        $(mod $name {
            const MEMBER: &[&str] = &[$member $(, $flag)*];

            #[test]
            fn answers_byte_for_byte() {
                super::run(MEMBER, super::answers_byte_for_byte);
            }

            #[test]
            fn answers_a_client_that_has_ended_its_side() {
                super::run(MEMBER, super::answers_a_client_that_has_ended_its_side);
            }

            #[test]
            fn gives_the_application_what_it_uses_of_tokio() {
                super::run(MEMBER, super::gives_the_application_what_it_uses_of_tokio);
            }

            #[test]
            fn gives_handlers_room_on_their_stacks() {
                super::run(MEMBER, super::gives_handlers_room_on_their_stacks);
            }

            #[test]
            fn tells_requests_of_their_client() {
                super::run(MEMBER, super::tells_requests_of_their_client);
            }

            #[test]
            fn a_failing_application_ends_the_server() {
                super::run(MEMBER, super::a_failing_application_ends_the_server);
            }

            #[test]
            fn an_application_made_once_serves_all_connections() {
                super::run(MEMBER, super::an_application_made_once_serves_all_connections);
            }

            #[test]
            fn a_drain_answers_what_is_under_way() {
                super::run(MEMBER, super::a_drain_answers_what_is_under_way);
            }

            #[test]
            fn a_signal_in_mid_load_loses_nothing_that_had_come() {
                super::run(MEMBER, super::a_signal_in_mid_load_loses_nothing_that_had_come);
            }

            #[test]
            fn counts_its_connections() {
                super::run(MEMBER, super::counts_its_connections);
            }

            #[test]
            fn refuses_what_is_too_much() {
                super::run(MEMBER, super::refuses_what_is_too_much);
            }

            #[test]
            fn a_panic_closes_its_connection_only() {
                super::run(MEMBER, super::a_panic_closes_its_connection_only);
            }
        })*
    };
}

members! {
    multi ["tokio-multi"]
    multi_of_two ["tokio-multi", "--cores=2"]
    multi_reuseport ["tokio-multi-reuseport", "--cores=2"]
    per_core ["tokio-per-core"]
    per_core_of_two ["tokio-per-core", "--cores=2"]
    no_steal ["tokio-no-steal", "--cores=2"]
    prefork ["tokio-prefork", "--cores=2"]
    thread_per_connection ["tokio-thread-per-connection"]
    select ["select"]
    poll ["poll"]
    epoll ["epoll"]
    epoll_of_two ["epoll", "--cores=2"]
    uring ["uring"]
    uring_of_two ["uring", "--cores=2"]
    staged ["staged"]
    fork ["fork"]
    own_prefork ["prefork", "--workers=4"]
    threads ["threads"]
    pool ["pool", "--workers=4"]
    workpool_fifo ["workpool-fifo", "--workers=4"]
    workpool_serial ["workpool-serial", "--workers=4"]
    workpool_priority ["workpool-priority", "--workers=4"]
    uthreads ["uthreads"]
    uthreads_on_uring ["uthreads", "--poller=uring"]
}

/// The first runtime goes on until the last request of all runtimes is answered.
#[test]
fn cores_share_what_the_first_has_made() {
    let server = serve(&["tokio-per-core", "--cores=2"]);
    let request = "POST /shared HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\n1";
    let reply = ask(&mut server.connect(), &format!("{request}2"), "!");
    assert!(reply.ends_with("shared!"), "{reply}");
    let begin = |_| {
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    let streams: Vec<_> = (0..16).map(begin).collect();
    server.signal(Signal::TERM);
    for mut stream in streams {
        let reply = ask(&mut stream, "2", "!");
        assert!(reply.ends_with("shared!"), "{reply}");
    }
    let (status, stderr) = server.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn every_member_has_tests() {
    let carries = |member: &&dyn Architecture| {
        member.about().gives.straight_line && member.about().gives.concurrent_connections
    };
    let all = Registry::with(layouts::ALL).iter().filter(carries).map(Architecture::name);
    let tested: BTreeSet<&str> = MEMBERS.iter().copied().collect();
    assert_eq!(tested, all.collect());
}

/// Runs a test of a member, unless this machine lacks what it needs.
fn run(member: &[&str], test: fn(&[&str])) {
    let architecture = Registry::with(layouts::ALL).named(member[0]).unwrap();
    match architecture.unavailable(&Options::default()) {
        Some(reason) => skip(format_args!("{}: {reason}", member[0])),
        None => test(member),
    }
}

fn command(member: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_application"));
    command.args(["serve", "--listen=127.0.0.1:0", "--architecture"]).args(member);
    command
}

fn serve(member: &[&str]) -> ServerProcess {
    ServerProcess::start(&mut command(member))
}

fn get(path: &str, server: &ServerProcess) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.address())
}

/// Sends a request, and reads its reply up to the known end.
fn ask(stream: &mut TcpStream, request: &str, end: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    read_until(stream, end)
}

fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let (mut reply, mut byte) = (String::new(), [0]);
    while !reply.ends_with(end) {
        let read = stream.read_exact(&mut byte);
        read.unwrap_or_else(|error| panic!("{error} after {reply:?}"));
        reply.push(byte[0].into());
    }
    reply
}

/// A reply without its date line.
fn undated(reply: &str) -> String {
    reply.split_inclusive("\r\n").filter(|line| !line.starts_with("date: ")).collect()
}

fn plain(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

fn answers_byte_for_byte(member: &[&str]) {
    let server = serve(member);
    let mut stream = server.connect();
    for _ in 0..3 {
        let reply = ask(&mut stream, &get("/", &server), "hello");
        assert_eq!(undated(&reply), plain("hello"));
    }
    // Larger than the buffers of a connection, in both directions.
    let body = "0123456789abcdef".repeat(1 << 14) + "the end";
    let post =
        format!("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut sending = stream.try_clone().unwrap();
    let sent = body.clone();
    let sender = std::thread::spawn(move || sending.write_all((post + &sent).as_bytes()).unwrap());
    let reply = read_until(&mut stream, "the end");
    sender.join().unwrap();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n";
    assert_eq!(undated(&reply), format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
    let reply = ask(&mut stream, &get("/none", &server), "content-length: 0\r\n");
    assert!(reply.starts_with("HTTP/1.1 404 Not Found\r\n"), "{reply}");
}

/// The end comes with the request, or while the application waits. `/spawned` waits for a task.
fn answers_a_client_that_has_ended_its_side(member: &[&str]) {
    let server = serve(member);
    for (path, end) in [("/", "hello"), ("/spawned", "slept"), ("/none", "\r\n\r\n")] {
        let mut stream = server.connect();
        stream.write_all(get(path, &server).as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 ") && reply.ends_with(end), "{path}: {reply:?}");
    }
}

fn gives_the_application_what_it_uses_of_tokio(member: &[&str]) {
    let server = serve(member);
    let mut stream = server.connect();
    let reply = ask(&mut stream, &get("/spawned", &server), "slept");
    assert_eq!(undated(&reply), plain("slept"));
    let reply = ask(&mut stream, &get("/outgoing", &server), "hello");
    assert_eq!(undated(&reply), plain("hello"));
}

fn gives_handlers_room_on_their_stacks(member: &[&str]) {
    let server = serve(member);
    let reply = ask(&mut server.connect(), &get("/deep", &server), "!");
    assert_eq!(undated(&reply), plain("262144 bytes!"));
}

fn tells_requests_of_their_client(member: &[&str]) {
    let server = serve(member);
    for _ in 0..2 {
        let mut stream = server.connect();
        let address = stream.local_addr().unwrap().to_string();
        for _ in 0..2 {
            let reply = ask(&mut stream, &get("/client", &server), "!");
            assert!(reply.ends_with(&format!("{address}!")), "{reply}");
        }
    }
}

/// Processes and threads of connections make the application for a connection. All other members
/// make it before they serve.
fn a_failing_application_ends_the_server(member: &[&str]) {
    let architecture = Registry::with(layouts::ALL).named(member[0]).unwrap();
    if architecture.about().forks || member[0] == "tokio-thread-per-connection" {
        return;
    }
    let output = finish(command(member).env("APPLICATION_FAILS", "1"));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the application cannot be made: as the test asks for"), "{stderr}");
    let announced = !output.stdout.is_empty();
    assert_eq!(announced, architecture.about().foreign_runtime.is_some(), "{stderr}");
}

/// What the application spawned when it was made outlives the first connection.
fn an_application_made_once_serves_all_connections(member: &[&str]) {
    let server = ServerProcess::start(command(member).env("APPLICATION_ONCE", "1"));
    let request = "POST /shared HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n";
    for _ in 0..3 {
        let streams = [server.connect(), server.connect()];
        for mut stream in streams {
            let reply = ask(&mut stream, request, "!");
            assert!(reply.ends_with("shared!"), "{reply}");
        }
    }
    server.signal(Signal::TERM);
    let (status, stderr) = server.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

fn a_drain_answers_what_is_under_way(member: &[&str]) {
    let server = serve(member);
    let (mut idle, mut busy) = (server.connect(), server.connect());
    ask(&mut idle, &get("/", &server), "hello");
    ask(&mut busy, &get("/until-drained", &server), "begun\n\r\n");
    server.signal(Signal::TERM);
    let mut rest = String::new();
    busy.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "11\r\nanswered in full\n\r\n0\r\n\r\n");
    idle.read_to_string(&mut rest).unwrap();
    let (status, stderr) = server.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

fn a_signal_in_mid_load_loses_nothing_that_had_come(member: &[&str]) {
    for round in 0..mid_load::drains() {
        let server = serve(member);
        let request = get("/", &server);
        let lost = mid_load::drain(&server, round, request.as_bytes(), b"hello");
        assert!(lost.is_empty(), "{member:?}, drain {round}: {lost:?}");
        let (status, stderr) = server.wait();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    }
}

fn counts_its_connections(member: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let stats = directory.path().join("stats.json");
    let server = ServerProcess::start(command(member).arg("--stats").arg(&stats));
    for _ in 0..5 {
        let mut stream = server.connect();
        ask(&mut stream, &get("/", &server), "hello");
    }
    server.signal(Signal::TERM);
    let (status, _) = server.wait();
    assert_eq!(status.code(), Some(0));
    let counted: Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
    for counter in ["connections_accepted", "connections_begun", "connections_ended"] {
        assert_eq!(counted[counter], 5, "{counter}: {counted}");
    }
    assert_eq!(counted["connections_now"], 0, "{counted}");
}

/// A full server refuses with a reply of HTTP, and serves again once a slot is free.
fn refuses_what_is_too_much(member: &[&str]) {
    if member[0] == "prefork" {
        // The limit of this member is the number of its workers. Further connections wait in the
        // accept queue.
        return;
    }
    // The cores share the limit.
    let cores = member.iter().find_map(|flag| flag.strip_prefix("--cores="));
    let most = cores.unwrap_or("1");
    let limit = [format!("--max-connections={most}"), "--when-full=shed".to_owned()];
    let server = ServerProcess::start(command(member).args(limit));
    let mut served = Vec::new();
    let mut refused = None;
    while refused.is_none() {
        let mut stream = server.connect();
        stream.write_all(get("/", &server).as_bytes()).unwrap();
        let reply = read_until(&mut stream, "\r\n");
        match reply.as_str() {
            "HTTP/1.1 200 OK\r\n" => served.push(stream),
            _ => refused = Some((reply, stream)),
        }
    }
    let (mut reply, mut stream) = refused.unwrap();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{reply}");
    assert!(served.len() <= most.parse().unwrap(), "{}", served.len());
    drop(served);
    eventually("a slot is free", || {
        let mut stream = server.connect();
        stream.write_all(get("/", &server).as_bytes()).unwrap();
        (read_until(&mut stream, "\r\n") == "HTTP/1.1 200 OK\r\n").then_some(())
    });
}

fn a_panic_closes_its_connection_only(member: &[&str]) {
    let server = serve(member);
    let (mut other, mut broken) = (server.connect(), server.connect());
    ask(&mut other, &get("/", &server), "hello");
    broken.write_all(get("/panics", &server).as_bytes()).unwrap();
    let mut rest = String::new();
    broken.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    ask(&mut other, &get("/", &server), "hello");
    server.signal(Signal::TERM);
    let (status, stderr) = server.wait();
    assert_eq!(status.code(), Some(0));
    assert!(stderr.contains("as the test asks for"), "{stderr}");
}
