//! Connections: accept, half-close, resets, back-pressure, addresses.

use std::io::ErrorKind;
use std::sync::Arc;

use duality_simulate::{Faults, Net};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::{PORT, SECOND, connect, legal, listen, serve_one};

/// Sends as many bytes as it is asked for, on each connection.
fn serve_numbers(net: &Net) {
    net.host("server", || async {
        let listener = listen().await?;
        loop {
            let (mut stream, _) = listener.accept().await?;
            tokio::spawn(async move {
                while let Ok(count) = stream.read_u8().await {
                    for number in 0..count {
                        let _ = stream.write_u8(number).await;
                    }
                }
            });
        }
        #[allow(unreachable_code)]
        std::io::Result::Ok(())
    });
}

async fn numbers(stream: &mut TcpStream) {
    stream.write_u8(3).await.unwrap();
    for number in 0..3 {
        assert_eq!(stream.read_u8().await.unwrap(), number);
    }
}

/// turmoil: send_upon_accept
#[test]
fn a_server_sends_first() {
    legal().run(|net| async move {
        serve_one(&net, |mut stream| async move { stream.write_u8(9).await });
        assert_eq!(connect().await.unwrap().read_u8().await.unwrap(), 9);
    });
}

/// turmoil: n_responses
#[test]
fn a_request_has_several_replies() {
    legal().run(|net| async move {
        serve_numbers(&net);
        numbers(&mut connect().await.unwrap()).await;
    });
}

/// turmoil: server_concurrency
#[test]
fn three_clients_at_once() {
    legal().run(|net| async move {
        serve_numbers(&net);
        let clients = ["ann", "bob", "eve"].map(|name| {
            net.client(name, || async { numbers(&mut connect().await.unwrap()).await })
        });
        for client in clients {
            client.ended().await.unwrap();
        }
    });
}

/// turmoil: drop_listener
#[test]
fn connections_outlive_their_listener() {
    legal().run(|net| async move {
        let closed = Arc::new(Notify::new());
        let close = closed.clone();
        net.host("server", move || {
            let closed = close.clone();
            async move {
                let listener = listen().await?;
                let (mut stream, _) = listener.accept().await?;
                drop(listener);
                closed.notify_one();
                let number = stream.read_u8().await?;
                stream.write_u8(number).await?;
                std::future::pending::<std::io::Result<()>>().await
            }
        });
        let mut stream = connect().await.unwrap();
        closed.notified().await;
        stream.write_u8(7).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 7);
        assert_eq!(connect().await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

/// turmoil: drop_listener_with_non_empty_queue
///
/// Here, the kernel has opened the connection, so the client meets a reset.
#[test]
fn connections_that_no_one_accepts_are_reset() {
    legal().run(|net| async move {
        net.host("server", || async {
            let listener = listen().await?;
            sleep(60 * SECOND).await;
            drop(listener);
            std::future::pending::<std::io::Result<()>>().await
        });
        let mut stream = connect().await.unwrap();
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

/// turmoil: hangup
#[test]
fn a_peer_that_hangs_up() {
    legal().run(|net| async move {
        net.client("client", || async {
            sleep(SECOND).await;
            drop(TcpStream::connect(("test", PORT)).await.unwrap());
        });
        let (mut stream, _) = listen().await.unwrap().accept().await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        let error = loop {
            sleep(SECOND).await;
            if let Err(error) = stream.write_u8(1).await {
                break error;
            }
        };
        assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset));
        // No socket is left there.
        assert_eq!(net.named("client").descriptors(), 0);
    });
}

/// turmoil: shutdown_write
#[test]
fn an_end_that_sends_no_more_still_receives() {
    legal().run(|net| async move {
        serve_one(&net, |mut stream| async move {
            let mut request = Vec::new();
            stream.read_to_end(&mut request).await?;
            stream.write_all(&request).await
        });
        let mut stream = connect().await.unwrap();
        stream.write_all(b"123").await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(stream.write(b"4").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await.unwrap();
        assert_eq!(reply, b"123");
    });
}

/// turmoil: read_buf_smaller_than_msg
#[test]
fn a_small_buffer_takes_a_part() {
    legal().run(|net| async move {
        serve_one(&net, |mut stream| async move { stream.write_all(b"1234").await });
        let mut stream = connect().await.unwrap();
        let mut all = Vec::new();
        while all.len() < 4 {
            let mut part = [0; 3];
            let count = stream.read(&mut part).await.unwrap();
            all.extend_from_slice(&part[..count]);
        }
        assert_eq!(all, b"1234");
    });
}

/// turmoil: split
#[test]
fn halves_of_a_connection() {
    legal().run(|net| async move {
        serve_one(&net, |stream| async move {
            let (mut reader, mut writer) = stream.into_split();
            let number = reader.read_u8().await?;
            tokio::spawn(async move { writer.write_u8(number).await }).await?
        });
        let (mut reader, mut writer) = connect().await.unwrap().into_split();
        let reading = tokio::spawn(async move { reader.read_u8().await });
        writer.write_u8(5).await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), 5);
    });
}

/// turmoil: peek_then_read
#[test]
fn a_peek_takes_nothing() {
    legal().run(|net| async move {
        serve_one(&net, |mut stream| async move { stream.write_all(b"hello").await });
        let mut stream = connect().await.unwrap();
        assert_eq!(stream.peek(&mut [0]).await.unwrap(), 1);
        let mut all = String::new();
        stream.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "hello");
    });
}

/// turmoil: bind_addr_in_use
#[test]
fn a_port_is_taken_until_its_listener_is_dropped() {
    legal().run(|_| async {
        let listener = listen().await.unwrap();
        assert_eq!(listen().await.unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        listen().await.unwrap();
    });
}

/// turmoil: ephemeral_port
#[test]
fn port_0_is_a_free_one() {
    legal().run(|_| async {
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        assert!(listener.local_addr().unwrap().port() >= 32_768);
    });
}

/// turmoil: loopback_to_localhost_v4
#[test]
fn a_host_reaches_itself() {
    legal().run(|_| async {
        for address in ["127.0.0.1", "0.0.0.0"] {
            let listener = TcpListener::bind((address, PORT)).await.unwrap();
            tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await?;
                stream.write_u8(1).await
            });
            let mut stream = TcpStream::connect(("127.0.0.1", PORT)).await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), 1);
        }
    });
}

