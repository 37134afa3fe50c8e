//! Loads against tiny servers of `std::net`, which give right or wrong answers as each test asks.

use duality_load::{Error, Options, Stop, Target, run};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{
    http, http_server, load, only_error, options, read_request, reply, server, target,
};

#[test]
fn keep_alive_makes_exactly_n_requests_on_exactly_l_connections() {
    let seen = Arc::new(AtomicU64::new(0));
    let counter = seen.clone();
    let address = http_server(move |request, _| {
        assert!(!request.contains("Connection: close"));
        counter.fetch_add(1, Ordering::Relaxed);
        (reply("hello"), true)
    });
    let report = load(&options(http(address), 7, 500));
    assert_eq!(report.requests, 500);
    assert_eq!(seen.load(Ordering::Relaxed), 501, "the probe and the load");
    assert_eq!((report.connections_opened, report.connections_served), (7, 7));
    assert_eq!(report.bytes_received, 500 * reply("hello").len() as u64);
    assert!(report.errors.is_empty() && report.keep_alive);
    assert_eq!(report.latencies().unwrap().len(), 500);
    assert!(
        report.measured_load > 0.0 && report.measured_load <= 7.0 + 1e-6,
        "{}",
        report.measured_load
    );
}

#[test]
fn without_keep_alive_each_request_has_its_connection() {
    let address = http_server(|request, _| {
        assert!(request.contains("\r\nConnection: close\r\n"));
        (reply("hello"), false)
    });
    let report = load(&Options { keep_alive: false, ..options(http(address), 3, 60) });
    assert_eq!((report.requests, report.connections_opened), (60, 60));
    assert!(report.errors.is_empty() && !report.keep_alive, "{:?}", report.errors);
}

#[test]
fn of_many_requests_the_edges_are_not_counted() {
    let address = http_server(|_, _| (reply("hello"), true));
    let report = load(&options(http(address), 4, 10_000));
    assert_eq!(report.requests, 8_000);
}

#[test]
fn a_wrong_byte_is_an_error() {
    let address =
        http_server(|_, number| (reply(if number % 10 == 9 { "hellO" } else { "hello" }), true));
    let report = load(&options(http(address), 1, 100));
    assert_eq!(report.requests, 90);
    assert_eq!(only_error(&report), ("wrong-bytes", 10));
    assert!(report.warnings.iter().any(|warning| warning.text.contains("wrong-bytes 10 times")));
}

#[test]
fn a_body_of_another_length_is_an_error() {
    for wrong in ["hell", "hello!", ""] {
        let address =
            http_server(move |_, number| (reply(if number == 5 { wrong } else { "hello" }), true));
        let report = load(&options(http(address), 1, 10));
        assert_eq!((report.requests, only_error(&report)), (9, ("wrong-bytes", 1)), "{wrong}");
    }
}

#[test]
fn another_status_is_an_error() {
    let refused = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nhello";
    let address =
        http_server(
            |_, number| if number == 3 { (refused.to_vec(), true) } else { (reply("hello"), true) },
        );
    let report = load(&options(http(address), 1, 10));
    assert_eq!((report.requests, only_error(&report)), (9, ("wrong-status", 1)));
    assert!(report.warnings.iter().any(|warning| warning.text.contains("status 503")));
}

#[test]
fn interim_replies_are_skipped_and_not_without_end() {
    const HINT: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    let address = http_server(|_, number| match number % 3 {
        0 => (reply("hello"), true),
        1 => ([CONTINUE, &reply("hello")].concat(), true),
        _ => ([CONTINUE, HINT, HINT, &reply("hello")].concat(), true),
    });
    let report = load(&options(http(address), 2, 30));
    assert_eq!((report.requests, report.errors.len()), (30, 0), "{:?}", report.errors);

    let endless = HINT.repeat(1000);
    let switching = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n".to_vec();
    for (wrong, kind) in [(endless, "malformed"), (switching, "wrong-status")] {
        let address = http_server(move |_, number| match number {
            3 => (wrong.clone(), false),
            _ => (reply("hello"), true),
        });
        let report = load(&options(http(address), 1, 10));
        assert_eq!((report.requests, only_error(&report)), (9, (kind, 1)));
    }
}

