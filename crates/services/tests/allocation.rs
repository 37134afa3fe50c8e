//! The heap cost of requests and connections. A repeated request allocates nothing. A connection
//! allocates a few blocks, which the next connection reuses.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the client is a plain blocking program, and the server a plain thread"
)]

use std::{
    future::Future,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use allocation_counter::AllocationInfo;
use duality_kit::{Case, Kind};
use duality_runtime::{
    event_loop::{self, EventLoop, LoopWorld},
    net::{self, ListenOptions, TcpListener},
    task,
};
use duality_services::{echo, http::Http};

duality_kit::in_every_world! {
    given:
    http_requests_allocate_nothing
    http_connections_leave_nothing
    echo_requests_allocate_nothing
    echo_connections_leave_nothing
}

fn http_requests_allocate_nothing(case: Case) {
    requests_allocate_nothing(case, http(), HTTP);
}

fn http_connections_leave_nothing(case: Case) {
    connections_leave_nothing(case, http(), HTTP, 10);
}

fn echo_requests_allocate_nothing(case: Case) {
    requests_allocate_nothing(case, echo::serve, ECHO);
}

fn echo_connections_leave_nothing(case: Case) {
    connections_leave_nothing(case, echo::serve, ECHO, 4);
}

#[test]
fn an_idle_http_connection_holds_less_than_a_kibibyte() {
    let held = held_while_idle(http, HTTP);
    assert!(held <= KIBIBYTE - SLOT, "{held} bytes and a slot of {SLOT}");
}

#[test]
fn an_idle_echo_connection_holds_next_to_nothing() {
    let held = held_while_idle(|| echo::serve, ECHO);
    assert!(held <= 576 - SLOT, "{held} bytes and a slot of {SLOT}");
}

#[test]
fn a_loop_that_is_gone_leaves_nothing() {
    let _alone = alone();
    for world in [LoopWorld::Park { stack_size: 16 << 10 }, LoopWorld::Suspend] {
        let one = || {
            let poller = Kind::Epoll.open().unwrap();
            EventLoop::new(poller, world).unwrap().run(task::yield_now());
        };
        one(); // And what a process has once.
        let left = allocation_counter::measure(one);
        assert_eq!((left.bytes_current, left.count_current), (0, 0), "{world:?}: {left:?}");
    }
}

const KIBIBYTE: u64 = 1 << 10;

/// Lets one test at a time count. All kernel threads of a process share some tables, such as the
/// table of descriptors that end at a drain. If another test holds hundreds of connections, the
/// table grows, and the growth could count for this test.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of one task in its loop's table.
const SLOT: u64 = 64;

/// A request, and how its reply ends.
type Exchange = (&'static [u8], &'static [u8]);

const HTTP: Exchange = (b"GET / HTTP/1.1\r\nHost: test\r\n\r\n", b"</p>\n");
const ECHO: Exchange = (b"hello\n", b"hello\n");

fn http() -> impl Fn(net::TcpStream) -> Pending + Send + 'static {
    let http = Http::demo();
    move |stream| {
        let http = http.clone();
        Box::pin(async move { http.serve(stream).await })
    }
}

type Pending = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

fn requests_allocate_nothing<S, F>(case: Case, serve: S, exchange: Exchange)
where
    S: Fn(net::TcpStream) -> F + Send + 'static,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    const REQUESTS: usize = 900;
    let (cost, seconds) = cost(case, serve, exchange, 1, REQUESTS);
    // Allows for the loop, the connection's buffers, and one check of the page each second. Each
    // thread of a stage has buffers of its own.
    let threads = if case == Case::Reactor { 3 } else { 1 };
    let allowed = 40 * threads + 10 * (1 + seconds);

    assert!(cost.count_total <= allowed, "{REQUESTS} requests in {seconds} s: {cost:?}");
}

