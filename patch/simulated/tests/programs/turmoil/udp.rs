//! Datagrams.

use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duality_simulate::{Faults, Net, Seeds, seeds};
use tokio::net::{ToSocketAddrs, UdpSocket};
use tokio::time::{Instant, sleep, timeout};

use super::{PORT, SECOND, lasts};

/// What no program may break by, without lost datagrams: turmoil loses none here.
fn reliable() -> Seeds {
    seeds(0..3).apart().faults(Faults { datagrams: false, ..Faults::LEGAL })
}

async fn bind(port: u16) -> io::Result<UdpSocket> {
    UdpSocket::bind(("0.0.0.0", port)).await
}

/// Receives these bytes, and returns their sender.
async fn hear(socket: &UdpSocket, bytes: &[u8]) -> io::Result<std::net::SocketAddr> {
    let mut buffer = [123; 8];
    let (count, sender) = socket.recv_from(&mut buffer).await?;
    assert_eq!(&buffer[..count], bytes);
    assert!(buffer[count..].iter().all(|byte| *byte == 123));
    Ok(sender)
}

/// A server that answers each ping, and counts those since its start.
fn serve_pongs(net: &Net, answered: &Arc<AtomicUsize>) {
    let answered = answered.clone();
    net.host("server", move || {
        let answered = answered.clone();
        async move {
            answered.store(0, Ordering::Relaxed);
            let socket = bind(PORT).await?;
            loop {
                let sender = hear(&socket, b"ping").await?;
                answered.fetch_add(1, Ordering::Relaxed);
                socket.send_to(b"pong", sender).await?;
            }
            #[allow(unreachable_code)]
            io::Result::Ok(())
        }
    });
}

/// Sends a ping to the host `server`, some time after it has started.
async fn ping(socket: &UdpSocket) -> io::Result<usize> {
    sleep(SECOND).await;
    socket.send_to(b"ping", ("server", PORT)).await
}

/// turmoil: ping_pong
#[test]
fn a_ping_has_a_pong() {
    reliable().run(|net| async move {
        serve_pongs(&net, &Arc::default());
        let socket = bind(PORT).await.unwrap();
        ping(&socket).await.unwrap();
        hear(&socket, b"pong").await.unwrap();
    });
}

/// turmoil: ephemeral_port
#[test]
fn port_0_is_one_of_those_that_linux_gives() {
    reliable().run(|_| async move {
        let socket = bind(0).await.unwrap();
        assert!(socket.local_addr().unwrap().port() >= 32768);
    });
}

/// turmoil: try_ping_pong
#[test]
fn attempts_after_readiness() {
    reliable().run(|net| async move {
        net.host("server", || async {
            let (socket, mut buffer) = (bind(PORT).await?, [0; 8]);
            // A socket may wake its task for nothing.
            let (_, sender) = loop {
                socket.readable().await?;
                match socket.try_recv_from(&mut buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    received => break received?,
                }
            };
            socket.writable().await?;
            while socket.try_send_to(b"pong", sender).is_err() {}
            io::Result::Ok(())
        });
        let socket = bind(0).await.unwrap();
        ping(&socket).await.unwrap();
        hear(&socket, b"pong").await.unwrap();
    });
}

/// turmoil: recv_buf_is_clipped
#[test]
fn what_does_not_fit_is_lost() {
    reliable().run(|net| async move {
        let server =
            net.host("server", || async { hear(&bind(PORT).await?, b"hello, w").await.map(drop) });
        let socket = bind(0).await.unwrap();
        sleep(SECOND).await;
        socket.send_to(b"hello, world", ("server", PORT)).await.unwrap();
        server.ended().await.unwrap();
    });
}

/// turmoil: hold_and_release
#[test]
fn a_held_datagram_comes_after_the_release() {
    reliable().run(|net| async move {
        serve_pongs(&net, &Arc::default());
        net.hold("test", "server");
        let socket = bind(0).await.unwrap();
        ping(&socket).await.unwrap();
        assert!(lasts(hear(&socket, b"pong")).await);
        net.release("test", "server");
        hear(&socket, b"pong").await.unwrap();
    });
}

/// turmoil: network_partition
#[test]
fn a_partition_loses_datagrams() {
    reliable().run(|net| async move {
        serve_pongs(&net, &Arc::default());
        net.partition("test", "server").until_healed();
        let socket = bind(0).await.unwrap();
        ping(&socket).await.unwrap();
        assert!(lasts(hear(&socket, b"pong")).await);
    });
}

