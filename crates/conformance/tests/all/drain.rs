//! A drain loses no request that has come before the signal. The request may be in the buffer of a
//! connection that is served, or of a connection in the accept queue. Each reply comes whole. The
//! connection then ends, without a reset.
//!
//! `DUALITY_DRAINS=1000 cargo test -p duality-conformance --test drain mid_load` repeats each drain
//! 1,000 times.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use duality_conformance::{
    ServerProcess, architecture_called, eventually, for_every_architecture,
    for_every_architecture_of_straight_line_code, mid_load, runs_here,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";
/// The end of the reply.
const END: &[u8] = b"</p>\n";
const CLIENTS: usize = 20;

macro_rules! drains {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;
            drains! { @ requests_that_have_come_are_answered
                connections_in_the_accept_queue_are_answered
                a_signal_in_mid_load_loses_nothing_that_had_come }
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

for_every_architecture!(drains);

mod forms {
    macro_rules! forms {
        ($name:ident $architecture:expr) => {
            #[test]
            fn $name() {
                if super::runs_here(&$architecture) {
                    super::forms_that_have_come_are_kept(&$architecture);
                    super::a_body_that_is_coming_is_waited_for(&$architecture);
                }
            }
        };
    }
    super::for_every_architecture_of_straight_line_code!(forms);
}

fn serve(service: &str, architecture: &[&str], more: &[String]) -> ServerProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", service, "--listen=127.0.0.1:0", "--architecture"]);
    ServerProcess::start(command.args(architecture).args(more))
}

/// A server that stands still while its clients go on.
struct Stopped<'s> {
    server: &'s ServerProcess,
    processes: Vec<Pid>,
}

impl<'s> Stopped<'s> {
    fn new(server: &'s ServerProcess) -> Self {
        let pid = server.pid();
        let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        let children = read(&format!("/proc/{pid}/task/{pid}/children"));
        let number = |text: &str| Pid::from_raw(text.parse().ok()?);
        let own = number(&pid.to_string());
        let processes: Vec<_> =
            own.into_iter().chain(children.split_whitespace().filter_map(number)).collect();
        for &process in &processes {
            kill_process(process, Signal::STOP).unwrap();
            let file = format!("/proc/{}/stat", process.as_raw_nonzero());
            eventually("it has stopped", || read(&file).contains(") T ").then_some(()));
        }
        Self { server, processes }
    }

    /// Tells the server to drain, and lets it go on.
    fn drain(self) {
        self.server.signal(Signal::TERM);
        self.processes.iter().for_each(|&process| kill_process(process, Signal::CONT).unwrap());
    }
}

/// Reads the last reply, and expects the end of the connection.
fn expect_last(stream: &mut TcpStream, status: &[u8]) {
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert!(reply.starts_with(status), "{:?}", String::from_utf8_lossy(&reply));
}

fn expect_the_end(server: ServerProcess) {
    let (status, stderr) = server.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

/// The number of connections that the server serves at a time.
fn served_at_a_time(architecture: &[&str]) -> usize {
    let workers = architecture.iter().find_map(|flag| flag.strip_prefix("--workers="));
    let workers = workers.map(|workers| workers.parse().unwrap());
    let places = architecture_called(architecture[0]).places(&Default::default());
    workers.or(places).unwrap_or(CLIENTS).min(CLIENTS)
}

fn requests_that_have_come_are_answered(architecture: &[&str]) {
    let server = serve("http", architecture, &[]);
    let served = served_at_a_time(architecture);
    let mut clients: Vec<_> = (0..served).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.write_all(GET).unwrap();
        mid_load::announces_the_end(client, END).unwrap();
    }
    let stopped = Stopped::new(&server);
    // These clients connect now: while the server ran, others would give way to them.
    clients.extend((served..CLIENTS).map(|_| server.connect()));
    for client in &mut clients {
        client.write_all(GET).unwrap();
    }
    stopped.drain();
    for client in &mut clients {
        expect_last(client, b"HTTP/1.1 200 ");
    }
    expect_the_end(server);
}

fn connections_in_the_accept_queue_are_answered(architecture: &[&str]) {
    let server = serve("http", architecture, &[]);
    let stopped = Stopped::new(&server);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.write_all(GET).unwrap();
    }
    stopped.drain();
    for client in &mut clients {
        expect_last(client, b"HTTP/1.1 200 ");
    }
    expect_the_end(server);
}

/// Head and body come separately, and both are there when the signal comes.
fn forms_that_have_come_are_kept(architecture: &[&str]) {
    let folder = TempDir::new().unwrap();
    let store = format!("--store=sqlite:{}", folder.path().join("book").display());
    let server = serve("guestbook", architecture, &[store]);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    let stopped = Stopped::new(&server);
    for client in &mut clients {
        let form = b"guest-name=Ada&guest-remarks=hello";
        let head = format!(
            "POST /guestbook HTTP/1.1\r\nHost: test\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n",
            form.len()
        );
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(form).unwrap();
    }
    stopped.drain();
    for client in &mut clients {
        expect_last(client, b"HTTP/1.1 303 ");
    }
    expect_the_end(server);
}

/// The server has read the head, and waits for the body, when it is asked to drain.
fn a_body_that_is_coming_is_waited_for(architecture: &[&str]) {
    let has_metrics = architecture != ["handwritten"];
    let metrics: Vec<_> =
        has_metrics.then(|| "--metrics=127.0.0.1:0".to_owned()).into_iter().collect();
    let mut server = serve("http", architecture, &metrics);
    let metrics = has_metrics.then(|| {
        let line = server.complaints().next("it says where its metrics are");
        line.split("http://")
            .nth(1)
            .and_then(|rest| rest.split('/').next())
            .expect(&line)
            .to_owned()
    });
    let mut client = server.connect();
    let head = "POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n";
    client.write_all(head.as_bytes()).unwrap();
    let mut interim = [0; 25];
    client.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"abc").unwrap();
    server.signal(Signal::TERM);
    eventually("it drains", || match &metrics {
        None => TcpStream::connect(server.address()).is_err().then_some(()),
        Some(address) => {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
            std::io::read_to_string(stream).unwrap().contains("draining").then_some(())
        }
    });
    client.write_all(b"def").unwrap();
    let reply = std::io::read_to_string(client).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("abcdef"), "{reply}");
    assert!(server.wait().0.success());
}

#[test]
fn handwritten_waits_for_a_body_too() {
    a_body_that_is_coming_is_waited_for(&["handwritten"]);
}

fn a_signal_in_mid_load_loses_nothing_that_had_come(architecture: &[&str]) {
    for round in 0..mid_load::drains() {
        let server = serve("http", architecture, &[]);
        let lost = mid_load::drain(&server, round, GET, END);
        assert!(lost.is_empty(), "{architecture:?}, drain {round}: {lost:?}");
        expect_the_end(server);
    }
}
