//! Compares what comes through a relay with what its upstream answers, under every architecture.
//! `crates/services/tests/all/relay.rs` has the faults that need short limits.

#[path = "../../../services/tests/all/relay_upstream/mod.rs"]
mod relay_upstream;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use duality_conformance::{
    KeptPort, PATIENCE, ServerProcess, eventually, for_every_architecture_of_straight_line_code,
    runs_here,
};
use relay_upstream::Upstream;
use rustix::net::sockopt::set_socket_linger;

macro_rules! relay {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;
            relay! { @ replies_are_those_of_the_upstream pipelined_replies_are_in_order
                bodies_flow_both_ways_at_once an_early_reply_reaches_the_client
                interim_replies_are_passed_on a_reply_that_breaks_off_is_cut
                connections_to_the_upstream_are_used_again unasked_bytes_are_no_reply
                without_an_upstream_there_is_a_reply an_upload_outlives_a_drain
                a_client_that_leaves_frees_its_place upstreams_take_turns the_log_and_the_metrics_tell_of_upstreams }
        }
    };
    (@ $($body:ident)*) => {
        $(#[test] fn $body() {
            if super::runs_here(ARCHITECTURE) {
                super::$body(ARCHITECTURE);
            }
        })*
    };
}

for_every_architecture_of_straight_line_code!(relay);

fn relay(architecture: &[&str], upstream: SocketAddr) -> ServerProcess {
    // The clients of these tests end their sending side, and wait however long it takes.
    relay_with(architecture, upstream, &["--serve-half-closed"])
}

fn relay_with(architecture: &[&str], upstream: SocketAddr, more: &[&str]) -> ServerProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "relay", "--listen=127.0.0.1:0", &format!("--upstream={upstream}")]);
    ServerProcess::start(command.args(more).arg("--architecture").args(architecture))
}

/// Sends `request`, ends the sending side, and returns all bytes up to the end, or to a reset.
fn ask(address: SocketAddr, request: &[u8]) -> (String, bool) {
    let mut stream = connect(address);
    stream.write_all(request).unwrap();
    // ENOTCONN: the reply has been cut already, by a reset.
    let _ = stream.shutdown(Shutdown::Write);
    let (reply, was_reset) = read_all(&mut stream);
    (String::from_utf8_lossy(&reply).into_owned(), was_reset)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn read_all(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (bytes, false),
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
            // A stop and SIGCONT end a read with a time limit, even without a handler (signal(7)).
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                return (bytes, true);
            }
        }
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n")
}

