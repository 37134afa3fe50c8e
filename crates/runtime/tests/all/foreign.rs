//! A combinator of another library is reported once; our own waits are not.
//!
//! The line is written to standard error of the process, so each case runs in a process of its own.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::process::Command;
use std::task::{Context, Waker};
use std::time::Duration;

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::sync::channel::bounded;
use duality_runtime::time::sleep;
use duality_runtime::{block_on, task};

const CASE: &str = "DUALITY_FOREIGN_CASE";
const MOMENT: Duration = Duration::from_millis(2);

/// Polls a future with a waker of its own, as `FuturesUnordered` does.
async fn combined<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|_| future.as_mut().poll(&mut Context::from_waker(Waker::noop()))).await
}

/// Every kind of wait, as a service has it.
async fn our_own_waits() {
    let (sender, mut receiver) = bounded(1);
    let task = task::spawn(async move {
        for number in 0..3 {
            sender.send(number).await.unwrap();
            sleep(MOMENT).await;
        }
    });
    while receiver.recv().await.is_some() {}
    task.unwrap().await.unwrap();
    let any_port = ([127, 0, 0, 1], 0).into();
    let mut listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    let client = task::spawn(async move {
        sleep(MOMENT).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        sleep(MOMENT).await;
        stream.write_all(b"a").await.unwrap();
    });
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.read_exact(&mut [0]).await.unwrap();
    client.unwrap().await.unwrap();
}

/// Waits for a client that sends later.
async fn a_socket_in_a_combinator() {
    let any_port = ([127, 0, 0, 1], 0).into();
    let mut listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let writer = task::spawn(async move {
        sleep(MOMENT).await;
        client.write_all(b"a").await.unwrap();
    });
    assert_eq!(combined(stream.read(&mut [0; 8])).await.unwrap(), 1);
    writer.unwrap().await.unwrap();
}

fn run_in(world: &str, body: impl Future<Output = ()> + 'static) {
    let world = match world {
        "block" => return block_on(body),
        "park" => LoopWorld::Park { stack_size: 64 * 1024 },
        _ => LoopWorld::Suspend,
    };
    EventLoop::new(Kind::Epoll.open().unwrap(), world).unwrap().run(body);
}

/// No test by itself: the processes of the tests run this function.
#[test]
fn case() {
    let Ok(case) = std::env::var(CASE) else { return };
    let (world, what) = case.split_once(' ').unwrap();
    match what {
        "own" => run_in(world, our_own_waits()),
        "socket" => run_in(world, a_socket_in_a_combinator()),
        _ => run_in(world, async {
            combined(sleep(MOMENT)).await;
            combined(sleep(MOMENT)).await;
        }),
    }
}

/// How often a case reports a combinator.
fn reports(case: &str) -> usize {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", "foreign::case"]).env(CASE, case).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{case}: {stderr}");
    stderr.matches("use task::spawn").count()
}

#[test]
fn a_combinator_is_reported_once_in_every_world() {
    for world in ["block", "park", "suspend"] {
        assert_eq!(reports(&format!("{world} sleep")), 1, "{world}");
    }
}

#[test]
fn a_socket_in_a_combinator_is_reported_on_a_loop() {
    for world in ["park", "suspend"] {
        assert_eq!(reports(&format!("{world} socket")), 1, "{world}");
    }
}

#[test]
fn our_own_waits_are_not_reported() {
    for world in ["block", "park", "suspend"] {
        assert_eq!(reports(&format!("{world} own")), 0, "{world}");
    }
}
