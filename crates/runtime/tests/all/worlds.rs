//! One body, every world: block, park (on epoll), suspend (on every poller) and reactor keep each
//! promise of the runtime. The name of a failing test says which world broke it.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duality_poller::Kind;
use duality_runtime::event_loop::{idle, resting};
use duality_runtime::net::{ConnectOptions, ListenOptions, TcpListener, TcpStream};
use duality_runtime::sync::{Mutex, Notify, Semaphore, channel};
use duality_runtime::time::{Duration, Elapsed, Instant, sleep, timeout};
use duality_runtime::{fs, task};

use crate::kept_port::KeptPort;
use duality_kit::Case;

/// Long enough never to pass in a test that works.
const EVER: Duration = Duration::from_secs(20);
/// Short enough to wait for.
const MOMENT: Duration = Duration::from_millis(20);

duality_kit::in_every_world! {
    a_megabyte_comes_back
    vectored_writes_arrive_in_order
    a_read_gives_up_after_its_timeout
    a_read_gives_up_after_its_timeout_within_a_longer_one
    a_timeout_drops_a_read
    timeouts_nest
    a_timeout_leaves_a_quick_future_alone
    sleep_is_never_short
    a_refused_connection_is_an_error
    a_unix_socket_is_reached
    a_connect_can_time_out
    a_connection_comes_from_the_address_it_is_told
    a_source_that_is_not_local_is_an_error
    a_narrow_receiver_holds_up_its_peer
    half_closed_streams_still_receive
    a_clone_writes_while_the_other_reads
    addresses_agree
    join_returns_what_the_task_returned
    join_reports_a_panic
    yield_lets_others_run
    a_mutex_excludes
    a_mutex_wait_can_time_out
    a_semaphore_bounds
    notify_wakes_across_threads
    a_channel_keeps_order_and_bounds
    a_channel_ends_with_its_senders
    a_receiver_that_leaves_frees_its_senders
    offload_returns_and_panics
    files_stay_beneath_their_root
    send_file_sends_it_all
}

#[test]
fn a_connection_rests_while_its_client_is_waited_for() {
    Case::Park(Kind::Epoll).run(connections_rest());
    Case::Suspend(Kind::Epoll).run(connections_rest());
}

async fn connections_rest() {
    let (mut client, mut server) = pair().await;
    assert_eq!(resting(), 0);
    let reader = task::spawn(async move {
        server.read_exact(&mut [0; 2]).await.unwrap();
        server.set_read_timeout(Some(MOMENT)).unwrap();
        server.read(&mut [0]).await.unwrap_err().kind()
    })
    .unwrap();
    while resting() == 0 {
        task::yield_now().await;
    }
    // A byte ends the rest, and the next one that is missing begins another.
    client.write_all(b"a").await.unwrap();
    while resting() == 1 {
        task::yield_now().await;
    }
    client.write_all(b"b").await.unwrap();
    // A task that gives up, or closes, rests no longer.
    assert_eq!(reader.await, Ok(io::ErrorKind::TimedOut));
    assert_eq!(resting(), 0);
    // A wait for a server that the task itself chose is not a rest.
    let (mut client, server) = pair().await;
    let waiting = task::spawn(async move { client.read(&mut [0]).await.unwrap() }).unwrap();
    let before = idle();
    sleep(MOMENT).await;
    assert!(idle() > before, "both waited");
    assert_eq!(resting(), 0);
    drop(server);
    assert_eq!(waiting.await, Ok(0));
}

fn listener() -> (TcpListener, SocketAddr) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Two ends of a connection.
async fn pair() -> (TcpStream, TcpStream) {
    let (mut listener, address) = listener();
    let client = TcpStream::connect(address).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (client, server)
}

async fn a_megabyte_comes_back() {
    let (mut client, mut server) = pair().await;
    let sent: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    let echo = task::spawn(async move {
        let mut buffer = [0; 4096];
        let mut total = 0;
        loop {
            match server.read(&mut buffer).await? {
                0 => return io::Result::Ok(total),
                count => server.write_all(&buffer[..count]).await?,
            }
            total += 1;
        }
    })
    .unwrap();
    let mut received = vec![0; sent.len()];
    // The client writes pieces that fit the socket buffers, because it must not write for ever
    // without reading.
    for (out, back) in sent.chunks(16 << 10).zip(received.chunks_mut(16 << 10)) {
        client.write_all(out).await.unwrap();
        client.read_exact(back).await.unwrap();
    }
    assert!(sent == received);
    drop(client);
    assert!(echo.await.unwrap().unwrap() > 0);
}

