//! Tests metrics, the access log, SIGHUP, and limits for each client address, under every
//! architecture. docs/operations.md describes them.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use duality_conformance::{
    PATIENCE, ServerProcess, architecture_called, eventually, for_every_architecture,
    for_every_architecture_of_straight_line_code, runs_here, skip,
};
use rustix::process::Signal;
use serde_json::Value;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";
const LAST: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";

macro_rules! of_straight_line_code {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;
            of_straight_line_code! { @ metrics_count_what_was_done
                the_access_log_has_a_line_for_each_request }
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

for_every_architecture_of_straight_line_code!(of_straight_line_code);

mod all {
    macro_rules! all {
        ($name:ident $architecture:expr) => {
            mod $name {
                const ARCHITECTURE: &[&str] = &$architecture;
                all! { @ a_reload_reads_the_root_again
                    an_address_has_no_more_connections_than_it_may
                    an_address_opens_connections_no_faster_than_it_may
                    a_new_connection_may_send_its_request_during_a_drain }
            }
        };
        (@ $($body:ident)*) => {
            $(#[test] fn $body() {
                if super::super::runs_here(ARCHITECTURE) {
                    super::super::$body(ARCHITECTURE);
                }
            })*
        };
    }
    super::for_every_architecture!(all);
}

fn serve(architecture: &[&str], more: &[&str]) -> ServerProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "http", "--listen=127.0.0.1:0", "--architecture"]);
    ServerProcess::start(command.args(architecture).args(more))
}

/// Asks at an address, and returns the whole reply.
fn ask(address: SocketAddr, request: &[u8]) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request)?;
    io::read_to_string(stream)
}

fn get(address: SocketAddr, path: &str) -> String {
    ask(address, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap()
}

/// The address of the metrics, as a server that has just started prints it.
fn metrics_address(server: &mut ServerProcess) -> SocketAddr {
    let line = server.complaints().next("it says where its metrics are");
    let address = line.strip_prefix("metrics at http://").and_then(|rest| rest.split('/').next());
    address.expect(&line).parse().unwrap()
}

/// The sum of the samples of this name.
fn sample(page: &str, name: &str) -> f64 {
    let samples = page.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    samples.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

fn metrics_count_what_was_done(architecture: &[&str]) {
    let mut server = serve(architecture, &["--metrics=127.0.0.1:0"]);
    let metrics = metrics_address(&mut server);
    assert!(get(metrics, "/healthz").starts_with("HTTP/1.1 200 OK\r\n"));
    for _ in 0..4 {
        let reply = String::from_utf8(server.ask(&[GET, GET, LAST].concat())).unwrap();
        assert_eq!(reply.matches("HTTP/1.1 200 OK\r\n").count(), 3, "{reply}");
    }
    let page = eventually("all is counted", || {
        let page = get(metrics, "/metrics");
        let open = sample(&page, "duality_connections_open");
        (open == 0.0 && sample(&page, "duality_requests_total") == 12.0).then_some(page)
    });
    assert!(page.contains("\r\nContent-Type: text/plain; version=0.0.4"), "{page}");
    assert_eq!(sample(&page, "duality_connections_accepted_total"), 4.0);
    assert_eq!(sample(&page, "duality_request_duration_seconds_count"), 12.0);
    assert!(sample(&page, "duality_request_duration_seconds_sum") > 0.0);
    assert!(sample(&page, "duality_process_cpu_seconds_total") > 0.0);
    assert_eq!(sample(&page, "duality_connections_refused_total"), 0.0);
    let label = format!("architecture=\"{}\",service=\"http\"", architecture[0]);
    assert!(page.contains(&label), "{page}");
    check_with_promtool(page.split_once("\r\n\r\n").unwrap().1);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0));
}

/// Checks that Prometheus's own checker has no complaint.
fn check_with_promtool(page: &str) {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut promtool) = command.stdout(Stdio::piped()).spawn() else {
        return skip(format_args!("promtool is missing (package prometheus)"));
    };
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let checked = promtool.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && stderr.is_empty(), "{stderr}\n{page}");
}

