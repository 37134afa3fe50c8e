//! Tests the http service over real sockets, in the block world, byte for byte.

use std::{
    fs,
    io::Write,
    net::{Shutdown, SocketAddr},
    os::unix::fs::{PermissionsExt, symlink},
    thread,
    time::Duration,
};

use duality_runtime::block_on;
use duality_services::http::{Config, Http, Limits};
use tempfile::TempDir;

use crate::http_client::{Client, get, get_with, serve, serve_connections};

/// The demonstration, with time limits that no test machine reaches.
fn serve_patiently() -> SocketAddr {
    let limits = Limits { linger_time: Duration::from_secs(60), ..Limits::default() };
    serve(Http::new(Config { root: None, limits }).unwrap())
}

fn serve_directory(limits: Limits) -> (TempDir, SocketAddr) {
    let root = TempDir::new().unwrap();
    let config = Config { root: Some(root.path().to_owned()), limits };
    let address = serve(Http::new(config).unwrap());
    (root, address)
}

#[test]
fn the_demonstration_is_served_on_one_connection() {
    let mut client = Client::connect(serve(Http::demo()));
    let index = client.ask(&get("/"));
    assert_eq!((index.code, index.body.len()), (200, 305));
    assert_eq!(index.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(index.field("Server"), Some("duality"));
    assert_eq!(index.field("Connection"), None);
    assert!(index.field("Date").is_some_and(|date| date.ends_with(" GMT")));
    assert_eq!(client.ask(&get("/index.html")).body, index.body);
    assert_eq!(client.ask(&get("/large.txt")).body.len(), 102_400);
    assert_eq!(client.ask(&get("/robots.txt")).code, 200);
    assert_eq!(client.ask(&get("/missing")).code, 404);
    let head = client.ask("HEAD / HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(head.field("Content-Length"), Some("305"));
    let tag = index.field("ETag").unwrap();
    assert_eq!(client.ask(&get_with("/", &format!("If-None-Match: {tag}"))).code, 304);
    let last = client.ask(&get_with("/", "Connection: close"));
    assert_eq!((last.code, last.field("Connection")), (200, Some("close")));
    client.expect_end();
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let mut client = Client::connect(serve(Http::demo()));
    let targets = ["/hello.txt", "/", "/large.txt", "/missing", "/style.css"];
    let rounds = 40;
    let batch: String = targets.iter().map(|target| get(target)).collect();
    let mut writer = client.stream.try_clone().unwrap();
    let sender = thread::spawn(move || writer.write_all(batch.repeat(rounds).as_bytes()).unwrap());
    for _ in 0..rounds {
        for (code, length) in [(200, 54), (200, 305), (200, 102_400), (404, 0), (200, 236)] {
            let reply = client.receive(false);
            assert_eq!(reply.code, code);
            assert!(code != 200 || reply.body.len() == length);
        }
    }
    sender.join().unwrap();
}

#[test]
fn a_request_may_come_in_pieces_and_the_client_may_close_its_side() {
    let mut client = Client::connect(serve(Http::demo()));
    for byte in get("/hello.txt").bytes() {
        client.send([byte]);
    }
    assert_eq!(client.receive(false).code, 200);
    client.send(get("/hello.txt"));
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.receive(false).code, 200);
    client.expect_end();

    let mut client = Client::connect(serve(Http::demo()));
    client.send("GET / HT");
    client.stream.shutdown(Shutdown::Write).unwrap();
    client.expect_end();
}

#[test]
fn http_1_0_closes_unless_asked() {
    let address = serve(Http::demo());
    let mut client = Client::connect(address);
    let reply = client.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(reply.field("Connection"), Some("keep-alive"));
    let reply = client.ask("GET / HTTP/1.0\r\n\r\n");
    assert_eq!((reply.body.len(), reply.field("Connection")), (305, Some("close")));
    client.expect_end();
}

#[test]
fn files_are_served_and_changes_are_seen() {
    let (root, address) = serve_directory(Limits::default());
    let path = |name: &str| root.path().join(name);
    let large: Vec<u8> = (0..200_000u32).map(|number| number as u8).collect();
    fs::create_dir(path("a directory")).unwrap();
    fs::write(path("a directory/index.html"), "index").unwrap();
    fs::write(path("large.bin"), &large).unwrap();
    fs::write(path("empty.txt"), "").unwrap();
    fs::write(path("note.txt"), "first").unwrap();

    let mut client = Client::connect(address);
    let redirect = client.ask(&get("/a%20directory?q=1"));
    assert_eq!(redirect.code, 301);
    assert_eq!(redirect.field("Location"), Some("/a%20directory/?q=1"));
    assert_eq!(client.ask(&get("/a%20directory/")).body, b"index");
    assert_eq!(client.ask(&get("/a%20directory/index.html/")).code, 404);
    assert_eq!(client.ask(&get("/")).code, 404);
    let reply = client.ask(&get("/large.bin"));
    assert_eq!(reply.field("Content-Type"), Some("application/octet-stream"));
    assert_eq!(reply.body, large);
    let reply = client.ask(&get_with("/large.bin", "Range: bytes=100000-100009"));
    assert_eq!((reply.code, &reply.body[..]), (206, &large[100_000..100_010]));
    assert_eq!(reply.field("Content-Range"), Some("bytes 100000-100009/200000"));
    assert_eq!(client.ask(&get("/empty.txt")).body, b"");
    let first = client.ask(&get("/note.txt"));
    assert_eq!(first.body, b"first");

    // By its own clock, the server sees the change within a second. The client's read time-out ends
    // this loop.
    fs::write(path("note.txt"), "second").unwrap();
    let second = loop {
        let reply = client.ask(&get("/note.txt"));
        if reply.body != b"first" {
            break reply;
        }
        thread::yield_now();
        client = if reply.field("Connection") == Some("close") {
            Client::connect(address)
        } else {
            client
        };
    };
    assert_eq!(second.body, b"second");
    assert_ne!(first.field("ETag"), second.field("ETag"));
}

#[test]
fn conditions_and_ranges_are_heeded() {
    let (root, address) = serve_directory(Limits::default());
    fs::write(root.path().join("digits"), "0123456789").unwrap();
    let mut client = Client::connect(address);
    let whole = client.ask(&get("/digits"));
    let tag = whole.field("ETag").unwrap().to_owned();
    let modified = whole.field("Last-Modified").unwrap().to_owned();
    for (fields, code, body) in [
        (format!("If-None-Match: \"x\", W/{tag}"), 304, ""),
        (format!("If-Modified-Since: {modified}"), 304, ""),
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {modified}"), 200, "0123456789"),
        ("If-Match: \"x\"".to_owned(), 412, "?"),
        ("Range: bytes=2-4".to_owned(), 206, "234"),
        ("Range: bytes=-2".to_owned(), 206, "89"),
        ("Range: bytes=0-0,5-6".to_owned(), 200, "0123456789"),
        ("Range: bytes=10-".to_owned(), 416, "?"),
        (format!("Range: bytes=2-4\r\nIf-Range: {tag}"), 206, "234"),
        ("Range: bytes=2-4\r\nIf-Range: \"x\"".to_owned(), 200, "0123456789"),
    ] {
        let reply = client.ask(&get_with("/digits", &fields));
        assert_eq!(reply.code, code, "{fields}");
        assert!(body == "?" || reply.body == body.as_bytes(), "{fields}");
        assert_eq!(reply.field("Content-Range") == Some("bytes */10"), code == 416);
    }
}

#[test]
fn nothing_outside_the_root_is_served() {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let (root, address) = serve_directory(Limits::default());
    symlink(outside.path().join("secret"), root.path().join("link")).unwrap();
    symlink(outside.path(), root.path().join("way")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    fs::write(root.path().join("closed"), "closed").unwrap();
    fs::set_permissions(root.path().join("closed"), fs::Permissions::from_mode(0o000)).unwrap();

    let mut client = Client::connect(address);
    assert_eq!(client.ask(&get("/link")).code, 403);
    assert_eq!(client.ask(&get("/way/secret")).code, 403);
    assert_eq!(client.ask(&get("/pipe")).code, 403);
    assert_eq!(client.ask(&get("/..%2fsecret")).code, 404);
    assert_eq!(client.ask(&get("/%2e%2e/secret")).code, 400);
    // The superuser reads everything, and tests may run as such.
    if !rustix::process::geteuid().is_root() {
        assert_eq!(client.ask(&get("/closed")).code, 403);
    }
}

#[test]
fn other_methods_leave_the_connection_usable() {
    let mut client = Client::connect(serve(Http::demo()));
    let reply = client.ask("POST /hello.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((reply.code, reply.field("Allow")), (405, Some("GET, HEAD, OPTIONS")));
    let reply = client.ask("BREW / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(reply.code, 501);
    for target in ["/hello.txt", "*"] {
        let reply = client.ask(&format!("OPTIONS {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!((reply.code, reply.field("Allow")), (200, Some("GET, HEAD, OPTIONS")));
        assert_eq!(reply.field("Content-Length"), Some("0"));
    }
    client.send("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    client.send("0\r\n\r\n");
    assert_eq!(client.receive(false).code, 200);
    assert_eq!(client.ask(&get("/")).code, 200);
}

#[test]
fn doubtful_requests_are_answered_and_end_the_connection() {
    let address = serve_patiently();
    let long = "x".repeat(17_000);
    for (request, code) in [
        ("NONSENSE\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/2.0\r\n\r\n".to_owned(), 505),
        (get_with("/", "Content-Length: 1\r\nTransfer-Encoding: chunked"), 400),
        (get_with("/", "Transfer-Encoding: gzip, chunked"), 501),
        (get_with("/", "Content-Length: 70000"), 413),
        (get(&format!("/{long}")), 414),
        (get_with("/", &format!("X: {long}")), 431),
        (get_with("/", &"X: y\r\n".repeat(70)), 431),
    ] {
        let mut client = Client::connect(address);
        // The body is longer than one read of the server. The reply must still arrive.
        client.send(request + &"y".repeat(30_000));
        let reply = client.receive(false);
        assert_eq!((reply.code, reply.field("Connection")), (code, Some("close")));
        client.stream.shutdown(Shutdown::Write).unwrap();
        client.expect_end();
    }
}

#[test]
fn a_refusal_is_the_same_however_the_request_is_cut() {
    let address = serve_patiently();
    let request = " HEAD / HTTP/1.1\r\nHost: h\r\n\r\n";
    let replies = [1, 3, request.len()].map(|cut| {
        let mut client = Client::connect(address);
        client.send(&request[..cut]);
        // The server replies to the first bytes before the client sends the rest.
        let reply = client.receive(false);
        client.send(&request[cut..]);
        client.stream.shutdown(Shutdown::Write).unwrap();
        client.expect_end();
        (reply.code, reply.body)
    });
    assert!(replies.iter().all(|reply| reply.0 == 400 && *reply == replies[0]), "{replies:?}");
}

#[test]
fn a_connection_carries_a_bounded_number_of_requests() {
    let (_root, address) = serve_directory(Limits { requests: 3, ..Limits::default() });
    let mut client = Client::connect(address);
    // The client sends two requests more than the server answers. It must still get all replies.
    client.send(get("/x").repeat(5));
    let fates: Vec<_> =
        (0..3).map(|_| client.receive(false).field("Connection").map(str::to_owned)).collect();
    assert_eq!(fates, [None, None, Some("close".to_owned())]);
    client.stream.shutdown(Shutdown::Write).unwrap();
    client.expect_end();
}

#[test]
fn a_connection_too_many_is_told_so() {
    let limits = Limits { linger_time: Duration::from_secs(60), ..Limits::default() };
    let http = Http::new(Config { root: None, limits }).unwrap();
    let address = serve_connections(move |stream| {
        let http = http.clone();
        async move { http.refuse(stream).await }
    });
    // The reply is the same for no request, a short request and a long one.
    for request in [String::new(), get("/"), get_with("/", &format!("X: {}", "x".repeat(50_000)))] {
        let mut client = Client::connect(address);
        client.send(&request);
        let reply = client.receive(false);
        assert_eq!((reply.code, reply.field("Connection")), (503, Some("close")));
        assert_eq!(reply.field("Retry-After"), Some("1"));
        client.stream.shutdown(Shutdown::Write).unwrap();
        client.expect_end();
    }
    // The test does not wait for the end of a connection that stays.
    let mut client = Client::connect(address);
    assert_eq!(client.receive(false).code, 503);
    client.expect_end();
}

#[test]
fn a_root_that_cannot_be_opened_is_named() {
    let config = Config { root: Some("/does/not/exist".into()), limits: Limits::default() };
    let message = Http::new(config).err().unwrap().to_string();
    assert!(
        message.contains("/does/not/exist") && message.contains("give a directory"),
        "{message}"
    );
}

#[test]
fn the_state_of_a_connection_is_small() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let http = Http::demo();
    let stream = block_on(duality_runtime::net::TcpStream::connect(address)).unwrap();
    let size = size_of_val(&http.serve(stream));
    assert!(size <= 528, "ten thousand connections have {size} bytes of state each");
}