async fn vectored_writes_arrive_in_order() {
    let (mut client, mut server) = pair().await;
    let mut parts = [io::IoSlice::new(b"one "), io::IoSlice::new(b""), io::IoSlice::new(b"two")];
    client.write_all_vectored(&mut parts).await.unwrap();
    let mut received = [0; 7];
    server.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"one two");
}

async fn a_read_gives_up_after_its_timeout() {
    let (_client, mut server) = pair().await;
    server.set_read_timeout(Some(MOMENT)).unwrap();
    let error = server.read(&mut [0; 8]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

async fn a_read_gives_up_after_its_timeout_within_a_longer_one() {
    let (_client, mut server) = pair().await;
    server.set_read_timeout(Some(MOMENT)).unwrap();
    let error = timeout(EVER, server.read(&mut [0; 8])).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

async fn a_timeout_drops_a_read() {
    let (mut client, mut server) = pair().await;
    assert_eq!(timeout(MOMENT, server.read(&mut [0; 8])).await.unwrap_err(), Elapsed);
    // The stream is as good as before.
    client.write_all(b"late").await.unwrap();
    let mut buffer = [0; 8];
    assert_eq!(timeout(EVER, server.read(&mut buffer)).await.unwrap().unwrap(), 4);
}

async fn timeouts_nest() {
    let (_client, mut server) = pair().await;
    let mut buffer = [0; 8];
    let inner = timeout(EVER, server.read(&mut buffer));
    assert_eq!(timeout(MOMENT, inner).await.unwrap_err(), Elapsed);
    let inner = timeout(MOMENT, server.read(&mut buffer));
    assert_eq!(timeout(EVER, inner).await.unwrap().unwrap_err(), Elapsed);
}

async fn a_timeout_leaves_a_quick_future_alone() {
    assert_eq!(timeout(EVER, async { 7 }).await, Ok(7));
}

async fn sleep_is_never_short() {
    let begin = Instant::now();
    sleep(MOMENT).await;
    assert!(begin.elapsed() >= MOMENT);
}

async fn a_refused_connection_is_an_error() {
    let nowhere = KeptPort::keep();
    let error = TcpStream::connect(nowhere.address()).await.err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

async fn a_unix_socket_is_reached() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut greeting = [0; 5];
        io::Read::read_exact(&mut stream, &mut greeting).unwrap();
        io::Write::write_all(&mut stream, &greeting).unwrap();
    });
    let mut stream = TcpStream::connect_unix(&path).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting, b"hello");
    assert_eq!(stream.read(&mut greeting).await.unwrap(), 0);
    assert!(stream.peer_addr().is_err());
    server.join().unwrap();
    let absent = TcpStream::connect_unix(&directory.path().join("absent")).await;
    assert_eq!(absent.err().unwrap().kind(), io::ErrorKind::NotFound);
}

async fn a_connect_can_time_out() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = TcpListener::bind(any, &ListenOptions::default().backlog(0)).unwrap();
    let address = listener.local_addr().unwrap();
    // No connection is accepted, so that soon the queue is full and the kernel answers no more.
    let mut queued = vec![];
    loop {
        match timeout(MOMENT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => queued.push(stream),
            Ok(Err(error)) => panic!("{error}"),
            Err(Elapsed) => break,
        }
        assert!(queued.len() < 100, "a queue of 0 took 100 connections");
    }
}

async fn a_connection_comes_from_the_address_it_is_told() {
    let (mut listener, address) = listener();
    for last in [1, 2, 77] {
        let source = IpAddr::from([127, 0, 0, last]);
        let mut client = TcpStream::connect_from(source, address).await.unwrap();
        let (mut server, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.ip(), source);
        assert_eq!(client.local_addr().unwrap(), peer);
        client.write_all(b"from afar").await.unwrap();
        let mut received = [0; 9];
        server.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"from afar");
    }
}

