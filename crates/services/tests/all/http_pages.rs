//! Tests request bodies, and pages that are made for each request, as a client sees them.

use std::{net::Shutdown, thread, time::Duration};

use duality_services::http::{Answer, Asked, Config, Http, Limits, Offer, Pages, Reply, status};

use crate::http_client::{Client, get, get_with, serve};

/// `/note` describes the request, and takes up to 20 bytes that are not "secret". `/shy` is
/// offered, but then does not answer.
struct Notes;

impl Pages for Notes {
    fn offer(&self, path: &str) -> Option<Offer> {
        match path {
            "note" => Some(Offer { post: Some(20) }),
            "shy" | "hello.txt" => Some(Offer { post: None }),
            _ => None,
        }
    }

    fn screen(&self, asked: &Asked<'_>) -> Result<(), Reply> {
        match asked.field("Content-Type")? {
            Some(b"text/plain") | None => Ok(()),
            Some(_) => Err(Reply::explained(&status::UNSUPPORTED_MEDIA_TYPE)),
        }
    }

    fn answer<'p>(&'p self, asked: Asked<'p>) -> Answer<'p> {
        Box::pin(async move {
            let Asked { is_post, path, query, body, .. } = asked;
            let body = String::from_utf8_lossy(body);
            (path == "note")
                .then(|| Reply::html(&status::OK, format!("{is_post} {path} {query} {body}")))
        })
    }
}

fn serve_notes(limits: Limits) -> std::net::SocketAddr {
    serve(Http::with_pages(Config { root: None, limits }, Notes).unwrap())
}

/// Limits that no test machine reaches.
fn patient() -> Limits {
    let long = Duration::from_secs(60);
    Limits { linger_time: long, body_time: long, ..Limits::default() }
}

fn post(fields: &str, body: &str) -> String {
    format!("POST /note HTTP/1.1\r\nHost: test\r\n{fields}\r\n\r\n{body}")
}