#[test]
fn bytes_after_a_reply_and_replies_that_are_not_http_are_errors() {
    let excess = [reply("hello"), b"more".to_vec()].concat();
    for wrong in [excess, b"220 smtp.example.org ESMTP\r\n".to_vec()] {
        let address =
            http_server(
                move |_, number| {
                    if number == 3 { (wrong.clone(), true) } else { (reply("hello"), true) }
                },
            );
        let report = load(&options(http(address), 1, 10));
        assert_eq!((report.requests, only_error(&report)), (9, ("malformed", 1)));
    }
}

#[test]
fn a_reply_that_is_cut_off_is_an_error() {
    let address = http_server(|_, number| {
        let whole = reply("hello");
        // The third in the head, the sixth in the body.
        match number {
            3 => (whole[..20].to_vec(), false),
            6 => (whole[..whole.len() - 2].to_vec(), false),
            _ => (whole, true),
        }
    });
    let report = load(&options(http(address), 1, 10));
    assert_eq!((report.requests, only_error(&report)), (8, ("cut-short", 2)));
}

#[test]
fn a_close_between_requests_is_no_error() {
    // The server closes each connection after two replies, with a word (even connections) or
    // without.
    let address = server(|mut stream, connection| {
        for number in 0..2 {
            if read_request(&mut stream).is_none() {
                return;
            }
            let close =
                if number == 1 && connection % 2 == 0 { "Connection: close\r\n" } else { "" };
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{close}\r\nhello");
            stream.write_all(text.as_bytes()).unwrap();
        }
    });
    let report = load(&options(http(address), 2, 100));
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    assert_eq!(report.requests, 100);
    assert!((50..=52).contains(&report.connections_opened), "{}", report.connections_opened);
}

#[test]
fn replies_in_every_framing_and_size_are_checked() {
    let large: String = ('a'..='z').cycle().take(300_000).collect();
    let framed = |body: &str, framing: &str| -> (Vec<u8>, bool) {
        match framing {
            "length" => (reply(body), true),
            "end" => (format!("HTTP/1.0 200 OK\r\n\r\n{body}").into_bytes(), false),
            _ => {
                let (one, two) = body.split_at(body.len() / 3);
                let chunks: String = [one, two]
                    .iter()
                    .map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len()))
                    .collect();
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                (format!("{head}{chunks}0\r\n\r\n").into_bytes(), true)
            }
        }
    };
    for framing in ["length", "chunked", "end"] {
        for body in ["hello", &large] {
            let (right, keep) = framed(body, framing);
            let wrong = framed(&body.replacen(['o', 'z'], "x", 1), framing).0;
            let address = http_server(move |_, number| {
                (if number == 7 { &wrong } else { &right }.clone(), keep)
            });
            let report = load(&options(http(address), 2, 20));
            let size = body.len();
            assert_eq!(
                (report.requests, only_error(&report)),
                (19, ("wrong-bytes", 1)),
                "{framing} {size}"
            );
        }
    }
}

#[test]
fn heads_may_differ_and_come_in_pieces() {
    let count = AtomicU64::new(0);
    let address = server(move |mut stream, _| {
        while read_request(&mut stream).is_some() {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let text =
                format!("HTTP/1.1 200 OK\r\nX-Request: {number}\r\nContent-Length: 5\r\n\r\nhello");
            // Cut at another place each time.
            let (one, two) = text.as_bytes().split_at(number as usize % text.len());
            stream.write_all(one).and_then(|()| stream.write_all(two)).unwrap();
        }
    });
    let report = load(&options(http(address), 1, 300));
    assert_eq!(report.requests, 300);
    assert!(report.errors.is_empty(), "{:?}", report.errors);
}

#[test]
fn a_server_that_does_not_answer_is_waited_for_no_longer_than_asked() {
    let address = server(|mut stream, connection| {
        while read_request(&mut stream).is_some() {
            // Every other connection, the probe's not among them, gets no reply.
            if connection % 2 == 0 && stream.write_all(&reply("hello")).is_err() {
                return;
            }
        }
    });
    let patience = Duration::from_secs(1);
    let report = load(&Options {
        keep_alive: false,
        reply_timeout: patience,
        ..options(http(address), 1, 2)
    });
    assert_eq!((report.requests, only_error(&report)), (1, ("timed-out", 1)));
}

