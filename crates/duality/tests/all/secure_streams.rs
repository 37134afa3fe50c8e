//! TLS in a service of the user's own (`duality::net::tls`), under every architecture.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::tls_client::{LIMIT, connect, connect_tls, make_certificate};
use duality::net::tls::{Acceptor, Connector, HANDSHAKE_TIME, Trust};
use duality::{Service, block_on, fs};
use rustls::version::{TLS12, TLS13};

/// The bytes of the file that follow the echoed ones.
const FILE: usize = 200_000;

/// Echoes 100,000 bytes, sends a file, and ends after the client.
async fn serve(
    stream: duality::net::TcpStream,
    acceptor: Arc<Acceptor>,
    root: Arc<fs::Root>,
) -> std::io::Result<()> {
    let mut stream = stream.accept_tls(&acceptor, LIMIT).await?;
    let mut bytes = vec![0; 100_000];
    stream.read_exact(&mut bytes).await?;
    stream.write_all(&bytes).await?;
    let file = root.open_file("file").await?;
    stream.send_file(&file, 0, FILE as u64).await?;
    let end = stream.read(&mut bytes).await?;
    assert_eq!(end, 0);
    stream.shutdown(Shutdown::Write).await
}

fn service(directory: &Path) -> Service {
    make_certificate(directory);
    std::fs::write(directory.join("file"), contents()).unwrap();
    let root = Arc::new(fs::Root::open(directory).unwrap());
    let files = (directory.join("cert.pem"), directory.join("key.pem"));
    let acceptor = Arc::new(Acceptor::new(&files.0, &files.1).unwrap());
    Service::new("secure", move |stream| serve(stream, acceptor.clone(), root.clone()))
}

fn contents() -> Vec<u8> {
    (0..FILE).map(|number| (number / 7) as u8).collect()
}

#[test]
fn every_architecture_serves_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let service = service(directory.path());
    let architectures = service.architectures();
    assert!(architectures.contains(&"epoll") && architectures.contains(&"uthreads"));
    for architecture in architectures {
        let served = service.serve(architecture, "127.0.0.1:0").unwrap();
        for version in [&TLS12, &TLS13] {
            let context = format!("{architecture}, {:?}", version.version);
            let mut tls = connect_tls(served.local_address(), directory.path(), version);
            let sent = vec![b'x'; 100_000];
            tls.write_all(&sent).unwrap();
            let mut back = vec![0; sent.len() + FILE];
            tls.read_exact(&mut back).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(back == [sent, contents()].concat(), "{context}");
            assert_eq!(tls.conn.alpn_protocol(), Some(&b"http/1.1"[..]), "{context}");
            tls.conn.send_close_notify();
            tls.flush().unwrap();
            // Without a close_notify, this is an error.
            assert_eq!(tls.read(&mut [0]).unwrap(), 0, "{context}");
        }
        break_the_protocol(served.local_address(), directory.path(), architecture);
        served.shutdown();
        served.join().unwrap();
        println!("{architecture}: served");
    }
}

/// The beginning of what a client of plain HTTP is told.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\n";

/// Clients that speak something else, stop in their handshake, or send a broken record.
fn break_the_protocol(address: SocketAddr, directory: &Path, context: &str) {
    let hello: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let http: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
    for bytes in [http, &[0xff; 9000], hello, b""] {
        let mut stream = connect(address);
        // The server may have left.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let reply = what_comes(&mut stream);
        let expected = if bytes == http { reply.starts_with(PLAIN) } else { reply.len() < 100 };
        assert!(expected, "{context}: an alert at most, and words for HTTP: {reply:?}");
    }
    let mut tls = connect_tls(address, directory, &TLS13);
    tls.write_all(b"the handshake is made").unwrap();
    tls.sock.write_all(b"\x17\x03\x03\x00\x20broken broken broken broken brok").unwrap();
    assert!(tls.read(&mut [0]).is_err(), "{context}: the connection ends");
}

/// All bytes until the end, or until a reset.
fn what_comes(stream: &mut TcpStream) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 1000]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return bytes,
            Ok(count) => bytes.extend(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return bytes,
            // A signal of the server's ends a read with a time limit (signal(7)).
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_client_verifies_its_server() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let service = service(directory.path());
    make_certificate(other.path());
    let served = service.serve("epoll", "127.0.0.1:0").unwrap();
    let (ours, theirs) = (directory.path().join("cert.pem"), other.path().join("cert.pem"));
    for (name, trust, is_trusted) in [
        ("localhost", Trust::Authority(&ours), true),
        ("127.0.0.1", Trust::Authority(&ours), true),
        ("elsewhere", Trust::Authority(&ours), false),
        ("localhost", Trust::Authority(&theirs), false),
        ("elsewhere", Trust::Anything, true),
    ] {
        let connector = Connector::new(name, trust).unwrap();
        let shaken = block_on(async {
            let stream = duality::net::TcpStream::connect(served.local_address()).await?;
            let mut stream = stream.connect_tls(&connector, LIMIT).await?;
            stream.write_all(&[b'y'; 100_000]).await?;
            let mut back = vec![0; 100_000 + FILE];
            stream.read_exact(&mut back).await?;
            stream.shutdown(Shutdown::Write).await?;
            assert_eq!(stream.read(&mut back).await?, 0);
            std::io::Result::Ok(())
        });
        assert_eq!(shaken.is_ok(), is_trusted, "{name}, {trust:?}: {shaken:?}");
    }
    served.shutdown();
    served.join().unwrap();
}

#[test]
fn a_handshake_has_its_time() {
    let directory = tempfile::tempdir().unwrap();
    make_certificate(directory.path());
    let files = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    let acceptor = Acceptor::new(&files.0, &files.1).unwrap();
    assert_eq!(acceptor.handshake_time(), HANDSHAKE_TIME);
    let acceptor = Arc::new(acceptor.with_handshake_time(Duration::from_millis(50)));
    let service = Service::new("short", move |stream| {
        let acceptor = acceptor.clone();
        async move { stream.accept_tls(&acceptor, acceptor.handshake_time()).await.map(drop) }
    })
    .on_error(|_, error| assert_eq!(error.kind(), std::io::ErrorKind::TimedOut));
    for architecture in service.architectures() {
        let served = service.serve(architecture, "127.0.0.1:0").unwrap();
        let mut silent = connect(served.local_address());
        assert_eq!(what_comes(&mut silent), b"", "{architecture}");
        // A whole ClientHello, and then silence: the server's part comes, and then the end.
        for version in [&TLS12, &TLS13] {
            let mut tls = connect_tls(served.local_address(), directory.path(), version);
            tls.conn.write_tls(&mut tls.sock).unwrap();
            let context = format!("{architecture}, {:?}", version.version);
            assert!(what_comes(&mut tls.sock).len() > 100, "{context}");
        }
        served.shutdown();
        served.join().unwrap();
    }
}