async fn a_source_that_is_not_local_is_an_error() {
    let (_listener, address) = listener();
    // An address that is reserved for documentation (RFC 5737).
    let source = IpAddr::from([192, 0, 2, 1]);
    let error = TcpStream::connect_from(source, address).await.err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    let source = IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]);
    assert!(TcpStream::connect_from(source, address).await.is_err(), "IPv6 to IPv4");
}

async fn a_narrow_receiver_holds_up_its_peer() {
    let (mut listener, address) = listener();
    let narrow = ConnectOptions::default().receive_buffer(4096).largest_segment(536);
    let mut client = TcpStream::connect_with(address, &narrow).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let mut sent = 0;
    while let Ok(written) = timeout(MOMENT, server.write(&[7; 1024])).await {
        sent += written.unwrap();
        // Ten times the bytes that fit. With the buffers and segments of a loopback device, that is
        // megabytes.
        assert!(sent < 512 << 10, "nothing held it up");
    }
    drop(server);
    let mut received = vec![0; sent];
    client.read_exact(&mut received).await.unwrap();
    assert!(received.iter().all(|byte| *byte == 7));
    assert_eq!(client.read(&mut received).await.unwrap(), 0);
}

async fn half_closed_streams_still_receive() {
    let (mut client, mut server) = pair().await;
    client.shutdown(Shutdown::Write).await.unwrap();
    assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
    server.write_all(b"bye").await.unwrap();
    drop(server);
    let mut received = [0; 8];
    client.read_exact(&mut received[..3]).await.unwrap();
    assert_eq!(client.read(&mut received).await.unwrap(), 0);
}

async fn a_clone_writes_while_the_other_reads() {
    let (mut client, mut server) = pair().await;
    for round in 0..3 {
        let mut writer = server.try_clone().unwrap();
        let reading = task::spawn(async move {
            let mut byte = [0];
            let outcome = server.read_exact(&mut byte).await;
            (server, byte, outcome)
        });
        writer.write_all(&[round]).await.unwrap();
        let mut byte = [0];
        client.read_exact(&mut byte).await.unwrap();
        client.write_all(&byte).await.unwrap();
        let (returned, echoed, outcome) = reading.unwrap().await.unwrap();
        outcome.unwrap();
        assert_eq!(echoed, [round]);
        server = returned;
    }
}

async fn addresses_agree() {
    let (client, server) = pair().await;
    assert_eq!(client.local_addr().unwrap(), server.peer_addr().unwrap());
    assert_eq!(client.peer_addr().unwrap(), server.local_addr().unwrap());
    assert!(client.nodelay().unwrap() && server.nodelay().unwrap());
}

async fn join_returns_what_the_task_returned() {
    let handle = task::spawn(async {
        sleep(MOMENT).await;
        42
    });
    assert_eq!(handle.unwrap().await, Ok(42));
}

async fn join_reports_a_panic() {
    let handle = task::spawn(async { panic!("on purpose") }).unwrap();
    assert!(handle.await.unwrap_err().is_panic());
}

async fn yield_lets_others_run() {
    let ran = Arc::new(AtomicUsize::new(0));
    let other = ran.clone();
    let handle = task::spawn(async move { other.fetch_add(1, Ordering::Relaxed) }).unwrap();
    while ran.load(Ordering::Relaxed) == 0 {
        task::yield_now().await;
    }
    handle.await.unwrap();
}

async fn a_mutex_excludes() {
    let mutex = Arc::new(Mutex::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let mutex = mutex.clone();
            task::spawn(async move {
                for _ in 0..50 {
                    let mut guard = mutex.lock().await;
                    let seen = *guard;
                    task::yield_now().await;
                    *guard = seen + 1;
                }
            })
            .unwrap()
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*mutex.lock().await, 400);
}

async fn a_mutex_wait_can_time_out() {
    let mutex = Mutex::new(());
    let guard = mutex.lock().await;
    assert!(timeout(MOMENT, mutex.lock()).await.is_err());
    assert!(mutex.try_lock().is_none());
    drop(guard);
    assert!(timeout(EVER, mutex.lock()).await.is_ok());
}

