//! UDP and Unix sockets of tokio in a simulated world: programs as their users write them for
//! tokio. Each seed runs twice, and both runs must take the same decisions.

use std::io;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duality_outside as _;
use duality_simulate::{Faults, Net, seeds};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::{UdpSocket, UnixDatagram, UnixListener, UnixSocket, UnixStream};
use tokio::time::{sleep, timeout};

const MOMENT: Duration = Duration::from_millis(500);

/// Answers each datagram, and counts those that came again.
async fn udp_echo(again: Arc<AtomicU64>) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:53").await?;
    let mut buffer = [0; 1500];
    let mut last = std::collections::HashMap::<SocketAddr, Vec<u8>>::new();
    loop {
        let (count, peer) = socket.recv_from(&mut buffer).await?;
        let before = last.insert(peer, buffer[..count].to_vec());
        if before.is_some_and(|before| before == buffer[..count]) {
            again.fetch_add(1, Ordering::Relaxed);
        }
        socket.send_to(&buffer[..count], peer).await?;
    }
}

/// Asks again until the answer comes. A server that is down refuses, or says nothing.
async fn ask_by_udp(to: &str, requests: u64) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0").await?;
    while socket.connect(to).await.is_err() {
        sleep(MOMENT).await;
    }
    assert_eq!(socket.peer_addr()?.port(), 53);
    for number in 0..requests {
        let request = format!("request {number}");
        let mut buffer = [0; 64];
        loop {
            let asked = async {
                socket.send(request.as_bytes()).await?;
                socket.recv(&mut buffer).await
            };
            match timeout(MOMENT, asked).await {
                // An answer to a request of before may have been overtaken.
                Ok(Ok(count)) if buffer[..count] == *request.as_bytes() => break,
                Ok(Ok(_)) | Err(_) => {}
                Ok(Err(_)) => sleep(MOMENT).await,
            }
        }
    }
    Ok(())
}

#[test]
fn udp_loses_doubles_and_recovers_from_a_crash() {
    let tally = seeds(0..40).apart().in_both_waits().run(|net: Net| async move {
        let again = Arc::new(AtomicU64::new(0));
        let server = net.host("server", move || udp_echo(again.clone()));
        let clients = ["ann", "bob"].map(|name| net.client(name, || ask_by_udp("server:53", 30)));
        sleep(net.draw_time(Duration::from_secs(5))).await;
        server.crash().restart_after(net.draw_time(Duration::from_secs(3)));
        sleep(Duration::from_secs(30)).await;
        net.calm();
        server.restart_if_down();
        for client in clients {
            client.ended().await?;
        }
        Ok::<_, duality_simulate::Violation>(())
    });
    let counts = &tally.counts;
    assert!(counts.crashes > 0 && counts.lost > 0 && counts.doubled > 0, "{counts}");
}

/// Each call of tokio's that moves datagrams, between two sockets of one host.
async fn each_udp_call() -> io::Result<()> {
    let (one, other) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("0.0.0.0:0").await?);
    let (from, to) = (one.local_addr()?, other.local_addr()?);
    let mut buffer = [0; 8];
    assert!(
        other
            .try_recv_from(&mut buffer)
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    );
    assert_eq!(one.send_to(b"a datagram that is cut", to).await?, 22);
    other.readable().await?;
    assert_eq!(other.peek_from(&mut buffer).await?, (8, from));
    assert_eq!(other.peek(&mut buffer).await?, 8);
    assert_eq!((other.recv_from(&mut buffer).await?, &buffer), ((8, from), b"a datagr"));
    one.connect(to).await?;
    one.writable().await?;
    assert_eq!(one.try_send(b"two")?, 3);
    let mut bytes = bytes::BytesMut::new();
    assert_eq!(other.recv_buf_from(&mut bytes).await?, (3, from));
    other.send_to(b"back", from).await?;
    let ready = one.ready(Interest::READABLE | Interest::WRITABLE).await?;
    assert!(ready.is_writable());
    assert_eq!((one.recv(&mut buffer).await?, &buffer[..4]), (4, &b"back"[..]));
    one.set_broadcast(true)?;
    assert!(one.take_error()?.is_none());
    drop(other);
    // The host's ICMP tells that nothing receives there.
    one.send(b"nobody").await?;
    let refused = one.recv(&mut buffer).await.map_err(|error| error.kind());
    assert_eq!(refused, Err(io::ErrorKind::ConnectionRefused));
    Ok(())
}

#[test]
fn each_call_of_udp_does_what_linux_does() {
    let faults = Faults { datagrams: false, ..Faults::LEGAL };
    seeds(0..20)
        .apart()
        .faults(faults)
        .in_both_waits()
        .run(|net: Net| async move { net.client("host", each_udp_call).ended().await });
}

