//! Serial and limited parallelism, seen from the server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use duality_load::{Arrivals, Error, Options, Pattern, Target, run};

use crate::common::{http, http_server, load, options, reply, server, target};

/// Patterns that use connections in order.
const IN_ORDER: [Pattern; 2] = [Pattern::Serial, Pattern::Limited];

fn echo(address: SocketAddr) -> Target {
    Target::echo(address, b"ping".to_vec())
}

/// The next request; `false` when the client has gone.
fn read_ping(stream: &mut TcpStream) -> bool {
    let mut request = [0; 4];
    let read = stream.read_exact(&mut request).is_ok();
    assert!(!read || &request == b"ping");
    read
}

#[test]
fn serial_has_one_request_under_way_at_a_time_on_each_connection_in_turn() {
    let under_way = AtomicU64::new(0);
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let address = server(move |mut stream, connection| {
        while read_ping(&mut stream) {
            assert_eq!(under_way.fetch_add(1, Ordering::SeqCst), 0);
            seen.lock().unwrap().push(connection);
            // Gives other clients time to make their requests.
            (0..20).for_each(|_| thread::yield_now());
            assert_eq!(under_way.fetch_sub(1, Ordering::SeqCst), 1);
            if stream.write_all(b"ping").is_err() {
                return;
            }
        }
    });
    let report = load(&Options { pattern: Pattern::Serial, ..options(echo(address), 5, 203) });
    assert_eq!((report.requests, report.errors.len()), (203, 0), "{:?}", report.errors);
    assert_eq!((report.connections_opened, report.connections_served), (5, 5));
    assert!(report.measured_load <= 1.0 + 1e-6, "{}", report.measured_load);
    assert!(report.render_text().contains(": serial, 5 connections"));
    // The probe is number 0, and the server hears of connections in the order in which they were
    // made.
    let expected: Vec<u64> = (0..203).map(|request| 1 + request % 5).collect();
    assert_eq!(order.lock().unwrap()[1..], expected);
}

#[test]
fn limited_has_a_request_under_way_on_each_connection_and_reads_replies_in_order() {
    const CONNECTIONS: usize = 4;
    const ROUNDS: usize = 25;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let (mut probe, _) = listener.accept().unwrap();
        assert!(read_ping(&mut probe));
        probe.write_all(b"ping").unwrap();
        let mut streams: Vec<TcpStream> =
            (0..CONNECTIONS).map(|_| listener.accept().unwrap().0).collect();
        for round in 0..ROUNDS {
            // No request has a reply, so all are under way at once.
            assert!(streams.iter_mut().all(read_ping));
            // The first request is not answered yet, so the answered connections do not ask again.
            let (first, others) = streams.split_first_mut().unwrap();
            others.iter_mut().rev().for_each(|stream| stream.write_all(b"ping").unwrap());
            thread::yield_now();
            for stream in others {
                stream.set_nonblocking(true).unwrap();
                let early = stream.peek(&mut [0]);
                assert!(early.is_err(), "{early:?} in round {round}");
                stream.set_nonblocking(false).unwrap();
            }
            first.write_all(b"ping").unwrap();
        }
        assert!(streams.iter_mut().all(|stream| stream.read(&mut [0]).unwrap_or(0) == 0));
    });
    let requests = (CONNECTIONS * ROUNDS) as u64;
    let options = options(echo(address), CONNECTIONS, requests);
    let report = load(&Options { pattern: Pattern::Limited, ..options });
    serving.join().unwrap();
    assert_eq!((report.requests, report.errors.len()), (requests, 0), "{:?}", report.errors);
    assert_eq!((report.connections_opened, report.connections_served), (4, 4));
    assert!(report.render_text().contains(": limited parallelism, 4 connections"));
}

#[test]
fn wrong_answers_are_counted_as_in_a_closed_loop() {
    for pattern in IN_ORDER {
        let address = http_server(|_, number| {
            (reply(if number % 10 == 9 { "hellO" } else { "hello" }), true)
        });
        let report = load(&Options { pattern, ..options(http(address), 3, 100) });
        assert_eq!((report.requests, report.errors["wrong-bytes"]), (90, 10), "{pattern:?}");
    }
}

#[test]
fn connections_that_the_server_closes_between_requests_are_replaced() {
    for pattern in IN_ORDER {
        let address = server(|mut stream, _| {
            let _ = (0..2).all(|_| read_ping(&mut stream) && stream.write_all(b"ping").is_ok());
        });
        let report = load(&Options { pattern, ..options(echo(address), 3, 60) });
        assert_eq!((report.requests, report.errors.len()), (60, 0), "{:?}", report.errors);
        assert!(report.connections_opened >= 30, "{}", report.connections_opened);
    }
}

#[test]
fn without_keep_alive_each_request_has_its_connection() {
    for pattern in IN_ORDER {
        let address = http_server(|_, _| (reply("hello"), false));
        let closing = Options { keep_alive: false, pattern, ..options(http(address), 3, 31) };
        let report = load(&closing);
        assert_eq!((report.requests, report.connections_opened), (31, 31), "{:?}", report.errors);
        let address = server(|mut stream, _| {
            let _ = stream.write_all(b"2026-11-21T02:00:00Z\r\n");
        });
        let time = Options { pattern, ..options(target("time", address), 3, 31) };
        assert_eq!(load(&time).requests, 31);
    }
}

#[test]
fn a_server_that_goes_away_leaves_no_request_uncounted() {
    for pattern in IN_ORDER {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let answer = |stream: &mut TcpStream| {
                let _ = read_ping(stream) && stream.write_all(b"ping").is_ok();
            };
            let (mut probe, _) = listener.accept().unwrap();
            answer(&mut probe);
            let streams: Vec<_> = (0..2).map(|_| listener.accept().unwrap().0).collect();
            drop(listener);
            streams.into_iter().for_each(|mut stream| answer(&mut stream));
        });
        let report = load(&Options { pattern, ..options(echo(address), 2, 6) });
        let failed: u64 = report.errors.values().sum();
        assert_eq!(report.requests + failed, 6, "{:?}", report.errors);
        assert!(
            failed >= 4 && report.errors.contains_key("connect-refused"),
            "{:?}",
            report.errors
        );
    }
}

#[test]
fn a_load_for_a_time_ends_in_every_pattern() {
    let address = http_server(|_, _| (reply("hello"), true));
    let window = Duration::from_millis(500);
    let arrivals = Arrivals::Poisson { rate: 1_000.0 };
    for pattern in [Pattern::Serial, Pattern::Limited, Pattern::Open(arrivals)] {
        let options = Options {
            pattern,
            stop: duality_load::Stop::After(window),
            ..options(http(address), 3, 1)
        };
        let report = load(&options);
        assert!(report.window_seconds >= window.as_secs_f64());
        assert!(report.requests > 0 && report.errors.is_empty(), "{:?}", report.errors);
    }
}

#[test]
fn services_whose_clients_depend_on_each_other_are_refused() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let constant = Pattern::Open(Arrivals::Constant { rate: 10.0 });
    for target in [target("game", address), Target::chat(address, 1)] {
        for pattern in [Pattern::Serial, Pattern::Limited, constant] {
            let options = Options { pattern, ..options(target.clone(), 2, 2) };
            let error = run(&options, &mut (), &AtomicBool::new(false)).unwrap_err();
            assert!(matches!(error, Error::Options(_)), "{error}");
            assert!(error.to_string().contains("--pattern closed"), "{error}");
        }
    }
}