/// turmoil: remote_to_localhost_refused
#[test]
fn no_other_host_reaches_a_loopback_address() {
    legal().run(|net| async move {
        net.host("server", || async {
            let _listener = TcpListener::bind(("127.0.0.1", PORT)).await?;
            std::future::pending::<std::io::Result<()>>().await
        });
        assert_eq!(connect().await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

/// turmoil: socket_to_nonexistent_node
#[test]
fn a_host_that_is_not_there() {
    legal().run(|_| async {
        let error = TcpStream::connect("10.9.9.9:80").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::HostUnreachable);
        let error = TcpStream::connect("nowhere:80").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

/// turmoil: tcp_try_write_returns_would_block_when_full
#[test]
fn a_peer_that_reads_nothing_stops_its_sender() {
    legal().faults(Faults { interrupts: false, ..Faults::LEGAL }).run(|net| async move {
        let read = Arc::new(Notify::new());
        let reads = read.clone();
        net.host("server", move || {
            let reads = reads.clone();
            async move {
                let (mut stream, _) = listen().await?.accept().await?;
                reads.notified().await;
                tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
            }
        });
        let stream = connect().await.unwrap();
        let error = loop {
            if let Err(error) = stream.try_write(&[0; 1000]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        read.notify_one();
        loop {
            stream.writable().await.unwrap();
            match stream.try_write(b"x") {
                // The socket seemed to be ready.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => break assert_eq!(other.unwrap(), 1),
            }
        }
    });
}

/// turmoil: close_with_unread_data_sends_rst
#[test]
fn a_close_before_all_is_read_is_a_reset() {
    legal().run(|net| async move {
        serve_one(&net, |mut stream| async move {
            stream.write_all(b"unread").await?;
            let error = stream.read(&mut [0]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            Ok(())
        });
        let stream = connect().await.unwrap();
        stream.peek(&mut [0]).await.unwrap();
        drop(stream);
        net.named("server").ended().await
    });
}
