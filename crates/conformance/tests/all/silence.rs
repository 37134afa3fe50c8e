//! Tests clients that hold the threads of a server and do not use them. These clients are silent or
//! idle, or send a byte now and then. The server still serves other clients within
//! [`PATIENCE`](duality_conformance::PATIENCE). The services alone would wait far longer.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use duality_conformance::{
    ServerProcess, architecture_called, for_every_architecture_of_straight_line_code, runs_here,
};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";
const CROWD: usize = 30;

macro_rules! silence {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;
            silence! { @ silent_connections_give_way
                silent_connections_without_a_time_limit_give_way
                idle_connections_give_way
                connections_that_drip_give_way
                a_reply_on_its_way_keeps_its_place }
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

for_every_architecture_of_straight_line_code!(silence);

/// A server with few places, and the number of its places.
fn serve(service: &str, architecture: &[&str]) -> (ServerProcess, usize) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", service, "--listen=127.0.0.1:0", "--architecture"]).args(architecture);
    let workers = architecture.iter().find_map(|flag| flag.strip_prefix("--workers="));
    let places = match (workers, architecture_called(architecture[0]).places(&Default::default())) {
        (Some(workers), _) => workers.parse().unwrap(),
        (None, Some(100)) => {
            command.arg("--workers=2");
            2
        }
        (None, places) => places.unwrap_or(0),
    };
    (ServerProcess::start(&mut command), places)
}

fn ask(stream: &mut TcpStream) {
    stream.write_all(GET).unwrap();
    expect_pages(stream, 1);
}

/// The kernel does not restart a read with a time limit. The end of a ring that this process tried
/// interrupts its threads.
fn uninterrupted(mut read: impl FnMut() -> io::Result<usize>) -> usize {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read.unwrap(),
        }
    }
}

fn expect_pages(stream: &mut TcpStream, count: usize) {
    let (mut page, mut buffer, mut found) = (Vec::new(), [0; 16 << 10], 0);
    while found < count {
        match uninterrupted(|| stream.read(&mut buffer)) {
            0 => panic!("the connection ended after {found} pages"),
            length => page.extend_from_slice(&buffer[..length]),
        }
        let end = b"</p>\n";
        while let Some(at) = page.windows(end.len()).position(|bytes| bytes == end) {
            assert!(page.starts_with(b"HTTP/1.1 200 "));
            page.drain(..at + end.len());
            found += 1;
        }
    }
}

fn silent_connections_give_way(architecture: &[&str]) {
    let (server, places) = serve("http", architecture);
    let _silent: Vec<_> = (0..places + CROWD).map(|_| server.connect()).collect();
    ask(&mut server.connect());
}

fn silent_connections_without_a_time_limit_give_way(architecture: &[&str]) {
    let (server, places) = serve("echo", architecture);
    let _silent: Vec<_> = (0..places + CROWD).map(|_| server.connect()).collect();
    let mut client = server.connect();
    client.write_all(b"hello").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
}

fn idle_connections_give_way(architecture: &[&str]) {
    let (server, places) = serve("http", architecture);
    // No client closes before all clients have answers.
    let mut clients = Vec::new();
    for _ in 0..places + CROWD / 2 {
        let mut client = server.connect();
        ask(&mut client);
        clients.push(client);
    }
}

fn connections_that_drip_give_way(architecture: &[&str]) {
    let (server, places) = serve("http", architecture);
    let mut drips: Vec<_> = (0..places + CROWD).map(|_| server.connect()).collect();
    let mut client = server.connect();
    thread::scope(|scope| {
        let (end, ended) = channel::<()>();
        scope.spawn(move || {
            let mut heads = GET[..GET.len() - 2].iter().chain(b"X: y".iter().cycle());
            while ended.recv_timeout(Duration::from_millis(500)) == Err(RecvTimeoutError::Timeout) {
                let byte = *heads.next().unwrap();
                // The server ends these connections.
                drips.iter_mut().for_each(|drip| drop(drip.write_all(&[byte])));
            }
        });
        let _end = end;
        ask(&mut client);
    });
}

/// The client does not read, and its reply is longer than the client's own buffers. So the server
/// has written the reply and waits for the next request, while bytes are still on their way.
fn a_reply_on_its_way_keeps_its_place(architecture: &[&str]) {
    const PAGES: usize = 900;
    let (server, places) = serve("http", architecture);
    if places == 1 {
        return;
    }
    let mut client = server.connect();
    client.write_all(&GET.repeat(PAGES)).unwrap();
    // The server serves this client before the others come.
    uninterrupted(|| client.peek(&mut [0]));
    let _silent: Vec<_> = (0..places + CROWD).map(|_| server.connect()).collect();
    ask(&mut server.connect());
    expect_pages(&mut client, PAGES);
    ask(&mut client);
}