/// turmoil: bounce
#[test]
fn a_server_that_starts_again_counts_anew() {
    reliable().run(|net| async move {
        let answered = Arc::new(AtomicUsize::new(0));
        serve_pongs(&net, &answered);
        for _ in 0..3 {
            let socket = bind(0).await.unwrap();
            ping(&socket).await.unwrap();
            hear(&socket, b"pong").await.unwrap();
            assert_eq!(answered.load(Ordering::Relaxed), 1);
            net.named("server").crash().restart_after(Duration::ZERO);
        }
    });
}

/// turmoil: bulk_transfer
///
/// Here, the socket has room for bytes, as on Linux.
#[test]
fn a_full_socket_drops_datagrams() {
    reliable().run(|net| async move {
        let server = net.host("server", || async {
            let (socket, mut buffer, mut total) = (bind(PORT).await?, vec![0; 60_000], 0);
            sleep(60 * SECOND).await;
            while timeout(60 * SECOND, socket.recv(&mut buffer)).await.is_ok() {
                total += 1;
            }
            assert!((1..128).contains(&total), "{total}");
            io::Result::Ok(())
        });
        let socket = bind(0).await.unwrap();
        sleep(SECOND).await;
        for _ in 0..128 {
            socket.send_to(&[1; 60_000], ("server", PORT)).await.unwrap();
        }
        server.ended().await.unwrap();
    });
}

/// turmoil: bind_ipv4_socket
#[test]
fn an_address_of_ipv4() {
    reliable().run(|_| async move {
        assert!(bind(0).await.unwrap().local_addr().unwrap().is_ipv4());
    });
}

/// turmoil: bind_addr_in_use
#[test]
fn an_address_has_one_socket() {
    reliable().run(|_| async move {
        let _first = bind(80).await.unwrap();
        assert_eq!(bind(80).await.unwrap_err().kind(), ErrorKind::AddrInUse);
    });
}

/// A socket of the test's own host, and one that reaches it at 127.0.0.1.
async fn reach_locally(bound: impl ToSocketAddrs) {
    let (one, other) = (UdpSocket::bind(bound).await.unwrap(), bind(0).await.unwrap());
    other.send_to(b"ping", ("127.0.0.1", 1234)).await.unwrap();
    let sender = hear(&one, b"ping").await.unwrap();
    one.send_to(b"pong", sender).await.unwrap();
    hear(&other, b"pong").await.unwrap();
}

/// turmoil: loopback_to_wildcard_v4
#[test]
fn the_own_host_reaches_a_wildcard() {
    reliable().run(|_| reach_locally(("0.0.0.0", 1234)));
}

/// turmoil: loopback_to_localhost_v4
#[test]
fn the_own_host_reaches_localhost() {
    reliable().run(|_| reach_locally(("127.0.0.1", 1234)));
}

/// turmoil: remote_to_localhost_dropped
#[test]
fn others_do_not_reach_localhost() {
    reliable().run(|net| async move {
        let server = net.host("server", || async {
            let socket = UdpSocket::bind(("127.0.0.1", PORT)).await?;
            assert!(lasts(socket.recv(&mut [0; 8])).await);
            io::Result::Ok(())
        });
        ping(&bind(0).await.unwrap()).await.unwrap();
        server.ended().await.unwrap();
    });
}

/// turmoil: localhost_ping_pong
#[test]
fn time_passes_on_the_own_host() {
    reliable().run(|_| async move {
        let begin = Instant::now();
        reach_locally(("127.0.0.1", 1234)).await;
        assert!(begin.elapsed() > Duration::ZERO);
    });
}

const ALL: (Ipv4Addr, u16) = (Ipv4Addr::BROADCAST, 9000);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 0, 0, 1);

/// turmoil: udp_ipv4_broadcast
#[test]
fn a_broadcast_must_be_allowed_and_reaches_a_port_of_all() {
    reliable().run(|net| async move {
        let other_port = net.host("other-port", || async {
            assert!(lasts(bind(8000).await?.recv(&mut [0])).await);
            io::Result::Ok(())
        });
        let servers = ["ann", "bob", "eve"].map(|name| {
            net.host(name, || async { hear(&bind(9000).await?, &[2]).await.map(drop) })
        });
        let socket = bind(0).await.unwrap();
        sleep(SECOND).await;
        assert!(socket.send_to(&[1], ALL).await.is_err());
        socket.set_broadcast(true).unwrap();
        socket.send_to(&[2], ALL).await.unwrap();
        socket.set_broadcast(false).unwrap();
        assert!(socket.send_to(&[3], ALL).await.is_err());
        for server in servers.into_iter().chain([other_port]) {
            server.ended().await.unwrap();
        }
    });
}

