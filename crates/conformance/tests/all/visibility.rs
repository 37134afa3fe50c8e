//! Tests the visible state of a server. Counters equal the work done. Dumps list each task and its
//! wait. Stalls name the task that held the loop. The server goes on serving.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use duality_architectures::{Options, World};
use duality_conformance::{
    ServerProcess, architecture_called, eventually, for_every_architecture_of_straight_line_code,
    runs_here,
};
use rustix::process::Signal;
use tempfile::TempDir;

macro_rules! visibility {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;
            visibility! { @ counters_equal_what_was_done
                a_dump_names_a_connection_that_waits
                the_server_survives_any_number_of_dumps }
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

for_every_architecture_of_straight_line_code!(visibility);

/// The server has no tasks. The server refuses flags about tasks, and the signal does no harm.
#[test]
fn handwritten_has_nothing_to_tell() {
    for flag in [
        "--stats=-",
        "--dump=/dev/null",
        "--stall=100ms",
        "--records=/dev/null.csv",
        "--graph=/dev/null.json",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
        let refused = command.args(["serve", "echo", "--architecture=handwritten", flag]).output();
        let refused = refused.unwrap();
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{stderr}");
        let name = flag.split_once('=').unwrap().0;
        assert!(stderr.contains(&format!("{name}: handwritten has no tasks")), "{stderr}");
    }
    let server = serve(&["handwritten"], &[]);
    let mut stream = server.connect();
    for _ in 0..20 {
        server.signal(Signal::USR1);
        get(&mut stream);
    }
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";

fn serve(architecture: &[&str], more: &[&str]) -> ServerProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "http", "--listen=127.0.0.1:0", "--architecture"]);
    ServerProcess::start(command.args(architecture).args(more))
}

/// The number called `name` in a line of counters.
fn counter(line: &str, name: &str) -> u64 {
    let label = format!("\"{name}\":");
    let start = line.find(&label).unwrap_or_else(|| panic!("{name} is in {line}")) + label.len();
    let digits = line[start..].split(|character: char| !character.is_ascii_digit()).next();
    digits.unwrap().parse().unwrap()
}

/// Asks for the page and reads the whole reply. Returns its length.
fn get(stream: &mut TcpStream) -> u64 {
    stream.write_all(REQUEST).unwrap();
    let mut reply = Vec::new();
    let mut byte = [0];
    while !reply.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        reply.push(byte[0]);
    }
    let head = String::from_utf8(reply).unwrap();
    let length = head.split_once("Content-Length: ").unwrap().1;
    let length: u64 = length.split_once("\r\n").unwrap().0.parse().unwrap();
    let body = Read::by_ref(stream).take(length).read_to_end(&mut Vec::new()).unwrap();
    head.len() as u64 + body as u64
}

fn counters_equal_what_was_done(architecture: &[&str]) {
    const CONNECTIONS: u64 = 5;
    const REQUESTS: u64 = 7;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stats");
    let server = serve(architecture, &["--stats", file.to_str().unwrap()]);
    let mut written = 0;
    for _ in 0..CONNECTIONS {
        let mut stream = server.connect();
        for _ in 0..REQUESTS {
            written += get(&mut stream);
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(std::io::read_to_string(&mut stream).unwrap(), "");
    }
    server.signal(Signal::TERM);
    let (status, stderr) = server.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    let line = fs::read_to_string(file).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    let count = |name| counter(&line, name);
    assert_eq!(count("version"), 1);
    assert_eq!(count("connections_accepted"), CONNECTIONS);
    assert_eq!(count("connections_begun"), CONNECTIONS);
    assert_eq!(count("connections_ended"), CONNECTIONS);
    assert_eq!(count("connections_now"), 0);
    assert_eq!(count("tasks_now"), 0);
    assert_eq!(count("tasks_created"), count("tasks_ended"));
    assert!(count("tasks_created") >= CONNECTIONS);
    match architecture[0] {
        "threads" => assert_eq!(count("threads_created"), CONNECTIONS),
        "fork" => assert_eq!(count("processes_created"), CONNECTIONS),
        _ => {}
    }
    assert_eq!(count("read_bytes"), CONNECTIONS * REQUESTS * REQUEST.len() as u64);
    assert_eq!(count("written_bytes"), written);
    // The attempts are a read and a write for each request, if the reads were not cut, and the
    // reads that saw the end.
    assert!(count("attempts") >= CONNECTIONS * (2 * REQUESTS + 1), "{line}");
    // The stages are one for each request, one for the end, and one for the first reply of a
    // connection. Later replies repeat this stage. The architecture has further stages.
    assert!(count("stages") >= CONNECTIONS * (REQUESTS + 2), "{line}");
    assert!(count("task_state_allocated_bytes") > 0, "{line}");
    // The speed of the clients decides how often a loop finds no work.
    for name in ["switches", "poller_rounds"] {
        assert_eq!(count(name) > 0, has_loop(architecture), "{name} in {line}");
    }
    assert_eq!(count("uncounted_threads"), 0);
}

fn a_dump_names_a_connection_that_waits(architecture: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dump");
    let stats = directory.path().join("stats");
    let files = ["--dump", file.to_str().unwrap(), "--stats", stats.to_str().unwrap()];
    let server = serve(architecture, &files);
    let mut stream = server.connect();
    get(&mut stream);
    let client = stream.local_addr().unwrap();
    // The server may not wait again yet.
    let found = eventually("the connection is seen to wait", || {
        let dump = dump(&server, &file);
        let waits = |line: &&str| {
            line.contains("stage http: request, waits for ") && line.contains(" s to read ")
        };
        dump.lines().find(waits).map(|line| (line.to_owned(), dump.clone()))
    });
    let (line, dump) = found;
    assert!(line.contains(" descriptor "), "{dump}");
    // The dump may not see the sockets of another process.
    let kind = architecture_called(architecture[0]);
    let forks = kind.about().forks;
    assert!(forks || line.contains(&format!("({client})")), "{client}: {dump}");
    assert_eq!(line.contains("process "), forks, "{dump}");
    assert_eq!(line.contains("; stack "), kind.about().world == Some(World::Park), "{dump}");
    if kind.about().world == Some(World::Park) {
        assert!(dump.contains("services/src/http/wire.rs:"), "{dump}");
    }
    get(&mut stream);
    drop(stream);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0));
    let line = fs::read_to_string(stats).unwrap();
    // The connection was seen to wait, so its second request came by an event.
    assert_eq!(counter(&line, "poller_events") > 0, has_loop(architecture), "{line}");
}

