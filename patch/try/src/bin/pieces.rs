//! Pieces of tokio's interface, as a user would use them. Each piece checks itself, and prints a
//! line. The lines are the same under every world.

use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, SinkExt, StreamExt};
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest, copy_bidirectional,
};
use tokio::net::{
    TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream,
};
use tokio::sync::{Barrier, Mutex, Notify, Semaphore, broadcast, mpsc, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_stream::wrappers::{IntervalStream, TcpListenerStream};
use tokio_util::codec::{Framed, LengthDelimitedCodec, LinesCodec};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::time::DelayQueue;
use tokio_util::udp::UdpFramed;

const MOMENT: Duration = Duration::from_millis(3);
const FOR_EVER: Duration = Duration::from_secs(3600);
const ANY_PORT: &str = "127.0.0.1:0";

macro_rules! pieces {
    ($($piece:ident)+) => {
        #[tokio::main]
        async fn main() -> Result<(), Box<dyn std::error::Error>> {
            $(
                let limited = timeout(Duration::from_secs(60), $piece());
                let found = limited.await.map_err(|_| concat!(stringify!($piece), " takes too long"))?;
                println!("{}: {}", stringify!($piece), found?);
            )+
            Ok(())
        }
    };
}

pieces! {
    lines_by_a_codec
    frames_go_through_halves
    both_ends_wait_for_room
    many_connections
    readiness
    two_tasks_share_a_socket
    two_acceptors_share_a_listener
    a_stream_moves_between_tasks
    options_of_sockets
    datagrams
    datagrams_in_frames
    unix_streams
    unix_datagrams
    a_name_is_looked_up
    a_proxy
    sleeps_and_resets
    intervals
    queues_of_delays
    time_outs_leave_no_bytes_behind
    channels
    locks
    join_sets
    aborts
    panics
    local_sets
    blocking_work
    blocking_in_place
    unordered_futures
    selects
    trackers
    handles
    signals
    standard_streams
    files
    yields
}

type Found = Result<String, Box<dyn std::error::Error>>;

async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(ANY_PORT).await?;
    let client = TcpStream::connect(listener.local_addr()?).await?;
    let (server, peer) = listener.accept().await?;
    assert_eq!(peer, client.local_addr()?);
    Ok((client, server))
}

async fn lines_by_a_codec() -> Found {
    let (client, server) = pair().await?;
    let served = tokio::spawn(async move {
        let mut lines = Framed::new(server, LinesCodec::new());
        let mut count = 0;
        while let Some(line) = lines.next().await {
            lines.send(format!("<{}>", line.unwrap())).await.unwrap();
            count += 1;
        }
        count
    });
    let mut lines = Framed::new(client, LinesCodec::new());
    let mut heard = Vec::new();
    for word in ["one", "two", "three"] {
        lines.send(word).await?;
        heard.push(lines.next().await.ok_or("the end")??);
    }
    drop(lines);
    Ok(format!("{} {}", heard.concat(), served.await?))
}

async fn frames_go_through_halves() -> Found {
    let (client, server) = pair().await?;
    let (reads, writes) = server.into_split();
    let (mut from, mut to) = (
        tokio_util::codec::FramedRead::new(reads, LengthDelimitedCodec::new()),
        tokio_util::codec::FramedWrite::new(writes, LengthDelimitedCodec::new()),
    );
    let served = tokio::spawn(async move {
        while let Some(frame) = from.next().await {
            to.send(frame.unwrap().freeze()).await.unwrap();
        }
    });
    let (reads, mut writes) = client.into_split();
    let mut reads = tokio_util::codec::FramedRead::new(reads, LengthDelimitedCodec::new());
    let sent = tokio::spawn(async move {
        for length in [0_u32, 1, 1000, 70_000] {
            writes.write_u32(length).await.unwrap();
            writes.write_all(&vec![length as u8; length as usize]).await.unwrap();
        }
        // The drop of the half ends writing.
    });
    let mut lengths = Vec::new();
    while let Some(frame) = reads.next().await {
        lengths.push(frame?.len().to_string());
    }
    sent.await?;
    served.await?;
    Ok(lengths.join(" "))
}