async fn a_semaphore_bounds() {
    let semaphore = Arc::new(Semaphore::new(2));
    let inside = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let (semaphore, inside) = (semaphore.clone(), inside.clone());
            task::spawn(async move {
                let _permit = semaphore.acquire().await;
                assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
            })
            .unwrap()
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(semaphore.available(), 2);
}

async fn notify_wakes_across_threads() {
    let notify = Arc::new(Notify::new());
    let theirs = notify.clone();
    let thread = std::thread::spawn(move || theirs.notify_one());
    timeout(EVER, notify.notified()).await.unwrap();
    thread.join().unwrap();
}

async fn a_channel_keeps_order_and_bounds() {
    let (sender, mut receiver) = channel::bounded(2);
    sender.try_send(0).unwrap();
    sender.try_send(1).unwrap();
    assert_eq!(sender.try_send(9), Err(channel::SendError(9)));
    let sending = task::spawn(async move {
        for value in 2..100 {
            sender.send(value).await.unwrap();
        }
    })
    .unwrap();
    for value in 0..100 {
        assert_eq!(receiver.recv().await, Some(value));
    }
    sending.await.unwrap();
    assert_eq!(receiver.recv().await, None);
}

async fn a_channel_ends_with_its_senders() {
    let (sender, mut receiver) = channel::bounded::<u8>(1);
    let other = sender.clone();
    let dropping = task::spawn(async move { drop((sender, other)) }).unwrap();
    assert_eq!(receiver.recv().await, None);
    dropping.await.unwrap();
}

async fn a_receiver_that_leaves_frees_its_senders() {
    let (sender, receiver) = channel::bounded(1);
    sender.send(1).await.unwrap();
    let leaving = task::spawn(async move {
        task::yield_now().await;
        drop(receiver);
    })
    .unwrap();
    assert_eq!(sender.send(2).await, Err(channel::SendError(2)));
    leaving.await.unwrap();
}

async fn offload_returns_and_panics() {
    assert_eq!(task::offload(|| 6 * 7).await, 42);
    let handle = task::spawn(async { task::offload(|| panic!("on purpose")).await }).unwrap();
    assert!(handle.await.unwrap_err().is_panic());
}

async fn files_stay_beneath_their_root() {
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path();
    std::fs::create_dir_all(path.join("root/inner")).unwrap();
    std::fs::write(path.join("secret"), "no").unwrap();
    std::fs::write(path.join("root/inner/page"), "yes").unwrap();
    std::os::unix::fs::symlink("../secret", path.join("root/leak")).unwrap();
    let root = fs::Root::open(path.join("root")).unwrap();
    let file = root.open_file("inner/page").await.unwrap();
    assert_eq!(file.read_at(0, 100).await.unwrap(), b"yes");
    assert_eq!(file.metadata().await.unwrap().length, 3);
    assert_eq!(root.stat("inner").await.unwrap().kind, fs::Kind::Directory);
    let kind = async |path| root.open_file(path).await.err().unwrap().kind();
    assert_eq!(kind("../secret").await, io::ErrorKind::PermissionDenied);
    assert_eq!(kind("leak").await, io::ErrorKind::PermissionDenied);
    assert_eq!(kind("/etc/passwd").await, io::ErrorKind::PermissionDenied);
    assert_eq!(kind("absent").await, io::ErrorKind::NotFound);
    assert_eq!(kind("inner/page/deeper").await, io::ErrorKind::NotFound);
}

async fn send_file_sends_it_all() {
    let directory = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..3_000_000u32).map(|index| (index % 253) as u8).collect();
    std::fs::write(directory.path().join("large"), &content).unwrap();
    let root = fs::Root::open(directory.path()).unwrap();
    let file = root.open_file("large").await.unwrap();
    let (mut client, mut server) = pair().await;
    let sending = task::spawn(async move {
        server.send_file(&file, 0, 3_000_000).await.unwrap();
        server.send_file(&file, 2_999_999, 2).await.unwrap_err().kind()
    })
    .unwrap();
    let mut received = vec![0; content.len() + 1];
    client.read_exact(&mut received).await.unwrap();
    assert!(received[..content.len()] == content);
    assert_eq!(sending.await, Ok(io::ErrorKind::UnexpectedEof));
}
