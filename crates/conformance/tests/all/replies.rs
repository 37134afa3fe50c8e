//! Compares the replies of `http` under every architecture, byte for byte, with only the date
//! masked.

use std::io::{Read, Write};
use std::process::Command;

use duality_conformance::{ServerProcess, for_every_architecture, runs_here};

const PAGE: &str = include_str!("../../../services/demo/index.html");

/// The text in place of the date, of the same length.
const DATE: &str = "Ddd, 00 Mmm 0000 00:00:00 GMT";

macro_rules! replies {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;
            replies! { @ the_reply_to_get_is_exact a_head_is_that_of_the_page
                refusals_are_exact partial_replies_are_exact
                pipelined_replies_are_exact_and_in_order a_request_split_anywhere_is_answered
                the_last_reply_arrives_whatever_follows_its_request }
        }
    };
    (@ $($body:ident)*) => {
        $(#[test] fn $body() {
            if super::runs_here(ARCHITECTURE) {
                super::$body(&super::serve(ARCHITECTURE));
            }
        })*
    };
}

for_every_architecture!(replies);

fn serve(architecture: &[&str]) -> ServerProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "http", "--listen=127.0.0.1:0", "--architecture"]);
    ServerProcess::start(command.args(architecture))
}

fn the_reply_to_get_is_exact(server: &ServerProcess) {
    assert_eq!(ask(server, &get("/", "")), page_head("") + PAGE);
    assert_eq!(
        ask(server, &get("/", "Connection: close\r\n")),
        page_head("Connection: close\r\n") + PAGE
    );
    assert_eq!(
        ask(server, "GET / HTTP/1.0\r\n\r\n"),
        page_head("Connection: close\r\n") + PAGE,
        "HTTP/1.0 closes unless asked"
    );
}

fn a_head_is_that_of_the_page(server: &ServerProcess) {
    assert_eq!(ask(server, "HEAD / HTTP/1.1\r\nHost: test\r\n\r\n"), page_head(""));
}

fn refusals_are_exact(server: &ServerProcess) {
    let cases = [
        (get("/absent", ""), "404 Not Found", "", "There is nothing by this name.", ""),
        (
            "POST /hello.txt HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nhi".to_owned(),
            "405 Method Not Allowed",
            "Allow: GET, HEAD, OPTIONS\r\n",
            "This address does not offer the method.",
            "",
        ),
        (
            "NONSENSE\r\n\r\n".to_owned(),
            "400 Bad Request",
            "",
            "The request is not well-formed HTTP.",
            "Connection: close\r\n",
        ),
        (
            get("/", "Range: bytes=305-\r\n"),
            "416 Range Not Satisfiable",
            "Content-Range: bytes */305\r\n",
            "The file ends before the range that was asked for.",
            "",
        ),
    ];
    for (request, status, extra, explanation, fate) in cases {
        let body = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <title>{status}</title>\n<h1>{status}</h1>\n<p>{explanation}</p>\n"
        );
        let expected = format!(
            "HTTP/1.1 {status}\r\nServer: duality\r\nDate: {DATE}\r\n{extra}\
             Content-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n{fate}\r\n{body}",
            body.len()
        );
        assert_eq!(ask(server, &request), expected, "{request:?}");
    }
}

fn partial_replies_are_exact(server: &ServerProcess) {
    assert_eq!(
        ask(server, &get("/", &format!("If-None-Match: {}\r\n", tag()))),
        format!(
            "HTTP/1.1 304 Not Modified\r\nServer: duality\r\nDate: {DATE}\r\n{}\r\n",
            validators()
        )
    );
    assert_eq!(
        ask(server, &get("/", "Range: bytes=10-19\r\n")),
        format!(
            "HTTP/1.1 206 Partial Content\r\nServer: duality\r\nDate: {DATE}\r\n\
             Content-Type: text/html; charset=utf-8\r\nContent-Length: 10\r\n{}\
             Accept-Ranges: bytes\r\nContent-Range: bytes 10-19/305\r\n\r\n{}",
            validators(),
            &PAGE[10..20]
        )
    );
}

fn pipelined_replies_are_exact_and_in_order(server: &ServerProcess) {
    let (mut requests, mut replies) = (String::new(), String::new());
    for number in 0..20 {
        if number % 3 == 0 {
            requests += "HEAD / HTTP/1.1\r\nHost: test\r\n\r\n";
            replies += &page_head("");
        } else {
            requests += &get("/", "");
            replies += &(page_head("") + PAGE);
        }
    }
    assert_eq!(ask(server, &requests), replies);
}

fn a_request_split_anywhere_is_answered(server: &ServerProcess) {
    let request = get("/", "");
    let mut stream = server.connect();
    // The client reads every reply before the next request, so each reply comes in two segments.
    stream.set_nodelay(true).unwrap();
    for split in 1..request.len() {
        stream.write_all(&request.as_bytes()[..split]).unwrap();
        stream.write_all(&request.as_bytes()[split..]).unwrap();
        let mut reply = vec![0; page_head("").len() + PAGE.len()];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(masked(&reply), page_head("") + PAGE, "split after {split} bytes");
    }
}

/// The late bytes come before, during or after the end of the connection.
fn the_last_reply_arrives_whatever_follows_its_request(server: &ServerProcess) {
    let last = |path| get(path, "Connection: close\r\n");
    let page = page_head("Connection: close\r\n") + PAGE;
    for _ in 0..20 {
        for late in ["\r\n", &get("/", "")] {
            assert_eq!(masked(&ask_and_go_on(server, &last("/"), late)), page);
        }
        let long = ask_and_go_on(server, &last("/large.txt"), "\r\n");
        assert!(long.ends_with(b".\n") && long.len() > 102_400, "{} bytes", long.len());
    }
}

/// Sends a request, and then some bytes one by one. Returns all bytes that come back.
fn ask_and_go_on(server: &ServerProcess, request: &str, late: &str) -> Vec<u8> {
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    // A closed server takes no bytes.
    let _ = late.bytes().try_for_each(|byte| stream.write_all(&[byte]));
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    reply
}

fn get(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\n{more}\r\n")
}

fn ask(server: &ServerProcess, request: &str) -> String {
    masked(&server.ask(request.as_bytes()))
}

/// The head of a 200 for the page, with the connection's `fate`.
fn page_head(fate: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nServer: duality\r\nDate: {DATE}\r\n\
         Content-Type: text/html; charset=utf-8\r\nContent-Length: 305\r\n{}\
         Accept-Ranges: bytes\r\n{fate}\r\n",
        validators()
    )
}

fn validators() -> String {
    format!("Last-Modified: Sat, 21 Nov 2026 00:00:00 GMT\r\nETag: {}\r\n", tag())
}

/// The page's entity tag: 64 bits of FNV-1a.
fn tag() -> String {
    let hash = PAGE.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("\"{hash:016x}\"")
}

/// The reply with [`DATE`] in place of every date. Checks the form of each date.
fn masked(reply: &[u8]) -> String {
    let text = std::str::from_utf8(reply).expect("these replies are text");
    let mut pieces = text.split("\r\nDate: ");
    let mut masked = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (date, rest) = piece.split_at(DATE.len());
        let alike = date.bytes().zip(DATE.bytes()).all(|(found, shape)| match shape {
            b'0' => found.is_ascii_digit(),
            b'D' | b'M' if shape != found => found.is_ascii_uppercase(),
            b'd' | b'm' => found.is_ascii_lowercase(),
            _ => found == shape,
        });
        assert!(alike, "{date:?} is no date");
        masked = masked + "\r\nDate: " + DATE + rest;
    }
    masked
}