/// turmoil: udp_ipv4_multicast
#[test]
fn a_multicast_reaches_members_only() {
    reliable().run(|net| async move {
        let members = ["ann", "bob", "eve"].map(|name| {
            net.host(name, || async {
                let socket = bind(9000).await?;
                socket.join_multicast_v4(GROUP, Ipv4Addr::UNSPECIFIED)?;
                hear(&socket, &[1]).await?;
                socket.leave_multicast_v4(GROUP, Ipv4Addr::UNSPECIFIED)?;
                assert!(lasts(hear(&socket, &[2])).await);
                io::Result::Ok(())
            })
        });
        let socket = bind(0).await.unwrap();
        sleep(SECOND).await;
        socket.send_to(&[1], (GROUP, 9000)).await.unwrap();
        sleep(30 * SECOND).await;
        socket.send_to(&[2], (GROUP, 9000)).await.unwrap();
        for member in members {
            member.ended().await.unwrap();
        }
    });
}

/// turmoil: udp_ipv4_multicast_loop
#[test]
fn an_own_multicast_comes_back_if_it_should() {
    reliable().run(|_| async move {
        let socket = bind(9000).await.unwrap();
        let send = |number: u8| {
            let socket = &socket;
            async move { socket.send_to(&[number], (GROUP, 9000)).await.unwrap() }
        };
        socket.join_multicast_v4(GROUP, Ipv4Addr::UNSPECIFIED).unwrap();
        send(1).await;
        hear(&socket, &[1]).await.unwrap();
        socket.set_multicast_loop_v4(false).unwrap();
        send(2).await;
        assert!(lasts(hear(&socket, &[2])).await);
        socket.set_multicast_loop_v4(true).unwrap();
        socket.leave_multicast_v4(GROUP, Ipv4Addr::UNSPECIFIED).unwrap();
        send(3).await;
        assert!(lasts(hear(&socket, &[3])).await);
    });
}

/// turmoil: non_zero_ipv4_bind
#[test]
fn an_address_of_another_machine_cannot_be_had() {
    reliable().run(|_| async move {
        let error = UdpSocket::bind("1.1.1.1:1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
    });
}

/// turmoil: loopback_delivery
#[test]
fn a_task_reaches_another_one_at_localhost() {
    reliable().run(|_| async move {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
        tokio::spawn(async move {
            sleep(Duration::from_millis(50)).await;
            socket.send_to(b"local", ("127.0.0.1", PORT)).await
        });
        let socket = UdpSocket::bind(("127.0.0.1", PORT)).await.unwrap();
        hear(&socket, b"local").await.unwrap();
    });
}

/// turmoil: loopback_wildcard_public_v4
#[test]
fn the_own_host_reaches_itself_by_its_address() {
    reliable().run(|net| async move {
        let (one, other) = (bind(1234).await.unwrap(), bind(0).await.unwrap());
        other.send_to(b"ping", net.named("test").port(1234)).await.unwrap();
        hear(&one, b"ping").await.unwrap();
    });
}

/// A host `sender` that sends a datagram to the test's own host.
fn send_from(net: &Net, port: u16) {
    net.host("sender", move || async move {
        sleep(SECOND).await;
        bind(port).await?.send_to(&[1, 2, 3], ("test", 1234)).await
    });
}

/// Attempts to receive as soon as the socket is ready.
async fn attempt(socket: &UdpSocket) -> [u8; 3] {
    let mut buffer = [0; 3];
    loop {
        socket.readable().await.unwrap();
        match socket.try_recv(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            received => break assert_eq!(received.unwrap(), 3),
        }
    }
    buffer
}

/// turmoil: try_recv_not_connected
#[test]
fn a_socket_without_a_peer_hears_all() {
    reliable().run(|net| async move {
        let socket = bind(1234).await.unwrap();
        send_from(&net, 5678);
        assert_eq!(attempt(&socket).await, [1, 2, 3]);
    });
}

/// turmoil: try_recv_connected
#[test]
fn a_connected_socket_hears_its_peer() {
    reliable().run(|net| async move {
        let socket = bind(1234).await.unwrap();
        send_from(&net, 5678);
        socket.connect(("sender", 5678)).await.unwrap();
        assert_eq!(attempt(&socket).await, [1, 2, 3]);
    });
}

/// turmoil: try_recv_connected_wrong_host
#[test]
fn a_connected_socket_does_not_hear_others() {
    reliable().run(|net| async move {
        let socket = bind(1234).await.unwrap();
        send_from(&net, 5678);
        net.host("peer", || async { io::Result::Ok(()) });
        socket.connect(("peer", 6789)).await.unwrap();
        assert!(lasts(socket.recv(&mut [0; 3])).await);
    });
}