/// Tests the page of queues, and the health of a server that drains.
#[test]
fn queues_are_shown_and_a_drain_is_no_health() {
    let mut server = serve(&["staged"], &["--metrics=127.0.0.1:0"]);
    let metrics = metrics_address(&mut server);
    // A drain waits for the first bytes of this connection.
    let mut idle = server.connect();
    server.ask(LAST);
    let page = get(metrics, "/metrics");
    assert!(sample(&page, "duality_queue_executed_total") > 0.0, "{page}");
    assert!(page.contains("duality_queue_length{"), "{page}");
    check_with_promtool(page.split_once("\r\n\r\n").unwrap().1);
    server.signal(Signal::TERM);
    // The server may end before the question.
    let health = eventually("it drains", || {
        let health = ask(metrics, b"GET /healthz HTTP/1.1\r\n\r\n").unwrap_or_default();
        (!health.starts_with("HTTP/1.1 200 ")).then_some(health)
    });
    assert!(health.is_empty() || health.contains("draining\n"), "{health}");
    assert_eq!(idle.read(&mut [0]).unwrap(), 0);
    assert_eq!(server.wait().0.code(), Some(0));
}

/// A line of the log, without the parts that differ between runs.
fn asked(line: &str) -> (u64, u64, String, u64) {
    let line: Value = serde_json::from_str(line).expect(line);
    let number = |name: &str| line[name].as_u64().unwrap_or_else(|| panic!("{name}: {line}"));
    for time in ["ts", "rt"] {
        assert!(line[time].as_f64().is_some_and(|time| time >= 0.0), "{line}");
    }
    assert_eq!(line["p"], "HTTP/1.1", "{line}");
    assert!(line["rtt"].as_str().unwrap().parse::<u64>().is_ok(), "{line}");
    let what = format!("{} {}", line["m"].as_str().unwrap(), line["u"].as_str().unwrap());
    (number("n"), number("s"), what, number("b"))
}

fn the_access_log_has_a_line_for_each_request(architecture: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("page.txt"), "hello\n").unwrap();
    let log = folder.path().join("access.log");
    let (root, file) = (root.to_str().unwrap(), log.to_str().unwrap());
    let mut server = serve(architecture, &["--access-log", file, "--root", root]);
    let complaints = server.complaints();
    let request = |line: &str| format!("{line} HTTP/1.1\r\nHost: test\r\n\r\n").into_bytes();
    let both = [request("GET /page.txt"), request("HEAD /page.txt?a=\"b\"")].concat();
    assert!(server.ask(&both).starts_with(b"HTTP/1.1 200 OK"));
    let lines = |file: &Path, count: usize| {
        eventually("the log is written", || {
            let text = fs::read_to_string(file).unwrap_or_default();
            (text.lines().count() == count && text.ends_with('\n')).then_some(text)
        })
    };
    lines(&log, 2);
    // Renames the log as logrotate(8) does.
    let old = folder.path().join("access.log.1");
    fs::rename(&log, &old).unwrap();
    server.signal(Signal::HUP);
    assert!(complaints.next("it reloads").contains("SIGHUP: opening logs"));
    eventually("there is a new log", || log.exists().then_some(()));
    assert!(server.ask(&request("GET /none")).starts_with(b"HTTP/1.1 404 "));
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0));
    let (old, new) = (lines(&old, 2), lines(&log, 1));
    let asked: Vec<_> = old.lines().chain(new.lines()).map(asked).collect();
    assert_eq!(asked[0], (1, 200, "GET /page.txt".to_owned(), 6));
    assert_eq!(asked[1], (2, 200, "HEAD /page.txt?a=\"b\"".to_owned(), 0));
    assert_eq!((asked[2].0, asked[2].1, &*asked[2].2), (1, 404, "GET /none"));
}

/// With a full disk, the server answers requests, and tells the operator.
#[test]
fn lines_that_cannot_be_written_are_told() {
    let mut server = serve(&["epoll"], &["--access-log=/dev/full"]);
    let complaints = server.complaints();
    assert!(server.ask(LAST).starts_with(b"HTTP/1.1 200 OK"));
    let line = complaints.next("the lines are lost");
    assert!(line.contains("--access-log: /dev/full: No space left on device"), "{line}");
    let line = complaints.next("they are counted");
    assert!(line.contains("--access-log: 1 lines were dropped"), "{line}");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn an_access_log_needs_a_service_that_describes_its_requests() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    let refused = command.args(["serve", "echo", "--access-log=/dev/null"]).output().unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("--access-log: echo does not describe its requests"), "{stderr}");
}