/// The name of a Unix socket: a path, or an abstract name.
fn socket_path(is_abstract: bool, name: &str) -> PathBuf {
    match is_abstract {
        true => PathBuf::from(format!("\0{name}")),
        false => std::env::temp_dir().join(format!("duality-{}-{name}", std::process::id())),
    }
}

/// Serves lines at a Unix socket. As programs do, it removes the file that a crash has left.
async fn unix_echo(path: PathBuf) -> io::Result<()> {
    let _ = std::fs::remove_file(&path);
    let listener = loop {
        match UnixListener::bind(&path) {
            Ok(listener) => break listener,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            // The kernel had no descriptor left.
            Err(_) => sleep(MOMENT).await,
        }
    };
    loop {
        let Ok((mut stream, peer)) = listener.accept().await else {
            sleep(MOMENT).await;
            continue;
        };
        assert!(peer.is_unnamed());
        tokio::spawn(async move {
            let (mut reads, mut writes) = stream.split();
            let _ = tokio::io::copy(&mut reads, &mut writes).await;
        });
    }
}

async fn ask_by_unix(path: PathBuf) -> io::Result<()> {
    let stream = loop {
        match UnixStream::connect(&path).await {
            Ok(stream) => break stream,
            Err(_) => sleep(MOMENT).await,
        }
    };
    assert_eq!(stream.peer_cred()?.pid(), i32::try_from(std::process::id()).ok());
    let (reads, mut writes) = stream.into_split();
    let sender = tokio::spawn(async move {
        for number in 0..200 {
            writes.write_all(format!("line {number} of some\n").as_bytes()).await?;
        }
        writes.shutdown().await
    });
    let mut lines = BufReader::new(reads).lines();
    let mut count = 0;
    while let Some(line) = lines.next_line().await? {
        assert_eq!(line, format!("line {count} of some"));
        count += 1;
    }
    sender.await??;
    assert_eq!(count, 200);
    Ok(())
}

/// A host with a server and a client, which crashes at a drawn time and starts again.
async fn unix_in_trouble(net: Net, is_abstract: bool) -> Result<(), duality_simulate::Violation> {
    // Both hosts have the same abstract name, which is each host's own.
    let hosts = ["ann", "bob"].map(|name| {
        let path = socket_path(is_abstract, if is_abstract { "name" } else { name });
        net.host(name, move || {
            let path = path.clone();
            async move {
                let server = tokio::spawn(unix_echo(path.clone()));
                let asked = ask_by_unix(path).await;
                server.abort();
                asked
            }
        })
    });
    sleep(net.draw_time(Duration::from_millis(20))).await;
    hosts[0].crash().restart_after(Duration::from_secs(1));
    for host in hosts {
        host.ended().await?;
    }
    Ok(())
}

#[test]
fn unix_streams_at_a_path_survive_a_crash() {
    let tally = seeds(0..30).apart().in_both_waits().run(|net| unix_in_trouble(net, false));
    assert!(tally.counts.crashes > 0 && tally.counts.short > 0, "{}", tally.counts);
}

#[test]
fn unix_streams_at_an_abstract_name_are_the_hosts_own() {
    let tally = seeds(0..30).apart().in_both_waits().run(|net| unix_in_trouble(net, true));
    assert!(tally.counts.crashes > 0 && tally.counts.short > 0, "{}", tally.counts);
}

/// Datagrams by a path and by an abstract name, of a pair, and by sockets that are no more.
async fn unix_datagrams(names: [[PathBuf; 2]; 2]) -> io::Result<()> {
    for (is_abstract, [path, back]) in [false, true].into_iter().zip(names) {
        let server = UnixDatagram::bind(&path)?;
        let client = UnixDatagram::bind(&back)?;
        client.connect(&path)?;
        let echo = tokio::spawn(async move {
            let mut buffer = [0; 64];
            for _ in 0..50 {
                let (count, peer) = server.recv_from(&mut buffer).await?;
                let name = peer.as_pathname().map(PathBuf::from);
                let named =
                    || socket_path(true, str::from_utf8(peer.as_abstract_name()?).ok()?).into();
                server.send_to(&buffer[..count], name.or_else(named).unwrap()).await?;
            }
            io::Result::Ok(())
        });
        let mut buffer = [0; 64];
        for number in 0..50 {
            let request = format!("datagram {number}");
            client.send(request.as_bytes()).await?;
            let count = client.recv(&mut buffer).await?;
            assert_eq!(buffer[..count], *request.as_bytes());
        }
        echo.await??;
        let gone = client.send(b"gone").await.map_err(|error| error.kind());
        assert_eq!(gone, Err(io::ErrorKind::ConnectionRefused));
        if !is_abstract {
            let again = UnixDatagram::bind(&path).map_err(|error| error.kind());
            assert_eq!(again.err(), Some(io::ErrorKind::AddrInUse));
            std::fs::remove_file(path)?;
            std::fs::remove_file(back)?;
        }
    }
    let (one, other) = UnixDatagram::pair()?;
    one.send(b"to the other").await?;
    let mut buffer = bytes::BytesMut::new();
    assert_eq!(other.recv_buf(&mut buffer).await?, 12);
    let (mut one, mut other) = UnixStream::pair()?;
    one.write_all(b"bytes").await?;
    drop(one);
    let mut all = String::new();
    other.read_to_string(&mut all).await?;
    assert_eq!(all, "bytes");
    Ok(())
}

