//! A time limit ends each operation that waits, in every world. The limit passes in a wait, in a
//! loop that never has to wait, or before the operation.
//!
//! Each operation is tried in two states. A *stuck* one never comes to its end. A *ready* one can
//! end at once.

use std::future::Future;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, mpsc};

use duality_runtime::net::{ListenOptions, TcpListener, TcpStream, UdpSocket};
use duality_runtime::sync::{Mutex, Notify, Semaphore, channel, oneshot};
use duality_runtime::time::{Duration, Elapsed, Instant, interval, sleep, sleep_until, timeout};
use duality_runtime::{fs, task};

/// Long enough never to pass in a test that works.
const EVER: Duration = Duration::from_secs(20);
/// Short enough to wait for.
const MOMENT: Duration = Duration::from_millis(5);
/// More than the buffers of a connection take.
const MUCH: usize = 64 << 20;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// An operation that has been prepared, and the values that it needs.
type Operation = Boxed<()>;
type Prepare = fn(State) -> Boxed<Operation>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Stuck,
    Ready,
}

use State::{Ready, Stuck};

/// Whether a ready operation ends at its first attempt, in every world.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    AtOnce,
    /// A ring or a helper may have to be asked first.
    Soon,
    /// There is no ready state.
    Never,
}

use Ends::{AtOnce, Never, Soon};

macro_rules! operations {
    ($($ends:ident $name:ident)*) => {
        vec![$((
            stringify!($name),
            $ends,
            (|state| Box::pin($name(state))) as Prepare,
        )),*]
    };
}

duality_kit::in_every_world! {
    limits_end_what_waits
    limits_leave_what_is_ready_alone
    gathered_waits_end_beside_a_sleep
}

fn operations() -> Vec<(&'static str, Ends, Prepare)> {
    operations! {
        Soon read
        Soon read_exact
        Soon write_all
        Soon write_vectored
        Soon write_last
        Soon send_file
        Soon accept
        Soon connect
        Soon receive_datagram
        Soon read_from_a_clone
        AtOnce receive
        AtOnce send
        AtOnce lock
        AtOnce acquire
        AtOnce notified
        AtOnce answer
        AtOnce long_sleep
        AtOnce sleep_to_a_time
        Soon tick
        Soon join
        Soon offload
        Never yields
        Never messages_to_itself
        Never locks_of_its_own
        Never sleeps_of_nothing
        Never past_sleeps
        Never bytes_to_itself
        Never files
        Never tasks_that_end
        Never drain
        Never both_of_two
    }
}

/// The limit passes before the operation, or during it.
async fn limits_end_what_waits() {
    for (name, _, prepare) in operations() {
        for limit in [Duration::ZERO, MOMENT] {
            let operation = prepare(Stuck).await;
            let begin = Instant::now();
            let outer = timeout(EVER, timeout(limit, operation)).await;
            assert_eq!(outer, Ok(Err(Elapsed)), "{name}, {limit:?}");
            assert!(begin.elapsed() >= limit, "{name}: too early");
        }
    }
}

/// The limit passes after the operation. Or it has passed, and the operation is still attempted.
async fn limits_leave_what_is_ready_alone() {
    for (name, ends, prepare) in operations() {
        if ends == Never {
            continue;
        }
        let operation = prepare(Ready).await;
        assert_eq!(timeout(EVER, operation).await, Ok(()), "{name}");
        let operation = prepare(Ready).await;
        let outcome = timeout(Duration::ZERO, operation).await;
        assert!(ends == Soon || outcome == Ok(()), "{name}: not attempted");
    }
}

/// A wait goes on beside others, and another one ends it.
async fn gathered_waits_end_beside_a_sleep() {
    for (name, _, prepare) in operations() {
        let operation = prepare(Stuck).await;
        duality_runtime::select! {
            () = operation => panic!("{name} has ended"),
            () = sleep(MOMENT) => {}
        }
    }
}

