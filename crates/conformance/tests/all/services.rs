//! Tests three services under every architecture, with slow, half-closing, resetting and pipelining
//! clients.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::thread;

use duality_conformance::{
    ServerProcess, for_every_architecture, for_every_architecture_of_straight_line_code, runs_here,
};

const PAGE: &[u8] = include_bytes!("../../../services/demo/index.html");
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";
const LAST_GET: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";

fn serve(service: &str, architecture: &[&str], more: &[&str]) -> ServerProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", service, "--listen=127.0.0.1:0", "--architecture"]);
    ServerProcess::start(command.args(architecture).args(more))
}

macro_rules! services {
    ($name:ident $architecture:expr) => {
        mod $name {
            use super::*;
            const ARCHITECTURE: &[&str] = &$architecture;
            services! { @ echo: echo_returns_every_byte echo_ends_with_its_client
                echo_survives_a_reset connections_do_not_mix }
            services! { @ http: a_page_is_exact pipelined_requests_are_answered_in_order
                a_slow_request_is_answered errors_are_exact ranges_and_conditions_hold
                http_1_0_closes a_reset_in_mid_reply_hurts_nobody }
            #[test] fn files_come_whole() {
                if runs_here(ARCHITECTURE) {
                    super::files_come_whole(ARCHITECTURE);
                }
            }
        }
    };
    (@ $service:ident: $($body:ident)*) => {
        $(#[test] fn $body() {
            if runs_here(ARCHITECTURE) {
                super::$body(&serve(stringify!($service), ARCHITECTURE, &[]));
            }
        })*
    };
}

for_every_architecture!(services);

macro_rules! straight_line_services {
    ($name:ident $architecture:expr) => {
        #[test]
        fn $name() {
            if super::runs_here(&$architecture) {
                super::time_is_one_line(&super::serve("time", &$architecture, &[]));
            }
        }
    };
}

mod time_is_one_line {
    use super::for_every_architecture_of_straight_line_code;
    for_every_architecture_of_straight_line_code!(straight_line_services);
}

fn echo_returns_every_byte(server: &ServerProcess) {
    let sent: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    let mut stream = server.connect();
    let mut writer = stream.try_clone().unwrap();
    let out = sent.clone();
    let writing = thread::spawn(move || {
        writer.write_all(&out).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    writing.join().unwrap();
    assert!(sent == received, "{} bytes came back of {}", received.len(), sent.len());
}

fn echo_ends_with_its_client(server: &ServerProcess) {
    let mut stream = server.connect();
    for byte in b"slowly" {
        stream.write_all(&[*byte]).unwrap();
        let mut back = [0];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, [*byte]);
    }
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(std::io::read_to_string(&mut stream).unwrap(), "");
}

fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO)).unwrap();
    drop(stream);
}

fn echo_survives_a_reset(server: &ServerProcess) {
    for _ in 0..5 {
        let mut stream = server.connect();
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        reset(stream);
    }
    assert_eq!(server.ask(b"still there"), b"still there");
}