#[test]
fn a_reset_is_an_error_on_a_connection_that_has_not_served() {
    let address = server(|mut stream, connection| {
        if connection % 2 == 1 {
            // Closing with input unread is a reset.
            while stream.peek(&mut [0; 1]).is_err() {}
            return;
        }
        while read_request(&mut stream).is_some() {
            stream.write_all(&reply("hello")).unwrap();
        }
    });
    let report = load(&Options { keep_alive: false, ..options(http(address), 1, 2) });
    assert_eq!((report.requests, only_error(&report)), (1, ("reset", 1)));
}

#[test]
fn echo_is_checked() {
    let echo = |wrong: bool| {
        server(move |mut stream, connection| {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                if wrong && connection == 1 {
                    buffer[count - 1] ^= 1;
                }
                let _ = stream.write_all(&buffer[..count]);
            }
        })
    };
    for keep_alive in [true, false] {
        let target = Target::echo(echo(false), b"hello, echo".to_vec());
        let report = load(&Options { keep_alive, ..options(target, 5, 200) });
        assert_eq!((report.requests, report.errors.len()), (200, 0));
        assert_eq!(report.connections_opened, if keep_alive { 5 } else { 200 });
        assert_eq!(report.bytes_received, 200 * 11);
    }
    let target: Target = format!("echo://{}", echo(true)).parse().unwrap();
    let report = load(&options(target, 1, 10));
    assert_eq!((report.requests, only_error(&report)), (9, ("wrong-bytes", 1)));
}

#[test]
fn an_echo_as_long_as_allowed_comes_back() {
    let address = server(|mut stream, _| {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            let _ = stream.write_all(&buffer[..count]);
        }
    });
    let message: Vec<u8> = (0..Target::LONGEST_ECHO).map(|index| index as u8).collect();
    let report = load(&options(Target::echo(address, message), 2, 50));
    assert_eq!((report.requests, report.errors.len()), (50, 0));
}

#[test]
fn time_is_one_line_to_the_end() {
    let address = server(|mut stream, connection| {
        let line = if connection == 3 { "later\r\n" } else { "2026-11-21T02:00:00Z\r\n" };
        let _ = stream.write_all(line.as_bytes());
    });
    let report = load(&options(target("time", address), 2, 20));
    assert_eq!((report.requests, only_error(&report)), (19, ("malformed", 1)));
    assert_eq!(report.connections_opened, 20);
    assert!(!report.keep_alive);
}

#[test]
fn a_service_of_ones_own_is_checked() {
    let address = server(|mut stream, _| {
        let mut question = [0; 4];
        while stream.read_exact(&mut question).is_ok() {
            assert_eq!(&question, b"ping");
            stream.write_all(b"po").and_then(|()| stream.write_all(b"ng!")).unwrap();
        }
    });
    let target = |reply: &[u8]| Target::exchange(address, b"ping".to_vec(), reply.to_vec());
    let report = load(&options(target(b"pong!"), 3, 30));
    assert_eq!((report.requests, report.errors.len()), (30, 0));
    let error =
        run(&options(target(b"pang!"), 3, 30), &mut (), &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("not what was expected"), "{error}");
}

#[test]
fn no_server_is_told_before_the_load() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = run(&options(http(address), 1, 1), &mut (), &AtomicBool::new(false)).unwrap_err();
    let message = error.to_string();
    assert!(message.contains(&format!("http://{address}/: connection refused")), "{message}");
    assert!(message.ends_with("start one with `duality serve http`"), "{message}");
}

#[test]
fn a_missing_page_is_told_before_the_load() {
    let address =
        http_server(|_, _| (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(), true));
    let error = run(&options(http(address), 1, 1), &mut (), &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("status 404"), "{error}");
}

#[test]
fn options_without_sense_are_refused() {
    let target = http(TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    for wrong in [
        options(target.clone(), 0, 1),
        options(target.clone(), 1, 0),
        Options { stop: Stop::After(Duration::ZERO), ..options(target.clone(), 1, 1) },
        Options { reply_timeout: Duration::ZERO, ..options(target.clone(), 1, 1) },
    ] {
        let error = run(&wrong, &mut (), &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(error, Error::Options(_)), "{error}");
    }
    let error =
        run(&options(target, usize::MAX / 2, 1), &mut (), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, Error::Descriptors { .. }), "{error}");
}