fn listener(backlog: i32) -> (TcpListener, SocketAddr) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = TcpListener::bind(any, &ListenOptions::default().backlog(backlog)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn pair() -> (TcpStream, TcpStream) {
    let (mut listener, address) = listener(16);
    let client = TcpStream::connect(address).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (client, server)
}

/// A connection. Its first end can read a byte, if that is asked for.
async fn readable(state: State) -> (TcpStream, TcpStream) {
    let (client, mut server) = pair().await;
    if state == Ready {
        server.write_all(b"a").await.unwrap();
    }
    (client, server)
}

async fn read(state: State) -> Operation {
    let (mut client, server) = readable(state).await;
    Box::pin(async move {
        assert_eq!(client.read(&mut [0; 2]).await.unwrap(), 1);
        drop(server);
    })
}

async fn read_exact(state: State) -> Operation {
    let (mut client, mut server) = readable(Ready).await;
    let length = if state == Ready { 1 } else { 2 };
    Box::pin(async move {
        client.read_exact(&mut [0; 2][..length]).await.unwrap();
        server.write_all(b"a").await.unwrap();
    })
}

/// Another handle reads what wakes both.
async fn read_from_a_clone(state: State) -> Operation {
    let (mut client, mut server) = readable(state).await;
    let mut twin = client.try_clone().unwrap();
    if state == Stuck {
        server.write_all(b"a").await.unwrap();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 1);
    }
    Box::pin(async move {
        assert_eq!(twin.read(&mut [0]).await.unwrap(), 1);
        drop((client, server));
    })
}

fn length(state: State) -> usize {
    if state == Ready { 1 } else { MUCH }
}

async fn write_all(state: State) -> Operation {
    let (mut client, server) = pair().await;
    let bytes = vec![7; length(state)];
    Box::pin(async move {
        client.write_all(&bytes).await.unwrap();
        drop(server);
    })
}

async fn write_vectored(state: State) -> Operation {
    let (mut client, server) = pair().await;
    let bytes = vec![7; length(state)];
    Box::pin(async move {
        let mut slices = [IoSlice::new(&bytes), IoSlice::new(&bytes)];
        client.write_all_vectored(&mut slices).await.unwrap();
        drop(server);
    })
}

async fn write_last(state: State) -> Operation {
    let (mut client, server) = pair().await;
    let bytes = vec![7; length(state)];
    Box::pin(async move {
        let mut sent = 0;
        while sent < bytes.len() {
            sent += client.write_last(&bytes[sent..]).await.unwrap();
        }
        drop(server);
    })
}

async fn send_file(state: State) -> Operation {
    let (mut client, server) = pair().await;
    let bytes = vec![7; length(state)];
    Box::pin(async move {
        let file = fs::File::temporary(&bytes).unwrap();
        client.send_file(&file, 0, bytes.len() as u64).await.unwrap();
        drop(server);
    })
}

async fn accept(state: State) -> Operation {
    let (mut listener, address) = listener(16);
    let client = match state {
        Ready => Some(TcpStream::connect(address).await.unwrap()),
        Stuck => None,
    };
    Box::pin(async move {
        listener.accept().await.unwrap();
        drop(client);
    })
}

async fn connect(state: State) -> Operation {
    let (listener, address) = listener(if state == Ready { 16 } else { 0 });
    let mut queued = vec![];
    // Soon the accept queue is full, and the kernel answers no more.
    while state == Stuck && queued.len() < 100 {
        match timeout(MOMENT, TcpStream::connect(address)).await {
            Ok(stream) => queued.push(stream.unwrap()),
            Err(Elapsed) => break,
        }
    }
    Box::pin(async move {
        TcpStream::connect(address).await.unwrap();
        drop((listener, queued));
    })
}

async fn receive_datagram(state: State) -> Operation {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut receiver = UdpSocket::bind(any).unwrap();
    let mut sender = UdpSocket::bind(any).unwrap();
    if state == Ready {
        sender.send_to(b"a", receiver.local_addr().unwrap()).await.unwrap();
    }
    Box::pin(async move {
        receiver.recv_from(&mut [0]).await.unwrap();
    })
}

async fn receive(state: State) -> Operation {
    let (sender, mut receiver) = channel::bounded(1);
    if state == Ready {
        sender.send(()).await.unwrap();
    }
    Box::pin(async move {
        receiver.recv().await.unwrap();
        drop(sender);
    })
}

async fn send(state: State) -> Operation {
    let (sender, receiver) = channel::bounded(1);
    if state == Stuck {
        sender.send(()).await.unwrap();
    }
    Box::pin(async move {
        sender.send(()).await.unwrap();
        drop(receiver);
    })
}

