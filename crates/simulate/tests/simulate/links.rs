//! Links that hold their packets, links with a latency of their own, and listeners that only their
//! own host reaches.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use duality_runtime::net::{ListenOptions, TcpListener, TcpStream, UdpSocket};
use duality_runtime::time;
use duality_simulate::{Faults, Net, seeds};

const SECOND: Duration = Duration::from_secs(1);

/// Sends each byte back.
async fn echo() -> std::io::Result<()> {
    let mut listener = TcpListener::bind(([0, 0, 0, 0], 7).into(), &ListenOptions::default())?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        while let Ok(1) = stream.read(&mut [0]).await {
            stream.write_all(b"x").await?;
        }
    }
}

/// How long one byte takes, there and back.
async fn exchange(stream: &mut TcpStream) -> Duration {
    let began = time::now();
    stream.write_all(b"x").await.unwrap();
    stream.read_exact(&mut [0]).await.unwrap();
    time::since(began)
}

async fn connected(net: &Net) -> TcpStream {
    net.host("server", echo);
    time::sleep(SECOND).await;
    TcpStream::connect_host("server:7").await.unwrap()
}

#[test]
fn a_held_link_loses_nothing_and_ends_no_connection() {
    let tally = seeds(0..20).in_both_waits().faults(Faults::LEGAL).run(|net| async move {
        let mut stream = connected(&net).await;
        // A partition of this length ends the connection: its packets are sent again 15 times.
        let hours = 3600 * SECOND;
        let end = time::now() + hours;
        net.hold("test", "server");
        let inner = net.clone();
        net.client("keeper", move || {
            let net = inner.clone();
            async move {
                time::sleep(hours).await;
                net.release("test", "server");
            }
        });
        assert!(exchange(&mut stream).await >= hours - SECOND);
        assert!(time::now() + SECOND >= end);
        net.hold_one_way("server", "test");
        let held = time::timeout(60 * SECOND, stream.read(&mut [0])).await;
        assert!(held.is_err(), "nothing was sent");
        net.calm();
        assert!(exchange(&mut stream).await < SECOND);
    });
    assert!(tally.counts.held > 0 && tally.counts.again == 0, "{}", tally.counts);
}

#[test]
fn a_held_datagram_comes_later() {
    seeds(0..20).faults(Faults::NONE).run(|net| async move {
        let server = net.host("server", || async {
            let mut socket = UdpSocket::bind(([0, 0, 0, 0], 7).into())?;
            let mut buffer = [0; 8];
            loop {
                let (count, from) = socket.recv_from(&mut buffer).await?;
                socket.send_to(&buffer[..count], from).await?;
            }
            #[allow(unreachable_code)]
            std::io::Result::Ok(())
        });
        let mut socket = UdpSocket::bind(([0, 0, 0, 0], 0).into()).unwrap();
        time::sleep(SECOND).await;
        net.hold("test", "server");
        socket.send_to(b"late", server.port(7)).await.unwrap();
        let mut buffer = [0; 8];
        assert!(time::timeout(60 * SECOND, socket.recv_from(&mut buffer)).await.is_err());
        net.release("server", "test");
        let (count, from) = socket.recv_from(&mut buffer).await.unwrap();
        assert_eq!((&buffer[..count], from), (&b"late"[..], server.port(7)));
    });
}

#[test]
fn a_link_has_a_latency_of_its_own() {
    seeds(0..20).faults(Faults::LEGAL).run(|net| async move {
        let mut stream = connected(&net).await;
        net.set_latency("test", "server", 2 * SECOND..=3 * SECOND);
        let took = exchange(&mut stream).await;
        assert!(took >= 4 * SECOND && took < 7 * SECOND, "{took:?}");
        // The link keeps it when faults have ended.
        net.calm();
        assert!(exchange(&mut stream).await >= 4 * SECOND);
    });
}

#[test]
fn a_listener_at_a_loopback_address_is_its_hosts_own() {
    seeds(0..5).faults(Faults::NONE).run(|net| async move {
        net.host("server", || async {
            let local = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 7);
            let mut listener = TcpListener::bind(local, &ListenOptions::default())?;
            let own = TcpStream::connect(local).await?;
            listener.accept().await?;
            drop(own);
            std::future::pending::<std::io::Result<()>>().await
        });
        time::sleep(SECOND).await;
        let refused = TcpStream::connect_host("server:7").await.expect_err("it is another host");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}
