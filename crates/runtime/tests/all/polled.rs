//! The poll-style methods of a stream, and the wait for a drain, in every world.

use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::task::Poll;

use duality_runtime::drain::Scope;
use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::task::{self, gather};
use duality_runtime::time::{Duration, sleep, timeout};
use duality_runtime::{drained, join, select};

const MOMENT: Duration = Duration::from_millis(3);
const FOR_EVER: Duration = Duration::from_secs(3600);

duality_kit::in_every_world! {
    bytes_go_both_ways_by_polling
    a_poll_that_is_pending_is_woken_without_a_gather
    a_time_limit_counts_from_the_first_poll
    a_dropped_stream_leaves_no_wait_behind
    what_waits_for_a_drain_goes_on_without_one
}

async fn pair() -> (TcpStream, TcpStream) {
    let any_port = ([127, 0, 0, 1], 0).into();
    let mut listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (client, server)
}

async fn read(stream: &mut TcpStream, most: usize) -> std::io::Result<Vec<u8>> {
    let mut room = vec![MaybeUninit::uninit(); most];
    let count = poll_fn(|context| stream.poll_read_into(context, &mut room)).await?;
    // SAFETY: so many have been written.
    Ok(room[..count].iter().map(|byte| unsafe { byte.assume_init() }).collect())
}

async fn write_all(stream: &mut TcpStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let count = poll_fn(|context| stream.poll_write(context, bytes)).await.unwrap();
        bytes = &bytes[count..];
    }
}

/// More than any socket buffer holds, so both sides wait for each other.
async fn bytes_go_both_ways_by_polling() {
    const BYTES: usize = 3_000_000;
    let (mut client, mut server) = pair().await;
    let echo = async {
        loop {
            let bytes = read(&mut server, 10_000).await.unwrap();
            if bytes.is_empty() {
                return poll_fn(|context| server.poll_shutdown(context)).await.unwrap();
            }
            write_all(&mut server, &bytes).await;
        }
    };
    let mut other = client.try_clone().unwrap();
    let ask = async {
        let bytes: Vec<u8> = (0..BYTES).map(|number| (number % 251) as u8).collect();
        write_all(&mut client, &bytes).await;
        poll_fn(|context| client.poll_shutdown(context)).await.unwrap();
    };
    let hear = async {
        let mut heard = Vec::new();
        loop {
            let bytes = read(&mut other, 65_536).await.unwrap();
            if bytes.is_empty() {
                break;
            }
            heard.extend(bytes);
        }
        assert_eq!(heard.len(), BYTES);
        assert!(heard.iter().enumerate().all(|(number, byte)| *byte == (number % 251) as u8));
    };
    join!(echo, ask, hear);
}

/// Polls as a library does: it returns `Pending` to the task, without a wrapper.
async fn a_poll_that_is_pending_is_woken_without_a_gather() {
    let (mut client, mut server) = pair().await;
    let write = task::spawn(async move {
        sleep(MOMENT).await;
        client.write_all(b"ab").await.unwrap();
        client
    });
    assert_eq!(read(&mut server, 1).await.unwrap(), b"a");
    assert_eq!(timeout(FOR_EVER, read(&mut server, 9)).await.unwrap().unwrap(), b"b");
    let _client = write.unwrap().await.unwrap();
    assert!(timeout(MOMENT, read(&mut server, 9)).await.is_err());
}

async fn a_time_limit_counts_from_the_first_poll() {
    let (_client, mut server) = pair().await;
    server.set_read_timeout(Some(4 * MOMENT)).unwrap();
    // The future is polled more often, and ends nevertheless.
    let kind = gather(async {
        let mut room = [0; 8];
        let mut ticks = pin!(async {
            loop {
                sleep(MOMENT).await;
            }
        });
        poll_fn(|context| {
            let _: Poll<()> = ticks.as_mut().poll(context);
            server.poll_read(context, &mut room)
        })
        .await
        .unwrap_err()
        .kind()
    });
    assert_eq!(kind.await, std::io::ErrorKind::TimedOut);
}

/// The number of a closed socket soon is another one's, and a wait for it would be answered by
/// that.
async fn a_dropped_stream_leaves_no_wait_behind() {
    for _ in 0..50 {
        let (client, mut server) = pair().await;
        let is_pending =
            poll_fn(|context| Poll::Ready(server.poll_read(context, &mut [0; 8]).is_pending()));
        assert!(is_pending.await);
        let number = server.as_raw_fd();
        drop((server, client));
        let (mut client, mut server) = pair().await;
        let _may_be_the_same = number == server.as_raw_fd();
        client.write_all(b"x").await.unwrap();
        assert_eq!(read(&mut server, 8).await.unwrap(), b"x");
    }
}

async fn what_waits_for_a_drain_goes_on_without_one() {
    let (mut client, mut server) = pair().await;
    let mut buffer = [0; 8];
    for _ in 0..20 {
        client.write_all(b"x").await.unwrap();
        let count = select! {
            () = drained() => 0,
            read = server.read(&mut buffer) => read.unwrap(),
        };
        assert_eq!(count, 1);
    }
    assert!(timeout(MOMENT, drained()).await.is_err());
}

trait Raw {
    fn as_raw_fd(&self) -> i32;
}

impl Raw for TcpStream {
    fn as_raw_fd(&self) -> i32 {
        std::os::fd::AsFd::as_fd(self).as_raw_fd()
    }
}

/// A drain ends a straight-line read of an accepted connection also within a gather. The drain ends
/// no poll-style read, and wakes the tasks that wait for it.
async fn under_a_drain(scope: Scope) {
    let (mut client, mut straight) = pair().await;
    let (mut other, mut polled) = pair().await;
    client.write_all(b"a").await.unwrap();
    other.write_all(b"b").await.unwrap();
    straight.read_exact(&mut [0]).await.unwrap();
    assert_eq!(read(&mut polled, 1).await.unwrap(), b"b");
    let thread = std::thread::spawn(move || {
        std::thread::sleep(MOMENT);
        scope.request();
    });
    let mut buffer = [0; 8];
    let (straight, told) = join!(straight.read(&mut buffer), async {
        select! {
            bytes = read(&mut polled, 8) => panic!("{bytes:?}"),
            () = drained() => {}
        }
        // A reply still comes, and the next request.
        other.write_all(b"c").await.unwrap();
        read(&mut polled, 8).await.unwrap()
    });
    assert_eq!((straight.unwrap(), &*told), (0, &b"c"[..]));
    drained().await;
    thread.join().unwrap();
}

mod drains {
    use duality_kit::{Case, Kind};

    use super::{Scope, under_a_drain};

    fn run(case: Case) {
        if case.unavailable().is_some() {
            return;
        }
        let scope = Scope::new();
        scope.clone().enter(|| case.run(under_a_drain(scope)));
    }

    #[test]
    fn block() {
        run(Case::Block);
    }

    #[test]
    fn park() {
        run(Case::Park(Kind::Epoll));
        run(Case::Park(Kind::Uring));
    }

    #[test]
    fn suspend() {
        for kind in [Kind::Select, Kind::Poll, Kind::Epoll, Kind::Uring] {
            run(Case::Suspend(kind));
        }
    }

    #[test]
    fn reactor() {
        run(Case::Reactor);
    }
}