fn replies_are_those_of_the_upstream(architecture: &[&str]) {
    let upstream = Upstream::start();
    let server = relay(architecture, upstream.address);
    let post = "POST /plain HTTP/1.1\r\nHost: test\r\n";
    let requests = [
        get("/"),
        get("/chunked"),
        get("/not-modified"),
        get("/no-content"),
        get("/zeros/100000"),
        "HEAD / HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(),
        "HEAD /zeros/100000 HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(),
        format!("{post}Content-Length: 5\r\n\r\n12345"),
        format!("{post}Content-Length: 0\r\n\r\n"),
        format!("{post}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n"),
        format!("{post}Content-Length: 100000\r\n\r\n{}", "x".repeat(100_000)),
    ];
    for request in &requests {
        let line = request.lines().next().unwrap();
        let (direct, _) = ask(upstream.address, request.as_bytes());
        let (relayed, was_reset) = ask(server.address(), request.as_bytes());
        assert!(relayed == direct && !was_reset, "{line}: {relayed:.300} instead of {direct:.300}");
    }
    // A reply that ends with the connection comes in chunks, so that its end is no cut.
    let (relayed, _) = ask(server.address(), get("/until-end").as_bytes());
    let expected = "HTTP/1.1 200 OK\r\nX-Kind: end\r\nTransfer-Encoding: chunked\r\n\r\n\
        11\r\nall that there is\r\n0\r\n\r\n";
    assert_eq!(relayed, expected);
    let (relayed, _) = ask(server.address(), b"GET /until-end HTTP/1.0\r\n\r\n");
    let expected = "HTTP/1.1 200 OK\r\nX-Kind: end\r\nConnection: close\r\n\r\nall that there is";
    assert_eq!(relayed, expected);
    let (relayed, _) = ask(server.address(), get("/old").as_bytes());
    assert_eq!(relayed, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold");
}

fn pipelined_replies_are_in_order(architecture: &[&str]) {
    let upstream = Upstream::start();
    let server = relay(architecture, upstream.address);
    let requests: String = ["/", "/chunked", "/zeros/70000", "/no-content", "/not-modified"]
        .map(get)
        .concat()
        .repeat(6);
    let (direct, _) = ask(upstream.address, requests.as_bytes());
    let (relayed, was_reset) = ask(server.address(), requests.as_bytes());
    assert!(relayed == direct && !was_reset, "{} and {} bytes", relayed.len(), direct.len());
}

fn bodies_flow_both_ways_at_once(architecture: &[&str]) {
    const LENGTH: usize = 8 << 20;
    let upstream = Upstream::start();
    let server = relay(architecture, upstream.address);
    let content: Vec<u8> = (0..LENGTH).map(|number| (number / 7 % 251) as u8).collect();
    for framing in [format!("Content-Length: {LENGTH}"), "Transfer-Encoding: chunked".to_owned()] {
        let mut stream = connect(server.address());
        write!(
            stream,
            "POST /echo HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{framing}\r\n\r\n"
        )
        .unwrap();
        let is_chunked = framing.contains("chunked");
        let mut writer = stream.try_clone().unwrap();
        let sent = content.clone();
        let sender = thread::spawn(move || {
            for piece in sent.chunks(100_000) {
                if is_chunked {
                    write!(writer, "{:x}\r\n", piece.len()).unwrap();
                }
                writer.write_all(piece).unwrap();
                if is_chunked {
                    writer.write_all(b"\r\n").unwrap();
                }
            }
            if is_chunked {
                writer.write_all(b"0\r\n\r\n").unwrap();
            }
        });
        let (reply, was_reset) = read_all(&mut stream);
        sender.join().unwrap();
        assert!(!was_reset, "{framing}: {} bytes", reply.len());
        assert!(decoded(&reply) == content, "{framing}");
    }
}

/// The content of a reply in chunks.
fn decoded(reply: &[u8]) -> Vec<u8> {
    let at = |bytes: &[u8], end: &[u8]| bytes.windows(end.len()).position(|part| part == end);
    let mut rest = &reply[at(reply, b"\r\n\r\n").expect("a head") + 4..];
    let mut content = Vec::new();
    loop {
        let end = at(rest, b"\r\n").expect("a size");
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            assert_eq!(rest, b"0\r\n\r\n");
            return content;
        }
        content.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
}

fn an_early_reply_reaches_the_client(architecture: &[&str]) {
    let upstream = Upstream::start();
    let server = relay(architecture, upstream.address);
    let mut stream = connect(server.address());
    stream
        .write_all(b"POST /early HTTP/1.1\r\nHost: test\r\nContent-Length: 100000000\r\n\r\nabc")
        .unwrap();
    // The reply comes although the body does not.
    let (reply, was_reset) = read_all(&mut stream);
    let expected = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\
                    Connection: close\r\n\r\nmuch";
    assert_eq!(String::from_utf8_lossy(&reply), expected);
    assert!(!was_reset);
}

fn interim_replies_are_passed_on(architecture: &[&str]) {
    let upstream = Upstream::start();
    let server = relay(architecture, upstream.address);
    let (relayed, _) = ask(server.address(), get("/hints").as_bytes());
    assert_eq!(relayed, ask(upstream.address, get("/hints").as_bytes()).0);
    let (old, _) = ask(server.address(), b"GET /hints HTTP/1.0\r\n\r\n");
    let expected = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhinted";
    assert_eq!(old, expected);
    // A client that waits for "100 Continue" gets it before it sends the body.
    let mut stream = connect(server.address());
    let head = "POST /continue HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\n\
                Content-Length: 4\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"body").unwrap();
    let mut reply = [0; 42];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody");
}

fn a_reply_that_breaks_off_is_cut(architecture: &[&str]) {
    let upstream = Upstream::start();
    let server = relay(architecture, upstream.address);
    for path in ["/dies", "/dies-in-chunks", "/breaks-chunks"] {
        let (reply, was_reset) = ask(server.address(), get(path).as_bytes());
        assert!(was_reset && !reply.contains("\r\n0\r\n"), "{path}: {reply:?}");
    }
    let (reply, _) = ask(server.address(), get("/closes").as_bytes());
    assert!(reply.starts_with("HTTP/1.1 502 "), "{reply}");
}

fn connections_to_the_upstream_are_used_again(architecture: &[&str]) {
    let upstream = Upstream::start();
    let server = relay(architecture, upstream.address);
    let requests = get("/").repeat(20);
    let (replies, _) = ask(server.address(), requests.as_bytes());
    assert_eq!(replies.matches("hello").count(), 20);
    assert_eq!((upstream.connections(), upstream.requests()), (1, 20));
}

fn unasked_bytes_are_no_reply(architecture: &[&str]) {
    let upstream = Upstream::start();
    let server = relay(architecture, upstream.address);
    for _ in 0..3 {
        let (reply, _) = ask(server.address(), get("/stray").as_bytes());
        assert!(reply.ends_with("hello"), "{reply}");
        // On the idle connection, the upstream sends what looks like a reply.
        let (direct, _) = ask(upstream.address, get("/stray-now").as_bytes());
        assert!(direct.ends_with("hello"), "{direct}");
        // An event loop has looked at what has come before it answers this.
        let (refused, _) = ask(server.address(), b"TRACE / HTTP/1.1\r\nHost: test\r\n\r\n");
        assert!(refused.starts_with("HTTP/1.1 501 "), "{refused}");
        let (reply, _) = ask(server.address(), get("/").as_bytes());
        assert!(reply.ends_with("hello"), "{reply}");
    }
}

fn without_an_upstream_there_is_a_reply(architecture: &[&str]) {
    let nowhere = KeptPort::keep();
    let server = relay(architecture, nowhere.address());
    let (replies, _) = ask(server.address(), get("/").repeat(2).as_bytes());
    assert_eq!(replies.matches("HTTP/1.1 502 Bad Gateway\r\n").count(), 2, "{replies}");
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().0.success());
}

