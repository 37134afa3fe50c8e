//! HTTP/2 over real sockets: what TLS agrees on, a drain in mid-request, and the load generator,
//! also against servers that break the protocol. The client of the first tests is the crate h2 on
//! tokio's streams.

use std::fs;
use std::future::Future;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use crate::peer::{Behaviour, Peer};
use bytes::Bytes;
use duality_conformance::{ServerProcess, skip};
use duality_poller::Kind;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use http::Request;
use rustix::process::Signal;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// No test is longer.
const LIMIT: Duration = Duration::from_secs(120);

/// Each world of ours, the ring, and two of tokio's layouts.
const MEMBERS: [&[&str]; 6] = [
    &["threads"],
    &["uthreads"],
    &["epoll"],
    &["uring"],
    &["tokio-multi", "--cores=2"],
    &["tokio-per-core"],
];

/// A directory with `cert.pem`, which is its own authority, and `key.pem`.
fn certificate() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    fs::write(directory.path().join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(directory.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    directory
}

fn application() -> Command {
    Command::new(env!("CARGO_BIN_EXE_application"))
}

/// Starts the application, by TLS if there is a directory with a certificate. `None` if this
/// machine lacks what the member needs.
fn serve(member: &[&str], certificate: Option<&TempDir>) -> Option<ServerProcess> {
    if let Some(reason) = Kind::Uring.unavailable().filter(|_| member[0] == "uring") {
        skip(format_args!("uring: {reason}"));
        return None;
    }
    let mut command = application();
    command.args(["serve", "--listen=127.0.0.1:0", "--architecture"]).args(member);
    if let Some(directory) = certificate {
        command.arg("--tls-cert").arg(directory.path().join("cert.pem"));
        command.arg("--tls-key").arg(directory.path().join("key.pem"));
    }
    Some(ServerProcess::start(&mut command))
}

/// Runs a client to its end, within the limit of a test.
fn run<T>(client: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(LIMIT, client).await.expect("the test ends in time") })
}

/// Connects by TLS, and offers `protocols`.
async fn connect(
    server: &ServerProcess,
    directory: &Path,
    protocols: &[&str],
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(directory.join("cert.pem")).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

fn agreed(stream: &TlsStream<TcpStream>) -> Option<&[u8]> {
    stream.get_ref().1.alpn_protocol()
}

/// The body of a page by HTTP/1.1.
async fn page_by_http1(mut stream: TlsStream<TcpStream>, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    body.to_owned()
}

/// A connection of HTTP/2, driven by a task.
struct Http2 {
    requests: SendRequest<Bytes>,
    driver: JoinHandle<Result<(), h2::Error>>,
}

impl Http2 {
    async fn new(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        Self { requests, driver: tokio::spawn(connection) }
    }

    async fn send(&mut self, method: &str, path: &str, body: Bytes) -> ResponseFuture {
        let uri = format!("http://localhost{path}");
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        let mut requests = self.requests.clone().ready().await.unwrap();
        let (reply, mut sending) = requests.send_request(request, body.is_empty()).unwrap();
        if !body.is_empty() {
            sending.send_data(body, true).unwrap();
        }
        reply
    }

    async fn body_of(&mut self, method: &str, path: &str, body: Bytes) -> Vec<u8> {
        let reply = self.send(method, path, body).await.await.unwrap();
        assert_eq!(reply.status(), 200, "{path}");
        rest(reply.into_body()).await
    }
}

async fn next(body: &mut RecvStream) -> Option<Bytes> {
    let data = body.data().await?.unwrap();
    body.flow_control().release_capacity(data.len()).unwrap();
    Some(data)
}

async fn rest(mut body: RecvStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(piece) = next(&mut body).await {
        bytes.extend_from_slice(&piece);
    }
    bytes
}

#[test]
fn tls_agrees_on_a_version_and_both_give_the_same_bytes() {
    let directory = certificate();
    for member in MEMBERS {
        let Some(server) = serve(member, Some(&directory)) else { continue };
        run(async {
            let by =
                |protocols: &'static [&'static str]| connect(&server, directory.path(), protocols);
            for protocols in [&["h2", "http/1.1"][..], &["h2"]] {
                let stream = by(protocols).await;
                assert_eq!(agreed(&stream), Some(&b"h2"[..]), "{member:?}");
                let mut client = Http2::new(stream).await;
                let page = client.body_of("GET", "/", Bytes::new()).await;
                let plain = page_by_http1(by(&["http/1.1"]).await, "/").await;
                assert_eq!(String::from_utf8_lossy(&page), plain, "{member:?}");
                let slept = client.body_of("GET", "/spawned", Bytes::new()).await;
                assert_eq!(slept, b"slept", "{member:?}");
                // Larger than the windows of HTTP/2, in both directions.
                let sent = Bytes::from("0123456789abcdef".repeat(1 << 14));
                let echoed = client.body_of("POST", "/echo", sent.clone()).await;
                assert!(echoed == sent, "{member:?}");
            }
            let silent = by(&[]).await;
            assert_eq!(agreed(&silent), None, "{member:?}");
            assert_eq!(page_by_http1(silent, "/").await, "hello", "{member:?}");
        });
        server.signal(Signal::TERM);
        assert_eq!(server.wait().0.code(), Some(0), "{member:?}");
    }
}