/// More bytes than socket buffers hold.
async fn both_ends_wait_for_room() -> Found {
    const BYTES: usize = 4_000_000;
    let (client, server) = pair().await?;
    let echo = tokio::spawn(async move {
        let (mut reads, mut writes) = server.into_split();
        tokio::io::copy(&mut reads, &mut writes).await.unwrap()
    });
    let (mut reads, mut writes) = tokio::io::split(client);
    let write = tokio::spawn(async move {
        let bytes: Vec<u8> = (0..BYTES).map(|number| (number % 251) as u8).collect();
        writes.write_all(&bytes).await.unwrap();
        writes.shutdown().await.unwrap();
    });
    let mut heard = bytes::BytesMut::new();
    while reads.read_buf(&mut heard).await? > 0 {}
    write.await?;
    assert!(heard.iter().enumerate().all(|(number, byte)| *byte == (number % 251) as u8));
    Ok(format!("{} {}", heard.len(), echo.await?))
}

async fn many_connections() -> Found {
    let listener = TcpListener::bind(ANY_PORT).await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move {
        let mut streams = TcpListenerStream::new(listener);
        while let Some(Ok(mut stream)) = streams.next().await {
            tokio::spawn(async move {
                let (mut reads, mut writes) = stream.split();
                tokio::io::copy(&mut reads, &mut writes).await.unwrap();
            });
        }
    });
    let mut clients = JoinSet::new();
    for number in 0..60_u32 {
        clients.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            let mut sum = 0;
            for round in 0..20 {
                stream.write_u32(number * round).await?;
                sum += stream.read_u32().await?;
            }
            io::Result::Ok(sum)
        });
    }
    let mut sum = 0;
    while let Some(client) = clients.join_next().await {
        sum += client??;
    }
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    Ok(sum.to_string())
}