async fn lock(state: State) -> Operation {
    let mutex = Arc::new(Mutex::new(()));
    Box::pin(async move {
        let held = (state == Stuck).then(|| mutex.try_lock().unwrap());
        drop(mutex.lock().await);
        drop(held);
    })
}

async fn acquire(state: State) -> Operation {
    let semaphore = Semaphore::new(if state == Ready { 1 } else { 0 });
    Box::pin(async move { drop(semaphore.acquire().await) })
}

async fn notified(state: State) -> Operation {
    let notify = Notify::new();
    if state == Ready {
        notify.notify_one();
    }
    Box::pin(async move { notify.notified().await })
}

async fn answer(state: State) -> Operation {
    let (sender, receiver) = oneshot::channel();
    let mut sender = Some(sender);
    if state == Ready {
        sender.take().unwrap().send(()).unwrap();
    }
    Box::pin(async move {
        receiver.await.unwrap();
        drop(sender);
    })
}

fn distance(state: State) -> Duration {
    if state == Ready { Duration::ZERO } else { Duration::from_secs(3600) }
}

async fn long_sleep(state: State) -> Operation {
    let until = sleep_until(Instant::now() + distance(state));
    // On a loop, the time passes between two rounds.
    sleep(Duration::from_millis(1)).await;
    Box::pin(until)
}

async fn sleep_to_a_time(state: State) -> Operation {
    let before = Instant::now() - Duration::from_secs(1);
    Box::pin(sleep_until(before + distance(state)))
}

async fn tick(state: State) -> Operation {
    let mut ticks = interval(distance(state).max(Duration::from_nanos(1)));
    ticks.tick().await;
    Box::pin(async move {
        ticks.tick().await;
    })
}

async fn join(state: State) -> Operation {
    let (sender, mut receiver) = channel::bounded::<()>(1);
    let task = task::spawn(async move { receiver.recv().await }).unwrap();
    let sender = (state == Stuck).then_some(sender);
    Box::pin(async move {
        assert_eq!(task.await, Ok(None));
        drop(sender);
    })
}

async fn offload(state: State) -> Operation {
    let (sender, receiver) = mpsc::channel::<()>();
    let sender = (state == Stuck).then_some(sender);
    Box::pin(async move {
        // The drop of the operation lets the helper go.
        task::offload(move || receiver.recv().unwrap_err()).await;
        drop(sender);
    })
}

async fn yields(_: State) -> Operation {
    Box::pin(async {
        loop {
            task::yield_now().await;
        }
    })
}

async fn messages_to_itself(_: State) -> Operation {
    let (sender, mut receiver) = channel::bounded(1);
    Box::pin(async move {
        loop {
            sender.send(()).await.unwrap();
            receiver.recv().await.unwrap();
        }
    })
}

async fn locks_of_its_own(_: State) -> Operation {
    let mutex = Mutex::new(());
    Box::pin(async move {
        loop {
            drop(mutex.lock().await);
        }
    })
}

async fn sleeps_of_nothing(_: State) -> Operation {
    Box::pin(async {
        loop {
            sleep(Duration::ZERO).await;
        }
    })
}

async fn past_sleeps(_: State) -> Operation {
    let past = Instant::now();
    Box::pin(async move {
        loop {
            sleep_until(past).await;
        }
    })
}

async fn bytes_to_itself(_: State) -> Operation {
    let (mut one, mut other) = pair().await;
    Box::pin(async move {
        loop {
            one.write_all(b"a").await.unwrap();
            other.read_exact(&mut [0]).await.unwrap();
        }
    })
}

async fn files(_: State) -> Operation {
    let file = fs::File::temporary(b"content").unwrap();
    Box::pin(async move {
        loop {
            assert_eq!(file.read_at(3, 100).await.unwrap(), b"tent");
            file.metadata().await.unwrap();
        }
    })
}

async fn tasks_that_end(_: State) -> Operation {
    Box::pin(async {
        loop {
            task::spawn(async {}).unwrap().await.unwrap();
        }
    })
}

async fn drain(_: State) -> Operation {
    Box::pin(duality_runtime::drained())
}

async fn both_of_two(_: State) -> Operation {
    let (one, other) = (read(Stuck).await, receive(Stuck).await);
    Box::pin(async move {
        duality_runtime::join!(one, other);
    })
}