fn connections_leave_nothing<S, F>(case: Case, serve: S, exchange: Exchange, blocks: u64)
where
    S: Fn(net::TcpStream) -> F + Send + 'static,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    const CONNECTIONS: usize = 300;
    let (cost, seconds) = cost(case, serve, exchange, CONNECTIONS, 2);
    let each = cost.count_total / CONNECTIONS as u64;
    // The task's state, which no loop keeps.
    let blocks = if case == Case::Reactor { blocks + 2 } else { blocks };
    assert!(each <= blocks, "{each} blocks for each of {CONNECTIONS} connections: {cost:?}");
    // Only one connection at a time has its state and its buffers. Earlier connections leave
    // nothing.
    assert!(cost.bytes_max <= 16 << 10, "{cost:?} in {seconds} s");
}

/// The bytes of the heap that each of many connections holds after its service, while idle, without
/// the table of tasks. The function compares the peaks for many and for few connections.
fn held_while_idle<S, F>(service: impl Fn() -> S, exchange: Exchange) -> u64
where
    S: Fn(net::TcpStream) -> F + Send + 'static,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    const FEW: u64 = 16;
    const MANY: u64 = 272;
    let _alone = alone();
    let most = |connections| held_at_most(service(), exchange, connections);
    (most(MANY) - most(FEW)) / (MANY - FEW)
}

/// The peak of the heap while so many connections are served one request each and then idle.
fn held_at_most<S, F>(serve: S, exchange: Exchange, connections: u64) -> u64
where
    S: Fn(net::TcpStream) -> F + Send + 'static,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let mut event_loop =
            EventLoop::new(Kind::Epoll.open().unwrap(), LoopWorld::Suspend).unwrap();
        let served = async move {
            for _ in 0..connections {
                let (stream, _) = listener.accept().await.unwrap();
                let served = Box::pin(serve(stream));
                let task = Box::pin(async move { served.await.unwrap() });
                event_loop::reserve().unwrap().spawn(task);
            }
            // Another request shows that the earlier ones have been served.
            listener.accept().await.unwrap();
        };
        allocation_counter::measure(|| event_loop.run(served)).bytes_max
    });
    let clients: Vec<TcpStream> = (0..connections)
        .map(|_| {
            let mut client = TcpStream::connect(address).unwrap();
            repeat(&mut client, exchange);
            client
        })
        .collect();
    let _last = TcpStream::connect(address).unwrap();
    let most = server.join().unwrap();
    drop(clients);
    most
}

/// The server's allocations for `connections` connections, one after the other, of `requests`
/// requests each. Also how many seconds they take.
fn cost<S, F>(
    case: Case,
    serve: S,
    exchange: Exchange,
    connections: usize,
    requests: usize,
) -> (AllocationInfo, u64)
where
    S: Fn(net::TcpStream) -> F + Send + 'static,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let _alone = alone();
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    let served = one_after_the_other(case, listener, connections, serve);
    // The counts are those of one kernel thread.
    let server = thread::spawn(move || allocation_counter::measure(|| case.run(served)));
    let start = Instant::now();
    for _ in 0..connections {
        let mut client = TcpStream::connect(address).unwrap();
        for _ in 0..requests {
            repeat(&mut client, exchange);
        }
    }
    (server.join().unwrap(), start.elapsed().as_secs())
}

async fn one_after_the_other<S, F>(
    case: Case,
    mut listener: TcpListener,
    connections: usize,
    serve: S,
) where
    S: Fn(net::TcpStream) -> F,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    for _ in 0..connections {
        let (stream, _) = listener.accept().await.unwrap();
        let served = serve(stream);
        let outcome = match case {
            // A task would be another kernel thread, which is not counted.
            Case::Block => served.await,
            _ => task::spawn(served).unwrap().await.unwrap(),
        };
        outcome.unwrap();
    }
}

fn repeat(client: &mut TcpStream, (request, end): Exchange) {
    client.write_all(request).unwrap();
    let (mut reply, mut length) = ([0; 4096], 0);
    while !reply[..length].ends_with(end) {
        length += client.read(&mut reply[length..]).unwrap();
    }
}
