//! The traits of tokio and of futures-io for our streams, in every world.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::mpsc;

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::{block_on, task};
use futures_io::{AsyncRead, AsyncWrite};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};

async fn pair() -> (TcpStream, TcpStream) {
    let any_port = ([127, 0, 0, 1], 0).into();
    let mut listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (client, server)
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|number| (number % 253) as u8).collect()
}

/// A relay between two connections copies both ways at once, by tokio's own function.
async fn tokio_relays_both_ways() {
    const COUNT: usize = 1_000_000;
    let ((mut client, mut front), (mut back, mut server)) = (pair().await, pair().await);
    let relay =
        task::spawn(async move { copy_bidirectional(&mut front, &mut back).await }).unwrap();
    let echo = task::spawn(async move {
        let mut buffer = [0; 5000];
        loop {
            match AsyncReadExt::read(&mut server, &mut buffer).await.unwrap() {
                0 => return AsyncWriteExt::shutdown(&mut server).await.unwrap(),
                count => AsyncWriteExt::write_all(&mut server, &buffer[..count]).await.unwrap(),
            }
        }
    })
    .unwrap();
    let mut other = client.try_clone().unwrap();
    let ask = task::spawn(async move {
        AsyncWriteExt::write_all(&mut other, &bytes(COUNT)).await.unwrap();
        AsyncWriteExt::shutdown(&mut other).await.unwrap();
    })
    .unwrap();
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).await.unwrap();
    assert!(heard == bytes(COUNT));
    ask.await.unwrap();
    echo.await.unwrap();
    assert_eq!(relay.await.unwrap().unwrap(), (COUNT as u64, COUNT as u64));
}

async fn futures_io_reads_and_writes() {
    let (mut client, mut server) = pair().await;
    let written =
        poll_fn(|context| AsyncWrite::poll_write(Pin::new(&mut client), context, b"hello"));
    assert_eq!(written.await.unwrap(), 5);
    poll_fn(|context| AsyncWrite::poll_close(Pin::new(&mut client), context)).await.unwrap();
    let mut heard = Vec::new();
    loop {
        let mut buffer = [0; 3];
        let read =
            poll_fn(|context| AsyncRead::poll_read(Pin::new(&mut server), context, &mut buffer));
        match read.await.unwrap() {
            0 => break,
            count => heard.extend_from_slice(&buffer[..count]),
        }
    }
    assert_eq!(heard, b"hello");
}

/// Runs the future of `make` in the block world, and on loops of both kinds.
fn in_worlds<F: Future<Output = ()> + Send + 'static>(make: fn() -> F) {
    block_on(make());
    let park = LoopWorld::Park { stack_size: 256 * 1024 };
    for (world, kinds) in [(park, &[Kind::Epoll, Kind::Uring][..]), (LoopWorld::Suspend, Kind::ALL)]
    {
        for kind in kinds {
            if let Some(reason) = kind.unavailable() {
                duality_conformance::skip(format_args!("{reason}"));
                continue;
            }
            let (tell, receiver) = mpsc::channel();
            let mut event_loop = EventLoop::new(kind.open().unwrap(), world).unwrap();
            event_loop.run(async move {
                make().await;
                tell.send(()).unwrap();
            });
            receiver.recv().unwrap();
        }
    }
}

#[test]
fn tokio_s_traits() {
    in_worlds(tokio_relays_both_ways);
}

#[test]
fn futures_io_s_traits() {
    in_worlds(futures_io_reads_and_writes);
}