fn an_upload_outlives_a_drain(architecture: &[&str]) {
    let upstream = Upstream::start();
    let flags = ["--serve-half-closed", "--metrics=127.0.0.1:0"];
    let mut server = relay_with(architecture, upstream.address, &flags);
    let metrics = metrics_address(&mut server);
    let mut stream = connect(server.address());
    stream.write_all(b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 6\r\n\r\nabc").unwrap();
    // What comes back has been all the way, so the upload is under way.
    let begun = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
    let mut head = vec![0; begun.len()];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head, begun);
    server.signal(rustix::process::Signal::TERM);
    eventually("it drains", || {
        ask(metrics, get("/healthz").as_bytes()).0.contains("draining").then_some(())
    });
    stream.write_all(b"def").unwrap();
    let (rest, was_reset) = read_all(&mut stream);
    let rest = String::from_utf8_lossy(&rest).into_owned();
    assert!(rest.ends_with("3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n") && !was_reset, "{rest}");
    assert!(server.wait().0.success());
}

fn a_client_that_leaves_frees_its_place(architecture: &[&str]) {
    let upstream = Upstream::start();
    let server = relay_with(architecture, upstream.address, &[]);
    for _ in 0..2 {
        let mut client = connect(server.address());
        client.write_all(get("/silent").as_bytes()).unwrap();
        upstream.expect_silent(1);
        drop(client);
        upstream.expect_silent(0);
    }
    // This client stays.
    let mut client = connect(server.address());
    client
        .write_all(get("/").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let (reply, _) = read_all(&mut client);
    assert!(reply.ends_with(b"hello"), "{}", String::from_utf8_lossy(&reply));
}

fn upstreams_take_turns(architecture: &[&str]) {
    let upstreams = [Upstream::start(), Upstream::start()];
    let more = [&format!("--upstream={}", upstreams[1].address), "--serve-half-closed"];
    let server = relay_with(architecture, upstreams[0].address, &more);
    for _ in 0..6 {
        assert!(ask(server.address(), get("/").as_bytes()).0.ends_with("hello"));
    }
    assert_eq!(upstreams.map(|upstream| upstream.requests()), [3, 3]);
}

fn the_log_and_the_metrics_tell_of_upstreams(architecture: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let upstream = Upstream::start();
    let flags = [
        "--serve-half-closed",
        "--metrics=127.0.0.1:0",
        &format!("--access-log={}", log.display()),
    ];
    let mut server = relay_with(architecture, upstream.address, &flags);
    let metrics = metrics_address(&mut server);
    let close = "Connection: close\r\n\r\n";
    let logged = |count: usize| {
        eventually("all requests are logged", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            (text.lines().count() == count && text.ends_with('\n')).then_some(text)
        })
    };
    // A line is written after its reply, so two lines may change places.
    for (count, path) in [(1, "/"), (2, "/closes")] {
        ask(server.address(), get(path).replace("\r\n\r\n", &format!("\r\n{close}")).as_bytes());
        logged(count);
    }
    // The upstream dies within its reply, and the client gets a reset.
    let mut client = connect(server.address());
    client.write_all(get("/dies").as_bytes()).unwrap();
    let _ = client.read_to_end(&mut Vec::new());
    logged(3);
    // The client leaves while the upstream is silent.
    let mut client = connect(server.address());
    client.write_all(get("/silent").as_bytes()).unwrap();
    upstream.expect_silent(1);
    set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    let lines = logged(4);
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let address = upstream.address.to_string();
    for (line, code) in lines.iter().zip([200, 502, 200, 499]) {
        assert_eq!(
            (&line["s"], &line["c"], &line["up"]),
            (&code.into(), &"127.0.0.1".into(), &address.clone().into())
        );
        let [connected, ended] = ["uct", "urt"].map(|name| line[name].as_f64().unwrap());
        assert!(connected <= ended, "{line}");
    }
    assert!(lines[0]["uht"].is_f64() && lines[0]["why"].is_null(), "{}", lines[0]);
    assert!(lines[1]["uht"].is_null() && lines[1]["why"] == "closed", "{}", lines[1]);
    assert!(lines[2]["b"] == 6 && lines[2]["why"] == "closed", "{}", lines[2]);
    assert!(lines[3]["u"] == "/silent" && lines[3]["why"] == "client-left", "{}", lines[3]);
    let (page, _) = ask(metrics, get("/metrics").as_bytes());
    for (name, value) in
        [("unanswered_total", 2), ("abandoned_total", 1), ("late_total", 0), ("up", 1)]
    {
        let sample = page.lines().find(|line| {
            line.starts_with(&format!("duality_upstream_{name}{{")) && line.contains(&address)
        });
        let sample = sample.unwrap_or_else(|| panic!("no {name}: {page}"));
        assert!(sample.ends_with(&format!(" {value}")), "{sample}");
    }
}

/// The address of the metrics, as a server that has just started prints it.
fn metrics_address(server: &mut ServerProcess) -> SocketAddr {
    let line = server.complaints().next("it says where its metrics are");
    let address = line.strip_prefix("metrics at http://").and_then(|rest| rest.split('/').next());
    address.expect(&line).parse().unwrap()
}

/// On the least stack that the registry names, a relay does its work.
#[test]
fn the_least_stack_is_enough() {
    let upstream = Upstream::start();
    let long = format!(
        "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 200000\r\n\r\n{}",
        "x".repeat(200_000)
    );
    for architecture in ["threads", "pool", "uthreads"] {
        let server = relay(&[architecture, "--stack-size=64K"], upstream.address);
        for request in [&get("/"), &get("/closes"), &get("/zeros/200000"), &long] {
            let (reply, was_reset) = ask(server.address(), request.as_bytes());
            assert!(reply.starts_with("HTTP/1.1 ") && !was_reset, "{architecture}: {reply:.100}");
        }
    }
}