async fn readiness() -> Found {
    let (client, server) = pair().await?;
    let mut buffer = [0; 8];
    assert_eq!(server.try_read(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert!(timeout(MOMENT, server.readable()).await.is_err());
    client.writable().await?;
    client.try_write(b"abc")?;
    server.readable().await?;
    assert!(server.ready(Interest::READABLE | Interest::WRITABLE).await?.is_readable());
    assert_eq!(server.peek(&mut buffer).await?, 3);
    let mut bytes = bytes::BytesMut::with_capacity(16);
    server.readable().await?;
    assert_eq!(server.try_read_buf(&mut bytes)?, 3);
    let later = tokio::spawn(async move {
        sleep(MOMENT).await;
        client.try_write(b"de").unwrap();
        client
    });
    loop {
        server.readable().await?;
        match server.try_read(&mut buffer) {
            Ok(count) => {
                drop(later.await?);
                assert!(server.ready(Interest::READABLE).await?.is_read_closed());
                return Ok(format!("{bytes:?} {}", String::from_utf8_lossy(&buffer[..count])));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Several tasks wait for one direction of one socket, and this task does too.
async fn two_tasks_share_a_socket() -> Found {
    let socket = Arc::new(UdpSocket::bind(ANY_PORT).await?);
    let sender = UdpSocket::bind(ANY_PORT).await?;
    sender.connect(socket.local_addr()?).await?;
    let (told, mut heard) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let (socket, told) = (socket.clone(), told.clone());
        tasks.spawn(async move {
            let mut buffer = [0; 8];
            while socket.recv(&mut buffer).await.unwrap() == 1 {
                told.send(buffer[0]).unwrap();
            }
        });
    }
    let here = async {
        let mut buffer = [0; 8];
        while socket.recv(&mut buffer).await.unwrap() == 1 {
            told.send(buffer[0]).unwrap();
        }
    };
    let send = async {
        let mut numbers = BTreeSet::new();
        for number in 0..100 {
            sender.send(&[number]).await.unwrap();
            numbers.insert(heard.recv().await.unwrap());
        }
        for _ in 0..4 {
            sender.send(b"end").await.unwrap();
        }
        numbers.len()
    };
    let ((), count) = tokio::join!(here, send);
    while let Some(task) = tasks.join_next().await {
        task?;
    }
    Ok(count.to_string())
}

async fn two_acceptors_share_a_listener() -> Found {
    let listener = Arc::new(TcpListener::bind(ANY_PORT).await?);
    let address = listener.local_addr()?;
    let mut acceptors = JoinSet::new();
    for _ in 0..2 {
        let listener = listener.clone();
        acceptors.spawn(async move {
            for _ in 0..20 {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(b"hi").await.unwrap();
            }
        });
    }
    let mut greeted = 0;
    for _ in 0..40 {
        let mut text = String::new();
        TcpStream::connect(address).await?.read_to_string(&mut text).await?;
        greeted += usize::from(text == "hi");
    }
    acceptors.join_all().await;
    Ok(greeted.to_string())
}

/// Each owner reads something, and hands the stream to a new task or back to this one.
async fn a_stream_moves_between_tasks() -> Found {
    let (mut client, server) = pair().await?;
    let write = tokio::spawn(async move {
        for byte in b'a'..=b'h' {
            sleep(Duration::from_millis(1)).await;
            client.write_u8(byte).await.unwrap();
        }
        client
    });
    let (mut server, mut word) = (server, String::new());
    for turn in 0..8 {
        let byte = if turn % 2 == 0 {
            let task = tokio::spawn(async move {
                let byte = server.read_u8().await.unwrap();
                (server, byte)
            });
            let byte;
            (server, byte) = task.await?;
            byte
        } else {
            server.read_u8().await?
        };
        word.push(byte.into());
    }
    drop(write.await?);
    assert_eq!(server.read(&mut [0; 4]).await?, 0);
    Ok(word)
}

async fn options_of_sockets() -> Found {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind("127.0.0.1:0".parse()?)?;
    let listener = socket.listen(8)?;
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(8192)?;
    let stream = socket.connect(listener.local_addr()?).await?;
    stream.set_nodelay(true)?;
    stream.set_linger(Some(Duration::from_secs(1)))?;
    let refused = {
        let address = TcpListener::bind(ANY_PORT).await?.local_addr()?;
        TcpStream::connect(address).await.unwrap_err().kind()
    };
    let std = TcpStream::from_std(stream.into_std()?)?;
    Ok(format!("{} {:?} {refused:?}", std.nodelay()?, std.linger()?))
}

async fn datagrams() -> Found {
    let (one, other) = (UdpSocket::bind(ANY_PORT).await?, UdpSocket::bind(ANY_PORT).await?);
    let mut buffer = [0; 64];
    one.send_to(b"hello", other.local_addr()?).await?;
    let (length, sender) = other.recv_from(&mut buffer).await?;
    assert_eq!(sender, one.local_addr()?);
    assert!(timeout(MOMENT, other.recv_from(&mut buffer)).await.is_err());
    assert_eq!(other.try_recv(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

async fn datagrams_in_frames() -> Found {
    let (one, other) = (UdpSocket::bind(ANY_PORT).await?, UdpSocket::bind(ANY_PORT).await?);
    let address = other.local_addr()?;
    let mut sends = UdpFramed::new(one, LinesCodec::new());
    let mut receives = UdpFramed::new(other, LinesCodec::new());
    sends.send(("a line", address)).await?;
    let (line, _) = receives.next().await.ok_or("the end")??;
    Ok(line)
}

/// A path in a folder of its own, which is removed at the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("duality-{name}-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn unix_streams() -> Found {
    let folder = Folder::new("stream")?;
    let path = folder.0.join("socket");
    let listener = UnixListener::bind(&path)?;
    let served = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        lines.next_line().await.unwrap().unwrap()
    });
    let mut stream = UnixStream::connect(&path).await?;
    assert_eq!(stream.peer_addr()?.as_pathname(), Some(&*path));
    assert_eq!(stream.peer_cred()?.pid(), Some(std::process::id().cast_signed()));
    stream.write_all(b"over a path\n").await?;
    let (mut one, mut other) = UnixStream::pair()?;
    one.write_all(b"pair").await?;
    drop(one);
    let mut text = String::new();
    other.read_to_string(&mut text).await?;
    Ok(format!("{} {text}", served.await?))
}

async fn unix_datagrams() -> Found {
    let folder = Folder::new("datagram")?;
    let receives = UnixDatagram::bind(folder.0.join("socket"))?;
    let (sends, other) = UnixDatagram::pair()?;
    let unbound = UnixDatagram::unbound()?;
    unbound.send_to(b"by path", folder.0.join("socket")).await?;
    sends.send(b"by pair").await?;
    let mut buffer = [0; 64];
    let (length, sender) = receives.recv_from(&mut buffer).await?;
    assert!(sender.is_unnamed());
    let first = String::from_utf8_lossy(&buffer[..length]).into_owned();
    let length = other.recv(&mut buffer).await?;
    Ok(format!("{first}, {}", String::from_utf8_lossy(&buffer[..length])))
}

async fn a_name_is_looked_up() -> Found {
    let found = tokio::net::lookup_host("localhost:80").await?.count() > 0;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let stream = TcpStream::connect(("localhost", port)).await?;
    Ok(format!("{found} {}", stream.peer_addr()?.port() == port))
}

async fn a_proxy() -> Found {
    let (mut client, mut front) = pair().await?;
    let (mut back, mut server) = pair().await?;
    let proxy = tokio::spawn(async move { copy_bidirectional(&mut front, &mut back).await });
    client.write_all(b"question").await?;
    client.shutdown().await?;
    let mut text = String::new();
    server.read_to_string(&mut text).await?;
    server.write_all(b"answer").await?;
    drop(server);
    client.read_to_string(&mut text).await?;
    Ok(format!("{text} {:?}", proxy.await??))
}

async fn sleeps_and_resets() -> Found {
    let begin = Instant::now();
    sleep(MOMENT).await;
    sleep_until(begin + 2 * MOMENT).await;
    assert!(begin.elapsed() >= 2 * MOMENT);
    let later = sleep(FOR_EVER);
    tokio::pin!(later);
    assert!(timeout(MOMENT, later.as_mut()).await.is_err());
    later.as_mut().reset(Instant::now() + MOMENT);
    (&mut later).await;
    later.as_mut().reset(Instant::now() + FOR_EVER);
    assert!(later.now_or_never().is_none());
    let two = tokio::join!(sleep(MOMENT), sleep(2 * MOMENT));
    Ok(format!("{two:?}"))
}

async fn intervals() -> Found {
    let mut ticks = interval(MOMENT);
    let first = ticks.tick().await;
    let second = ticks.tick().await;
    assert!(second - first == MOMENT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    sleep(10 * MOMENT).await;
    let late = ticks.tick().await;
    let next = ticks.tick().await;
    assert!(next > late && (next - first).as_nanos() % MOMENT.as_nanos() == 0);
    let count = IntervalStream::new(interval(MOMENT)).take(5).count().await;
    Ok(count.to_string())
}

async fn queues_of_delays() -> Found {
    let mut queue = DelayQueue::new();
    queue.insert("second", 3 * MOMENT);
    queue.insert("first", MOMENT);
    let never = queue.insert("never", FOR_EVER);
    queue.remove(&never);
    let mut order = Vec::new();
    while let Some(expired) = queue.next().await {
        order.push(expired.into_inner());
    }
    Ok(order.join(" "))
}

/// A read that was given up has taken no bytes.
async fn time_outs_leave_no_bytes_behind() -> Found {
    let (mut client, mut server) = pair().await?;
    let write = tokio::spawn(async move {
        for number in 0..200_u16 {
            client.write_all(&number.to_be_bytes()).await.unwrap();
            if number % 8 == 0 {
                sleep(Duration::from_micros(1500)).await;
            }
        }
    });
    let mut numbers = 0_u16;
    let mut buffer = [0; 2];
    let mut filled = 0;
    while numbers < 200 {
        let read = timeout(Duration::from_micros(700), server.read(&mut buffer[filled..]));
        if let Ok(count) = read.await {
            filled += count?;
        }
        if filled == 2 {
            assert_eq!(u16::from_be_bytes(buffer), numbers);
            (numbers, filled) = (numbers + 1, 0);
        }
    }
    write.await?;
    Ok(numbers.to_string())
}

async fn channels() -> Found {
    let (sender, mut receiver) = mpsc::channel(2);
    let (all, _) = broadcast::channel(64);
    let (state, mut watched) = watch::channel(0);
    let mut listeners = JoinSet::new();
    for _ in 0..4 {
        let mut heard = all.subscribe();
        listeners.spawn(async move {
            let mut sum = 0;
            while let Ok(number) = heard.recv().await {
                sum += number;
            }
            sum
        });
    }
    let send = tokio::spawn(async move {
        for number in 0..50 {
            sender.send(number).await.unwrap();
        }
    });
    while let Some(number) = receiver.recv().await {
        all.send(number)?;
        state.send(number)?;
        tokio::task::yield_now().await;
    }
    send.await?;
    drop(all);
    let sums = listeners.join_all().await;
    let last = *watched.wait_for(|number| *number == 49).await?;
    Ok(format!("{sums:?} {last}"))
}

async fn locks() -> Found {
    let (count, permits) = (Arc::new(Mutex::new(0)), Arc::new(Semaphore::new(3)));
    let (barrier, notify) = (Arc::new(Barrier::new(11)), Arc::new(Notify::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let (count, permits) = (count.clone(), permits.clone());
        let (barrier, notify) = (barrier.clone(), notify.clone());
        tasks.spawn(async move {
            for _ in 0..20 {
                let _permit = permits.acquire().await.unwrap();
                let mut count = count.lock().await;
                let before = *count;
                tokio::task::yield_now().await;
                *count = before + 1;
            }
            let told = notify.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            barrier.wait().await;
            told.await;
        });
    }
    barrier.wait().await;
    notify.notify_waiters();
    tasks.join_all().await;
    Ok(count.lock().await.to_string())
}

async fn join_sets() -> Found {
    let mut set = JoinSet::new();
    let mut starts = Vec::new();
    for number in 1..=3 {
        let (start, started) = tokio::sync::oneshot::channel::<()>();
        starts.push(start);
        set.spawn(async move {
            started.await.unwrap();
            number
        });
    }
    let mut order = Vec::new();
    while let Some(start) = starts.pop() {
        start.send(()).map_err(|()| "it is gone")?;
        order.push(set.join_next().await.ok_or("it is empty")??.to_string());
    }
    let never = set.spawn(async { std::future::pending().await });
    set.spawn_blocking(|| 7);
    never.abort();
    let (mut cancelled, mut sum) = (0, 0);
    while let Some(ended) = set.join_next_with_id().await {
        match ended {
            Ok((_, number)) => sum += number,
            Err(error) => cancelled += u32::from(error.is_cancelled()),
        }
    }
    set.spawn(std::future::pending());
    set.shutdown().await;
    Ok(format!("{} {cancelled} {sum} {}", order.concat(), set.len()))
}

/// An abort drops the future before the handle is told.
async fn aborts() -> Found {
    struct Told(Arc<AtomicBool>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let told = Told(dropped.clone());
    let (_client, mut server) = pair().await?;
    let task = tokio::spawn(async move {
        let _told = told;
        server.read_u8().await
    });
    sleep(MOMENT).await;
    assert!(!task.is_finished());
    task.abort();
    let error = task.await.unwrap_err();
    assert!(dropped.load(Ordering::SeqCst));
    let early = tokio::spawn(std::future::pending::<()>());
    let handle = early.abort_handle();
    handle.abort();
    assert!(early.await.unwrap_err().is_cancelled());
    assert!(handle.is_finished());
    let ended = tokio::spawn(async { 7 });
    while !ended.is_finished() {
        tokio::task::yield_now().await;
    }
    ended.abort();
    Ok(format!("{} {}", error.is_cancelled(), ended.await?))
}

async fn panics() -> Found {
    std::panic::set_hook(Box::new(|_| {}));
    let error = tokio::spawn(async { panic!("on purpose") }).await.unwrap_err();
    let blocking = tokio::task::spawn_blocking(|| panic!("too")).await.unwrap_err();
    let _ = std::panic::take_hook();
    let text = error.to_string();
    let message = text.split_once(' ').and_then(|(_, rest)| rest.split_once(' ')).ok_or("words")?.1;
    Ok(format!("{} {} {message}", error.is_panic(), blocking.is_panic()))
}

async fn local_sets() -> Found {
    // A LocalSet is not Send, so it runs on a thread with a runtime of its own.
    let thread = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let shared = Rc::new(std::cell::Cell::new(0));
        let set = LocalSet::new();
        let count = shared.clone();
        set.spawn_local(async move {
            for _ in 0..5 {
                sleep(Duration::from_millis(1)).await;
                count.set(count.get() + 1);
            }
        });
        let count = shared.clone();
        let out = set.block_on(&runtime, async move {
            let task = tokio::task::spawn_local(async move {
                tokio::task::yield_now().await;
                count.set(count.get() + 10);
                Rc::new(1)
            });
            *task.await.unwrap()
        });
        runtime.block_on(set);
        // Tasks of a current_thread runtime go on in its next block_on.
        let (sender, receiver) = tokio::sync::oneshot::channel();
        runtime.spawn(async { sender.send(5).unwrap() });
        let sent = runtime.block_on(receiver).unwrap();
        let later = runtime.spawn(async {
            sleep(MOMENT).await;
            6
        });
        runtime.block_on(tokio::task::yield_now());
        let later = runtime.block_on(later).unwrap();
        (shared.get(), out, sent, later)
    });
    let found = tokio::task::spawn_blocking(|| thread.join()).await?;
    Ok(format!("{:?}", found.map_err(|_| "a panic")?))
}

async fn blocking_work() -> Found {
    // Each waits for all the others, so all run at once.
    let barrier = Arc::new(std::sync::Barrier::new(20));
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let barrier = barrier.clone();
            tokio::task::spawn_blocking(move || {
                barrier.wait();
                number
            })
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += task.await?;
    }
    let handle = tokio::runtime::Handle::current();
    let nested = tokio::task::spawn_blocking(move || {
        handle.block_on(async {
            sleep(MOMENT).await;
            tokio::spawn(async { 2 }).await.unwrap()
        })
    });
    Ok(format!("{sum} {}", nested.await?))
}

async fn blocking_in_place() -> Found {
    let task = tokio::spawn(async {
        tokio::task::block_in_place(|| {
            // The task that is awaited cannot run on the loop that this task holds up.
            tokio::runtime::Handle::current().block_on(async {
                tokio::spawn(async {
                    sleep(MOMENT).await;
                    3
                })
                .await
                .unwrap()
            })
        })
    });
    Ok(task.await?.to_string())
}

/// Futures with wakers of their own.
async fn unordered_futures() -> Found {
    let mut pairs = Vec::new();
    for _ in 0..10 {
        pairs.push(pair().await?);
    }
    let mut reads: FuturesUnordered<_> = pairs
        .iter_mut()
        .map(|(client, server)| async move {
            let mut buffer = [0; 1];
            let write = async {
                sleep(Duration::from_millis(1)).await;
                client.write_all(b"x").await
            };
            let (read, written) = tokio::join!(server.read_exact(&mut buffer), write);
            written.and(read)
        })
        .collect();
    let mut sum = 0;
    while let Some(count) = reads.next().await {
        sum += count?;
    }
    Ok(sum.to_string())
}

async fn selects() -> Found {
    let (mut client, mut server) = pair().await?;
    let token = CancellationToken::new();
    let (mut ticks, mut bytes) = (0, 0);
    let mut every = interval(Duration::from_millis(1));
    let cancel = token.clone();
    let write = tokio::spawn(async move {
        for _ in 0..50 {
            client.write_all(b"12345").await.unwrap();
            sleep(Duration::from_micros(300)).await;
        }
        sleep(MOMENT).await;
        cancel.cancel();
        client
    });
    let mut buffer = [0; 3];
    loop {
        tokio::select! {
            count = server.read(&mut buffer) => bytes += count?,
            _ = every.tick() => ticks += 1,
            () = token.cancelled() => break,
        }
    }
    drop(write.await?);
    Ok(format!("{bytes} {}", ticks > 0))
}

async fn trackers() -> Found {
    let tracker = TaskTracker::new();
    let done = Arc::new(std::sync::atomic::AtomicU32::new(0));
    for _ in 0..5 {
        let done = done.clone();
        tracker.spawn(async move {
            sleep(MOMENT).await;
            done.fetch_add(1, Ordering::SeqCst);
        });
    }
    tracker.close();
    tracker.wait().await;
    Ok(done.load(Ordering::SeqCst).to_string())
}

/// A thread of the program's own uses the runtime by its handle, and a runtime is dropped with
/// tasks that wait.
async fn handles() -> Found {
    let handle = tokio::runtime::Handle::current();
    let thread = std::thread::spawn(move || {
        assert!(tokio::runtime::Handle::try_current().is_err());
        let _entered = handle.enter();
        let task = tokio::spawn(async { tokio::task::try_id().is_some() });
        handle.block_on(async { task.await.unwrap() })
    });
    let found = tokio::task::spawn_blocking(|| thread.join()).await?.map_err(|_| "a panic")?;
    let ended = tokio::task::spawn_blocking(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let waiting = runtime.spawn(sleep(FOR_EVER));
        drop(runtime);
        let wait = tokio::runtime::Handle::current();
        wait.block_on(async { waiting.await.is_err_and(|error| error.is_cancelled()) })
    });
    Ok(format!("{found} {}", ended.await?))
}

async fn signals() -> Found {
    use tokio::signal::unix::{SignalKind, signal};
    let mut users = signal(SignalKind::user_defined1())?;
    let mut others = signal(SignalKind::user_defined1())?;
    assert!(timeout(MOMENT, users.recv()).await.is_err());
    for _ in 0..3 {
        let this = std::process::id().to_string();
        let sent = std::process::Command::new("kill").args(["-USR1", &this]).status()?;
        assert!(sent.success());
        users.recv().await.ok_or("the end")?;
        others.recv().await.ok_or("the end")?;
    }
    Ok("three times".into())
}

async fn standard_streams() -> Found {
    let mut output = tokio::io::stdout();
    output.write_all(b"to standard output\n").await?;
    output.flush().await?;
    let mut text = String::new();
    tokio::io::stdin().read_to_string(&mut text).await?;
    Ok(text)
}

async fn files() -> Found {
    use tokio::io::AsyncSeekExt;
    let folder = Folder::new("files")?;
    let path = folder.0.join("file");
    let mut file = tokio::fs::File::create_new(&path).await?;
    file.write_all(b"one two three").await?;
    file.rewind().await?;
    let mut word = [0; 4];
    file.read_exact(&mut word).await?;
    file.write_all(b"TWO").await?;
    file.flush().await?;
    let mut rest = String::new();
    file.read_to_string(&mut rest).await?;
    assert_eq!(file.metadata().await?.len(), 13);
    file.sync_all().await?;
    drop(file.into_std().await);
    tokio::fs::copy(&path, folder.0.join("copy")).await?;
    let (mut entries, mut names) = (tokio::fs::read_dir(&folder.0).await?, BTreeSet::new());
    while let Some(entry) = entries.next_entry().await? {
        names.insert(entry.file_name().to_string_lossy().into_owned());
    }
    let text = tokio::fs::read_to_string(folder.0.join("copy")).await?;
    tokio::fs::remove_file(path).await?;
    Ok(format!("{text} {rest:?} {names:?}"))
}

async fn yields() -> Found {
    let turns = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let turns = turns.clone();
        tasks.spawn(async move {
            for _ in 0..1000 {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
    }
    tasks.join_all().await;
    Ok(turns.load(Ordering::Relaxed).to_string())
}
