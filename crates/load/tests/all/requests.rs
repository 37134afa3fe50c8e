//! The requests of an http load as its user gives them. Servers keep what they receive, byte for
//! byte, and give replies of every kind.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use duality_load::{
    Arrivals, Error, Expectation, Listed, Options, Pattern, Report, Request, Stop, Target,
    peak_goodput, run,
};

use crate::common::{
    Received, asking, expecting, http, keeping, load, only_error, options, read_whole, reply,
    script, server,
};

/// A load of a GET of `/` with this expectation.
fn getting(address: SocketAddr, expectation: Expectation, requests: u64) -> Report {
    let script = script(&[(1, Request::get("/"))], None, expectation);
    load(&asking(address, script, 1, requests))
}

#[test]
fn method_headers_and_body_arrive_byte_for_byte() {
    let (address, received) = keeping(|_, _| reply("hello"));
    let request = Request {
        method: "PUT".parse().unwrap(),
        headers: ["X-One: 1", "Cookie: a=b; c=d", "User-Agent: mine"]
            .map(|header| header.parse().unwrap())
            .into(),
        body: Some("a\r\nbody with {{braces}}".as_bytes().to_vec()),
        ..Request::get("/things?x=y")
    };
    let script = script(&[(1, request)], None, Expectation::default());
    let report = load(&asking(address, script, 3, 30));
    assert_eq!((report.requests, report.errors.len()), (30, 0), "{:?}", report.errors);
    let expected = format!(
        "PUT /things?x=y HTTP/1.1\r\nHost: {address}\r\nContent-Length: 23\r\nX-One: 1\r\n\
         Cookie: a=b; c=d\r\nUser-Agent: mine\r\n\r\na\r\nbody with {{{{braces}}}}"
    );
    let all = received.of_load();
    assert_eq!(all.len(), 30);
    assert!(all.iter().all(|request| *request == expected), "{:?} {expected:?}", all[0]);
}

#[test]
fn a_body_that_is_longer_than_the_buffers_arrives() {
    let body: String = ('a'..='z').cycle().take(3_000_000).collect();
    let (expected, wrong) = (body.clone(), Arc::new(AtomicU64::new(0)));
    let differing = wrong.clone();
    let (address, _) = keeping(move |request, _| {
        let same = request.split_once("\r\n\r\n").is_some_and(|(_, body)| body == expected);
        differing.fetch_add(u64::from(!same), Ordering::Relaxed);
        reply("ok")
    });
    let request = Request {
        method: "POST".parse().unwrap(),
        body: Some(body.into_bytes()),
        ..Request::get("/")
    };
    let report =
        load(&asking(address, script(&[(1, request)], None, Expectation::default()), 2, 6));
    assert_eq!((report.requests, report.errors.len()), (6, 0), "{:?}", report.errors);
    assert_eq!(wrong.load(Ordering::Relaxed), 0);
}

#[test]
fn many_urls_are_asked_in_proportion_and_each_has_its_body() {
    let (address, received) = keeping(|request, _| {
        let path = request.split(' ').nth(1).unwrap();
        reply(&format!("the body of {path}"))
    });
    let requests = [(1, Request::get("/a")), (8, Request::get("/b")), (1, Request::get("/c"))];
    let run = |seed| {
        let script = script(&requests, None, Expectation::default());
        let report = load(&Options { seed, ..asking(address, script, 1, 1_000) });
        assert_eq!((report.requests, report.errors.len()), (1_000, 0), "{:?}", report.errors);
        // The probe is the first of them.
        received.take().into_iter().skip(1).collect::<Vec<_>>()
    };
    let sent = run(1);
    let share = |path: &str| {
        let begin = format!("GET {path} HTTP/1.1\r\n");
        sent.iter().filter(|request| request.starts_with(&begin)).count() as f64 / 1_000.0
    };
    assert!((share("/b") - 0.8).abs() < 0.06, "{}", share("/b"));
    assert!(share("/a") > 0.05 && share("/c") > 0.05);
    assert_eq!(sent, run(1));
    assert_ne!(sent, run(2));
}

