//! The crowd beside the measured connections, and the addresses that connections come from, against
//! tiny servers that see what the members do, or end them.
//!
//! The first connection to a server is the client's probe and the second the crowd's; then come the
//! members, and then the measured connections.

use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use duality_load::{Crowd, Fate, Options, Report, Sources, Stop, Target, run};

use crate::common::{http, http_server, load, options, read_request, reply, server};

/// The connection of the first member.
const FIRST: u64 = 2;

/// Soon again.
const REST: Duration = Duration::from_millis(1);

/// Set by a server once it has seen what a test waits for.
type Seen = Arc<AtomicBool>;

fn ping(address: SocketAddr, reply: &[u8]) -> Target {
    Target::exchange(address, b"ping".to_vec(), reply.to_vec())
}

/// Answers pings until the client goes.
fn pong(stream: &mut TcpStream, reply: &[u8]) {
    let mut request = [0; 4];
    while stream.read_exact(&mut request).is_ok() && stream.write_all(reply).is_ok() {}
}

/// A load of two connections and a crowd, until the server has seen enough.
fn load_until(seen: &Seen, target: Target, crowd: Crowd) -> Report {
    let options = Options {
        stop: Stop::After(Duration::from_secs(60)),
        crowd: Crowd { rest: REST, ..crowd },
        ..options(target, 2, 1)
    };
    let report = run(&options, &mut (), seen).unwrap();
    assert!(seen.load(Ordering::Relaxed), "the server has not seen it in a minute");
    assert!(report.requests > 0 && report.errors.is_empty(), "{:?}", report.errors);
    report
}

/// The only kind of the crowd, and its fate.
fn only_fate(report: &Report) -> (&str, &Fate) {
    assert_eq!(report.crowd.len(), 1, "{:?}", report.crowd);
    let (kind, fate) = report.crowd.first_key_value().unwrap();
    (kind, fate)
}

#[test]
fn idle_connections_are_open_during_the_whole_load_and_silent() {
    const IDLE: usize = 20;
    let resting = Arc::new(AtomicUsize::new(0));
    let spoke = Arc::new(AtomicBool::new(false));
    let missed = Arc::new(AtomicBool::new(false));
    let (rests, speaks, misses) = (resting.clone(), spoke.clone(), missed.clone());
    let address = server(move |mut stream, number| {
        let idle = (FIRST..FIRST + IDLE as u64).contains(&number);
        while read_request(&mut stream).is_some() {
            if idle {
                rests.fetch_add(1, Ordering::SeqCst);
            } else if number >= FIRST {
                misses.fetch_or(rests.load(Ordering::SeqCst) < IDLE, Ordering::SeqCst);
            }
            if stream.write_all(&reply("hello")).is_err() || idle {
                break;
            }
        }
        if idle && matches!(stream.read(&mut [0; 1]), Ok(1)) {
            speaks.store(true, Ordering::SeqCst);
        }
    });
    let crowd = Crowd { idle: IDLE, ..Crowd::default() };
    let report = load(&Options { crowd, ..options(http(address), 3, 300) });
    assert_eq!((report.requests, report.connections_opened), (300, 3), "{:?}", report.errors);
    let (kind, fate) = only_fate(&report);
    let expected = Fate { members: IDLE, open: IDLE, opened: IDLE as u64, ..Fate::default() };
    assert_eq!((kind, fate), ("idle", &expected));
    assert_eq!(resting.load(Ordering::SeqCst), IDLE);
    assert!(!spoke.load(Ordering::SeqCst), "an idle connection made a second request");
    assert!(!missed.load(Ordering::SeqCst), "the load began before all were there");
    let text = report.render_text();
    assert!(text.contains("beside the measured connections\n"), "{text}");
    assert!(text.contains("idle            20 of 20 open at the end\n"), "{text}");
}

#[test]
fn an_idle_connection_that_the_server_ends_is_told_and_replaced() {
    let seen = Seen::default();
    let sees = seen.clone();
    // Three members, two measured connections, and the one that replaces the first member.
    let address = server(move |mut stream, number| {
        while read_request(&mut stream).is_some() && stream.write_all(&reply("hello")).is_ok() {
            sees.fetch_or(number == FIRST + 5, Ordering::Relaxed);
            if number == FIRST {
                return;
            }
        }
    });
    let report = load_until(&seen, http(address), Crowd { idle: 3, ..Crowd::default() });
    let (kind, fate) = only_fate(&report);
    assert_eq!((kind, fate.members, fate.cut, fate.refused), ("idle", 3, 1, 0));
    // The client may not have seen the reply to the new member yet.
    assert!((2..=3).contains(&fate.open) && (3..=4).contains(&fate.opened), "{fate:?}");
    let after = fate.cut_after_seconds.unwrap();
    assert!(after.min == after.max && after.max < 60.0, "{after:?}");
    assert!(fate.to_string().contains("1 cut by the server after"), "{fate}");
}

