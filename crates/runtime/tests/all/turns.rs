//! A busy task, which never has to wait, does not keep the other tasks of its loop from a turn. It
//! gives way after a bounded number of operations, and the loop then looks at its poller.
//!
//! ```text
//!   client (a kernel thread) ──a byte──▶ echo ──a byte──▶ client
//!                                 busy: after each operation, is the byte still there?
//! ```
//!
//! The busy task spins in each operation for as long as a clock says. A slow machine makes the
//! operations longer, so that fewer of them fit between two looks.

use std::future::Future;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::sync::{Mutex, Notify, Semaphore, channel, oneshot};
use duality_runtime::time::{Duration, Instant, interval, sleep, sleep_until};
use duality_runtime::world::{self, World};
use duality_runtime::{fs, task};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// The operations of a turn's budget.
const BUDGET: u32 = 64;
/// The round trips of the client.
const PINGS: u32 = 12;
/// A busy task that has had this many operations gives up.
const MANY: u32 = 50_000;
/// The time of an operation, which is longer than a round.
const SPIN: Duration = Duration::from_micros(50);

/// What the busy task does after each operation.
struct Watch {
    /// The end of the connection that the echo reads.
    input: OwnedFd,
    is_over: AtomicBool,
    operations: AtomicU32,
    /// The operations while a byte was there, and the most that there may be.
    waited: AtomicU32,
    bound: u32,
    /// The bytes that waited for more operations.
    late: AtomicU32,
}

impl Watch {
    /// Spins, and looks whether a byte waits for the echo. False if the busy task should end.
    fn operates(&self) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < SPIN {}
        let is_there = recv(&self.input, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        if matches!(is_there, Err(Errno::WOULDBLOCK)) {
            self.waited.store(0, Ordering::Relaxed);
        } else {
            let waited = self.waited.fetch_add(1, Ordering::Relaxed);
            self.late.fetch_add(u32::from(waited == self.bound), Ordering::Relaxed);
        }
        let operations = self.operations.fetch_add(1, Ordering::Relaxed);
        operations < MANY && !self.is_over.load(Ordering::Relaxed)
    }
}

duality_kit::in_every_world! {
    busy_tasks_give_way
}

type Busy = Pin<Box<dyn Future<Output = ()> + Send>>;
type Begin = fn(Arc<Watch>) -> Busy;

/// The busy tasks, each with a name and the most operations between a byte and its echo.
fn busy_tasks() -> Vec<(&'static str, u32, Begin)> {
    // The rest of one turn, and the next turn: the echo is queued behind the busy task.
    let budgeted = 2 * BUDGET + 2;
    // Each turn of these is one operation or two. The loop looks at the poller after each turn.
    let turns = 8;
    vec![
        ("a receiver", budgeted, |watch| Box::pin(receives(watch))),
        ("yields", turns, |watch| Box::pin(yields(watch))),
        ("a mutex", budgeted, |watch| Box::pin(locks(watch))),
        ("a semaphore", budgeted, |watch| Box::pin(acquires(watch))),
        ("an interval", budgeted, |watch| Box::pin(ticks(watch))),
        ("sleeps of nothing", budgeted, |watch| Box::pin(sleeps(watch))),
        ("sleeps until the past", budgeted, |watch| Box::pin(sleeps_until_the_past(watch))),
        ("a ready socket", budgeted, |watch| Box::pin(talks_to_itself(watch))),
        ("files", budgeted, |watch| Box::pin(describes_a_file(watch))),
        ("oneshots", budgeted, |watch| Box::pin(answers_itself(watch))),
        ("notifications", budgeted, |watch| Box::pin(notifies_itself(watch))),
        ("spawned tasks", turns, |watch| Box::pin(spawns(watch))),
        ("a select", budgeted, |watch| Box::pin(selects(watch))),
    ]
}

async fn receives(watch: Arc<Watch>) {
    let (sender, mut receiver) = channel::bounded(2);
    while watch.operates() {
        sender.send(()).await.unwrap();
        receiver.recv().await.unwrap();
    }
}

async fn yields(watch: Arc<Watch>) {
    while watch.operates() {
        task::yield_now().await;
    }
}

async fn locks(watch: Arc<Watch>) {
    let mutex = Mutex::new(());
    while watch.operates() {
        drop(mutex.lock().await);
    }
}