#[test]
fn a_body_that_differs_from_that_of_the_same_url_is_wrong() {
    let (address, _) = keeping(|request, number| {
        let path = request.split(' ').nth(1).unwrap();
        reply(if number == 50 { "another body" } else { path })
    });
    let requests = [(1, Request::get("/a")), (1, Request::get("/bb"))];
    let report = load(&asking(address, script(&requests, None, Expectation::default()), 2, 200));
    assert_eq!((report.requests, only_error(&report)), (199, ("wrong-bytes", 1)));
}

#[test]
fn each_connection_has_a_row_of_values() {
    let (address, received) = keeping(|_, _| reply("hello"));
    let request = Request {
        method: "POST".parse().unwrap(),
        headers: vec!["X-Name: {{ name }}".parse().unwrap()],
        body: Some(br#"{"id":{{id}}}"#.to_vec()),
        ..Request::get("/users/{{id}}")
    };
    let values = "id,name\n1,Ada\n22,\"Lovelace, Ada\"\n";
    let script = script(&[(1, request)], Some(values), Expectation::default());
    let report = load(&asking(address, script, 4, 400));
    assert_eq!((report.requests, report.errors.len()), (400, 0), "{:?}", report.errors);
    let with = |id: &str, name: &str| {
        let body = format!(r#"{{"id":{id}}}"#);
        format!(
            "POST /users/{id} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: duality-load\r\n\
             Content-Length: {}\r\nX-Name: {name}\r\n\r\n{body}",
            body.len()
        )
    };
    let connections = received.by_connection();
    assert_eq!(connections.len(), 4);
    for requests in &connections {
        let different: BTreeSet<&String> = requests.iter().collect();
        assert_eq!(different.len(), 1, "a connection keeps its row");
    }
    let different: BTreeSet<&String> = connections.iter().flatten().collect();
    let expected = [with("1", "Ada"), with("22", "Lovelace, Ada")];
    assert_eq!(different, expected.iter().collect());
}

#[test]
fn replies_without_a_body_end_with_their_head() {
    // Each reply has a framing that announces a body in other replies.
    for (method, head) in [
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        ("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("HEAD", "HTTP/1.1 200 OK\r\n\r\n"),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("DELETE", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n"),
        ("GET", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 304 Not Modified\r\n\r\n"),
    ] {
        let (address, _) = keeping(move |_, _| head.as_bytes().to_vec());
        let request = Request { method: method.parse().unwrap(), ..Request::get("/") };
        let script = script(&[(1, request)], None, expecting("200,204,304", "same"));
        let report = load(&asking(address, script, 2, 40));
        assert_eq!((report.requests, report.errors.len()), (40, 0), "{head}: {:?}", report.errors);
        assert_eq!(report.connections_opened, 2, "{head}");
    }
}

#[test]
fn a_head_and_a_get_of_one_page_are_told_apart() {
    let (address, _) = keeping(|request, _| {
        let whole = reply("hello");
        let head = whole.len() - "hello".len();
        if request.starts_with("HEAD") { whole[..head].to_vec() } else { whole }
    });
    let head = Request { method: "HEAD".parse().unwrap(), ..Request::get("/") };
    let requests = [(1, head), (1, Request::get("/"))];
    let report = load(&asking(address, script(&requests, None, Expectation::default()), 2, 200));
    assert_eq!((report.requests, report.errors.len()), (200, 0), "{:?}", report.errors);
    assert_eq!(report.connections_opened, 2);
}

#[test]
fn chunked_and_close_delimited_replies_are_judged_by_each_expectation() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"o\r\n7\r\nk\":true\r\n1\r\n}\r\n0\r\n\r\n";
    let to_the_end = "HTTP/1.0 200 OK\r\n\r\n{\"ok\":true}";
    for text in [chunked, to_the_end] {
        for (body, correct) in
            [("same", true), ("any", true), ("/\"ok\":true/", true), ("/\"ok\":false/", false)]
        {
            let (address, _) = keeping(move |_, _| text.as_bytes().to_vec());
            let script = script(&[(1, Request::get("/"))], None, expecting("2xx", body));
            let options = asking(address, script, 1, 10);
            match (run(&options, &mut (), &AtomicBool::new(false)), correct) {
                (Ok(report), true) => {
                    assert_eq!((report.requests, report.errors.len()), (10, 0), "{body} {text}");
                }
                (Err(Error::Unanswered { problem, .. }), false) => {
                    assert!(problem.contains("expression is not in the body"), "{problem}");
                }
                (other, _) => panic!("{body} {text}: {other:?}"),
            }
        }
    }
}

#[test]
fn what_is_expected_decides_what_is_an_error() {
    let answers = |statuses: &'static [u16], vary: bool| {
        let (address, _) = keeping(move |_, number| {
            let status = statuses[number as usize % statuses.len()];
            let body = if vary { format!("body {number}") } else { format!("of {status}") };
            format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into()
        });
        address
    };
    // Another status has a body of its own.
    let report = getting(answers(&[200, 404], false), expecting("200,404", "same"), 100);
    assert_eq!((report.requests, report.errors.len()), (100, 0), "{:?}", report.errors);
    let report = getting(answers(&[200, 404], false), expecting("200", "same"), 100);
    assert_eq!((report.requests, only_error(&report)), (50, ("wrong-status", 50)));
    let report = getting(answers(&[200], true), expecting("200", "any"), 100);
    assert_eq!((report.requests, report.errors.len()), (100, 0), "{:?}", report.errors);
    let report = getting(answers(&[200], true), expecting("200", "/^body \\d+$/"), 100);
    assert_eq!((report.requests, report.errors.len()), (100, 0), "{:?}", report.errors);
    let report = getting(answers(&[200], true), expecting("200", "same"), 100);
    assert_eq!((report.requests, only_error(&report)), (0, ("wrong-bytes", 100)));
    // The probe is number 0.
    let report = getting(answers(&[200], true), expecting("200", "/^body \\d$/"), 100);
    assert_eq!((report.requests, only_error(&report)), (9, ("wrong-bytes", 91)));
}

#[test]
fn a_connection_carries_as_many_requests_as_told() {
    for (limit, closes) in [(1, true), (3, true), (3, false)] {
        let received = Received::default();
        let kept = received.clone();
        let address = server(move |mut stream, connection| {
            while let Some(request) = read_whole(&mut stream) {
                let is_last = closes && request.contains("\r\nConnection: close\r\n");
                kept.add(connection, request);
                if stream.write_all(&reply("hello")).is_err() || is_last {
                    return;
                }
            }
        });
        let report = load(&Options {
            requests_per_connection: NonZeroU32::new(limit),
            ..options(http(address), 1, 60)
        });
        assert_eq!((report.requests, report.errors.len()), (60, 0), "{:?}", report.errors);
        assert_eq!(report.connections_opened, u64::from(60 / limit));
        assert_eq!(report.requests_per_connection, Some(limit));
        for requests in received.by_connection() {
            assert_eq!(requests.len(), limit as usize);
            for (number, request) in (1..).zip(&requests) {
                let says_so = request.contains("\r\nConnection: close\r\n");
                assert_eq!(says_so, number == limit, "{request}");
            }
        }
    }
}

#[test]
fn every_pattern_makes_the_requests_of_a_script() {
    let requests = [(1, Request::get("/a")), (1, Request::get("/b"))];
    for pattern in [
        Pattern::Closed,
        Pattern::Serial,
        Pattern::Limited,
        Pattern::Open(Arrivals::Constant { rate: 2_000.0 }),
    ] {
        let (address, received) = keeping(|request, _| reply(request.split(' ').nth(1).unwrap()));
        let script = script(&requests, None, Expectation::default());
        let report = load(&Options { pattern, ..asking(address, script, 3, 100) });
        assert_eq!((report.requests, report.errors.len()), (100, 0), "{pattern:?}");
        let all = received.of_load();
        let count = |begin: &str| all.iter().filter(|text| text.starts_with(begin)).count();
        assert_eq!(count("GET /a ") + count("GET /b "), 100, "{pattern:?}");
        assert!(count("GET /a ") > 10 && count("GET /b ") > 10, "{pattern:?}");
    }
    let (address, received) = keeping(|_, _| reply("x"));
    let script = script(&requests, None, Expectation::default());
    let search = Options {
        pattern: Pattern::Open(Arrivals::Constant { rate: 50.0 }),
        stop: Stop::After(Duration::from_millis(50)),
        ..asking(address, script, 2, 1)
    };
    let slo = duality_load::Slo {
        percentile: duality_load::Percentile::P50,
        limit: Duration::from_nanos(1),
    };
    peak_goodput(&search, &slo, &mut (), &AtomicBool::new(false)).unwrap();
    let paths: BTreeSet<String> =
        received.of_load().iter().map(|text| text[..6].to_owned()).collect();
    assert!(paths.iter().all(|path| path == "GET /a" || path == "GET /b"), "{paths:?}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let (address, _) = keeping(|_, _| reply("hello"));
    let limit = NonZeroU32::new(2);
    let closing = Options {
        requests_per_connection: limit,
        keep_alive: false,
        ..options(http(address), 1, 1)
    };
    assert!(closing.check().unwrap_err().to_string().contains("--requests-per-connection"));
    let echo: Target = format!("echo://{address}").parse().unwrap();
    let other = Options { requests_per_connection: limit, ..options(echo.clone(), 1, 1) };
    assert!(other.check().unwrap_err().to_string().contains("only http"));
    let script = script(&[(1, Request::get("/"))], None, Expectation::default());
    assert!(echo.with_script(script).unwrap_err().to_string().contains("load an http server"));
}

#[test]
fn a_crowd_asks_what_the_script_asks_first() {
    let (address, received) = keeping(|_, _| b"HTTP/1.1 204 No Content\r\n\r\n".to_vec());
    let request = Request { method: "DELETE".parse().unwrap(), ..Request::get("/x") };
    let script = script(&[(1, request)], None, expecting("204", "same"));
    let crowd = duality_load::Crowd { idle: 5, ..duality_load::Crowd::default() };
    let report = load(&Options { crowd, ..asking(address, script, 2, 20) });
    assert_eq!((report.requests, report.errors.len()), (20, 0), "{:?}", report.errors);
    assert_eq!(report.crowd["idle"].open, 5);
    assert!(received.of_load().iter().all(|request| request.starts_with("DELETE /x ")));
}

#[test]
fn a_file_of_urls_becomes_a_script() {
    let (address, received) = keeping(|_, _| reply("hello"));
    let text = "# a comment\n3 /a\n\nPOST /b\nX-B: b\n@body\n";
    let mut read = |path: &str| {
        assert_eq!(path, "body");
        Ok(b"the body".to_vec())
    };
    let listed = Listed::parse(text, &Request::get("/"), &mut read).unwrap();
    let requests: Vec<_> =
        listed.iter().map(|listed| (listed.weight, listed.request.clone())).collect();
    let report = load(&asking(address, script(&requests, None, Expectation::default()), 1, 100));
    assert_eq!((report.requests, report.errors.len()), (100, 0), "{:?}", report.errors);
    let all: BTreeSet<String> = received.of_load().into_iter().collect();
    let begin =
        |line: &str| format!("{line} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: duality-load\r\n");
    let expected = [
        format!("{}\r\n", begin("GET /a")),
        format!("{}Content-Length: 8\r\nX-B: b\r\n\r\nthe body", begin("POST /b")),
    ];
    assert_eq!(all, BTreeSet::from(expected));
}