#[test]
fn unix_datagrams_and_pairs_lose_nothing() {
    seeds(0..20).apart().faults(Faults::LEGAL).in_both_waits().run(|net: Net| async move {
        // A host has a number of a process of its own, so that the test makes the names.
        let names = [false, true].map(|is| ["to", "from"].map(|name| socket_path(is, name)));
        net.client("host", move || unix_datagrams(names.clone())).ended().await
    });
}

/// Sockets of `std` that become tokio's: two hosts have the same names at once.
async fn handed_over() -> io::Result<()> {
    let bound = std::net::UdpSocket::bind("0.0.0.0:53")?;
    bound.set_nonblocking(true)?;
    let udp = UdpSocket::from_std(bound)?;
    let name = std::os::unix::net::SocketAddr::from_abstract_name("handed-over")?;
    let listener = std::os::unix::net::UnixListener::bind_addr(&name)?;
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let datagrams = std::os::unix::net::UnixDatagram::bind_addr(&name)?;
    datagrams.set_nonblocking(true)?;
    let datagrams = UnixDatagram::from_std(datagrams)?;
    let client = UdpSocket::bind("127.0.0.1:0").await?;
    client.send_to(b"udp", "127.0.0.1:53").await?;
    let mut buffer = [0; 8];
    assert_eq!(udp.recv_from(&mut buffer).await?.0, 3);
    let sender = UnixSocket::new_datagram()?.datagram()?;
    sender.send_to(b"unix", "\0handed-over").await?;
    assert_eq!(datagrams.recv(&mut buffer).await?, 4);
    let connecting = UnixSocket::new_stream()?.connect("\0handed-over");
    let (mut client, accepted) = (connecting.await?, listener.accept().await?);
    client.write_all(b"stream").await?;
    let mut accepted = accepted.0;
    assert_eq!(accepted.read(&mut buffer).await? > 0, true);
    Ok(())
}

#[test]
fn sockets_that_std_has_bound_become_simulated() {
    let faults = Faults { datagrams: false, ..Faults::LEGAL };
    seeds(0..10).apart().faults(faults).in_both_waits().run(|net: Net| async move {
        let hosts = ["ann", "bob"].map(|name| net.client(name, handed_over));
        for host in hosts {
            host.ended().await?;
        }
        Ok::<_, duality_simulate::Violation>(())
    });
}

/// What no simulated host has says so in one line.
async fn refused() -> io::Result<()> {
    let (one, _other) = std::os::unix::net::UnixStream::pair()?;
    let why = UnixStream::from_std(one).expect_err("it is the machine's").to_string();
    assert!(why.contains("std opened this socket") && !why.contains('\n'), "{why}");
    let udp = UdpSocket::bind("0.0.0.0:0").await?;
    let group = udp.join_multicast_v6(&"ff02::1".parse().unwrap(), 0);
    let why = group.expect_err("no multicast").to_string();
    assert!(
        why.contains("a simulated host has no multicast of IPv6") && !why.contains('\n'),
        "{why}"
    );
    let pipe = tokio::net::unix::pipe::pipe().map(drop);
    let child = tokio::process::Command::new("true").spawn().map(drop);
    let watched = AsyncFd::new(std::io::stdin()).map(drop).map_err(io::Error::from);
    for (refused, what) in [(pipe, "pipes"), (child, "child processes"), (watched, "AsyncFd")] {
        let why = refused.expect_err("it would never be ready").to_string();
        assert_eq!(why, format!("a simulated host has no {what}"));
    }
    Ok(())
}

#[test]
fn what_is_not_simulated_is_refused_in_one_line() {
    seeds(0..1).apart().run(|net: Net| async move { net.client("host", refused).ended().await });
}
