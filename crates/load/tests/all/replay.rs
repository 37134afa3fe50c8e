//! A recorded load, replayed on small servers.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use duality_load::{At, Cut, Error, Options, Piece, Report, Target, replay_on_all, run};
use duality_trace::{Class, Connection, Head, Method, Step, Trace};

use crate::common::{http, http_server, read_request, reply, server};

const SECOND: Duration = Duration::from_secs(1);

/// A connection: when it starts, the think times of its requests in milliseconds, and how long it
/// stays open.
type Recorded = (u64, &'static [u64], u64);

/// A recording of replies of 100 bytes.
fn trace(connections: &[Recorded], rate: Option<u64>) -> Arc<Trace> {
    let class =
        Class { method: Method::Get, request: 0, reply: 100, status: 2, count: 0, path: None };
    let step = |think: &u64| Step { think: Duration::from_millis(*think), class: 0 };
    let connections = connections.iter().map(|(start, thinks, open_after)| Connection {
        start: Duration::from_millis(*start),
        rate,
        steps: thinks.iter().map(step).collect(),
        open_after: Duration::from_millis(*open_after),
    });
    let head = Head { length: 10 * SECOND, classes: vec![class], ..Head::default() };
    Arc::new(Trace::new(head, connections.collect()))
}

/// The first milliseconds of a recording, up to this length.
fn options(address: SocketAddr, trace: &Arc<Trace>, milliseconds: u64) -> Options {
    let length = Duration::from_millis(milliseconds);
    let cut = Cut { at: Some(At::Time(Duration::ZERO)), ..Cut::of(length) };
    let warm_up = Duration::from_millis(100);
    Options { warm_up, ..Options::new(http(address)) }.replaying(Arc::new(Piece::cut(trace, &cut)))
}

fn replay(options: &Options) -> Report {
    run(options, &mut (), &AtomicBool::new(false)).unwrap()
}

/// A server of the pages that stand for the recording's. It notes the time of each request and the
/// number of its connection.
fn noting(seen: Arc<Mutex<Vec<(u64, Instant, String)>>>) -> SocketAddr {
    server(move |mut stream, number| {
        while let Some(request) = read_request(&mut stream) {
            let is_last = request.contains("Connection: close");
            seen.lock().unwrap().push((number, Instant::now(), request));
            if stream.write_all(&reply(&"x".repeat(100))).is_err() || is_last {
                return;
            }
        }
    })
}

#[test]
fn connections_start_and_think_as_they_did() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let address = noting(seen.clone());
    let recorded = trace(&[(50, &[0, 100, 50], 0), (120, &[0], 5_000), (200, &[0, 60], 0)], None);
    let report = replay(&options(address, &recorded, 600));
    assert_eq!((report.requests, report.errors.len()), (6, 0), "{:?}", report.errors);
    assert_eq!((report.connections_opened, report.connections_served), (3, 3));
    let replayed = report.replayed.as_ref().unwrap();
    assert_eq!((replayed.requests, replayed.connections, replayed.open_before), (6, 3, 0));
    assert_eq!((replayed.fidelity.planned, replayed.fidelity.sent), (6, 6));
    assert!(replayed.fidelity.requests_distance.abs() < 1e-12);
    // The probe is the first. No request is earlier than planned.
    let seen = seen.lock().unwrap();
    let of = |number| -> Vec<Instant> {
        seen.iter().filter(|(own, ..)| *own == number).map(|(_, time, _)| *time).collect()
    };
    let (first, last) = (of(1), of(3));
    assert!(first[1] - first[0] >= Duration::from_millis(100), "{first:?}");
    assert!(first[2] - first[1] >= Duration::from_millis(50), "{first:?}");
    assert!(last[0] - first[0] >= Duration::from_millis(100), "{last:?}");
    // The last request of a connection that did not stay says so.
    let says_close = seen.iter().filter(|(.., request)| request.contains("Connection: close"));
    assert_eq!(says_close.count(), 1 + 2);
    assert!(seen.iter().all(|(.., request)| request.starts_with("GET /s100 HTTP/1.1\r\n")));
    let text = report.render_text();
    assert!(
        text.starts_with(&format!("http://{address}/: a recording, with as many users")),
        "{text}"
    );
    assert!(text.contains("planned, sent") && text.contains("distance of gaps"), "{text}");
}

#[test]
fn what_is_open_when_a_piece_begins_was_opened_before_and_does_not_count() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let address = noting(seen.clone());
    let recorded = trace(&[(0, &[0, 1_200, 3_000], 2_000), (100, &[0], 9_000)], None);
    let length = Duration::from_millis(500);
    let cut = Cut { at: Some(At::Time(SECOND)), ..Cut::of(length) };
    let options = Options { warm_up: Duration::from_millis(300), ..Options::new(http(address)) };
    let report = replay(&options.replaying(Arc::new(Piece::cut(&recorded, &cut))));
    let replayed = report.replayed.as_ref().unwrap();
    assert_eq!((replayed.connections, replayed.open_before, replayed.left_waiting), (2, 2, 0));
    assert_eq!((report.requests, report.latency_us.p50 > 0.0), (1, true));
    // The probe, two requests that open connections, and the request that counts.
    assert_eq!(seen.lock().unwrap().len(), 4);
}

