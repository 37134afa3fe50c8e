//! The leftovers of a loop mean nothing to a later loop.

use std::future::Future;

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::task;
use duality_runtime::time::{Duration, timeout};

/// Long enough never to pass in a test that works.
const EVER: Duration = Duration::from_secs(20);

fn run<F: Future + 'static>(kind: Kind, future: F) -> F::Output {
    EventLoop::new(kind.open().unwrap(), LoopWorld::Suspend).unwrap().run(future)
}

/// A later loop has the names for its descriptors that an earlier one had.
#[test]
fn streams_that_outlive_their_loop_leave_a_later_one_alone() {
    for kind in [Kind::Select, Kind::Poll, Kind::Epoll] {
        let mut old = run(kind, async {
            let (mut client, mut server) = pair().await;
            let reader = task::spawn(async move {
                server.read_exact(&mut [0]).await.unwrap();
                server
            });
            client.write_all(b"a").await.unwrap();
            (client, reader.unwrap().await.unwrap())
        });
        run(kind, async move {
            let (mut client, mut server) = pair().await;
            let reader = task::spawn(async move { server.read_exact(&mut [0; 2]).await });
            let reader = reader.unwrap();
            client.write_all(b"b").await.unwrap();
            // They work here, too, and then go.
            old.0.write_all(b"c").await.unwrap();
            timeout(EVER, old.1.read_exact(&mut [0])).await.unwrap().unwrap();
            drop(old);
            client.write_all(b"d").await.unwrap();
            assert!(timeout(EVER, reader).await.unwrap().unwrap().is_ok());
        });
    }
}

async fn pair() -> (TcpStream, TcpStream) {
    let any_port = "127.0.0.1:0".parse().unwrap();
    let mut listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (client, server)
}
