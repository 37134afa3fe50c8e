//! Several waits at once, in every world: `gather`, `select!`, `join!`, and combinators of other
//! libraries.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::sync::Notify;
use duality_runtime::sync::channel::bounded;
use duality_runtime::task::{self, gather};
use duality_runtime::time::{Duration, Elapsed, Instant, sleep, timeout};
use duality_runtime::{join, select};

const MOMENT: Duration = Duration::from_millis(3);
const FOR_EVER: Duration = Duration::from_secs(3600);

duality_kit::in_every_world! {
    a_select_takes_the_first_that_is_ready
    a_join_waits_for_all_at_once
    a_select_over_two_streams_loses_no_byte
    two_sleeps_end_each_at_its_time
    a_combinator_with_wakers_of_its_own_is_polled_again
    a_wake_by_another_thread_ends_a_select
    a_timeout_within_and_around_a_gather
    the_time_limit_of_a_stream_holds
    a_dropped_wait_is_forgotten
    tasks_that_give_up_their_turn_go_on
    a_listener_and_a_connect_within_a_gather
    single_waits_follow_gathered_ones
}

async fn pair() -> (TcpStream, TcpStream) {
    let any_port = ([127, 0, 0, 1], 0).into();
    let mut listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (client, server)
}

async fn a_select_takes_the_first_that_is_ready() {
    let (mut client, mut server) = pair().await;
    let (sender, mut receiver) = bounded::<u32>(1);
    let mut buffer = [0; 8];
    let told = select! {
        received = receiver.recv() => received.unwrap(),
        read = server.read(&mut buffer) => read.unwrap() as u32,
        () = sleep(MOMENT) => 7,
    };
    assert_eq!(told, 7);
    client.write_all(b"abc").await.unwrap();
    let told = select! {
        received = receiver.recv() => received.unwrap(),
        read = server.read(&mut buffer) => { assert_eq!(&buffer[..3], b"abc"); read.unwrap() as u32 },
        () = sleep(FOR_EVER) => 7,
    };
    assert_eq!(told, 3);
    let task = task::spawn(async move { sender.send(9).await.unwrap() }).unwrap();
    let told = select! {
        read = server.read(&mut buffer) => read.unwrap() as u32,
        received = receiver.recv() => received.unwrap(),
    };
    assert_eq!(told, 9);
    task.await.unwrap();
}

async fn a_join_waits_for_all_at_once() {
    let (mut client, mut server) = pair().await;
    let mut buffer = [0; 5];
    // Each needs the other.
    let (wrote, read, number) = join!(
        async {
            sleep(MOMENT).await;
            client.write_all(b"hello").await
        },
        server.read_exact(&mut buffer),
        async { 3 },
    );
    wrote.unwrap();
    read.unwrap();
    assert_eq!((&buffer, number), (b"hello", 3));
}

/// Thousands of reads are cancelled, and each byte arrives once and in order.
async fn a_select_over_two_streams_loses_no_byte() {
    const BYTES: usize = 2_000;
    let ((mut one, mut first), (mut other, mut second)) = (pair().await, pair().await);
    let write = task::spawn(async move {
        for number in 0..BYTES {
            let stream = if number % 3 == 0 { &mut one } else { &mut other };
            stream.write_all(&[number as u8]).await.unwrap();
            if number % 7 == 0 {
                task::yield_now().await;
            }
        }
    });
    let (mut of_first, mut of_second) = (Vec::new(), Vec::new());
    loop {
        let (mut here, mut there) = ([0; 3], [0; 2]);
        let (count, list, buffer) = select! {
            read = first.read(&mut here) => (read.unwrap(), &mut of_first, &here[..]),
            read = second.read(&mut there) => (read.unwrap(), &mut of_second, &there[..]),
        };
        list.extend_from_slice(&buffer[..count]);
        // One stream has ended; the rest of the other stream follows.
        if count == 0 {
            break;
        }
    }
    for (stream, list) in [(&mut first, &mut of_first), (&mut second, &mut of_second)] {
        let mut buffer = [0; 100];
        loop {
            match stream.read(&mut buffer).await.unwrap() {
                0 => break,
                count => list.extend_from_slice(&buffer[..count]),
            }
        }
    }
    write.unwrap().await.unwrap();
    let sent = |of_first: bool| (0..BYTES).filter(move |number| (number % 3 == 0) == of_first);
    assert!(of_first.iter().copied().eq(sent(true).map(|number| number as u8)));
    assert!(of_second.iter().copied().eq(sent(false).map(|number| number as u8)));
}