#[test]
fn a_server_that_does_not_answer_is_told_and_not_the_generator() {
    // It serves the probe and one connection, and leaves the others waiting.
    let address = server(|mut stream, number| {
        while number < 2 && read_request(&mut stream).is_some() {
            if stream.write_all(&reply(&"x".repeat(100))).is_err() {
                return;
            }
        }
        // Until the client goes.
        while number >= 2 && read_request(&mut stream).is_some() {}
    });
    let recorded = trace(&[(0, &[0, 20, 20], 0), (5, &[0, 20, 20], 0), (10, &[0], 0)], None);
    let report = replay(&options(address, &recorded, 300));
    assert_eq!(report.requests, 3);
    let open = report.open_loop.as_ref().unwrap();
    assert_eq!((open.due, open.unsent), (5, 0), "what is not due is not planned");
    let replayed = report.replayed.as_ref().unwrap();
    assert_eq!((replayed.fidelity.planned, replayed.fidelity.sent), (5, 5));
    assert!(!report.invalid.contains_key("replay") || replayed.fidelity.lag_p99_us > 1000.0);
    assert!(
        report.render_text().contains("The server did not keep up"),
        "{}",
        report.render_text()
    );
}

#[test]
fn a_slow_client_takes_its_time() {
    let address = http_server(|_, _| (reply(&"x".repeat(100)), true));
    // The head and the body are some 140 bytes.
    let recorded = trace(&[(0, &[0], 0)], Some(700));
    let report = replay(&options(address, &recorded, 1_000));
    assert_eq!(report.requests, 1);
    assert!(report.latency_us.p50 > 100_000.0, "{:?}", report.latency_us);
}

#[test]
fn pages_of_another_size_or_status_are_told_with_the_remedy() {
    let short = http_server(|_, _| (reply("short"), true));
    let missing =
        http_server(|_, _| (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(), true));
    let recorded = trace(&[(0, &[0], 0)], None);
    for address in [short, missing] {
        let message = run(&options(address, &recorded, 300), &mut (), &AtomicBool::new(false));
        let message = message.unwrap_err().to_string();
        assert!(message.contains("/s100: ") && message.contains("--files DIR"), "{message}");
    }
}

#[test]
fn options_without_sense_are_refused() {
    let address = http_server(|_, _| (reply("x"), true));
    let recorded = trace(&[(0, &[0], 0)], None);
    let right = options(address, &recorded, 300);
    let other: Target = format!("echo://{address}").parse().unwrap();
    for (options, remedy) in [
        (Options { replay: None, ..right.clone() }, "--trace"),
        (Options { target: other, ..right.clone() }, "http://"),
        (options(address, &trace(&[(900, &[0], 0)], None), 300), "no request is in this piece"),
    ] {
        match run(&options, &mut (), &AtomicBool::new(false)) {
            Err(Error::Options(told)) => assert!(told.contains(remedy), "{told}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_connection_goes_to_all_servers() {
    let recorded = trace(&[(0, &[0, 30], 0), (40, &[0, 10, 10], 0), (90, &[0], 500)], None);
    let all: Vec<Arc<Mutex<Vec<_>>>> = (0..3).map(|_| Arc::default()).collect();
    let targets: Vec<Target> = all.iter().map(|seen| http(noting(seen.clone()))).collect();
    let options = options(targets[0].address().expect("it listens"), &recorded, 500);
    let edges = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    struct Edges(Arc<(AtomicU64, AtomicU64)>);
    impl duality_load::Observer for Edges {
        fn window_opened(&mut self) {
            self.0.0.fetch_add(1, Ordering::Relaxed);
        }
        fn window_closed(&mut self) {
            self.0.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    let mut observer = Edges(edges.clone());
    let interrupted = AtomicBool::new(false);
    let reports = replay_on_all(&options, &targets, &mut observer, &interrupted).unwrap();
    assert_eq!(edges.0.load(Ordering::Relaxed), 1, "one window for all");
    assert_eq!(edges.1.load(Ordering::Relaxed), 1);
    for (report, (target, seen)) in reports.iter().zip(targets.iter().zip(&all)) {
        assert_eq!((report.requests, report.connections_opened), (6, 3), "{:?}", report.errors);
        assert_eq!(report.target, target.to_string());
        assert_eq!(seen.lock().unwrap().len(), 1 + 6);
    }
    // The copies of a connection are not sent at once.
    let firsts: BTreeSet<Instant> = all.iter().map(|seen| seen.lock().unwrap()[1].1).collect();
    assert_eq!(firsts.len(), 3);
}