fn has_loop(architecture: &[&str]) -> bool {
    architecture_called(architecture[0]).poller(&Options::default()).is_some()
}

/// Asks for a dump, and returns the text.
fn dump(server: &ServerProcess, file: &Path) -> String {
    let before = fs::read_to_string(file).unwrap().len();
    server.signal(Signal::USR1);
    eventually("a dump", || {
        // An earlier dump may still end here.
        let text = fs::read_to_string(file).unwrap().split_off(before);
        let dump = &text[text.find("duality: dump of process ")?..];
        dump.ends_with("duality: end of the dump\n").then(|| dump.to_owned())
    })
}

fn the_server_survives_any_number_of_dumps(architecture: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dump");
    let server = serve(architecture, &["--dump", file.to_str().unwrap()]);
    let mut stream = server.connect();
    for _ in 0..200 {
        server.signal(Signal::USR1);
        get(&mut stream);
    }
    drop(stream);
    let dump = dump(&server, &file);
    assert!(dump.starts_with("duality: dump of process "), "{dump}");
    server.signal(Signal::TERM);
    let (status, stderr) = server.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

/// A walk along a stack needs some room on that stack. A full stack gets no walk.
#[test]
fn a_dump_leaves_small_stacks_whole() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dump");
    let more = ["--stack-size=16K", "--dump", file.to_str().unwrap()];
    let server = serve(&["uthreads"], &more);
    let mut stream = server.connect();
    get(&mut stream);
    let dump = dump(&server, &file);
    let connection = dump.lines().find(|line| line.contains("stage http: ")).unwrap_or_default();
    assert!(!connection.is_empty(), "{dump}");
    get(&mut stream);
}

#[test]
fn counters_come_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stats");
    let server = serve(&["epoll"], &["--stats", file.to_str().unwrap(), "--stats-every=10ms"]);
    get(&mut server.connect());
    eventually("lines that know of the connection", || {
        let lines = fs::read_to_string(&file).unwrap();
        let whole = lines.lines().filter(|line| line.ends_with('}'));
        (whole.filter(|line| counter(line, "connections_accepted") == 1).count() > 3).then_some(())
    });
}

/// A service that spins until it is let go.
fn spinning(architecture: &[&str], more: &[&str]) -> (ServerProcess, TempDir) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spinning"));
    command.args(["serve", "--listen=127.0.0.1:0", "--architecture"]);
    (ServerProcess::start(command.args(architecture).args(more)), tempfile::tempdir().unwrap())
}

#[test]
fn a_stall_is_told_while_it_lasts_and_when_it_is_over() {
    for architecture in [&["epoll"][..], &["uthreads"], &["epoll", "--cores=2"]] {
        let (mut server, directory) = spinning(architecture, &["--stall=20ms"]);
        let lines = server.complaints();
        let release = directory.path().join("go");
        let mut spinner = server.connect();
        writeln!(spinner, "{}", release.display()).unwrap();
        let stall = lines.next("a stall");
        assert!(stall.starts_with("duality: stall: task "), "{stall}");
        assert!(stall.contains(", stage spin, has held its loop (thread "), "{stall}");
        fs::write(&release, "").unwrap();
        let over = lines.next("its end");
        assert!(over.starts_with("duality: stall over: task "), "{over}");
        assert!(over.contains(", stage spin, held its loop (thread "), "{over}");
        let mut answer = [0; 5];
        spinner.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"done\n");
    }
}

#[test]
fn a_loop_that_is_held_is_named_in_a_dump() {
    let (server, directory) = spinning(&["epoll"], &[]);
    let (server, lines) = {
        let mut server = server;
        let lines = server.complaints();
        (server, lines)
    };
    let release = directory.path().join("go");
    let mut spinner = server.connect();
    writeln!(spinner, "{}", release.display()).unwrap();
    eventually("the dump names the task", || {
        server.signal(Signal::USR1);
        let mut named = false;
        loop {
            let line = lines.next("a dump");
            named |= line.contains("does not answer: task ") && line.contains("stage spin");
            if line == "duality: end of the dump" {
                return named.then_some(());
            }
        }
    });
    fs::write(&release, "").unwrap();
    spinner.read_exact(&mut [0; 5]).unwrap();
}
