//! Tests that the http servers of peers/ answer right. Otherwise measurements beside them would
//! mean nothing.
//!
//! `cargo xtask peers` builds the servers. The tests skip a peer that is not built, with a line
//! about it. `http_cc` is `http_pthreads` as `duality cc` converts it.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use duality_conformance::ServerProcess;
use duality_conformance::programs::{finish, folder};
use rustix::process::Signal;
use tempfile::TempDir;

/// The page that Duality's http service serves at `/`.
const PAGE: &str = include_str!("../../../services/demo/index.html");

macro_rules! every_server {
    ($($name:ident),*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn the_page_is_ours_byte_for_byte() {
                start(stringify!($name)).as_ref().map(page);
            }

            #[test]
            fn a_connection_lasts_as_long_as_was_agreed() {
                start(stringify!($name)).as_ref().map(persistence);
            }

            #[test]
            fn a_connection_ends_after_as_many_requests_as_ours() {
                start(stringify!($name)).as_ref().map(last_request);
            }

            #[test]
            fn a_head_may_come_in_pieces_and_requests_together() {
                start(stringify!($name)).as_ref().map(pieces);
            }

            #[test]
            fn what_is_not_understood_is_refused() {
                start(stringify!($name)).as_ref().map(refusals);
            }

            #[test]
            fn sigterm_ends_it() {
                start(stringify!($name)).map(ending);
            }
        })*
    };
}

every_server! { http_st, http_pth, http_pthreads, http_epoll, http_cc }

/// The converted server, built once for all tests.
fn converted() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Result<(TempDir, PathBuf), String>> = OnceLock::new();
    let made = PROGRAM.get_or_init(|| {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("http_cc");
        let source = folder("../../peers/http_pthreads.c");
        let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
        command.args(["cc", "-O2", "-pthread"]).arg(source).arg("-o").arg(&program);
        let output = finish(&mut command);
        match output.status.success() {
            true => Ok((place, program)),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    });
    match made {
        Ok((_, program)) => Some(program),
        Err(reason) => {
            duality_conformance::skip(format_args!("http_cc: {reason}"));
            None
        }
    }
}

/// The server, if it is built.
fn start(name: &str) -> Option<ServerProcess> {
    if name == "http_cc" {
        let program = converted()?;
        return Some(ServerProcess::start(Command::new(program).args(["--listen", "127.0.0.1:0"])));
    }
    // The program is target/debug/served, and peers are in target/peers.
    let target = Path::new(env!("CARGO_BIN_EXE_served")).ancestors().nth(2).unwrap();
    let program = target.join("peers").join(name);
    if !program.exists() {
        duality_conformance::skip(format_args!(
            "{} is not built (cargo xtask peers)",
            program.display()
        ));
        return None;
    }
    Some(ServerProcess::start(Command::new(program).args(["--listen", "127.0.0.1:0"])))
}

/// Head and body of the reply, which must be the only one.
fn reply(server: &ServerProcess, request: &str) -> (String, String) {
    let reply = String::from_utf8(server.ask(request.as_bytes())).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{reply}"));
    (head.to_owned(), body.to_owned())
}

fn page(server: &ServerProcess) {
    for path in ["/", "/index.html"] {
        let (head, body) = reply(server, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(body, PAGE);
        let mut lines = head.lines();
        assert_eq!(lines.next(), Some("HTTP/1.1 200 OK"));
        let names: Vec<&str> = lines.map(|line| line.split_once(": ").unwrap().0).collect();
        let expected = "Server Date Content-Type Content-Length Last-Modified ETag Accept-Ranges";
        assert_eq!(names.join(" "), expected);
        assert!(head.contains("\r\nContent-Length: 305\r\n"), "{head}");
    }
    let (head, body) = reply(server, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.contains("\r\nContent-Length: 305\r\n") && body.is_empty(), "{head}{body}");
}

/// Reads one reply with the page from a connection that goes on.
fn hear_page(stream: &mut impl Read) -> String {
    let mut reply = Vec::new();
    while !reply.ends_with(PAGE.as_bytes()) {
        let mut bytes = [0; 1];
        stream.read_exact(&mut bytes).unwrap();
        reply.push(bytes[0]);
    }
    String::from_utf8(reply).unwrap()
}

fn persistence(server: &ServerProcess) {
    for (version, field, is_kept) in [
        ("1.1", "", true),
        ("1.1", "connection: TE,Keep-Alive\r\n", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "CONNECTION:x , Close\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: keep-alive\r\n", true),
    ] {
        let request = format!("GET / HTTP/{version}\r\nHost: a\r\n{field}\r\n");
        let mut stream = server.connect();
        for _ in 0..3 {
            stream.write_all(request.as_bytes()).unwrap();
            let reply = hear_page(&mut stream);
            assert_eq!(reply.contains("\r\nConnection: close\r\n"), !is_kept, "{request}{reply}");
            let is_announced = reply.contains("\r\nConnection: keep-alive\r\n");
            assert_eq!(is_announced, is_kept && version == "1.0", "{request}{reply}");
            if !is_kept {
                assert_eq!(std::io::read_to_string(&mut stream).unwrap(), "", "{request}");
                break;
            }
        }
    }
}

fn last_request(server: &ServerProcess) {
    let mut stream = server.connect();
    for left in (0..duality_lab::measure::peers::REQUESTS_A_CONNECTION).rev() {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let reply = hear_page(&mut stream);
        assert_eq!(reply.contains("\r\nConnection: close\r\n"), left == 0, "{left} left: {reply}");
    }
    assert_eq!(std::io::read_to_string(&mut stream).unwrap(), "");
}

fn pieces(server: &ServerProcess) {
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut stream = server.connect();
    for byte in request {
        stream.write_all(&[*byte]).unwrap();
    }
    hear_page(&mut stream);
    stream.write_all(&request.repeat(100)).unwrap();
    for _ in 0..100 {
        hear_page(&mut stream);
    }
}

fn refusals(server: &ServerProcess) {
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(9000));
    for (request, status) in [
        ("GET /other HTTP/1.1\r\nHost: a\r\n\r\n", "404"),
        ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", "501"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", "413"),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "413"),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505"),
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\nodd line\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: \0\r\n\r\n", "400"),
        ("GET /\r\n\r\n", "400"),
        ("\r\n\r\n", "400"),
        (&long[..8192], "431"),
    ] {
        let (head, _) = reply(server, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {head}");
    }
    assert_eq!(server.ask(b"GET / HTTP/1.1\r\nHost: a\r\n"), b"");
}

fn ending(server: ServerProcess) {
    // The server has an idle connection, and a connection with a request under way.
    let mut resting = server.connect();
    resting.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    hear_page(&mut resting);
    server.connect().write_all(b"GET /").unwrap();
    server.signal(Signal::TERM);
    let (status, stderr) = server.wait();
    assert!(status.success() && stderr.is_empty(), "{status}: {stderr}");
}
