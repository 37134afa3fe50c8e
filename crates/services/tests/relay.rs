//! Tests the relay over real sockets, in every world: its limits, its upstreams' faults, and its
//! refusals. `crates/conformance/tests/relay.rs` compares replies under every architecture.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the client and the upstreams are plain blocking programs"
)]

mod http_client;
#[path = "../../runtime/tests/kept_port/mod.rs"]
mod kept_port;
mod relay_upstream;

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener},
    thread,
    time::Duration,
};

use duality_services::{
    http,
    relay::{Config, Limits, Relay},
};

use duality_kit::Case;
use http_client::{Client, get, serve_connections_in};
use kept_port::KeptPort;
use relay_upstream::Upstream;

/// The worlds in which a relay runs: it is not written by hand.

/// A time limit that no test reaches on any machine.
const EVER: Duration = Duration::from_secs(600);

/// Short enough to wait for.
const SHORT: Duration = Duration::from_millis(200);

/// Long time limits. Each test shortens the limit that it tests.
fn patient() -> Limits {
    let client = http::Limits {
        head_time: EVER,
        body_time: EVER,
        idle_time: EVER,
        write_time: EVER,
        linger_time: EVER,
        ..http::Limits::default()
    };
    Limits { client, connect_time: EVER, reply_time: EVER, idle_time: EVER, ..Limits::default() }
}

fn relay_with(world: Case, upstreams: &[SocketAddr], limits: Limits) -> SocketAddr {
    let relay = Relay::new(Config { upstreams: upstreams.to_vec(), limits }).unwrap();
    serve_connections_in(world, move |stream| relay.serve(stream))
}

fn relay(world: Case, upstream: &Upstream) -> SocketAddr {
    relay_with(world, &[upstream.address], patient())
}

/// Reads until the end. Returns the bytes, and whether a reset ended them.
fn read_all(client: &mut Client) -> (String, bool) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let was_reset = loop {
        match client.stream.read(&mut buffer) {
            Ok(0) => break false,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                break true;
            }
        }
    };
    (String::from_utf8_lossy(&bytes).into_owned(), was_reset)
}

/// Sends a request that asks to close, and reads all that comes.
fn exchange(address: SocketAddr, request: &str) -> (String, bool) {
    let mut client = Client::connect(address);
    client.send(request);
    read_all(&mut client)
}

#[test]
fn fields_of_the_connection_end_and_those_of_the_relay_are_added() {
    for world in Case::EACH_WORLD {
        let upstream = Upstream::start();
        let mut client = Client::connect(relay(world, &upstream));
        let reply = client.ask(
            "GET http://a:1/head HTTP/1.1\r\nHost: a:1\r\nConnection: keep-alive, X-Mine, Host\r\n\
             X-Mine: 1\r\nX-Yours: 2\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n\
             Upgrade: websocket\r\nProxy-Authorization: x\r\nX-Forwarded-For: 10.0.0.1\r\n\
             Via: 1.0 other\r\n\r\n",
        );
        let expected = "GET /head HTTP/1.1\r\nHost: a:1\r\nX-Yours: 2\r\nVia: 1.0 other\r\n\
             X-Forwarded-For: 10.0.0.1, 127.0.0.1\r\nVia: 1.1 duality\r\n\r\n";
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
    for world in Case::EACH_WORLD {
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
    for world in Case::EACH_WORLD {
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
    for world in Case::EACH_WORLD {
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
    for world in Case::EACH_WORLD {
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
    for world in Case::EACH_WORLD {
        let port = KeptPort::keep();
        let relay = relay_with(world, &[port.address()], patient());
        assert_eq!(Client::connect(relay).ask(&get("/")).code, 502, "{world:?}");
        let listener = TcpListener::bind(port.address()).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 1024];
            while stream.read(&mut head).is_ok_and(|count| count > 0) {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nback").unwrap();
            }
        });
        // It is tried again after a second.
        let begun = std::time::Instant::now();
        let reply = loop {
            let reply = Client::connect(relay).ask(&get("/"));
            if reply.code == 200 || begun.elapsed() > Duration::from_secs(60) {
                break reply;
            }
        };
        assert_eq!(reply.body, b"back", "{world:?}");
    }
}

#[test]
fn an_upstream_that_takes_too_long_is_given_up() {
    for world in Case::EACH_WORLD {
        let upstream = Upstream::start();
        let limits = Limits { reply_time: SHORT, ..patient() };
        let address = relay_with(world, &[upstream.address], limits);
        assert_eq!(Client::connect(address).ask(&get("/silent")).code, 504, "{world:?}");
        // The only upstream is left out now.
        assert_eq!(Client::connect(address).ask(&get("/")).code, 502, "{world:?}");
    }
}

#[test]
fn a_client_that_sends_too_slowly_is_given_up() {
    for world in Case::EACH_WORLD {
        let upstream = Upstream::start();
        let mut limits = patient();
        limits.client.body_time = SHORT;
        let address = relay_with(world, &[upstream.address], limits);
        let mut client = Client::connect(address);
        client.send("POST /plain HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
        assert_eq!(client.receive(false).code, 408, "{world:?}");
        let mut limits = patient();
        limits.client.head_time = SHORT;
        let mut client = Client::connect(relay_with(world, &[upstream.address], limits));
        client.send("GET / HTTP/1.1\r\n");
        assert_eq!(client.receive(false).code, 408, "{world:?}");
    }
}

#[test]
fn a_client_that_leaves_does_no_harm() {
    for world in Case::EACH_WORLD {
        let upstream = Upstream::start();
        let address = relay(world, &upstream);
        for part in [
            "GET /zeros/100000000 HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc",
            "GET / HT",
        ] {
            let mut client = Client::connect(address);
            client.send(part);
            if part.contains("zeros") {
                client.stream.read_exact(&mut [0; 1000]).unwrap();
            }
            drop(client);
            assert_eq!(Client::connect(address).ask(&get("/")).body, b"hello", "{world:?}");
        }
    }
}

#[test]
fn idle_connections_to_upstreams_are_used_again() {
    for world in Case::EACH_WORLD {
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
