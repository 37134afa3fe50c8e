//! `duality serve --tls-cert`: every architecture serves the same bytes by TLS, and clients that
//! break the protocol harm nothing. The client is rustls over the streams of `std`.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use crate::tls_client::{LIMIT, Tls, connect, connect_tls, make_certificate};
use duality_lab::record::{Cell, Obstacle, Outcome, results};
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_duality");

/// Every architecture that runs straight-line code without a library of the system.
const ARCHITECTURES: [&str; 14] = [
    "iterative",
    "fork",
    "prefork",
    "threads",
    "pool",
    "uthreads",
    "select",
    "poll",
    "epoll",
    "uring",
    "workpool-fifo",
    "workpool-priority",
    "workpool-serial",
    "staged",
];

/// Each world, and the ring.
const WORLDS: [&str; 4] = ["threads", "uthreads", "epoll", "uring"];

/// A directory with a certificate of its own authority, its key, and files to serve.
fn files() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    make_certificate(directory.path());
    let big: Vec<u8> = (0..300_000_u32).map(|number| (number / 7) as u8).collect();
    fs::create_dir(directory.path().join("root")).unwrap();
    fs::write(directory.path().join("root/big"), big).unwrap();
    fs::write(directory.path().join("root/small"), "a few bytes").unwrap();
    directory
}

struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// `None`, and a line, where this machine cannot run the architecture.
    fn start(directory: &Path, service: &str, architecture: &str) -> Option<Self> {
        Self::start_with(directory, service, architecture, &[])
    }

    /// The same with more arguments.
    fn start_with(
        directory: &Path,
        service: &str,
        architecture: &str,
        more: &[&str],
    ) -> Option<Self> {
        let mut child = Command::new(PROGRAM)
            .args(["serve", service, "--listen", "127.0.0.1:0", "--architecture", architecture])
            .args(["--tls-cert", "cert.pem", "--tls-key", "key.pem"])
            .args(more)
            .args((service == "http").then_some(["--root", "root"]).into_iter().flatten())
            .current_dir(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some(address) = line.trim_end().strip_prefix("listening on ") else {
            let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
            assert!(stderr.contains("io_uring"), "{architecture}: {stderr}");
            let _ = writeln!(std::io::stderr(), "skipped: {}", stderr.trim_end());
            child.wait().unwrap();
            return None;
        };
        Some(Self { address: address.parse().unwrap(), child })
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).unwrap();
    }

    fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    fn connect_tls(&self, directory: &Path, version: &'static SupportedProtocolVersion) -> Tls {
        connect_tls(self.address, directory, version)
    }

    /// The server drains, and has said nothing.
    fn end(self, context: &str) {
        self.end_after(context, "");
    }

    /// The server drains, and has said `complaints`.
    fn end_after(mut self, context: &str, complaints: &str) {
        self.signal(rustix::process::Signal::TERM);
        let stderr = std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap();
        assert_eq!(
            (self.child.wait().unwrap().code(), &*stderr),
            (Some(0), complaints),
            "{context}"
        );
    }
}

