//! Small servers for the tests of the load generator, and loads on them.

#![allow(dead_code, reason = "each file of tests uses some of it")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use duality_load::{Expectation, Options, Report, Request, Script, Stop, Target, Values, run};

/// Starts a server that calls `handler` on a thread for each connection, with the number of the
/// connection, from 0; the probe is number 0.
pub(crate) fn server(handler: impl Fn(TcpStream, u64) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handler = Arc::new(handler);
    thread::spawn(move || {
        for (number, stream) in (0..).zip(listener.incoming()) {
            let (handler, stream) = (handler.clone(), stream.unwrap());
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || handler(stream, number));
        }
    });
    address
}

/// A server of HTTP that answers each request with what `answer` makes of it and of its number over
/// all connections. It closes the connection after an answer of `false`.
pub(crate) fn http_server(
    answer: impl Fn(&str, u64) -> (Vec<u8>, bool) + Send + Sync + 'static,
) -> SocketAddr {
    let count = AtomicU64::new(0);
    server(move |mut stream, _| {
        while let Some(request) = read_request(&mut stream) {
            let (reply, keep) = answer(&request, count.fetch_add(1, Ordering::Relaxed));
            if stream.write_all(&reply).is_err() || !keep {
                return;
            }
        }
    })
}

/// The head of the next request; `None` when the client has gone.
pub(crate) fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(count) => request.extend_from_slice(&piece[..count]),
        }
    }
    Some(String::from_utf8(request).unwrap())
}

pub(crate) fn reply(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A load of `requests` requests on `connections` connections.
pub(crate) fn options(target: Target, connections: usize, requests: u64) -> Options {
    Options {
        connections,
        stop: Stop::Requests(requests),
        warm_up: Duration::ZERO,
        ..Options::new(target)
    }
}

/// The request for a service if only its name is given.
pub(crate) fn target(service: &str, address: SocketAddr) -> Target {
    format!("{service}://{address}").parse().unwrap()
}

pub(crate) fn http(address: SocketAddr) -> Target {
    target("http", address)
}

pub(crate) fn load(options: &Options) -> Report {
    run(options, &mut (), &AtomicBool::new(false)).unwrap()
}

/// The only kind of error of a report, and how often it occurred.
pub(crate) fn only_error(report: &Report) -> (&str, u64) {
    assert_eq!(report.errors.len(), 1, "{:?}", report.errors);
    let (kind, count) = report.errors.first_key_value().unwrap();
    (kind, *count)
}

/// What a server has received: connections, and the requests of each.
#[derive(Clone, Default)]
pub(crate) struct Received(Arc<Mutex<BTreeMap<u64, Vec<String>>>>);

impl Received {
    pub(crate) fn add(&self, connection: u64, request: String) {
        self.0.lock().unwrap().entry(connection).or_default().push(request);
    }

    /// All requests but the probe's, which come on connection 0.
    pub(crate) fn of_load(&self) -> Vec<String> {
        let all = self.0.lock().unwrap();
        all.iter()
            .filter(|(connection, _)| **connection > 0)
            .flat_map(|(_, all)| all.clone())
            .collect()
    }

    /// All requests since the last call, in the order of their connections.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap()).into_values().flatten().collect()
    }

    /// The requests of each connection of the load.
    pub(crate) fn by_connection(&self) -> Vec<Vec<String>> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|(connection, _)| **connection > 0).map(|(_, all)| all.clone()).collect()
    }
}

/// Reads a request with its body; `None` when the client has gone.
pub(crate) fn read_whole(stream: &mut impl Read) -> Option<String> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let length = length.map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Some(text.into_owned());
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

/// A server that keeps what it receives. It ends a connection after a reply that says so, or if
/// the request does.
pub(crate) fn keeping(
    answer: impl Fn(&str, u64) -> Vec<u8> + Send + Sync + 'static,
) -> (SocketAddr, Received) {
    let received = Received::default();
    let (kept, count) = (received.clone(), AtomicU64::new(0));
    let address = server(move |mut stream, connection| {
        while let Some(request) = read_whole(&mut stream) {
            let is_last = request.contains("\r\nConnection: close\r\n");
            let reply = answer(&request, count.fetch_add(1, Ordering::Relaxed));
            let is_last = is_last || reply.starts_with(b"HTTP/1.0");
            kept.add(connection, request);
            if stream.write_all(&reply).is_err() || is_last {
                return;
            }
        }
    });
    (address, received)
}

pub(crate) fn script(
    requests: &[(u32, Request)],
    values: Option<&str>,
    expectation: Expectation,
) -> Script {
    let values = values.map(|text| Values::parse(text.as_bytes()).unwrap());
    Script::new(requests, values, expectation).unwrap()
}

pub(crate) fn expecting(statuses: &str, body: &str) -> Expectation {
    Expectation { statuses: statuses.parse().unwrap(), body: body.parse().unwrap() }
}

/// A load of this script.
pub(crate) fn asking(
    address: SocketAddr,
    script: Script,
    connections: usize,
    requests: u64,
) -> Options {
    options(http(address).with_script(script).unwrap(), connections, requests)
}
