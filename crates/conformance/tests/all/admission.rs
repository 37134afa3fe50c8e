//! `--max-connections`: a server refuses a connection beyond the limit in the way of its protocol.
//! Other connections see no change.

use std::io::{Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use duality_architectures::Options;
use duality_conformance::{PATIENCE, ServerProcess, architecture_called, eventually, runs_here};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";
const CLOSE: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";

// The list leaves out iterative and prefork: their processes have one connection at a time and know
// of no other. The list also leaves out two cores: the cores divide the limit, but the kernel
// chooses the core.
macro_rules! admission {
    ($($name:ident [$architecture:literal $(, $argument:literal)*])*) => {
        const LISTED: &[&str] = &[$($architecture),*];

        $(#[test]
        fn $name() {
            let architecture = &[$architecture $(, $argument)*];
            if runs_here(architecture) {
                one_too_many_is_refused(architecture);
                for when_full in ["delay", "shed"] {
                    a_crowd_that_comes_again_at_once_is_served(architecture, when_full);
                }
            }
        })*
    };
}

admission! {
    fork ["fork"]
    threads ["threads"]
    pool_accept ["pool", "--hand-over=accept"]
    pool_list ["pool", "--hand-over=list"]
    pool_list_without_room ["pool", "--accept-queue=0"]
    workpool_fifo ["workpool-fifo"]
    workpool_priority ["workpool-priority"]
    workpool_serial ["workpool-serial"]
    gcd ["gcd"]
    staged ["staged"]
    uthreads ["uthreads"]
    select ["select"]
    poll ["poll"]
    epoll ["epoll"]
    uring ["uring"]
    handwritten ["handwritten"]
    epoll_without_accept_queue ["epoll", "--accept-queue=0"]
    uring_without_accept_queue ["uring", "--accept-queue=0"]
    epoll_prefers_accept ["epoll", "--prefer=accept"]
}

#[test]
fn every_architecture_that_counts_its_connections_is_listed() {
    for architecture in duality_architectures::ALL {
        let workers = architecture.places(&Options::default());
        let is_listed = LISTED.contains(&architecture.name());
        let counts = match workers {
            None => true,
            Some(workers) => workers > 1 && !architecture.about().forks,
        };
        assert_eq!(is_listed, counts, "{}", architecture.name());
    }
}

/// One client holds the only thread of a pool by not reading. The list takes its given number of
/// connections. Further connections stay in the kernel, without descriptors of the server. In the
/// end, all connections have their turn.
#[test]
fn a_list_takes_no_more_than_it_has_room_for() {
    const CLIENTS: usize = 10;
    for room in [0, 3] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
        command.args(["serve", "echo", "--listen=127.0.0.1:0", "--architecture=pool"]);
        command.args(["--workers=1", &format!("--accept-queue={room}")]);
        let server = ServerProcess::start(&mut command);
        let descriptors = format!("/proc/{}/fd", server.pid());
        let count = || std::fs::read_dir(&descriptors).unwrap().count();
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        for client in &mut clients[1..] {
            client.write_all(b"hello").unwrap();
        }
        let mut first = clients.remove(0);
        first.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        while first.write(&[0; 1 << 16]).is_ok() {}
        let idle = count_of_a_server_without_clients();
        eventually("the list is full", || (count() == idle + 1 + room).then_some(()));
        drop(first);
        for mut client in clients {
            assert!(count() <= idle + 1 + room, "more are accepted than have room");
            client.read_exact(&mut [0; 5]).unwrap();
        }
    }
}

/// The number of descriptors of a pool without clients.
fn count_of_a_server_without_clients() -> usize {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "echo", "--listen=127.0.0.1:0", "--architecture=pool", "--workers=1"]);
    let server = ServerProcess::start(&mut command);
    // A server that serves a client has all descriptors that it needs.
    let mut client = server.connect();
    client.write_all(b"hello").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count() - 1
}

fn one_too_many_is_refused(architecture: &[&str]) {
    // At most as many connections as threads: an idle connection would give way to the next
    // connection.
    let places = architecture_called(architecture[0]).places(&Options::default());
    let most = places.unwrap_or(3).min(3);
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "http", "--listen=127.0.0.1:0", &format!("--max-connections={most}")]);
    let server = ServerProcess::start(command.arg("--architecture").args(architecture));
    let mut held: Vec<_> = (0..most).map(|_| server.connect()).collect();
    let mut page = Vec::new();
    for stream in &mut held {
        stream.write_all(GET).unwrap();
        page.resize(100, 0);
        stream.read_exact(&mut page).unwrap();
        assert!(page.starts_with(b"HTTP/1.1 200 "));
    }
    for _ in 0..3 {
        let refused = String::from_utf8(server.ask(GET)).unwrap();
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        assert!(refused.contains("\r\nRetry-After: "), "{refused}");
        assert!(refused.contains("\r\nConnection: close\r\n"), "{refused}");
    }
    for stream in &mut held {
        stream.write_all(GET).unwrap();
        stream.read_exact(&mut page).unwrap();
    }
    drop(held);
    eventually("there is room again", || {
        let mut stream = server.connect();
        stream.write_all(GET).unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        (&start == b"HTTP/1.1 200").then_some(())
    });
}

/// Five times as many clients as slots, and each client comes again as soon as it has an answer.
/// Refusals must not take slots from served clients.
fn a_crowd_that_comes_again_at_once_is_served(architecture: &[&str], when_full: &str) {
    const SLOTS: usize = 2;
    const WANTED: usize = 200;
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "http", "--listen=127.0.0.1:0"]);
    command.arg(format!("--max-connections={SLOTS}")).arg(format!("--when-full={when_full}"));
    let server = ServerProcess::start(command.arg("--architecture").args(architecture));
    let good = AtomicUsize::new(0);
    let deadline = Instant::now() + PATIENCE;
    thread::scope(|scope| {
        for _ in 0..5 * SLOTS {
            scope.spawn(|| {
                // A refused client keeps its connection until the next connection has an answer. So
                // there are always more refused connections than slots.
                let mut last = None;
                while good.load(Ordering::Relaxed) < WANTED && Instant::now() < deadline {
                    let mut stream = server.connect();
                    stream.write_all(CLOSE).unwrap();
                    let mut reply = Vec::new();
                    stream.read_to_end(&mut reply).unwrap();
                    let is_good = reply.starts_with(b"HTTP/1.1 200 ");
                    assert!(is_good || reply.starts_with(b"HTTP/1.1 503 "), "{reply:?}");
                    good.fetch_add(usize::from(is_good), Ordering::Relaxed);
                    last = Some(stream);
                }
                drop(last);
            });
        }
    });
    let good = good.into_inner();
    assert!(good >= WANTED, "{good} of {WANTED} good replies within {PATIENCE:?}");
}