async fn two_sleeps_end_each_at_its_time() {
    let begin = Instant::now();
    let (long, short) = join!(
        async {
            sleep(4 * MOMENT).await;
            begin.elapsed()
        },
        async {
            sleep(MOMENT).await;
            begin.elapsed()
        }
    );
    assert!(short >= MOMENT && long >= 4 * MOMENT);
    let is_first = select! {
        () = sleep(FOR_EVER) => false,
        () = sleep(MOMENT) => true,
    };
    assert!(is_first);
}

/// Polls a future only after its waker was used, as `FuturesUnordered` does.
struct Woken<'f> {
    futures: Vec<(Option<Running<'f>>, Arc<Flag>)>,
}

type Running<'f> = Pin<Box<dyn Future<Output = ()> + Send + 'f>>;

struct Flag {
    is_set: AtomicBool,
    task: std::sync::Mutex<Option<Waker>>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.is_set.store(true, Ordering::SeqCst);
        if let Some(task) = self.task.lock().unwrap().take() {
            task.wake();
        }
    }
}

impl<'f> Woken<'f> {
    fn add(&mut self, future: impl Future<Output = ()> + Send + 'f) {
        let flag = Flag { is_set: AtomicBool::new(true), task: std::sync::Mutex::default() };
        self.futures.push((Some(Box::pin(future)), Arc::new(flag)));
    }
}

impl Future for Woken<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        for (future, flag) in &mut self.futures {
            *flag.task.lock().unwrap() = Some(context.waker().clone());
            if let Some(running) = future
                && flag.is_set.swap(false, Ordering::SeqCst)
            {
                let waker = Waker::from(flag.clone());
                if running.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                    *future = None;
                }
            }
        }
        let are_done = self.futures.iter().all(|(future, _)| future.is_none());
        if are_done { Poll::Ready(()) } else { Poll::Pending }
    }
}

async fn a_combinator_with_wakers_of_its_own_is_polled_again() {
    let (mut client, mut server) = pair().await;
    let (mut other_client, mut other_server) = pair().await;
    let (sender, mut receiver) = bounded(1);
    let notify = Notify::new();
    let mut woken = Woken { futures: Vec::new() };
    woken.add(async {
        let mut buffer = [0; 2];
        server.read_exact(&mut buffer).await.unwrap();
        notify.notify_one();
    });
    woken.add(async {
        sleep(MOMENT).await;
        client.write_all(b"a").await.unwrap();
        task::yield_now().await;
        sleep(MOMENT).await;
        client.write_all(b"b").await.unwrap();
    });
    woken.add(async {
        notify.notified().await;
        for number in 0..3 {
            sender.send(number).await.unwrap();
        }
        other_client.write_all(&[7; 100_000]).await.unwrap();
    });
    woken.add(async {
        for number in 0..3 {
            assert_eq!(receiver.recv().await, Some(number));
        }
    });
    woken.add(async {
        let mut rest = vec![0; 100_000];
        assert_eq!(
            timeout(FOR_EVER, other_server.read_exact(&mut rest)).await.map(Result::unwrap),
            Ok(())
        );
    });
    woken.add(async {
        let nothing = timeout(MOMENT, sleep(FOR_EVER)).await;
        assert_eq!(nothing, Err(Elapsed));
        for _ in 0..200 {
            task::yield_now().await;
        }
    });
    gather(woken).await;
}