async fn acquires(watch: Arc<Watch>) {
    let semaphore = Semaphore::new(3);
    while watch.operates() {
        drop(semaphore.acquire().await);
    }
}

async fn ticks(watch: Arc<Watch>) {
    let mut ticks = interval(Duration::from_nanos(1));
    while watch.operates() {
        ticks.tick().await;
    }
}

async fn sleeps(watch: Arc<Watch>) {
    while watch.operates() {
        sleep(Duration::ZERO).await;
    }
}

async fn sleeps_until_the_past(watch: Arc<Watch>) {
    let past = Instant::now();
    while watch.operates() {
        sleep_until(past).await;
    }
}

async fn talks_to_itself(watch: Arc<Watch>) {
    let (mut one, mut other) = pair().await;
    while watch.operates() {
        one.write_all(b"a").await.unwrap();
        other.read_exact(&mut [0]).await.unwrap();
    }
}

async fn describes_a_file(watch: Arc<Watch>) {
    let file = fs::File::temporary(b"content").unwrap();
    while watch.operates() {
        file.metadata().await.unwrap();
    }
}

async fn answers_itself(watch: Arc<Watch>) {
    while watch.operates() {
        let (sender, receiver) = oneshot::channel();
        sender.send(()).unwrap();
        receiver.await.unwrap();
    }
}

async fn notifies_itself(watch: Arc<Watch>) {
    let notify = Notify::new();
    while watch.operates() {
        notify.notify_one();
        notify.notified().await;
    }
}

async fn spawns(watch: Arc<Watch>) {
    while watch.operates() {
        task::spawn(async {}).unwrap().await.unwrap();
    }
}

async fn selects(watch: Arc<Watch>) {
    let (sender, mut receiver) = channel::bounded(2);
    while watch.operates() {
        sender.try_send(()).unwrap();
        duality_runtime::select! {
            received = receiver.recv() => received.unwrap(),
            () = sleep(Duration::from_secs(3600)) => panic!("an hour has passed"),
        }
    }
}

async fn pair() -> (TcpStream, TcpStream) {
    let (mut listener, address) = listener();
    let client = TcpStream::connect(address).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (client, server)
}

fn listener() -> (TcpListener, SocketAddr) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Sends bytes, each after the reply to the one before.
fn ping(address: SocketAddr) {
    let mut client = std::net::TcpStream::connect(address).unwrap();
    for _ in 0..PINGS {
        client.write_all(b"a").unwrap();
        client.read_exact(&mut [0]).unwrap();
    }
}

/// The watch of a busy task, after the client has had all its replies.
async fn beside(busy: Begin, bound: u32) -> Arc<Watch> {
    let (mut listener, address) = listener();
    let client = std::thread::spawn(move || ping(address));
    let (mut stream, _) = listener.accept().await.unwrap();
    let watch = Arc::new(Watch {
        input: stream.as_fd().try_clone_to_owned().unwrap(),
        is_over: AtomicBool::new(false),
        operations: AtomicU32::new(0),
        waited: AtomicU32::new(0),
        bound,
        late: AtomicU32::new(0),
    });
    let running = task::spawn(busy(watch.clone())).unwrap();
    let mut byte = [0];
    while stream.read(&mut byte).await.unwrap() > 0 {
        stream.write_all(&byte).await.unwrap();
    }
    watch.is_over.store(true, Ordering::Relaxed);
    running.await.unwrap();
    client.join().unwrap();
    watch
}

async fn busy_tasks_give_way() {
    // Elsewhere, the machine decides when another kernel thread looks.
    let is_bounded = matches!(world::here(), World::Park | World::Suspend);
    for (name, bound, busy) in busy_tasks() {
        let watch = beside(busy, bound).await;
        let [operations, late] =
            [&watch.operations, &watch.late].map(|count| count.load(Ordering::Relaxed));
        assert!(operations < MANY, "{name}: the task had {operations} operations meanwhile");
        // The kernel may queue a byte some time before it tells the poller, if a hypervisor takes
        // the processor away in between.
        assert!(
            !is_bounded || late <= PINGS / 4,
            "{name}: {late} bytes of {PINGS} waited for more than {bound} operations"
        );
    }
}