#[test]
fn a_drain_says_goaway_and_answers_what_is_under_way() {
    let directory = certificate();
    for member in MEMBERS {
        for secure in [false, true] {
            let Some(server) = serve(member, secure.then_some(&directory)) else { continue };
            run(async {
                let mut client = match secure {
                    true => Http2::new(connect(&server, directory.path(), &["h2"]).await).await,
                    false => Http2::new(TcpStream::connect(server.address()).await.unwrap()).await,
                };
                assert_eq!(client.body_of("GET", "/", Bytes::new()).await, b"hello");
                let reply = client.send("GET", "/until-drained", Bytes::new()).await;
                let mut body = reply.await.unwrap().into_body();
                assert_eq!(next(&mut body).await.unwrap(), "begun\n", "{member:?}");
                server.signal(Signal::TERM);
                assert_eq!(rest(body).await, b"answered in full\n", "{member:?}");
                // The connection ends in good order, and takes no further request.
                let ended = client.driver.await.unwrap();
                assert!(ended.is_ok(), "{member:?}: {ended:?}");
                assert!(client.requests.ready().await.is_err(), "{member:?}");
            });
            let (status, stderr) = server.wait();
            assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{member:?}");
        }
    }
}

fn threads_of(server: &ServerProcess) -> usize {
    fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().count()
}

/// Where kernel threads wait, requests at once on a connection share its kernel thread.
#[test]
fn parallel_requests_start_no_thread() {
    for member in [&["threads"][..], &["pool"], &["epoll"]] {
        let Some(server) = serve(member, None) else { continue };
        run(async {
            let mut client = Http2::new(TcpStream::connect(server.address()).await.unwrap()).await;
            assert_eq!(client.body_of("GET", "/spawned", Bytes::new()).await, b"slept");
            let before = threads_of(&server);
            let mut bodies = Vec::new();
            for _ in 0..20 {
                let reply = client.send("GET", "/until-drained", Bytes::new()).await;
                bodies.push(reply.await.unwrap().into_body());
            }
            for body in &mut bodies {
                assert_eq!(next(body).await.unwrap(), "begun\n", "{member:?}");
            }
            // All twenty wait, and a further request is answered beside them.
            assert_eq!(client.body_of("GET", "/", Bytes::new()).await, b"hello", "{member:?}");
            assert_eq!(threads_of(&server), before, "{member:?}");
            server.signal(Signal::TERM);
            for body in bodies {
                assert_eq!(rest(body).await, b"answered in full\n", "{member:?}");
            }
        });
        let (status, stderr) = server.wait();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{member:?}");
    }
}

/// As on tokio's layouts, and in a task of its own.
#[test]
fn a_panic_ends_its_request_only() {
    for member in MEMBERS {
        let Some(server) = serve(member, None) else { continue };
        run(async {
            let mut client = Http2::new(TcpStream::connect(server.address()).await.unwrap()).await;
            let broken = client.send("GET", "/panics", Bytes::new()).await.await;
            assert!(broken.is_err_and(|error| error.is_reset()), "{member:?}");
            assert_eq!(client.body_of("GET", "/", Bytes::new()).await, b"hello", "{member:?}");
        });
        server.signal(Signal::TERM);
        assert_eq!(server.wait().0.code(), Some(0), "{member:?}");
    }
}

/// The report of a load of 200 requests.
fn load(target: &str, flags: &[&str]) -> Output {
    let mut command = application();
    command.args(["load", target, "-n", "200", "-c", "4", "--timeout", "60s"]).args(flags);
    command.output().unwrap()
}

#[test]
fn a_load_checks_every_reply() {
    let directory = certificate();
    for member in MEMBERS {
        for secure in [false, true] {
            let Some(server) = serve(member, secure.then_some(&directory)) else { continue };
            let (scheme, port) = (if secure { "h2" } else { "h2c" }, server.address().port());
            let target = |path: &str| format!("{scheme}://localhost:{port}{path}");
            let trust: &[&str] = if secure { &["--insecure"] } else { &[] };
            let correct = |path: &str, flags: &[&str]| {
                let output = load(&target(path), &[trust, flags].concat());
                let said = String::from_utf8_lossy(&output.stdout);
                // On a busy machine, the figures may be invalid.
                let right = said.contains("200 correct, none failed");
                assert!(right, "{member:?} {path} {flags:?}: {output:?}");
            };
            correct("/", &[]);
            correct("/", &["--close"]);
            correct("/", &["--requests-per-connection", "7"]);
            correct("/none", &["--expect-status", "404"]);
            let body = "x".repeat(100_000);
            correct("/echo", &["--body", &body, "--expect-body", "/xxxx/"]);
            let wrong = load(&target("/none"), trust);
            let said = String::from_utf8_lossy(&wrong.stderr);
            assert!(wrong.status.code() == Some(1) && said.contains("status 404"), "{said}");
            server.signal(Signal::TERM);
            let (status, said) = server.wait();
            assert_eq!((status.code(), said.as_str()), (Some(0), ""), "{member:?}");
        }
    }
}

