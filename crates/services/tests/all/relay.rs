//! Tests the relay over real sockets, in every world: its limits, its upstreams' faults, and its
//! refusals. `relay_clients.rs` has the clients' faults. `crates/conformance/tests/all/relay.rs`
//! compares replies under every architecture.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener},
    thread,
    time::Duration,
};

use duality_services::relay::{Config, Forwarded, Health, Limits, Relay};

use crate::http_client::{Client, get, serve_connections_in};
use crate::kept_port::KeptPort;
use crate::relay_rig::{SHORT, WORLDS, exchange, patient, read_all, relay, relay_with, serve};
use crate::relay_upstream::Upstream;
use duality_kit::{Case, Kind};

#[test]
fn fields_of_the_connection_end_and_those_of_the_relay_are_added() {
    for world in WORLDS {
        let upstream = Upstream::start();
        let mut client = Client::connect(relay(world, &upstream));
        let reply = client.ask(
            "GET http://a:1/head HTTP/1.1\r\nHost: a:1\r\nConnection: keep-alive, X-Mine, Host\r\n\
             X-Mine: 1\r\nX-Yours: 2\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n\
             Upgrade: websocket\r\nProxy-Authorization: x\r\nX-Forwarded-For: 10.0.0.1\r\n\
             Via: 1.0 other\r\n\r\n",
        );
        let expected = "GET /head HTTP/1.1\r\nHost: a:1\r\nX-Yours: 2\r\nVia: 1.0 other\r\n\
             X-Forwarded-For: 10.0.0.1, 127.0.0.1\r\nX-Forwarded-Proto: http\r\n\
             Via: 1.1 duality\r\n\r\n";
        assert_eq!(String::from_utf8(reply.body).unwrap(), expected, "{world:?}");
        let reply = client.ask("GET /head HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(reply.field("Connection"), Some("keep-alive"));
        let head = String::from_utf8(reply.body).unwrap();
        assert!(head.starts_with("GET /head HTTP/1.1\r\nHost: 127.0.0.1:"), "{head}");
        assert!(head.ends_with("\r\nVia: 1.0 duality\r\n\r\n"), "{head}");
    }
}

#[test]
fn requests_in_doubt_are_refused_and_reach_no_upstream() {
    let doubtful = [
        ("POST", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
        ("POST", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
        ("POST", "Content-Length: 5\r\nContent-Length: 6\r\n", 400),
        ("POST", "Content-Length: 5\r\nContent-Length: 5\r\n", 400),
        ("POST", "Content-Length: +5\r\n", 400),
        ("POST", "Content-Length: 5, 5\r\n", 400),
        ("POST", "Content_Length: 5\r\n", 400),
        ("POST", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
        ("POST", "Transfer-Encoding: xchunked\r\n", 400),
        ("POST", "Transfer-Encoding: identity\r\n", 400),
        ("POST", "Transfer-Encoding: gzip, chunked\r\n", 501),
        ("POST", "Transfer-Encoding : chunked\r\n", 400),
        ("POST", "Transfer-Encoding:\u{b}chunked\r\n", 400),
        ("GET", "X: a\r\n b\r\n", 400),
        ("GET", " X: a\r\n", 400),
        ("GET", "X: a\nY: b\r\n", 400),
        ("GET", "X: a\rb\r\n", 400),
        ("GET", "X: a\0b\r\n", 400),
        ("GET", "Host: b\r\n", 400),
        ("CONNECT", "", 501),
        ("TRACE", "", 501),
        ("POST", "Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n", 400),
        ("POST", "Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
        ("POST", "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n", 400),
        ("POST", "Transfer-Encoding: chunked\r\n\r\n0\r\nHost: b\r\n", 400),
    ];
    for world in WORLDS {
        let upstream = Upstream::start();
        let address = relay(world, &upstream);
        for (method, fields, code) in doubtful {
            let mut client = Client::connect(address);
            client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            let what = format!("{world:?}: {method} {fields:?}");
            let (reply, _) = {
                let _ = client.stream.shutdown(Shutdown::Write);
                read_all(&mut client)
            };
            let is_code = reply.starts_with(&format!("HTTP/1.1 {code} "));
            assert!(is_code && reply.contains("\r\nConnection: close\r\n"), "{what}: {reply}");
        }
        assert_eq!(upstream.requests(), 0, "{world:?}");
        let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(17 << 10));
        let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: a\r\n".repeat(65));
        for request in [long, many] {
            let (reply, _) = exchange(address, &request);
            assert!(reply.starts_with("HTTP/1.1 431 "), "{reply}");
        }
    }
}

#[test]
fn replies_in_doubt_are_not_relayed() {
    let doubtful = [
        "HTTP/1.1_200_OK;Content-Length:_5;Content-Length:_6;;hello",
        "HTTP/1.1_200_OK;Content-Length:_5;Transfer-Encoding:_chunked;;0;;",
        "HTTP/1.1_200_OK;Transfer-Encoding:_gzip;;hello",
        "HTTP/1.1_200_OK;Content-Length:_-5;;hello",
        "HTTP/1.1_101_Switching_Protocols;Upgrade:_x;;",
        "HTTP/1.0_200_OK;Transfer-Encoding:_chunked;;0;;",
        "HTTP/2.0_200_OK;Content-Length:_0;;",
        "nonsense;;",
        "HTTP/1.1_200_OK;X;;",
    ];
    for world in WORLDS {
        let upstream = Upstream::start();
        let address = relay(world, &upstream);
        for reply in doubtful {
            let mut client = Client::connect(address);
            let told = client.ask(&get(&format!("/raw/{reply}")));
            assert_eq!(told.code, 502, "{world:?}: {reply}");
            // The request was read to its end, so the connection goes on.
            assert_eq!(client.ask(&get("/")).body, b"hello");
        }
        // More bytes than the reply has are no reply to the next request.
        let mut client = Client::connect(address);
        let raw =
            "/raw/HTTP/1.1_200_OK;Content-Length:_2;;okHTTP/1.1_200_OK;Content-Length:_3;;bad";
        assert_eq!(client.ask(&get(raw)).body, b"ok");
        assert_eq!(client.ask(&get("/")).body, b"hello", "{world:?}");
    }
}

#[test]
fn a_reply_that_breaks_off_is_cut_and_never_ends_in_order() {
    for world in WORLDS {
        let upstream = Upstream::start();
        let address = relay(world, &upstream);
        for path in ["/dies", "/dies-in-chunks", "/breaks-chunks"] {
            let (reply, was_reset) = exchange(address, &get(path));
            assert!(was_reset, "{world:?}: {path}: {reply:?}");
            assert!(!reply.contains("\r\n0\r\n") && !reply.contains("nonsense"), "{reply:?}");
        }
        // HTTP/1.0 gets the content of chunks, and a reset where they break off.
        let (_, was_reset) = exchange(address, "GET /dies-in-chunks HTTP/1.0\r\n\r\n");
        assert!(was_reset, "{world:?}");
        let (reply, was_reset) = exchange(address, "GET /chunked HTTP/1.0\r\n\r\n");
        assert!(!was_reset && reply.ends_with("\r\n\r\nhello, world"), "{reply:?}");
        assert!(!reply.contains("chunked\r\n\r\n"), "{reply:?}");
        let mut client = Client::connect(address);
        assert_eq!(client.ask(&get("/closes")).code, 502, "{world:?}");
    }
}

#[test]
fn an_upstream_that_refuses_is_left_out_for_a_while() {
    let nowhere = KeptPort::keep();
    for world in WORLDS {
        let mut client = Client::connect(relay_with(world, &[nowhere.address()], patient()));
        let begun = std::time::Instant::now();
        assert_eq!(client.ask(&get("/")).code, 502, "{world:?}");
        assert_eq!(client.ask(&get("/")).code, 502, "{world:?}");
        assert!(begun.elapsed() < Duration::from_secs(60));
        // A good upstream takes all requests.
        let upstream = Upstream::start();
        let both = relay_with(world, &[nowhere.address(), upstream.address], patient());
        let mut client = Client::connect(both);
        for _ in 0..6 {
            assert_eq!(client.ask(&get("/")).body, b"hello", "{world:?}");
        }
        assert_eq!(upstream.connections(), 1);
    }
}

#[test]
fn an_upstream_that_was_not_there_at_the_start_is_found() {
    for world in WORLDS {
        let port = KeptPort::keep();
        let relay = relay_with(world, &[port.address()], patient());
        assert_eq!(Client::connect(relay).ask(&get("/")).code, 502, "{world:?}");
        let _server = answer_at(port.address());
        assert_eq!(Client::connect(relay).ask(&get("/")).body, b"back", "{world:?}");
    }
}

#[test]
fn an_upstream_that_takes_too_long_is_given_up_for_that_request_alone() {
    for world in WORLDS {
        let upstream = Upstream::start();
        let limits = Limits { reply_time: SHORT, ..patient() };
        let address = relay_with(world, &[upstream.address], limits);
        for _ in 0..5 {
            let reply = Client::connect(address).ask(&get("/silent"));
            let text = String::from_utf8(reply.body).unwrap();
            assert_eq!(reply.code, 504, "{world:?}");
            assert!(text.contains("took too long to answer"), "{world:?}: {text}");
        }
        assert_eq!(Client::connect(address).ask(&get("/")).code, 200, "{world:?}");
    }
}

/// An upstream that is left out is tried all the same, if there is no other.
#[test]
fn the_last_upstream_is_always_tried() {
    for world in WORLDS {
        let port = KeptPort::keep();
        let relay = relay_with(world, &[port.address()], patient());
        for _ in 0..5 {
            let reply = Client::connect(relay).ask(&get("/"));
            let text = String::from_utf8(reply.body).unwrap();
            assert_eq!(reply.code, 502, "{world:?}");
            assert!(text.contains("can be reached"), "{world:?}: {text}");
        }
        let _server = answer_at(port.address());
        assert_eq!(Client::connect(relay).ask(&get("/")).body, b"back", "{world:?}");
    }
}

/// Answers every request at an address by `back`.
fn answer_at(address: SocketAddr) -> thread::JoinHandle<()> {
    let listener = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        while stream.read(&mut head).is_ok_and(|count| count > 0) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nback").unwrap();
        }
    })
}

#[test]
fn a_request_that_may_be_repeated_goes_to_the_next_upstream() {
    for world in WORLDS {
        let (bad, good) = (Upstream::start(), Upstream::start());
        let address = relay_with(world, &[bad.closing(), good.address], patient());
        for _ in 0..6 {
            assert_eq!(Client::connect(address).ask(&get("/")).body, b"hello", "{world:?}");
        }
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na";
        let codes = [(); 2].map(|()| Client::connect(address).ask(post).code);
        assert!(codes.contains(&502) && codes.contains(&200), "{world:?}: {codes:?}");
    }
}

/// A client that leaves is noticed while the upstream is silent: its connection to the upstream
/// ends.
#[test]
fn fields_on_behalf_are_kept_or_replaced_and_never_smuggled() {
    let request = "GET /head HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.0.0.1\r\n\
        X_Forwarded_For: 10.0.0.2\r\nX-Forwarded_Proto: https\r\nX-Forwarded-Proto: https\r\n\
        X-Real-IP: 10.0.0.3\r\nx_real_ip: 10.0.0.4\r\nForwarded: for=10.0.0.5\r\nX-Other_Name: 1\r\n\r\n";
    let appended = "GET /head HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\n\
        X-Real-IP: 10.0.0.3\r\nForwarded: for=10.0.0.5\r\nX-Other_Name: 1\r\n\
        X-Forwarded-For: 10.0.0.1, 127.0.0.1\r\nVia: 1.1 duality\r\n\r\n";
    let replaced = "GET /head HTTP/1.1\r\nHost: a\r\nX-Other_Name: 1\r\n\
        X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nVia: 1.1 duality\r\n\r\n";
    for (forwarded, expected) in [(Forwarded::Append, appended), (Forwarded::Replace, replaced)] {
        let upstream = Upstream::start();
        let upstreams = vec![upstream.address];
        let config = Config { upstreams, limits: patient(), forwarded, ..Config::default() };
        let address = serve(Case::Suspend(Kind::Epoll), config);
        let reply = Client::connect(address).ask(request);
        assert_eq!(String::from_utf8(reply.body).unwrap(), expected);
        for name in ["X-Forwarded-For", "X_Forwarded_Proto", "Forwarded"] {
            let (reply, _) = exchange(
                address,
                &format!(
                    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                     0\r\n{name}: 10.0.0.1\r\n\r\n"
                ),
            );
            assert!(reply.starts_with("HTTP/1.1 400 "), "{name}: {reply}");
        }
    }
}

#[test]
fn an_upstream_that_is_ill_gets_no_requests() {
    let (bad, good) = (Upstream::start(), Upstream::start());
    let health =
        Health { target: "/raw/HTTP/1.1_503_Ill;Content-Length:_0;;".into(), interval: SHORT };
    let upstreams = vec![bad.address, good.address];
    let config = Config { upstreams, limits: patient(), health: Some(health), ..Config::default() };
    let relay = Relay::new(config).unwrap();
    let checked = relay.clone();
    let address =
        serve_connections_in(Case::Suspend(Kind::Epoll), move |stream| relay.serve(stream));
    thread::spawn(move || duality_runtime::block_on(checked.check_health()));
    // Both are ill by this target, and still the last hope.
    while bad.requests() + good.requests() < 4 {
        thread::yield_now();
    }
    assert_eq!(Client::connect(address).ask(&get("/")).body, b"hello");
}

#[test]
fn idle_connections_to_upstreams_are_used_again() {
    for world in WORLDS {
        let upstream = Upstream::start();
        let address = relay(world, &upstream);
        for _ in 0..5 {
            let mut client = Client::connect(address);
            for path in ["/", "/chunked-not", "/not-modified", "/no-content", "/head"] {
                client.send(get(path));
                client.receive(path == "/no-content");
            }
        }
        assert_eq!((upstream.connections(), upstream.requests()), (1, 25), "{world:?}");
        // A closed one is not: the upstream closes after this reply, without a word.
        for _ in 0..3 {
            assert_eq!(Client::connect(address).ask(&get("/last")).body, b"last");
        }
        assert!(upstream.connections() <= 4, "{world:?}");
        assert_eq!(upstream.requests(), 28, "{world:?}");
    }
}