#[test]
fn a_page_gets_what_was_sent() {
    let mut client = Client::connect(serve_notes(patient()));
    let reply = client.ask(&get("/note?a=b"));
    assert_eq!((reply.code, &reply.body[..]), (200, &b"false note a=b "[..]));
    assert_eq!(reply.field("Cache-Control"), Some("no-store"));
    assert_eq!(reply.field("Content-Type"), Some("text/html; charset=utf-8"));

    let head = client.ask("HEAD /note?a=b HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!((head.code, head.field("Content-Length")), (200, Some("15")));

    let reply = client.ask(&post("Content-Length: 5", "hello"));
    assert_eq!(reply.body, b"true note  hello");
    // The page gets all chunks, in whatever pieces they come, and nothing more.
    let chunks = "2\r\nhe\r\n3;x=\"y\"\r\nllo\r\n0\r\nA: b\r\n\r\n";
    for byte in post("Transfer-Encoding: chunked", chunks).bytes() {
        client.send([byte]);
    }
    client.send(get("/note"));
    assert_eq!(client.receive(false).body, b"true note  hello");
    assert_eq!(client.receive(false).body, b"false note  ");
    assert_eq!(client.ask(&post("Content-Length: 0", "")).body, b"true note  ");
}

#[test]
fn a_page_says_what_may_be_asked_of_it() {
    let mut client = Client::connect(serve_notes(patient()));
    for (method, target, code, allow) in [
        ("OPTIONS", "/note", 200, "GET, HEAD, POST, OPTIONS"),
        ("DELETE", "/note", 405, "GET, HEAD, POST, OPTIONS"),
        ("OPTIONS", "/shy", 200, "GET, HEAD, OPTIONS"),
        ("POST", "/shy", 405, "GET, HEAD, OPTIONS"),
        ("POST", "/robots.txt", 405, "GET, HEAD, OPTIONS"),
        ("OPTIONS", "*", 200, "GET, HEAD, OPTIONS"),
    ] {
        let reply = client.ask(&format!("{method} {target} HTTP/1.1\r\nHost: test\r\n\r\n"));
        assert_eq!((reply.code, reply.field("Allow")), (code, Some(allow)), "{method} {target}");
    }
    assert_eq!(client.ask("BREW /note HTTP/1.1\r\nHost: test\r\n\r\n").code, 501);
    // If a page does not exist after all, the server looks for a file.
    assert_eq!(client.ask(&get("/shy")).code, 404);
    let file = client.ask(&get("/hello.txt"));
    assert_eq!((file.code, file.field("Cache-Control")), (200, None));
}

#[test]
fn a_client_that_waits_for_leave_gets_it_if_the_body_will_be_read() {
    let address = serve_notes(patient());
    let expecting = |fields: &str| post(&format!("Expect: 100-continue\r\n{fields}"), "");
    let mut client = Client::connect(address);
    client.send(expecting("Content-Length: 5"));
    client.expect_bytes(b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    assert_eq!(client.receive(false).body, b"true note  hello");
    client.send(expecting("Transfer-Encoding: chunked"));
    client.expect_bytes(b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send("1\r\nx\r\n0\r\n\r\n");
    assert_eq!(client.receive(false).body, b"true note  x");
    // The client did not wait for "100 Continue", so the connection can go on.
    client.send(expecting("Content-Length: 5") + "hello" + &get("/note"));
    assert_eq!(client.receive(false).body, b"true note  hello");
    assert_eq!(client.receive(false).body, b"false note  ");

    let requests = [
        (expecting("Content-Length: 21"), 413),
        (expecting("Content-Length: 5\r\nContent-Type: image/png"), 415),
        (get_with("/hello.txt", "Content-Length: 5\r\nExpect: 100-continue"), 200),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"
                .into(),
            405,
        ),
        (post("Content-Length: 5\r\nExpect: miracles", "hello"), 417),
        (get_with("/note", "Expect: miracles"), 417),
    ];
    for (request, code) in requests {
        let mut client = Client::connect(address);
        let reply = client.ask(&request);
        assert_eq!((reply.code, reply.field("Connection")), (code, Some("close")), "{request:?}");
        client.stream.shutdown(Shutdown::Write).unwrap();
        client.expect_end();
    }
    // HTTP/1.0 has no interim replies.
    let mut client = Client::connect(address);
    client.send("POST /note HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    client.send("hello");
    assert_eq!(client.receive(false).body, b"true note  hello");
}

#[test]
fn bodies_that_cannot_be_read_are_answered_as_such() {
    let address = serve_notes(patient());
    let chunked = |body: &str| post("Transfer-Encoding: chunked", body);
    for (request, code) in [
        (chunked("zz\r\n"), 400),
        (chunked("3\r\nabcd\r\n"), 400),
        (chunked("1\na\n0\n\n"), 400),
        (chunked("15\r\n"), 413),
        (chunked(&"1\r\nx\r\n".repeat(21)), 413),
        (chunked("fffffffff\r\nabc"), 413),
        (post("Content-Length: 21", ""), 413),
        (get_with("/hello.txt", "Transfer-Encoding: chunked") + "zz\r\n", 400),
        (get_with("/hello.txt", "Transfer-Encoding: chunked") + "fffff\r\n", 413),
        (get_with("/hello.txt", "Content-Length: 70000"), 413),
    ] {
        let mut client = Client::connect(address);
        // The body is longer than one read of the server. The reply must still arrive.
        client.send(request.clone() + &"y".repeat(70_000));
        let reply = client.receive(false);
        assert_eq!((reply.code, reply.field("Connection")), (code, Some("close")), "{request:?}");
        client.stream.shutdown(Shutdown::Write).unwrap();
        client.expect_end();
    }
}

#[test]
fn bodies_that_do_not_come_are_not_waited_for() {
    let limits = Limits { body_time: Duration::from_millis(20), ..Limits::default() };
    let address = serve_notes(limits);
    for request in [post("Content-Length: 5", "he"), post("Transfer-Encoding: chunked", "5\r\nhe")]
    {
        let mut client = Client::connect(address);
        let reply = client.ask(&request);
        assert_eq!((reply.code, reply.field("Connection")), (408, Some("close")));
        client.expect_end();
    }
    // A client that leaves in the middle of a body gets no reply.
    let mut client = Client::connect(serve_notes(patient()));
    client.send(post("Content-Length: 5", "he"));
    client.stream.shutdown(Shutdown::Write).unwrap();
    client.expect_end();
}

#[test]
fn pages_keep_their_place_among_pipelined_requests() {
    let limits = Limits { requests: 400, ..patient() };
    let mut client = Client::connect(serve_notes(limits));
    let batch = get("/hello.txt") + &post("Content-Length: 3", "abc") + &get("/note") + &get("/x");
    let mut writer = client.stream.try_clone().unwrap();
    let sender = thread::spawn(move || {
        std::io::Write::write_all(&mut writer, batch.repeat(100).as_bytes()).unwrap();
    });
    for _ in 0..100 {
        assert_eq!(client.receive(false).body.len(), 54);
        assert_eq!(client.receive(false).body, b"true note  abc");
        assert_eq!(client.receive(false).body, b"false note  ");
        assert_eq!(client.receive(false).code, 404);
    }
    sender.join().unwrap();
    client.expect_end();
}

#[test]
fn the_demonstration_sends_back_what_is_posted() {
    let mut client = Client::connect(serve(Http::demo()));
    let reply = client.ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\n<script>");
    assert_eq!((reply.code, &reply.body[..]), (200, &b"<script>"[..]));
    assert_eq!(reply.field("Content-Type"), Some("application/octet-stream"));
    assert_eq!(reply.field("X-Content-Type-Options"), Some("nosniff"));
    assert_eq!(client.ask(&get("/")).body.len(), 305);
}