#[test]
fn a_server_without_http2_is_told_in_one_line() {
    let directory = certificate();
    let peer = Peer::start([Behaviour::Http1]);
    let output = load(&format!("h2c://{}/", peer.address()), &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains("speak HTTP/2"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    // A certificate that is not trusted is the other cause.
    let Some(server) = serve(&["epoll"], Some(&directory)) else { return };
    let output = load(&format!("h2://{}/", server.address()), &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains("--insecure"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

/// The failures of a load of a peer that answers its first connection. A silent peer costs each
/// request the time limit. No other peer may reach it, however busy the machine is.
fn failures(behaviour: Behaviour) -> Value {
    let limit = if matches!(behaviour, Behaviour::Silent) { "200ms" } else { "20s" };
    let peer = Peer::start([Behaviour::Answers, behaviour]);
    let mut command = application();
    command.args(["load", "--json", &format!("h2c://{}/", peer.address())]);
    command.args(["-n", "20", "-c", "2", "--timeout", limit]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["errors"].clone()
}

#[test]
fn peers_that_break_the_protocol_are_failures_that_are_counted() {
    // The kernel makes a close a reset if input is unread.
    let closed = &["closed-early", "reset"][..];
    for (behaviour, kinds) in [
        (Behaviour::Http1, &["malformed"][..]),
        (Behaviour::GoesAway { code: 0 }, closed),
        (Behaviour::GoesAway { code: 11 }, &["gone-away"]),
        (Behaviour::Resets { code: 2 }, &["stream-reset"]),
        (Behaviour::Silent, &["timed-out"]),
        (Behaviour::Closes, closed),
        (Behaviour::Garbage, &["malformed"]),
        (Behaviour::HalfReply, &["cut-short", "reset"]),
    ] {
        let errors = failures(behaviour);
        let counted: u64 = kinds.iter().filter_map(|kind| errors[*kind].as_u64()).sum();
        assert_eq!(counted, 20, "{behaviour:?}: {errors}");
    }
}

/// A server that ends a connection in good order between two requests makes no failure.
#[test]
fn a_connection_that_ends_between_requests_is_replaced() {
    let peer = Peer::start([Behaviour::AnswersOnce]);
    let output = load(&format!("h2c://{}/", peer.address()), &[]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("200 correct, none failed"), "{output:?}");
}

#[test]
fn members_are_compared_by_http2() {
    let directory = tempfile::tempdir().unwrap();
    for flags in [&["--http2"][..], &["--http2", "--tls"]] {
        let out = directory.path().join(flags.concat());
        let mut command = application();
        command.args(["compare", "--architectures=tokio-multi,epoll,threads", "--concurrency=2"]);
        command.args(["--repeats=1", "--blocks=2", "--window=200ms", "--warm-up=50ms"]);
        command.args(["--no-control", "--path=/", "--out"]).arg(&out).args(flags);
        // The exit code says whether there is a verdict. A busy machine allows no verdict.
        let output = command.output().unwrap();
        let text = fs::read_to_string(out.join("results.jsonl")).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["design"]["http2"], true);
        let cells: Vec<_> = lines.iter().filter(|line| line["kind"] == "cell").collect();
        assert_eq!(cells.len(), 3, "{output:?}");
        for cell in cells {
            // A window without a reply on a busy machine says nothing of its server.
            if cell["obstacle"] == "silence" {
                skip(format_args!("{} by HTTP/2: {}", cell["architecture"], cell["reason"]));
                continue;
            }
            assert!(cell["requests"].as_u64() > Some(0) && cell["errors"] == json!({}), "{cell}");
        }
    }
}

/// A client that speaks no HTTP of any version harms nothing.
#[test]
fn garbage_harms_no_other_connection() {
    let directory = certificate();
    for member in MEMBERS {
        let Some(server) = serve(member, Some(&directory)) else { continue };
        for garbage in ["GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\u{16}\u{3}"]
        {
            let mut stream = server.connect();
            stream.write_all(garbage.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        }
        run(async {
            let mut client = Http2::new(connect(&server, directory.path(), &["h2"]).await).await;
            assert_eq!(client.body_of("GET", "/", Bytes::new()).await, b"hello", "{member:?}");
        });
        server.signal(Signal::TERM);
        let (status, stderr) = server.wait();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{member:?}");
    }
}
