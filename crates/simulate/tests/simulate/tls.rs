//! TLS of Duality's own streams over simulated sockets. Keys, signatures and records come from the
//! seed, so that each seed takes the same decisions twice.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duality_architectures::ALL;
use duality_runtime::net::tls::{Acceptor, Connector, Trust};
use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::{task, time};
use duality_simulate::services::{Size, simulation, unfit, unsimulated, without_tls};
use duality_simulate::{Faults, Net, seeds};

/// The seeds of each service in the ordinary tests.
const SEEDS: u64 = 4;
const LIMIT: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_secs(24 * 3600);

#[test]
fn each_service_that_can_have_tls_has_it() {
    for service in duality_simulate::services::ALL {
        if without_tls(service.name).is_none() {
            let size = Size { tls: true, ..Size::default() };
            seeds(0..SEEDS).in_both_waits().run(service.run(size));
        }
    }
    assert!(without_tls("chat").is_some_and(|why| why.contains("leave it out")));
}

/// The block world waits in place within a session.
#[test]
fn architectures_speak_tls() {
    for architecture in ALL.iter().filter(|one| unsimulated(**one).is_none()) {
        if unfit(*architecture, "http").is_none() {
            let http = simulation("http").expect("it is one of ours");
            let architecture = Some(architecture.name());
            let size = Size { tls: true, architecture, ..Size::default() };
            seeds(0..2).run(http.run(size));
        }
    }
}

/// A certificate of `server`, its key, and the days between which it is good.
fn certificate(folder: &Path) -> (PathBuf, PathBuf) {
    let mut parameters = rcgen::CertificateParams::new(vec!["server".to_owned()]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(2029, 12, 30);
    parameters.not_after = rcgen::date_time_ymd(2030, 1, 4);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = parameters.self_signed(&key).unwrap();
    let (certificate, path) = (folder.join("certificate"), folder.join("key"));
    std::fs::write(&certificate, made.pem()).unwrap();
    std::fs::write(&path, key.serialize_pem()).unwrap();
    (certificate, path)
}

/// Answers what each client sends until its end.
async fn serve(certificate: PathBuf, key: PathBuf) -> io::Result<()> {
    let acceptor = Arc::new(Acceptor::new(&certificate, &key)?);
    let address = ([0, 0, 0, 0], 443).into();
    let mut listener = TcpListener::bind(address, &ListenOptions::default())?;
    loop {
        let (stream, peer) = listener.accept().await?;
        let acceptor = acceptor.clone();
        let serving = task::spawn(async move {
            let mut stream = stream.accept_tls(&acceptor, LIMIT).await?;
            assert_eq!(stream.peer_addr()?, peer);
            assert!(stream.is_encrypted());
            let mut buffer = [0; 4096];
            loop {
                match stream.read(&mut buffer).await? {
                    0 => return stream.shutdown(Shutdown::Write).await,
                    count => stream.write_all(&buffer[..count]).await?,
                }
            }
        });
        serving.map(drop)?;
    }
}

async fn exchange(mut stream: TcpStream) -> io::Result<Vec<u8>> {
    let sent: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    for part in sent.chunks(1000) {
        stream.write_all(part).await?;
        let end = received.len() + part.len();
        while received.len() < end {
            let count = stream.read(&mut buffer).await?;
            received.extend(&buffer[..count]);
        }
    }
    stream.shutdown(Shutdown::Write).await?;
    // The server says that it has sent all: without that, this would be an error.
    assert_eq!(stream.read(&mut buffer).await?, 0);
    assert_eq!(received, sent);
    Ok(received)
}

#[test]
fn a_certificate_is_good_for_its_days_of_virtual_time() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path());
    // The server sends tickets before it reads, and this client a long record. Windows of Linux
    // hold the tickets.
    let faults = Faults { small_buffers: false, ..Faults::LEGAL };
    seeds(0..10).lasting(10 * DAY).in_both_waits().faults(faults).run(move |net: Net| {
        let (certificate, key) = (certificate.clone(), key.clone());
        async move {
            let trusted = certificate.clone();
            net.host("server", move || serve(certificate.clone(), key.clone()));
            let client = net.host("client", move || {
                let connector = Connector::new("server", Trust::Authority(&trusted));
                async move {
                    let connector = connector?;
                    time::sleep(Duration::from_secs(1)).await;
                    let stream = TcpStream::connect_host("server:443").await?;
                    exchange(stream.connect_tls(&connector, LIMIT).await?).await?;
                    time::sleep(5 * DAY).await;
                    let stream = TcpStream::connect_host("server:443").await?;
                    let late = stream.connect_tls(&connector, LIMIT).await;
                    let why = late.err().map(|error| error.to_string()).unwrap_or_default();
                    assert!(why.contains("expired"), "{why}");
                    io::Result::Ok(())
                }
            });
            client.ended().await
        }
    });
}

#[test]
fn a_client_without_tls_is_told_so_and_a_handshake_has_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path());
    seeds(0..10).in_both_waits().faults(Faults::LEGAL).run(move |net: Net| {
        let (certificate, key) = (certificate.clone(), key.clone());
        async move {
            net.host("server", move || serve(certificate.clone(), key.clone()));
            let client = net.host("client", || async {
                time::sleep(Duration::from_secs(1)).await;
                let mut stream = TcpStream::connect_host("server:443").await?;
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await?;
                let (mut reply, mut buffer) = (Vec::new(), [0; 512]);
                loop {
                    match stream.read(&mut buffer).await? {
                        0 => break,
                        count => reply.extend(&buffer[..count]),
                    }
                }
                assert!(reply.starts_with(b"HTTP/1.1 400 Bad Request\r\n"));
                // The server waits for a handshake for twenty seconds of virtual time.
                let began = time::now();
                let mut silent = TcpStream::connect_host("server:443").await?;
                assert_eq!(silent.read(&mut buffer).await?, 0);
                assert!(time::since(began) >= LIMIT - Duration::from_secs(1));
                // And a client for a server that says nothing.
                let address = ([0, 0, 0, 0], 444).into();
                let _mute = TcpListener::bind(address, &ListenOptions::default())?;
                let connector = Connector::new("server", Trust::Anything)?;
                let stream = TcpStream::connect_host("client:444").await?;
                let waited = stream.connect_tls(&connector, LIMIT).await;
                assert_eq!(waited.err().map(|error| error.kind()), Some(ErrorKind::TimedOut));
                io::Result::Ok(())
            });
            client.ended().await
        }
    });
}
