//! How long a client waits for its echo beside a task that never has to wait. It prints a row for
//! each such task: the median and the longest round trip, in milliseconds.
//!
//! On the patch, and on the genuine tokio:
//!
//! ```text
//! DUALITY_WORLD=epoll cargo run --release --manifest-path patch/try/Cargo.toml --bin busy
//! cargo run --release -p duality-tokio --example busy
//! ```

#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::future::Future;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::{interval, sleep};

const PINGS: usize = 200;
/// The pause between two round trips.
const PAUSE: Duration = Duration::from_millis(1);
/// The work between two operations.
const WORK: Duration = Duration::from_micros(20);

type Busy = Pin<Box<dyn Future<Output = ()> + Send>>;

fn work() {
    let begin = std::time::Instant::now();
    while begin.elapsed() < WORK {}
}

async fn receives() {
    let (sender, mut receiver) = mpsc::channel(16);
    tokio::spawn(async move { while sender.send(()).await.is_ok() {} });
    while receiver.recv().await.is_some() {
        work();
    }
}

async fn yields() {
    loop {
        work();
        yield_now().await;
    }
}

async fn locks() {
    let lock = Mutex::new(());
    loop {
        work();
        drop(lock.lock().await);
    }
}

async fn acquires() {
    let permits = Semaphore::new(3);
    loop {
        work();
        drop(permits.acquire().await);
    }
}

async fn ticks() {
    let mut ticks = interval(Duration::from_nanos(1));
    loop {
        work();
        ticks.tick().await;
    }
}

async fn sleeps() {
    loop {
        work();
        sleep(Duration::ZERO).await;
    }
}

async fn talks_to_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut one = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut other, _) = listener.accept().await.unwrap();
    loop {
        work();
        one.write_all(b"a").await.unwrap();
        other.read_exact(&mut [0]).await.unwrap();
    }
}

async fn reads_a_file() {
    loop {
        work();
        // As tokio::fs does.
        let read = spawn_blocking(|| std::fs::read("/proc/self/cmdline"));
        read.await.unwrap().unwrap();
    }
}

async fn answers_itself() {
    loop {
        work();
        let (sender, receiver) = oneshot::channel();
        sender.send(()).unwrap();
        receiver.await.unwrap();
    }
}

async fn spawns() {
    loop {
        tokio::spawn(async { work() }).await.unwrap();
    }
}

async fn selects() {
    let (sender, mut receiver) = mpsc::channel(2);
    loop {
        work();
        sender.try_send(()).unwrap();
        tokio::select! {
            received = receiver.recv() => received.unwrap(),
            () = sleep(Duration::from_secs(3600)) => panic!("an hour has passed"),
        }
    }
}

async fn nothing() {}

async fn echo(listener: TcpListener) {
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut byte = [0];
    while matches!(stream.read(&mut byte).await, Ok(1)) {
        stream.write_all(&byte).await.unwrap();
    }
}

/// The round trips of a client, in order of length.
fn ping(address: SocketAddr) -> Vec<Duration> {
    let mut client = std::net::TcpStream::connect(address).unwrap();
    client.set_nodelay(true).unwrap();
    let mut trips: Vec<_> = (0..PINGS)
        .map(|_| {
            // A byte that comes at once would find the echo in its turn still.
            std::thread::sleep(PAUSE);
            let begin = std::time::Instant::now();
            client.write_all(b"a").unwrap();
            client.read_exact(&mut [0]).unwrap();
            begin.elapsed()
        })
        .collect();
    trips.sort();
    trips
}

async fn measure(name: &str, busy: Busy) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let echo = tokio::spawn(echo(listener));
    let busy = tokio::spawn(busy);
    let trips = spawn_blocking(move || ping(address)).await.unwrap();
    busy.abort();
    echo.await.unwrap();
    let [median, longest] =
        [trips[PINGS / 2], trips[PINGS - 1]].map(|trip| trip.as_secs_f64() * 1e3);
    println!("| {name} | {median:.3} | {longest:.3} |");
}

/// A busy task, and its name in the table.
type Named = (&'static str, fn() -> Busy);

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    println!("| busy task | median, ms | longest, ms |");
    println!("| --- | ---: | ---: |");
    let tasks: [Named; 12] = [
        ("none", || Box::pin(nothing())),
        ("a receiver", || Box::pin(receives())),
        ("yields", || Box::pin(yields())),
        ("a mutex", || Box::pin(locks())),
        ("a semaphore", || Box::pin(acquires())),
        ("an interval", || Box::pin(ticks())),
        ("sleeps of nothing", || Box::pin(sleeps())),
        ("a ready socket", || Box::pin(talks_to_itself())),
        ("files", || Box::pin(reads_a_file())),
        ("oneshots", || Box::pin(answers_itself())),
        ("spawned tasks", || Box::pin(spawns())),
        ("a select", || Box::pin(selects())),
    ];
    for (name, make) in tasks {
        // In a task, so that all of it is on the loop.
        runtime.block_on(async { tokio::spawn(measure(name, make())).await.unwrap() });
    }
    runtime.shutdown_background();
}