#[test]
fn a_server_that_cannot_bear_the_idle_ones_is_told_before_the_load() {
    // The server takes one connection at a time.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            pong(&mut stream.unwrap(), b"pong");
        }
    });
    let crowd = Crowd { idle: 3, ..Crowd::default() };
    let options = Options {
        reply_timeout: Duration::from_millis(300),
        crowd,
        ..options(ping(address, b"pong"), 1, 1)
    };
    let error = run(&options, &mut (), &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(error.contains("only 1 of 3 idle connections were served"), "{error}");
    assert!(error.contains("more workers") && !error.contains('\n'), "{error}");
}

#[test]
fn a_server_without_keep_alive_can_have_no_crowd() {
    let address = http_server(|_, _| {
        let text = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
        (text.as_bytes().to_vec(), false)
    });
    let crowd = Crowd { slow_senders: 1, ..Crowd::default() };
    let options = Options { crowd, keep_alive: false, ..options(http(address), 1, 1) };
    let error = run(&options, &mut (), &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(error.contains("keep-alive"), "{error}");
}

#[test]
fn a_slow_reader_blocks_the_output_of_its_server_and_takes_all_in_the_end() {
    const REPLY: usize = 1_000;
    let seen = Seen::default();
    let sees = seen.clone();
    let answer = [b'x'; REPLY];
    let address = server(move |mut stream, number| {
        if number != FIRST {
            return pong(&mut stream, &answer);
        }
        let (mut requests, mut sent) = ([0; 4], 0);
        stream.set_nonblocking(true).unwrap();
        loop {
            match stream.read(&mut requests) {
                // The client writes requests by the thousand, so no read gets a part of one.
                Ok(count) => assert_eq!(count, 4),
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(_) => return,
            }
            match stream.write(&answer) {
                Ok(REPLY) => sent += REPLY,
                // Its output is blocked.
                _ => break,
            }
            assert!(sent < 200_000, "a slow reader took all of it at once");
        }
        // The client takes more all the same, slowly.
        stream.set_nonblocking(false).unwrap();
        let more = [b'x'; 150 * REPLY];
        sees.store(stream.write_all(&more).is_ok(), Ordering::Relaxed);
        pong(&mut stream, &answer);
    });
    let crowd = Crowd { slow_readers: 1, ..Crowd::default() };
    let report = load_until(&seen, ping(address, &answer), crowd);
    let (kind, fate) = only_fate(&report);
    assert_eq!((kind, fate.open, fate.cut), ("slow-readers", 1, 0), "{fate:?}");
    assert!(fate.answered > 0, "{fate:?}");
}

#[test]
fn a_slow_reader_that_is_cut_off_is_told() {
    let seen = Seen::default();
    let sees = seen.clone();
    let address = server(move |mut stream, number| {
        if number == FIRST {
            // The requests that were not read make it a reset.
            let _ = stream.read(&mut [0; 4]);
            return;
        }
        // A member, two measured connections, and the new member.
        sees.fetch_or(number == FIRST + 3, Ordering::Relaxed);
        pong(&mut stream, b"pong");
    });
    let crowd = Crowd { slow_readers: 1, ..Crowd::default() };
    let report = load_until(&seen, ping(address, b"pong"), crowd);
    let (kind, fate) = only_fate(&report);
    assert_eq!((kind, fate.cut, fate.refused), ("slow-readers", 1, 0), "{fate:?}");
}

#[test]
fn the_bytes_of_a_slow_sender_come_one_by_one() {
    let seen = Seen::default();
    let sees = seen.clone();
    let address = server(move |mut stream, number| {
        if number != FIRST {
            return pong(&mut stream, b"pong");
        }
        let mut one_by_one = false;
        loop {
            let (mut request, mut pieces) = ([0; 5], 0);
            let mut filled = 0;
            while filled < 4 {
                // Reads all bytes that are there, never more than a request.
                match stream.read(&mut request[filled..]) {
                    Ok(count @ 1..) => filled += count,
                    _ => return,
                }
                pieces += 1;
                // A member that goes on has had its answer.
                sees.fetch_or(one_by_one, Ordering::Relaxed);
            }
            assert_eq!(&request[..filled], b"ping");
            // On a busy machine, bytes may wait for each other now and then, but not for ever.
            one_by_one |= pieces == 4;
            if stream.write_all(b"pong").is_err() {
                return;
            }
        }
    });
    let crowd = Crowd { slow_senders: 1, ..Crowd::default() };
    let report = load_until(&seen, ping(address, b"pong"), crowd);
    let (kind, fate) = only_fate(&report);
    assert_eq!((kind, fate.open, fate.cut, fate.opened), ("slow-senders", 1, 0, 1), "{fate:?}");
    assert!(fate.answered > 0, "{fate:?}");
}

#[test]
fn a_slow_sender_takes_an_echo_as_it_comes() {
    let seen = Seen::default();
    let sees = seen.clone();
    let address = server(move |mut stream, number| {
        let (mut buffer, mut echoed) = ([0; 64], 0);
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            let _ = stream.write_all(&buffer[..count]);
            echoed += count;
            // The sender goes on after the first echo is complete.
            sees.fetch_or(number == FIRST && echoed > 8, Ordering::Relaxed);
        }
    });
    let target = Target::echo(address, b"an echo\n".to_vec());
    let report = load_until(&seen, target, Crowd { slow_senders: 1, ..Crowd::default() });
    let (_, fate) = only_fate(&report);
    assert_eq!((fate.open, fate.cut, fate.opened), (1, 0, 1), "{fate:?}");
    assert!(fate.answered > 0, "{fate:?}");
}