fn ask(tls: &mut Tls, path: &str, fields: &str) -> std::io::Result<()> {
    write!(tls, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

/// The body of the next reply; `None` where the connection ends in order before it.
fn body(tls: &mut Tls, context: &str) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        // An end without a close_notify is an error.
        match tls.read(&mut byte).unwrap_or_else(|error| panic!("{context}: {error}")) {
            0 if head.is_empty() => return None,
            count => assert_eq!(count, 1, "{context}: cut in a head"),
        }
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{context}: {head}");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    tls.read_exact(&mut body).unwrap_or_else(|error| panic!("{context}: {error}"));
    Some(body)
}

#[test]
fn a_load_checks_the_certificate_and_every_reply() {
    let directory = files();
    let load = |server: &Server, flags: &[&str]| {
        Command::new(PROGRAM)
            .args(["load", &format!("https://localhost:{}/big", server.address.port())])
            .args(["-c", "4", "-n", "200", "--timeout", "60s"])
            .args(flags)
            .current_dir(directory.path())
            .output()
            .unwrap()
    };
    for architecture in WORLDS {
        let Some(server) = Server::start(directory.path(), "http", architecture) else { continue };
        for flags in [&["--ca", "cert.pem"][..], &["--insecure", "--close"]] {
            let output = load(&server, flags);
            let said = String::from_utf8_lossy(&output.stdout);
            // On a busy machine, the figures may be invalid.
            let right = said.contains("200 correct, none failed");
            assert!(right, "{architecture}, {flags:?}: {output:?}");
        }
        // The system trusts no authority that this test made.
        let output = load(&server, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("--insecure"), "{output:?}");
        let missing = load(&server, &["--ca", "missing.pem"]);
        let said = String::from_utf8_lossy(&missing.stderr);
        assert!(said.contains("missing.pem") && said.lines().count() == 1, "{said}");
        server.end(architecture);
    }
}

#[test]
fn every_architecture_serves_the_same_bytes() {
    let directory = files();
    let read = |name: &str| fs::read(directory.path().join("root").join(name)).unwrap();
    let (big, small) = (read("big"), read("small"));
    for architecture in ARCHITECTURES {
        let Some(server) = Server::start(directory.path(), "http", architecture) else { continue };
        for version in [&TLS12, &TLS13] {
            let context = format!("{architecture}, {:?}", version.version);
            let mut tls = server.connect_tls(directory.path(), version);
            for _ in 0..3 {
                ask(&mut tls, "/small", "").unwrap();
                assert!(body(&mut tls, &context).as_ref() == Some(&small), "{context}: small");
                ask(&mut tls, "/big", "").unwrap();
                assert!(body(&mut tls, &context).as_ref() == Some(&big), "{context}: big");
            }
            assert_eq!(tls.conn.alpn_protocol(), Some(&b"http/1.1"[..]), "{context}");
            ask(&mut tls, "/small", "Connection: close\r\n").unwrap();
            assert!(body(&mut tls, &context).as_ref() == Some(&small), "{context}: last");
            assert_eq!(body(&mut tls, &context), None, "{context}");
        }
        server.end(architecture);
    }
}

#[test]
fn a_drain_loses_no_reply() {
    let directory = files();
    let big = fs::read(directory.path().join("root/big")).unwrap();
    for architecture in ARCHITECTURES {
        let Some(server) = Server::start(directory.path(), "http", architecture) else { continue };
        let mut tls = server.connect_tls(directory.path(), &TLS13);
        ask(&mut tls, "/big", "").unwrap();
        assert!(body(&mut tls, architecture).as_ref() == Some(&big), "{architecture}");
        let (begun, until) = std::sync::mpsc::channel();
        let big = &big;
        thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0.. {
                    // A request may meet a server that has ended.
                    if ask(&mut tls, "/big", "").is_err() {
                        break;
                    }
                    match body(&mut tls, architecture) {
                        Some(body) => assert!(body == *big, "{architecture}: {number}"),
                        None => break,
                    }
                    if number == 3 {
                        begun.send(()).unwrap();
                    }
                }
            });
            until.recv().unwrap();
            server.end(architecture);
        });
    }
}

#[test]
fn clients_that_break_the_protocol_harm_nothing() {
    let directory = files();
    for architecture in WORLDS {
        let Some(server) = Server::start(directory.path(), "http", architecture) else { continue };
        let hello: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
        let http: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
        for bytes in [http, &[0xff; 9000], hello, b""] {
            let mut stream = server.connect();
            // The server may have left.
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(Shutdown::Write);
            let mut reply = Vec::new();
            match stream.read_to_end(&mut reply) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
                Err(error) => panic!("{architecture}: {error}"),
            }
            if bytes == http {
                let reply = String::from_utf8_lossy(&reply);
                assert!(reply.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{reply}");
                assert!(reply.ends_with("ask by https://\n"), "{architecture}: {reply}");
                continue;
            }
            assert!(reply.len() < 100, "{architecture}: {reply:?}");
        }
        // A connection that is cut in a request, and one with a broken record.
        let mut tls = server.connect_tls(directory.path(), &TLS13);
        tls.write_all(b"GET /small HT").unwrap();
        drop(tls.sock);
        let mut tls = server.connect_tls(directory.path(), &TLS13);
        ask(&mut tls, "/small", "").unwrap();
        body(&mut tls, architecture).unwrap();
        tls.sock.write_all(b"\x17\x03\x03\x00\x20broken broken broken broken brok").unwrap();
        assert!(tls.read(&mut [0]).is_err(), "{architecture}: an alert");
        let mut tls = server.connect_tls(directory.path(), &TLS13);
        ask(&mut tls, "/small", "Connection: close\r\n").unwrap();
        assert_eq!(body(&mut tls, architecture).unwrap(), b"a few bytes");
        server.end(architecture);
    }
}

