//! Partitions, held packets and latencies.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use duality_simulate::Net;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{PORT, SECOND, connect, lasts, legal, listen, serve_one};

/// Accepts, and does nothing else.
fn serve_none(net: &Net) {
    net.host("server", || async {
        let listener = listen().await?;
        loop {
            drop(listener.accept().await?);
        }
        #[allow(unreachable_code)]
        std::io::Result::Ok(())
    });
}

/// turmoil: network_partitions_during_connect
///
/// Here, the kernel tries for two minutes, as Linux does.
#[test]
fn a_partition_during_connect() {
    legal().run(|net| async move {
        serve_none(&net);
        net.partition("test", "server").until_healed();
        assert_eq!(connect().await.unwrap_err().kind(), ErrorKind::TimedOut);
        net.heal();
        net.hold("test", "server");
        assert!(lasts(connect()).await);
    });
}

/// turmoil: client_hangup_on_connect
#[test]
fn a_client_that_gives_up_before_its_connection_is_open() {
    legal().run(|net| async move {
        serve_none(&net);
        net.hold("test", "server");
        assert!(lasts(connect()).await);
        net.release("test", "server");
        connect().await.map(drop)
    });
}

/// turmoil: hold_and_release_once_connected
#[test]
fn what_is_held_comes_after_the_release() {
    legal().run(|net| async move {
        let go = Arc::new(Notify::new());
        let wait = go.clone();
        net.host("server", move || {
            let wait = wait.clone();
            async move {
                let (mut stream, _) = listen().await?.accept().await?;
                wait.notified().await;
                stream.write_u8(1).await
            }
        });
        let mut stream = connect().await.unwrap();
        net.hold("server", "test");
        go.notify_one();
        assert!(lasts(stream.read_u8()).await);
        net.release("server", "test");
        assert_eq!(stream.read_u8().await.unwrap(), 1);
    });
}

/// turmoil: network_hold_holds_inflight_messages
#[test]
fn packets_on_their_way_are_held() {
    legal().run(|net| async move {
        let inner = net.clone();
        net.host("server", move || {
            let net = inner.clone();
            async move {
                let (mut stream, _) = listen().await?.accept().await?;
                stream.write_u8(1).await?;
                net.hold("server", "test");
                std::future::pending::<std::io::Result<()>>().await
            }
        });
        net.set_latency("server", "test", SECOND..=2 * SECOND);
        sleep(SECOND).await;
        let connecting = tokio::spawn(TcpStream::connect(("server", PORT)));
        sleep(60 * SECOND).await;
        net.release("server", "test");
        assert_eq!(connecting.await.unwrap().unwrap().read_u8().await.unwrap(), 1);
    });
}

/// turmoil: network_partition_once_connected
///
/// Here, the byte is sent again when the partition has ended.
#[test]
fn a_partition_of_an_open_connection() {
    legal().run(|net| async move {
        serve_one(&net, |mut stream| async move {
            let byte = stream.read_u8().await?;
            stream.write_u8(byte).await
        });
        let mut stream = connect().await.unwrap();
        net.partition("test", "server").until_healed();
        stream.write_u8(1).await.unwrap();
        assert!(lasts(stream.read_u8()).await);
        net.heal();
        assert_eq!(stream.read_u8().await.unwrap(), 1);
    });
}

/// turmoil: network_partition_oneway_drops_inflight_messages
#[test]
fn a_partition_of_one_direction() {
    legal().run(|net| async move {
        serve_one(&net, |mut stream| async move {
            let byte = stream.read_u8().await?;
            stream.write_u8(byte).await?;
            std::future::pending().await
        });
        let mut stream = connect().await.unwrap();
        net.partition_one_way("server", "test").for_(600 * SECOND);
        stream.write_u8(1).await.unwrap();
        assert!(lasts(stream.read_u8()).await);
        assert_eq!(stream.read_u8().await.unwrap(), 1);
    });
}

/// turmoil: accept_front_of_line_blocking
#[test]
fn a_held_client_holds_up_no_other() {
    legal().run(|net| async move {
        serve_none(&net);
        net.hold("test", "server");
        assert!(lasts(connect()).await);
        net.client("other", connect).ended().await
    });
}

/// turmoil: override_link_latency
#[test]
fn one_link_is_slow() {
    legal().run(|net| async move {
        net.host("server", || async {
            let listener = listen().await?;
            loop {
                let (mut stream, _) = listener.accept().await?;
                stream.write_u8(1).await?;
            }
            #[allow(unreachable_code)]
            std::io::Result::Ok(())
        });
        async fn took() -> Duration {
            sleep(SECOND).await;
            let began = Instant::now();
            let mut stream = TcpStream::connect(("server", PORT)).await.unwrap();
            stream.read_u8().await.unwrap();
            began.elapsed()
        }
        net.set_latency("test", "server", 10 * SECOND..=10 * SECOND);
        assert!(took().await >= 20 * SECOND);
        let other = net.client("other", || async { assert!(took().await < 10 * SECOND) });
        other.ended().await
    });
}