#[test]
fn slow_senders_that_are_cut_or_refused_are_told_apart() {
    type Ending = fn(&mut TcpStream);
    let endings: [(Ending, &str); 4] = [
        (|_| {}, "cut"),
        (|stream| drop(stream.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n")), "cut"),
        (|stream| drop(stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")), "refused"),
        (|stream| drop(stream.write_all(b"* the server is full\n")), "refused"),
    ];
    for (ending, expected) in endings {
        let seen = Seen::default();
        let sees = seen.clone();
        let address = server(move |mut stream, number| {
            if number == FIRST {
                let _ = stream.read(&mut [0; 1]);
                ending(&mut stream);
                // Not before the client, that the word may be read.
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
                return;
            }
            sees.fetch_or(number == FIRST + 3, Ordering::Relaxed);
            while read_request(&mut stream).is_some() && stream.write_all(&reply("hi")).is_ok() {}
        });
        let crowd = Crowd { slow_senders: 1, ..Crowd::default() };
        let report = load_until(&seen, http(address), crowd);
        let (kind, fate) = only_fate(&report);
        let (cut, refused) = if expected == "cut" { (1, 0) } else { (0, 1) };
        assert_eq!((kind, fate.cut, fate.refused), ("slow-senders", cut, refused), "{fate:?}");
    }
}

#[test]
fn every_kind_can_be_there_at_once_without_keep_alive_too() {
    let address =
        http_server(|request, _| (reply("hello"), !request.contains("Connection: close")));
    let crowd = Crowd { idle: 2, slow_readers: 2, slow_senders: 2, rest: REST };
    let report = load(&Options { crowd, keep_alive: false, ..options(http(address), 2, 200) });
    assert_eq!((report.requests, report.connections_opened), (200, 200), "{:?}", report.errors);
    let kinds: Vec<_> = report.crowd.keys().map(String::as_str).collect();
    assert_eq!(kinds, ["idle", "slow-readers", "slow-senders"]);
    assert!(report.crowd.values().all(|fate| fate.open == 2), "{:?}", report.crowd);
}

#[test]
fn those_in_company_have_no_crowd() {
    for service in ["chat", "game", "time"] {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let target: Target = format!("{service}://{address}").parse().unwrap();
        let crowd = Crowd { idle: 1, ..Crowd::default() };
        let options = Options { crowd, ..options(target, 2, 2) };
        let error = run(&options, &mut (), &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(error.contains("leave out --idle") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn connections_come_from_every_source() {
    let peers = Arc::new(Mutex::new(HashSet::new()));
    let seen = peers.clone();
    let address = server(move |mut stream, _| {
        seen.lock().unwrap().insert(stream.peer_addr().unwrap().ip());
        pong(&mut stream, b"pong");
    });
    let sources = Sources::Count(NonZeroU32::new(5).unwrap());
    let report = load(&Options { sources, ..options(ping(address, b"pong"), 10, 100) });
    assert_eq!((report.requests, report.errors.len(), report.sources), (100, 0, 5));
    let expected: HashSet<_> = (1..=5).map(|last| IpAddr::from([127, 0, 0, last])).collect();
    assert_eq!(*peers.lock().unwrap(), expected);
    assert!(report.render_text().contains("10 connections from 5 addresses"));
}