/// Clients that begin a handshake and say no more give way where others wait for a thread.
#[test]
fn silent_handshakes_give_way() {
    let directory = files();
    let arguments = ["--workers", "2"];
    let server = Server::start_with(directory.path(), "http", "pool", &arguments).unwrap();
    let hello = hello_of(directory.path(), server.address);
    let silent: Vec<_> = (0..160).map(|_| server.connect()).collect();
    silent.iter().for_each(|mut stream| stream.write_all(&hello).unwrap());
    // The patience of this client is 60 s, less than a second for two of the others.
    let mut tls = server.connect_tls(directory.path(), &TLS13);
    ask(&mut tls, "/small", "Connection: close\r\n").unwrap();
    assert_eq!(body(&mut tls, "pool").unwrap(), b"a few bytes");
    drop(silent);
    server.end("pool");
}

/// The first flight of a client.
fn hello_of(directory: &Path, address: SocketAddr) -> Vec<u8> {
    let mut tls = connect_tls(address, directory, &TLS13);
    let mut hello = Vec::new();
    tls.conn.write_tls(&mut hello).unwrap();
    hello
}

/// A relay's reply without a length ends in a way that a client can tell from a cut.
#[test]
fn a_cut_reply_without_a_length_never_looks_whole() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = upstream.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in upstream.incoming().map_while(Result::ok) {
            let mut head = [0; 1000];
            let length = stream.read(&mut head).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nsome of it").unwrap();
            // A reset ends the reply of some paths.
            if head[..length].starts_with(b"GET /cut") {
                thread::sleep(std::time::Duration::from_millis(50));
                rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO))
                    .unwrap();
            }
        }
    });
    let directory = files();
    let upstream = format!("--upstream={address}");
    for architecture in WORLDS {
        let relay = Server::start_with(directory.path(), "relay", architecture, &[&upstream]);
        let Some(server) = relay else { continue };
        for (path, version, is_whole) in
            [("/", "1.1", true), ("/", "1.0", true), ("/cut", "1.1", false), ("/cut", "1.0", false)]
        {
            let mut tls = server.connect_tls(directory.path(), &TLS13);
            let fields = "Host: x\r\nConnection: close\r\n";
            write!(tls, "GET {path} HTTP/{version}\r\n{fields}\r\n").unwrap();
            let mut reply = Vec::new();
            let ended = tls.read_to_end(&mut reply);
            let reply = String::from_utf8(reply).unwrap();
            let context = format!("{architecture}: {path} of {version}: {ended:?} after {reply}");
            assert_eq!(ended.is_ok(), is_whole, "{context}");
            let has_end = match version {
                "1.1" => reply.ends_with("\r\na\r\nsome of it\r\n0\r\n\r\n"),
                _ => reply.ends_with("some of it"),
            };
            assert!(has_end || !is_whole, "{context}");
        }
        server.signal(rustix::process::Signal::TERM);
    }
}

#[test]
fn other_services_have_tls_too() {
    let directory = files();
    for architecture in WORLDS {
        let Some(server) = Server::start(directory.path(), "echo", architecture) else { continue };
        let mut tls = server.connect_tls(directory.path(), &TLS13);
        let sent = vec![b'x'; 100_000];
        let mut back = vec![0; sent.len()];
        tls.write_all(&sent).unwrap();
        tls.read_exact(&mut back).unwrap();
        assert!(back == sent, "{architecture}");
        tls.conn.send_close_notify();
        tls.flush().unwrap();
        assert_eq!(tls.read(&mut [0]).unwrap(), 0, "{architecture}: a close_notify");
        server.end(architecture);
    }
}

#[test]
fn a_reload_reads_the_certificate_again() {
    let directory = files();
    for architecture in ["epoll", "prefork"] {
        let server = Server::start(directory.path(), "http", architecture).unwrap();
        let mut old = server.connect_tls(directory.path(), &TLS13);
        ask(&mut old, "/small", "").unwrap();
        body(&mut old, architecture).unwrap();
        make_certificate(directory.path());
        server.signal(rustix::process::Signal::HUP);
        let end = Instant::now() + LIMIT;
        // The client trusts the new certificate alone.
        loop {
            let mut new = server.connect_tls(directory.path(), &TLS13);
            if ask(&mut new, "/small", "Connection: close\r\n").is_ok() {
                assert_eq!(body(&mut new, architecture).unwrap(), b"a few bytes");
                break;
            }
            assert!(Instant::now() < end, "{architecture}: the old certificate stays");
        }
        ask(&mut old, "/small", "").unwrap();
        body(&mut old, architecture).unwrap();
        let reloads = "duality: SIGHUP: opening logs, and reading --root and certificates again; \
                       for other settings, start the server again\n";
        server.end_after(architecture, reloads);
    }
}