async fn a_wake_by_another_thread_ends_a_select() {
    let (_client, mut server) = pair().await;
    for _ in 0..50 {
        let notify = Arc::new(Notify::new());
        let told = notify.clone();
        let thread = std::thread::spawn(move || told.notify_one());
        let mut buffer = [0; 8];
        let is_told = select! {
            read = server.read(&mut buffer) => read.unwrap() == 1000,
            () = notify.notified() => true,
        };
        assert!(is_told);
        thread.join().unwrap();
    }
}

async fn a_timeout_within_and_around_a_gather() {
    let (_client, mut server) = pair().await;
    let mut buffer = [0; 8];
    let is_first = select! {
        result = timeout(MOMENT, server.read(&mut buffer)) => result.is_err(),
        () = sleep(FOR_EVER) => false,
    };
    assert!(is_first);
    let around = timeout(MOMENT, async {
        select! {
            read = server.read(&mut buffer) => read.is_ok(),
            () = sleep(FOR_EVER) => true,
        }
    });
    assert_eq!(around.await, Err(Elapsed));
    // A future that is not ours, and never wakes its task.
    assert_eq!(timeout(MOMENT, std::future::pending::<()>()).await, Err(Elapsed));
}

async fn the_time_limit_of_a_stream_holds() {
    let (_client, mut server) = pair().await;
    server.set_read_timeout(Some(MOMENT)).unwrap();
    let mut buffer = [0; 8];
    let kind = select! {
        read = server.read(&mut buffer) => read.unwrap_err().kind(),
        () = sleep(FOR_EVER) => unreachable!(),
    };
    assert_eq!(kind, std::io::ErrorKind::TimedOut);
}

/// A million losing waits leave no million entries: each entry goes when its wait is dropped.
async fn a_dropped_wait_is_forgotten() {
    for round in 0..3_000 {
        let is_first = select! {
            () = async { if round % 2 == 0 { task::yield_now().await } } => true,
            () = sleep(FOR_EVER) => false,
        };
        assert!(is_first);
        let result = timeout(FOR_EVER, async {
            select! {
                () = sleep(FOR_EVER) => false,
                () = async {} => true,
            }
        });
        assert_eq!(result.await, Ok(true));
    }
}

async fn tasks_that_give_up_their_turn_go_on() {
    let (one, other) = join!(
        async {
            for _ in 0..100 {
                task::yield_now().await;
            }
            1
        },
        async {
            for _ in 0..100 {
                task::stage("turn").await;
            }
            2
        }
    );
    assert_eq!((one, other), (1, 2));
}

async fn a_listener_and_a_connect_within_a_gather() {
    let any_port = ([127, 0, 0, 1], 0).into();
    let mut listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    for _ in 0..20 {
        let (accepted, connected) = join!(listener.accept(), TcpStream::connect(address));
        let ((mut server, _), mut client) = (accepted.unwrap(), connected.unwrap());
        let mut buffer = [0; 3];
        let (read, wrote) = join!(server.read_exact(&mut buffer), client.write_all(b"abc"));
        read.unwrap();
        wrote.unwrap();
        assert_eq!(&buffer, b"abc");
    }
}

async fn single_waits_follow_gathered_ones() {
    let (mut client, mut server) = pair().await;
    let mut buffer = [0; 8];
    for number in 0..50_u8 {
        let is_late = select! {
            read = server.read(&mut buffer) => read.is_err(),
            () = task::yield_now() => true,
        };
        assert!(is_late);
        client.write_all(&[number]).await.unwrap();
        assert_eq!(server.read(&mut buffer).await.unwrap(), 1);
        assert_eq!(buffer[0], number);
    }
    // The task's own future, polled by hand.
    let mut read = pin!(server.read(&mut buffer));
    let first = gather(poll_fn(|context| Poll::Ready(read.as_mut().poll(context).is_pending())));
    assert!(first.await);
    client.write_all(b"x").await.unwrap();
    assert_eq!(gather(read).await.unwrap(), 1);
}