fn a_reload_reads_the_root_again(architecture: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for release in ["one", "two"] {
        fs::create_dir(path(release)).unwrap();
        fs::write(path(release).join("index.html"), release).unwrap();
    }
    symlink(path("one"), path("current")).unwrap();
    let server = serve(architecture, &["--root", path("current").to_str().unwrap()]);
    let page = || String::from_utf8(server.ask(LAST)).unwrap();
    assert!(page().ends_with("\r\n\r\none"));
    symlink(path("two"), path("next")).unwrap();
    fs::rename(path("next"), path("current")).unwrap();
    assert!(page().ends_with("\r\n\r\none"), "the old root is still open");
    server.signal(Signal::HUP);
    eventually("the new root is read", || page().ends_with("\r\n\r\ntwo").then_some(()));
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0));
}

/// The number of connections that the server serves at a time.
fn places(architecture: &[&str]) -> usize {
    let workers = architecture.iter().find_map(|flag| flag.strip_prefix("--workers="));
    let places = architecture_called(architecture[0]).places(&Default::default());
    workers.map(|workers| workers.parse().unwrap()).or(places).unwrap_or(usize::MAX)
}

fn an_address_has_no_more_connections_than_it_may(architecture: &[&str]) {
    if places(architecture) < 3 {
        return skip(format_args!("{}: too few connections at a time", architecture[0]));
    }
    let server = serve(architecture, &["--max-per-address=2"]);
    // The connections come one after the other: two threads that meet a new address at once may
    // count it separately.
    let kept = [(); 2].map(|()| {
        let mut stream = server.connect();
        stream.write_all(GET).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        stream
    });
    let reply = ask(server.address(), LAST).unwrap();
    assert!(reply.starts_with("HTTP/1.1 503 "), "{reply}");
    // Another address is another client.
    let other = ask_from([127, 0, 0, 9].into(), server.address());
    assert!(other.starts_with("HTTP/1.1 200 "), "{other}");
    let [one, _two] = kept;
    drop(one);
    eventually("there is room again", || {
        let reply = ask(server.address(), LAST).unwrap_or_default();
        reply.starts_with("HTTP/1.1 200 ").then_some(())
    });
}

/// Asks from another address of this machine.
fn ask_from(source: std::net::IpAddr, address: SocketAddr) -> String {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    bind(&socket, &SocketAddr::new(source, 0)).unwrap();
    connect(&socket, &address).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(LAST).unwrap();
    io::read_to_string(stream).unwrap()
}

fn an_address_opens_connections_no_faster_than_it_may(architecture: &[&str]) {
    let server = serve(architecture, &["--rate-per-address=1"]);
    let reply = ask(server.address(), LAST).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    let code = |code: &str| {
        let begin = format!("HTTP/1.1 {code} ");
        eventually(code, || {
            let reply = ask(server.address(), LAST).unwrap_or_default();
            reply.starts_with(&begin).then_some(())
        });
    };
    // On a slow machine, a second may pass between two requests.
    code("503");
    code("200");
}

fn a_new_connection_may_send_its_request_during_a_drain(architecture: &[&str]) {
    let server = serve(architecture, &[]);
    let mut stream = server.connect();
    let signalled = Instant::now();
    server.signal(Signal::TERM);
    let sent = stream.write_all(LAST);
    // The server waits for a second.
    let in_time = signalled.elapsed() < Duration::from_millis(500);
    let mut reply = String::new();
    let read = stream.read_to_string(&mut reply);
    if in_time {
        sent.and(read.map(drop)).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200 "), "{reply:?}");
    }
    let (status, stderr) = server.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

/// script(1) gives the server a terminal, and the terminal ends with script(1).
#[test]
fn a_terminal_that_goes_away_drains() {
    let server = env!("CARGO_BIN_EXE_served");
    let command = format!("exec '{server}' serve http --listen=127.0.0.1:0");
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).stdin(Stdio::null());
    if Command::new("script").arg("--version").output().is_err() {
        return skip(format_args!("script(1) is missing (package bsdutils)"));
    }
    let terminal = ServerProcess::start(&mut script);
    let address = terminal.address();
    assert!(ask(address, LAST).unwrap().starts_with("HTTP/1.1 200 "));
    drop(terminal);
    eventually("the server ends", || TcpStream::connect(address).is_err().then_some(()));
}