#[test]
fn wrong_files_are_refused_in_one_line() {
    let (directory, other) = (files(), files());
    fs::write(directory.path().join("empty"), "").unwrap();
    let other_key = other.path().join("key.pem").to_str().unwrap().to_owned();
    for (service, certificate, key, message) in [
        ("http", "no.pem", "key.pem", "no.pem: No such file"),
        ("http", "cert.pem", "no.pem", "no.pem: No such file"),
        ("http", "empty", "key.pem", "empty: there is no certificate"),
        ("http", "cert.pem", "empty", "empty: there is no private key"),
        ("http", "cert.pem", "cert.pem", "cert.pem: there is no private key"),
        ("http", "cert.pem", &*other_key, "is not the key of the certificate"),
        ("chat", "cert.pem", "key.pem", "chat reads and writes at once"),
    ] {
        let output = Command::new(PROGRAM)
            .args(["serve", service, "--listen", "127.0.0.1:0"])
            .args(["--tls-cert", certificate, "--tls-key", key])
            .current_dir(directory.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.contains(message), "{stderr}");
    }
}

fn duality(arguments: &[&str]) -> std::process::Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

#[test]
fn a_comparison_measures_with_tls_beside_peers_that_have_it() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let output = duality(
        &[
            &["compare", "http", "--tls", "-a", "threads,epoll,handwritten", "-c", "4"][..],
            &["--peers", "nginx,lighttpd", "--repeats", "1", "--blocks", "3", "--close"],
            &["--window", "200ms", "--warm-up", "100ms", "--out", out.to_str().unwrap()],
        ]
        .concat(),
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    let (heading, records) = results::read(&[out.join("results.jsonl")]).expect(&stderr);
    assert!(heading.design.tls);
    for subject in ["threads", "epoll", "nginx"] {
        let cell = records.cells.iter().find(|cell| cell.subject == subject).unwrap();
        match &cell.outcome {
            Outcome::Unavailable { reason, .. } if subject == "nginx" || is_silent(cell) => {
                let _ = writeln!(std::io::stderr(), "skipped: {subject}: {reason}");
            }
            Outcome::Measured(one) => assert!(one.requests > 0 && one.errors.is_empty()),
            other => panic!("{subject}: {other:?}"),
        }
    }
    let blocks = records.blocks_at(4);
    assert!(blocks.iter().all(|block| block.slices.iter().all(|slice| slice.failures == 0)));
    for (subject, why) in [("handwritten", "straight-line"), ("lighttpd", "has no TLS here")] {
        for cell in records.cells.iter().filter(|cell| cell.subject == subject) {
            let Outcome::Unavailable { reason, .. } = &cell.outcome else { panic!("{cell:?}") };
            assert!(reason.contains(why) || reason.contains("needs"), "{subject}: {reason}");
        }
    }
}

/// Whether a busy machine let no reply into the window.
fn is_silent(cell: &Cell) -> bool {
    matches!(cell.outcome, Outcome::Unavailable { obstacle: Obstacle::Silence, .. })
}

#[test]
fn a_program_with_its_own_certificate_is_compared() {
    let directory = files();
    let out = directory.path().join("out");
    let server = format!(
        "{PROGRAM} serve http -a threads --listen 127.0.0.1:{{port}} --tls-cert {0}/cert.pem --tls-key {0}/key.pem",
        directory.path().display()
    );
    let output = duality(
        &[
            &["compare", "--binary", &server, "--url", "https://127.0.0.1:{port}/", "-c", "4"][..],
            &["--repeats", "1", "--blocks", "2", "--window", "200ms", "--warm-up", "100ms"],
            &["--out", out.to_str().unwrap()],
        ]
        .concat(),
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    let (heading, records) = results::read(&[out.join("results.jsonl")]).expect(&stderr);
    assert!(heading.design.tls && !records.cells.is_empty());
    let native = records.cells.iter().find(|cell| cell.subject == "native").expect(&stderr);
    assert!(matches!(native.outcome, Outcome::Measured(_)) || is_silent(native), "{stderr}");
}

#[test]
fn a_comparison_without_clients_of_tls_is_refused() {
    for (arguments, message) in [
        (&["compare", "echo", "--tls"][..], "the clients of `echo` speak no TLS"),
        (&["compare", "chat", "--tls"], "chat reads and writes at once"),
        (&["compare", "http", "--http2"], "`http` does not speak HTTP/2"),
        (&["compare", "http", "--tls", "--host", "server=web1"], "cannot be used with"),
        (&["compare", "http", "--tls", "--load-command", "x {port}"], "cannot be used with"),
    ] {
        let output = duality(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(message), "{stderr}");
    }
}
