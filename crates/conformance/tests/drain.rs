//! A drain loses no request that has come before the signal. The request may be in the buffer of a
//! connection that is served, or of a connection in the accept queue. Each reply comes whole. The
//! connection then ends, without a reset.
//!
//! `DUALITY_DRAINS=1000 cargo test -p duality-conformance --test drain mid_load` repeats each drain
//! 1,000 times.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use duality_conformance::{
    ServerProcess, architecture_called, eventually, for_every_architecture,
    for_every_architecture_of_straight_line_code, runs_here,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";
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

/// Reads a reply. Returns whether the reply announces the end of the connection.
fn read_page(stream: &mut TcpStream) -> std::io::Result<bool> {
    let mut reply = Vec::new();
    let mut buffer = [0; 1024];
    while !reply.ends_with(b"</p>\n") {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => reply.extend_from_slice(&buffer[..count]),
            // The kernel does not restart a read with a time limit. The end of a ring that this
            // process tried interrupts its threads.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let reply = String::from_utf8(reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    Ok(reply.contains("\r\nConnection: close\r\n"))
}

/// Reads the last reply, and expects the end of the connection.
fn expect_last(stream: &mut TcpStream, status: &[u8]) {
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert!(reply.starts_with(status), "{:?}", String::from_utf8_lossy(&reply));
}

fn expect_the_end(server: ServerProcess) {
    let (status, said) = server.wait();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
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
        read_page(client).unwrap();
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

fn a_signal_in_mid_load_loses_nothing_that_had_come(architecture: &[&str]) {
    let drains = std::env::var("DUALITY_DRAINS").map_or(2, |count| count.parse().unwrap());
    for round in 0..drains {
        let server = serve("http", architecture, &[]);
        let signalled = Mutex::new(None);
        let lost = thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|_| {
                    let mut stream = server.connect();
                    scope.spawn(move || ask_until_the_end(&mut stream))
                })
                .collect();
            // The signal comes at any moment.
            for _ in 0..round * 7 % 100 {
                thread::yield_now();
            }
            *signalled.lock().unwrap() = Some(Instant::now());
            server.signal(Signal::TERM);
            let ends = clients.into_iter().map(|client| client.join().unwrap());
            ends.flatten().collect::<Vec<_>>()
        });
        let signalled = signalled.into_inner().unwrap().unwrap();
        let lost: Vec<_> = lost.iter().filter(|(sent, _)| *sent < signalled).collect();
        assert!(lost.is_empty(), "{architecture:?}, drain {round}: {lost:?}");
        expect_the_end(server);
    }
}

/// Asks again and again. Returns the time of the request that got no answer, and the error.
fn ask_until_the_end(stream: &mut TcpStream) -> Option<(Instant, String)> {
    loop {
        if stream.write_all(GET).is_err() {
            return None;
        }
        let sent = Instant::now();
        match read_page(stream) {
            Ok(false) => {}
            // A reply announces the end at a drain, or after 1,000 requests.
            Ok(true) => return None,
            Err(error) => return Some((sent, error.to_string())),
        }
    }
}
