//! The http service over real sockets, in the block world: what a client sees, byte for byte.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the client is a plain blocking program, and the server a plain thread"
)]

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::fs::{PermissionsExt, symlink},
    thread,
    time::Duration,
};

use duality_runtime::{
    block_on,
    net::{ListenOptions, TcpListener},
};
use duality_services::http::{Config, Http, Limits};
use tempfile::TempDir;

/// Serves connections on a free port, each on a thread, for as long as the test process lives.
fn serve(http: Http) -> SocketAddr {
    let mut listener =
        TcpListener::bind("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        loop {
            let (stream, _) = block_on(listener.accept()).unwrap();
            let http = http.clone();
            thread::spawn(move || block_on(http.serve(stream)));
        }
    });
    address
}

/// The demonstration with a patience that no hold-up of the test machine exhausts.
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

/// A client that gives up, and fails its test, after a while.
struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

#[derive(Debug)]
struct Reply {
    code: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, received: Vec::new() }
    }

    fn send(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).unwrap();
    }

    /// The next reply; `to_head` if its request was a HEAD.
    fn receive(&mut self, to_head: bool) -> Reply {
        let end = loop {
            if let Some(at) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.read_more(), "the connection ended in a head: {:?}", self.text());
        };
        let head = String::from_utf8(self.received.drain(..end).collect()).unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut reply = Reply { code, head, body: Vec::new() };
        if !to_head && code != 304 {
            let length: usize = reply.field("Content-Length").unwrap().parse().unwrap();
            while self.received.len() < length {
                assert!(self.read_more(), "the connection ended in a body");
            }
            reply.body = self.received.drain(..length).collect();
        }
        reply
    }

    fn ask(&mut self, text: &str) -> Reply {
        self.send(text);
        self.receive(text.starts_with("HEAD"))
    }

    fn read_more(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let length = self.stream.read(&mut buffer).expect("the server answers or closes in time");
        self.received.extend_from_slice(&buffer[..length]);
        length > 0
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// Checks that the server sends nothing more and closes, without a reset.
    fn expect_end(&mut self) {
        assert!(self.received.is_empty() && !self.read_more(), "more came: {:?}", self.text());
    }
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n")
}

fn get_with(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n\r\n")
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

    // At most a second later, by the server's clock, the change is seen; the deadline is the
    // client's read time-out, not this loop.
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
fn methods_other_than_get_and_head_leave_the_connection_usable() {
    let mut client = Client::connect(serve(Http::demo()));
    let reply = client.ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((reply.code, reply.field("Allow")), (405, Some("GET, HEAD")));
    let reply = client.ask("BREW / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(reply.code, 501);
    client.send("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    client.send("0\r\n\r\n");
    assert_eq!(client.receive(false).code, 200);
    assert_eq!(client.ask(&get("/")).code, 200);
}

#[test]
fn doubtful_requests_are_answered_and_end_the_connection() {
    let address = serve_patiently();
    let long = "x".repeat(9000);
    for (request, code) in [
        ("NONSENSE\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/2.0\r\n\r\n".to_owned(), 505),
        (get_with("/", "Content-Length: 1\r\nTransfer-Encoding: chunked"), 400),
        (get_with("/", "Transfer-Encoding: gzip"), 501),
        (get_with("/", "Content-Length: 70000"), 413),
        (get(&format!("/{long}")), 414),
        (get_with("/", &format!("X: {long}")), 431),
        (get_with("/", &"X: y\r\n".repeat(70)), 431),
    ] {
        let mut client = Client::connect(address);
        // More than the server reads at once: the reply must arrive all the same.
        client.send(request + &"y".repeat(30_000));
        let reply = client.receive(false);
        assert_eq!((reply.code, reply.field("Connection")), (code, Some("close")));
        client.stream.shutdown(Shutdown::Write).unwrap();
        client.expect_end();
    }
}

#[test]
fn bodies_that_break_their_framing_end_the_connection() {
    let address = serve_patiently();
    for body in ["zz\r\n", "fffffffff\r\nabc", "3\r\nabcd\r\n"] {
        let mut client = Client::connect(address);
        client.send(get_with("/", "Transfer-Encoding: chunked") + body + &"y".repeat(70_000));
        assert_eq!(client.receive(false).code, 200);
        client.stream.shutdown(Shutdown::Write).unwrap();
        client.expect_end();
    }
    let mut client = Client::connect(address);
    client.send(get_with("/", "Content-Length: 5\r\nExpect: 100-continue"));
    assert_eq!(client.receive(false).field("Connection"), Some("close"));
    client.stream.shutdown(Shutdown::Write).unwrap();
    client.expect_end();
}

#[test]
fn a_connection_carries_a_bounded_number_of_requests() {
    let (_root, address) = serve_directory(Limits { requests: 3, ..Limits::default() });
    let mut client = Client::connect(address);
    // Two more than are answered; what is left over must not cost the client the replies.
    client.send(get("/x").repeat(5));
    let fates: Vec<_> =
        (0..3).map(|_| client.receive(false).field("Connection").map(str::to_owned)).collect();
    assert_eq!(fates, [None, None, Some("close".to_owned())]);
    client.stream.shutdown(Shutdown::Write).unwrap();
    client.expect_end();
}

#[test]
fn slow_clients_are_let_go() {
    let short = Duration::from_millis(20);
    // Nothing at all: closed without a word.
    let (_root, address) = serve_directory(Limits { idle_time: short, ..Limits::default() });
    Client::connect(address).expect_end();
    // A request that does not end, though bytes may still come.
    let (_root, address) = serve_directory(Limits { head_time: short, ..Limits::default() });
    let mut client = Client::connect(address);
    client.send("GET / HTTP/1.1\r\nHost: h\r\nX: ");
    assert_eq!(client.receive(false).code, 408);
    client.expect_end();
    // A body that does not come.
    let (_root, address) = serve_directory(Limits { body_time: short, ..Limits::default() });
    let mut client = Client::connect(address);
    client.send(get_with("/", "Content-Length: 5"));
    assert_eq!(client.receive(false).code, 404);
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
    assert!(size <= 1280, "ten thousand connections have {size} bytes of state each");
}