fn connections_do_not_mix(server: &ServerProcess) {
    // Enough clients to overlap under every concurrent architecture. The iterative server takes
    // them one by one.
    let clients: Vec<_> = (0..6u8)
        .map(|number| {
            let mut stream = server.connect();
            thread::spawn(move || {
                let message = vec![b'a' + number; 5000];
                for _ in 0..20 {
                    stream.write_all(&message).unwrap();
                    let mut back = vec![0; message.len()];
                    stream.read_exact(&mut back).unwrap();
                    assert!(back == message);
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
}

fn time_is_one_line(server: &ServerProcess) {
    for _ in 0..10 {
        let line = String::from_utf8(server.ask(b"")).unwrap();
        assert_eq!(line.len(), 22, "{line:?}");
        assert!(line.starts_with("20") && line.ends_with("Z\r\n"), "{line:?}");
    }
}

/// The head without the date, and the body.
fn split(reply: &[u8]) -> (String, &[u8]) {
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n").expect("a reply has a head");
    let head = std::str::from_utf8(&reply[..end]).unwrap();
    let lines = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("date:"));
    (lines.collect::<Vec<_>>().join("\n"), &reply[end + 4..])
}

fn a_page_is_exact(server: &ServerProcess) {
    let reply = server.ask(LAST_GET);
    let (head, body) = split(&reply);
    assert!(head.starts_with("HTTP/1.1 200 OK\n"), "{head}");
    assert!(head.to_ascii_lowercase().contains("content-length: 305"), "{head}");
    assert!(body == PAGE);
    let reply = server.ask(b"HEAD / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let (same_head, nothing) = split(&reply);
    assert_eq!((same_head, nothing), (head, &b""[..]));
}

fn pipelined_requests_are_answered_in_order(server: &ServerProcess) {
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    let requests: String =
        (0..20).map(|number| request(if number % 2 == 0 { "/" } else { "/absent" })).collect();
    let reply = server.ask(requests.as_bytes());
    let text = String::from_utf8_lossy(&reply);
    let statuses: Vec<&str> = text.split("HTTP/1.1 ").skip(1).map(|reply| &reply[..3]).collect();
    assert_eq!(statuses, ["200", "404"].repeat(10));
}

fn a_slow_request_is_answered(server: &ServerProcess) {
    let mut stream = server.connect();
    for byte in LAST_GET {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert!(split(&reply).1 == PAGE);
    // A client that has sent all and closed its side still gets its reply.
    assert!(split(&server.ask(GET)).1 == PAGE);
}

fn errors_are_exact(server: &ServerProcess) {
    let long = format!("GET /{} HTTP/1.1\r\nHost: test\r\n\r\n", "x".repeat(20_000));
    let heavy = format!("GET / HTTP/1.1\r\nHost: test\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    let cases: [(&[u8], u16); 12] = [
        (b"GET /absent HTTP/1.1\r\nHost: test\r\n\r\n", 404),
        (b"POST /hello.txt HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n", 405),
        (b"BREW / HTTP/1.1\r\nHost: test\r\n\r\n", 501),
        (b"GET / HTTP/2.0\r\nHost: test\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : test\r\n\r\n", 400),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: test\r\n\r\n", 400),
        (b"GET /%00 HTTP/1.1\r\nHost: test\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (
            b"GET / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n",
            400,
        ),
        (long.as_bytes(), 414),
        (heavy.as_bytes(), 431),
    ];
    for (request, status) in cases {
        let reply = server.ask(request);
        let (head, _) = split(&reply);
        let shown = String::from_utf8_lossy(&request[..request.len().min(60)]);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{shown:?}: {head}");
    }
}

fn ranges_and_conditions_hold(server: &ServerProcess) {
    let ask = |more: &str| {
        server
            .ask(format!("GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n{more}\r\n").as_bytes())
    };
    let whole = ask("");
    let (head, _) = split(&whole);
    let tag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a page has a tag");
    let reply = ask(&format!("If-None-Match: {tag}\r\n"));
    assert!(reply.starts_with(b"HTTP/1.1 304 ") && split(&reply).1.is_empty());
    let reply = ask("Range: bytes=10-19\r\n");
    assert!(reply.starts_with(b"HTTP/1.1 206 ") && *split(&reply).1 == PAGE[10..20]);
    let reply = ask("Range: bytes=-5\r\n");
    assert!(reply.starts_with(b"HTTP/1.1 206 ") && *split(&reply).1 == PAGE[300..]);
    assert!(ask("Range: bytes=305-\r\n").starts_with(b"HTTP/1.1 416 "));
}

fn http_1_0_closes(server: &ServerProcess) {
    let mut stream = server.connect();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert!(split(&reply).1 == PAGE);
}

fn a_reset_in_mid_reply_hurts_nobody(server: &ServerProcess) {
    for _ in 0..5 {
        let mut stream = server.connect();
        stream.write_all(b"GET /large.txt HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
        reset(stream);
    }
    assert!(split(&server.ask(LAST_GET)).1 == PAGE);
}

fn files_come_whole(architecture: &[&str]) {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let large: Vec<u8> = (0..3_000_000u32).map(|index| (index % 253) as u8).collect();
    std::fs::write(root.join("large.bin"), &large).unwrap();
    std::fs::write(root.join("small.txt"), "small").unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../secret", root.join("leak")).unwrap();
    let server = serve("http", architecture, &["--root", root.to_str().unwrap()]);
    let ask = |path: &str| {
        server
            .ask(format!("GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").as_bytes())
    };
    assert_eq!(split(&ask("/small.txt")).1, b"small");
    assert!(split(&ask("/large.bin")).1 == large);
    assert!(ask("/leak").starts_with(b"HTTP/1.1 403 "));
    // A slow reader reads in pieces.
    let mut stream = server.connect();
    stream.write_all(b"GET /large.bin HTTP/1.0\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    while (&stream).take(1000).read_to_end(&mut reply).unwrap() > 0 {}
    assert!(split(&reply).1 == large);
}
