//! Where servers of http are: at Unix sockets, at all addresses of a host name, and behind a kernel
//! that holds their replies up.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use duality_load::{Options, Report, Target, WarningKind, run};

use crate::common::{Received, http, http_server, load, options, read_whole, reply, server};

#[test]
fn a_server_at_a_unix_socket_is_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("server.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let received = Received::default();
    let kept = received.clone();
    thread::spawn(move || {
        for (connection, stream) in (0..).zip(listener.incoming()) {
            let (mut stream, kept) = (stream.unwrap(), kept.clone());
            thread::spawn(move || {
                while let Some(request) = read_whole(&mut stream) {
                    kept.add(connection, request);
                    if stream.write_all(&reply("hello")).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let target: Target = format!("http+unix://{}:/a?b", socket.display()).parse().unwrap();
    assert_eq!(target.address(), None);
    let report = load(&options(target, 5, 200));
    assert_eq!((report.requests, report.errors.len()), (200, 0), "{:?}", report.errors);
    assert_eq!((report.connections_opened, report.listen_drops), (5, 0));
    assert!(report.target.ends_with("server.sock:/a?b"), "{}", report.target);
    assert!(received.of_load()[0].starts_with("GET /a?b HTTP/1.1\r\nHost: localhost\r\n"));

    // A name that no name service knows.
    let target = Target::at_unix_socket("http://app.invalid/c", &socket).unwrap();
    let report = load(&Options { keep_alive: false, ..options(target, 2, 20) });
    assert_eq!((report.requests, report.errors.len()), (20, 0), "{:?}", report.errors);
    let all = received.of_load();
    assert!(all.last().unwrap().starts_with("GET /c HTTP/1.1\r\nHost: app.invalid\r\n"));

    let absent = directory.path().join("absent.sock");
    let target = Target::at_unix_socket("http://app/", &absent).unwrap();
    let error = run(&options(target, 1, 1), &mut (), &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("is this its socket?"), "{error}");
    assert!(Target::at_unix_socket("echo://app:1", &socket).is_err());
}

/// A server that answers at an address of either family, and how many connections each had.
fn answering(addresses: &[&str]) -> (u16, Vec<Arc<AtomicU64>>) {
    let bind = || -> std::io::Result<Vec<TcpListener>> {
        let first = TcpListener::bind((addresses[0], 0))?;
        let port = first.local_addr()?.port();
        let others = addresses[1..].iter().map(|address| TcpListener::bind((*address, port)));
        std::iter::once(Ok(first)).chain(others).collect()
    };
    // A port that is free at one address may be taken at the other.
    let listeners = (0..100).find_map(|_| bind().ok()).unwrap();
    let port = listeners[0].local_addr().unwrap().port();
    let serve = |listener: TcpListener| {
        let count = Arc::new(AtomicU64::new(0));
        let counter = count.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                counter.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || {
                    while read_whole(&mut stream).is_some() {
                        if stream.write_all(&reply("hello")).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        count
    };
    (port, listeners.into_iter().map(serve).collect())
}

#[test]
fn connections_go_to_all_addresses_of_a_name_that_answer() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: there is no IPv6 on the loopback device");
        return;
    }
    let (port, counts) = answering(&["127.0.0.1", "::1"]);
    let target: Target = format!("http://localhost:{port}/").parse().unwrap();
    let report = load(&options(target, 10, 200));
    assert_eq!((report.requests, report.errors.len()), (200, 0), "{:?}", report.errors);
    let counts: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    // Localhost need not have both addresses on every machine.
    if counts[1] > 0 {
        assert_eq!(counts, [6, 6], "a probe of each, and five of the load");
    }

    let (port, counts) = answering(&["127.0.0.1"]);
    let target: Target = format!("http://localhost:{port}/").parse().unwrap();
    let report = load(&options(target, 10, 200));
    assert_eq!((report.requests, report.errors.len()), (200, 0), "{:?}", report.errors);
    assert_eq!(counts[0].load(Ordering::Relaxed), 11);
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);

    let (port, _) = answering(&["::1"]);
    for host in ["[::1]", "localhost"] {
        let target: Target = format!("http://{host}:{port}/").parse().unwrap();
        let Ok(report) = run(&options(target, 3, 30), &mut (), &AtomicBool::new(false)) else {
            assert_eq!(host, "localhost", "it may have an IPv4 address only");
            continue;
        };
        assert_eq!((report.requests, report.errors.len()), (30, 0), "{host}");
    }
}

/// A server that writes the head and the body apart, some time apart.
fn hesitating(pause: Duration) -> SocketAddr {
    server(move |mut stream, _| {
        while read_whole(&mut stream).is_some() {
            let whole = reply("hello");
            let (head, body) = whole.split_at(whole.len() - 5);
            if stream.write_all(head).is_err() {
                return;
            }
            thread::sleep(pause);
            if stream.write_all(body).is_err() {
                return;
            }
        }
    })
}

#[test]
fn replies_that_a_delayed_acknowledgement_holds_up_are_told() {
    // The pause is what is measured. A busy machine makes single pauses longer, but not all.
    let report = load(&options(http(hesitating(Duration::from_millis(41))), 4, 80));
    assert_eq!(report.requests, 80);
    let warning = |report: &Report| {
        let kind = WarningKind::DelayedAcknowledgement;
        report.warnings.iter().find(|warning| warning.kind == kind).map(ToString::to_string)
    };
    let text = warning(&report).unwrap();
    assert!(text.contains("TCP_NODELAY") && text.contains("40 ms"), "{text}");
    // One write cannot be held up between two.
    let report = load(&options(http(http_server(|_, _| (reply("hello"), true))), 4, 80));
    assert_eq!(warning(&report), None);
}
