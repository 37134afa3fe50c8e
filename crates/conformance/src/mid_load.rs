//! A drain in mid-load: clients ask again and again, and SIGTERM comes at any moment. A request is
//! lost if it was sent before the signal and got no reply.
//!
//! `DUALITY_DRAINS=1000` in the environment repeats each drain 1,000 times.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

use rustix::process::Signal;

use crate::ServerProcess;

const CLIENTS: usize = 8;

/// A request without a reply.
#[derive(Debug)]
pub struct Lost {
    sent: Instant,
    /// What the client met.
    pub error: String,
}

/// The number of drains that a test makes.
///
/// # Panics
///
/// Panics if `DUALITY_DRAINS` is no number.
#[must_use]
pub fn drains() -> usize {
    std::env::var("DUALITY_DRAINS").map_or(2, |count| count.parse().unwrap())
}

/// Drains the server while clients send `request`. Returns the requests that were sent before the
/// signal and are lost. A reply has status 200 and ends with `end`.
///
/// # Panics
///
/// Panics if no connection can be made, or a reply has another status.
#[must_use]
pub fn drain(server: &ServerProcess, round: usize, request: &[u8], end: &[u8]) -> Vec<Lost> {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let mut stream = server.connect();
                scope.spawn(move || ask_until_the_end(&mut stream, request, end))
            })
            .collect();
        // The signal comes at any moment.
        for _ in 0..round * 7 % 100 {
            thread::yield_now();
        }
        let signalled = Instant::now();
        server.signal(Signal::TERM);
        let lost = clients.into_iter().filter_map(|client| client.join().unwrap());
        lost.filter(|lost| lost.sent < signalled).collect()
    })
}

fn ask_until_the_end(stream: &mut TcpStream, request: &[u8], end: &[u8]) -> Option<Lost> {
    loop {
        if stream.write_all(request).is_err() {
            return None;
        }
        let sent = Instant::now();
        match announces_the_end(stream, end) {
            Ok(false) => {}
            // A reply announces the end at a drain, or after 1,000 requests.
            Ok(true) => return None,
            Err(error) => return Some(Lost { sent, error: error.to_string() }),
        }
    }
}

/// Reads a reply with status 200 that ends with `end`. Returns whether the reply announces the end
/// of the connection.
///
/// # Errors
///
/// Those of the socket; `UnexpectedEof` if the connection ends before the reply does.
///
/// # Panics
///
/// Panics if the reply has another status.
pub fn announces_the_end(stream: &mut TcpStream, end: &[u8]) -> std::io::Result<bool> {
    let mut reply = Vec::new();
    let mut buffer = [0; 1024];
    while !reply.ends_with(end) {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => reply.extend_from_slice(&buffer[..count]),
            // The kernel does not restart a read with a time limit. The end of a ring that this
            // process tried interrupts its threads.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let reply = String::from_utf8(reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    Ok(reply.to_ascii_lowercase().contains("\r\nconnection: close\r\n"))
}
